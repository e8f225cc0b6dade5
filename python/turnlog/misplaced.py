"""Finds frames that lie where they do not belong: copied, swapped or written to a wrong offset.

Owns: the search for the place such a frame comes from. Invariants: reads only; looks at no more than a bounded number
of damaged places. Must not know: verdicts. A frame's checksum covers its segment and offset, so bytes at a wrong place
are damage there; they are misplaced when they are valid at the place they come from.
"""

from __future__ import annotations

from bisect import bisect_right

from turnlog import _core
from turnlog.errors import Damaged, NotASegment, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from turnlog.segments import SegmentFile

_PLACES_MAX = 64
_PROOF_BYTES = 112  # the shortest frame header: with ordinal, id, digest, time and both checksums it occurs once


def moved_frames(
    reader: _core.SegmentReader, scan: Mapping[str, Any], known_id: bytes | None, siblings: Sequence[SegmentFile]
) -> list[int]:
    """Return the offsets of the unreadable places at which a frame of another place begins."""
    unreadable = [fault["offset"] for fault in scan["faults"] if fault["code"] == "header"][:_PLACES_MAX]
    fields = scan["header"]["fields"]
    segment_id = fields["segment_id"] if fields is not None else known_id
    if segment_id is None:
        return []
    found = []
    for offset in unreadable:
        try:
            data = reader.read(offset, _core.FRAME_HEADER_MAX_BYTES)
        except (Damaged, StorageError):
            continue  # the scan reports it
        others = [place for place in unreadable if place != offset]
        if _core.claimed_ordinal(data, [segment_id], others) is not None or _is_copy(data, siblings):
            found.append(offset)
    return found


def _is_copy(data: bytes, siblings: Sequence[SegmentFile]) -> bool:
    """Tell whether the header in `data` is that of a valid frame elsewhere in the session."""
    ordinal = _core.stated_ordinal(data)
    if not ordinal or not siblings:
        return False
    index = bisect_right([file.first_ordinal for file in siblings], ordinal) - 1
    if index < 0:
        return False
    try:
        with _core.SegmentReader(siblings[index].path) as reader:
            at = _offset_of(reader, ordinal)
            return at is not None and reader.read(at, _PROOF_BYTES) == data[:_PROOF_BYTES]
    except (Damaged, NotASegment, StorageError):
        return False  # nothing can be proved by an unreadable file


def _offset_of(reader: _core.SegmentReader, ordinal: int) -> int | None:
    sparse = reader.sparse()
    index = bisect_right(sparse, (ordinal, 1 << 62)) - 1
    if index < 0:
        return None
    at, offset = sparse[index]
    events, *_ = reader.replay(offset, at, limit=ordinal - at + 1)
    return next((event.offset for event in events if event.ordinal == ordinal), None)
