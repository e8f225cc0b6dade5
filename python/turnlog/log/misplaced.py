"""Finds frames that lie where they do not belong: copied, swapped or written to a wrong offset.

Owns: the search for the place such a frame comes from. Invariants: reads only; looks at no more than a bounded number
of damaged ranges. Must not know: verdicts. A frame's checksum covers its segment and offset, so bytes at a wrong place
are damage there; they are misplaced when they are valid at the place they come from.
"""

from __future__ import annotations

from bisect import bisect_right

from turnlog import _core
from turnlog.errors import Damaged, NotASegment, StorageError
from turnlog.log.segments import open_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from turnlog.log.segments import SegmentFile

_FAULTS_MAX = 64
_PLACES_MAX = 64
_RANGE_MAX_BYTES = 1024 * 1024
_PROOF_BYTES = 112  # the shortest frame header: with ordinal, id, digest, time and both checksums it occurs once


def moved_frames(
    reader: _core.SegmentReader, scan: Mapping[str, Any], known_id: bytes | None, siblings: Sequence[SegmentFile]
) -> list[int]:
    """Return the offsets of the faults in whose range a frame of another place lies."""
    fields = scan["header"]["fields"]
    segment_id = fields["segment_id"] if fields is not None else known_id
    damaged = [fault for fault in scan["faults"] if fault["code"] in {"header", "payload", "trailer"}]
    if segment_id is None or not damaged:
        return []
    places = {fault["offset"]: _frames_in(reader, fault) for fault in damaged[:_FAULTS_MAX]}
    all_places = [offset for found in places.values() for offset, _ in found][:_PLACES_MAX]
    return [
        fault_offset
        for fault_offset, found in places.items()
        if any(_is_moved(offset, data, segment_id, all_places, siblings) for offset, data in found[:_PLACES_MAX])
    ]


def _frames_in(reader: _core.SegmentReader, fault: Mapping[str, Any]) -> list[tuple[int, bytes]]:
    """Return (offset, bytes of the header) wherever a frame seems to begin in a damaged range."""
    own = fault["offset"] if fault["code"] != "header" else -1  # an authentic header is where it belongs
    try:
        data = reader.read(fault["offset"], min(fault["end"] - fault["offset"], _RANGE_MAX_BYTES))
    except (Damaged, StorageError):
        return []  # the scan reports it
    found: list[tuple[int, bytes]] = []
    at = data.find(_core.FRAME_MAGIC)
    while at >= 0 and len(found) < _PLACES_MAX:
        offset = fault["offset"] + at
        if offset != own:
            found.append((offset, data[at : at + _core.FRAME_HEADER_MAX_BYTES]))
        at = data.find(_core.FRAME_MAGIC, at + 1)
    return found


def _is_moved(
    offset: int, data: bytes, segment_id: bytes, places: Sequence[int], siblings: Sequence[SegmentFile]
) -> bool:
    others = [place for place in places if place != offset]
    return _core.claimed_ordinal(data, [segment_id], others) is not None or _is_copy(data, siblings)


def _is_copy(data: bytes, siblings: Sequence[SegmentFile]) -> bool:
    """Tell whether the header in `data` is that of a valid frame elsewhere in the session."""
    ordinal = _core.stated_ordinal(data)
    if not ordinal or not siblings:
        return False
    index = bisect_right([file.first_ordinal for file in siblings], ordinal) - 1
    if index < 0:
        return False
    try:
        with open_segment(siblings[index]) as reader:
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
