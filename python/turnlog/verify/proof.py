"""The chain at one ordinal: what a head that was kept elsewhere is compared with.

Owns: the walk to an ordinal. Reads only. Must not know: verdicts. A chain proves content, order and completeness of
everything before it only together with the check of all segments and links.
"""

from __future__ import annotations

from turnlog.log.chain_walk import chain_at as walk
from turnlog.log.notes import CHAIN_BYTES
from turnlog.log.segments import open_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnlog.log.survey import SegmentReport


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
        with open_segment(report.file) as reader:
            return walk(reader, fields["first_ordinal"], fields["prev_chain"], ordinal), place
    return None, place
