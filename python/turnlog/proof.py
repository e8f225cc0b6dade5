"""The chain at one ordinal: what a head that was kept elsewhere is compared with.

Owns: the walk to an ordinal. Reads only. Must not know: verdicts. A chain proves content, order and completeness of
everything before it only together with the check of all segments and links.
"""

from __future__ import annotations

from turnlog import _core
from turnlog.notes import CHAIN_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnlog.survey import SegmentReport

_BATCH = 512


def chain_at(reports: Sequence[SegmentReport], ordinal: int) -> tuple[bytes | None, str | None]:
    """Return (chain after the event with this ordinal, segment name); the chain is None when it cannot be computed.

    Ordinal 0 and the last inherited ordinal of a fork give the chain before the first event. Raises StorageError.
    """
    place: str | None = None
    for report in reversed(reports):
        fields = report.fields
        if fields is None or fields["prev_last_ordinal"] > ordinal:
            continue
        place = report.file.name
        if fields["prev_last_ordinal"] == ordinal:
            return fields["prev_chain"], place
        stated = [note["payload"] for note in report.scan["notes"] if note["ordinal"] == ordinal]
        if stated:
            return stated[-1][:CHAIN_BYTES], place
        with _core.SegmentReader(report.file.path) as reader:
            return _walk(reader, fields["first_ordinal"], fields["prev_chain"], ordinal), place
    return None, place


def _walk(reader: _core.SegmentReader, first: int, chain: bytes, ordinal: int) -> bytes | None:
    offset, expected, limit = _core.HEADER_BYTES, first, _BATCH
    while expected <= ordinal:
        events, after, following, reached, _, fault = reader.replay(offset, expected, limit=limit, chain=chain)
        if following > ordinal + 1 and limit > 1:
            limit = 1  # the ordinal lies in this batch: go on group by group
            continue
        if following > ordinal + 1:  # in the middle of an atomic group, or in a gap that repair recorded
            return _inside(events, chain, ordinal)
        if after == offset or (fault is not None and following <= ordinal):
            return None
        offset, expected, chain = after, following, reached or chain
    return chain


def _inside(events: list[_core.Event], chain: bytes, ordinal: int) -> bytes | None:
    for event in events:
        chain = _core.chain_next(chain, event.ordinal, event.event_id, event.time_us, event.digest, event.type)
        if event.ordinal == ordinal:
            return chain
    return None
