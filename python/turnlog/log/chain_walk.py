"""The chain at one ordinal of a segment, walked from the nearest frame that states one.

Owns: the search for that frame and the walk. Invariants: reads only, and no more than one segment; a CHAIN_MARK is
believed only when it is a valid frame of its place; without one the walk begins at the segment's header.
Must not know: verdicts, which segment holds the ordinal.
"""

from __future__ import annotations

from turnlog import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from turnlog._core import Event, SegmentReader

    Place = tuple[int, int, bytes]  # offset, ordinal of the next event, chain before it
    Link = tuple[bytes, Event | None]  # chain after an event, and the event where it was read on the way

_BATCH_EVENTS = 512
_NO_LIMIT = 1 << 62
_NO_HANDLES: frozenset[str] = frozenset()
_MARKS_TRIED = 4  # one may be behind a large frame, or lost
_SEARCH_BYTES = 2 * _core.SPARSE_STEP_BYTES  # behind the place that is found for an ordinal
_PIECE_BYTES = 16 * 1024  # read at once: a larger buffer costs more than reading again
_MARK_HEADER_BYTES = _core.FRAME_HEADER_MIN_BYTES
_CHAIN_BYTES = 32
_MARK_BYTES = _MARK_HEADER_BYTES + _CHAIN_BYTES + _core.FRAME_TRAILER_BYTES
_MARK_START = _core.FRAME_MAGIC + bytes((_MARK_HEADER_BYTES // 8, _core.KIND_CHAIN_MARK, _core.FLAG_COMMIT, 0, 32))
_ORDINAL_AT = 16


def nearest_mark(reader: SegmentReader, seek: Callable[[int], tuple[int, int]], header: Place, ordinal: int) -> Place:
    """Return the place of the last CHAIN_MARK at or before an ordinal, `header` (the segment's) when none is near.

    `seek` returns (ordinal, offset) of a frame at or before an ordinal's. Raises Damaged, StorageError.
    """
    step = _core.CHAIN_STEP_EVENTS
    newest = ordinal - ordinal % step
    for marked in range(newest, max(header[1] - 1, newest - _MARKS_TRIED * step), -step):
        _, start = seek(marked)
        for offset in range(start, start + _SEARCH_BYTES, _PIECE_BYTES):
            place = _mark_within(reader, offset, marked)
            if place is not None:
                return place
    return header


def _mark_within(reader: SegmentReader, start: int, marked: int) -> Place | None:
    """Return the place of the mark with that ordinal if it begins in the piece of the file that begins at `start`."""
    data = reader.read(start, _PIECE_BYTES + _MARK_BYTES)
    at = data.find(_MARK_START)
    while 0 <= at < _PIECE_BYTES:  # behind that it may be cut short
        place = start + at, marked + 1, data[at + _MARK_HEADER_BYTES : at + _MARK_HEADER_BYTES + _CHAIN_BYTES]
        stated = int.from_bytes(data[at + _ORDINAL_AT : at + _ORDINAL_AT + 8], "little")
        if stated == marked and _is_valid(reader, place):
            return place
        at = data.find(_MARK_START, at + 1)
    return None


def _is_valid(reader: SegmentReader, place: Place) -> bool:
    offset, expected, _ = place
    end = offset + _MARK_BYTES
    _, after, _, _, _, fault = reader.replay(offset, expected, end=end, limit=1)
    return fault is None and after == end


def link_at(reader: SegmentReader, place: Place, ordinal: int) -> Link | None:
    """Return the chain after the event `ordinal`, walked from a place before it, and the event if it was passed.

    None when the chain cannot be computed. Raises StorageError.
    """
    offset, expected, chain = place
    while ordinal - expected >= _BATCH_EVENTS:
        _, after, following, reached, _, fault = reader.replay(
            offset, expected, limit=_NO_LIMIT, types=_NO_HANDLES, chain=chain
        )
        if following > ordinal + 1:
            break
        if after == offset or (fault is not None and following <= ordinal):
            return None
        offset, expected, chain = after, following, reached or chain
    return _within(reader, (offset, expected, chain), ordinal)


def _within(reader: SegmentReader, place: Place, ordinal: int) -> Link | None:
    """Go on in smaller batches, at last group by group: the ordinal lies inside the next large one."""
    offset, expected, chain = place
    limit = _BATCH_EVENTS
    last: Event | None = None
    while expected <= ordinal:
        wanted = min(limit, ordinal - expected + 1)
        events, after, following, reached, _, _ = reader.replay(offset, expected, limit=wanted, chain=chain)
        if following > ordinal + 1:
            inside = _inside(events, expected, chain, ordinal)
            if inside is not None or limit == 1:
                return inside
            limit = 1
            continue
        if after == offset:
            return None
        last = events[-1] if events else None
        offset, expected, chain = after, following, reached or chain
    return chain, last if last is not None and last.ordinal == ordinal else None


def _inside(events: list[Event], expected: int, chain: bytes, ordinal: int) -> Link | None:
    """Advance the chain event by event; None where repair recorded a gap before the ordinal."""
    for event in events:
        if event.ordinal != expected:
            return None
        chain = _core.chain_next(chain, event.ordinal, event.event_id, event.time_us, event.digest, event.type)
        if event.ordinal == ordinal:
            return chain, event
        expected += 1
    return None
