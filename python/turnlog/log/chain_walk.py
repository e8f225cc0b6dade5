"""The chain at one ordinal of a segment, walked from the segment's header.

Owns: the walk. Reads only, and no more than one segment. Must not know: verdicts, which segment holds the ordinal.
"""

from __future__ import annotations

from turnlog import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog._core import Event, SegmentReader

_BATCH_EVENTS = 512
_NO_LIMIT = 1 << 62
_NO_HANDLES: frozenset[str] = frozenset()


def chain_at(reader: SegmentReader, first: int, chain: bytes, ordinal: int) -> bytes | None:
    """Return the chain after the event `ordinal`, or None when it cannot be computed.

    `first` is the segment's first ordinal, `chain` the chain before it. Raises StorageError.
    """
    offset, expected = _core.HEADER_BYTES, first
    while expected <= ordinal:
        _, after, following, reached, _, fault = reader.replay(
            offset, expected, limit=_NO_LIMIT, types=_NO_HANDLES, chain=chain
        )
        if following > ordinal + 1:
            return _within(reader, (offset, expected, chain), ordinal)
        if after == offset or (fault is not None and following <= ordinal):
            return None
        offset, expected, chain = after, following, reached or chain
    return chain


def _within(reader: SegmentReader, place: tuple[int, int, bytes], ordinal: int) -> bytes | None:
    """Go on in smaller batches, at last group by group: the ordinal lies inside the next large one."""
    offset, expected, chain = place
    limit = _BATCH_EVENTS
    while expected <= ordinal:
        events, after, following, reached, _, _ = reader.replay(offset, expected, limit=limit, chain=chain)
        if following > ordinal + 1:
            inside = _link(events, expected, chain, ordinal)
            if inside is not None or limit == 1:
                return inside
            limit = 1
            continue
        if after == offset:
            return None
        offset, expected, chain = after, following, reached or chain
    return chain


def _link(events: list[Event], expected: int, chain: bytes, ordinal: int) -> bytes | None:
    """Advance the chain event by event; None where repair recorded a gap before the ordinal."""
    for event in events:
        if event.ordinal != expected:
            return None
        chain = _core.chain_next(chain, event.ordinal, event.event_id, event.time_us, event.digest, event.type)
        if event.ordinal == ordinal:
            return chain
        expected += 1
    return None
