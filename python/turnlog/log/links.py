"""The links between a session's segments: whether each begins where the one before it ends.

Owns: the findings about holes, wrong predecessors, chains and ordinals across files. Pure: works on reports. Must not
know: files, how damage is repaired.
"""

from __future__ import annotations

from turnlog import _core
from turnlog.log import recovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from turnlog.log.survey import SegmentReport


def link_findings(reports: Sequence[SegmentReport], session_id: str) -> Iterator[dict[str, Any]]:
    """Yield a finding for each place at which two segments, or the start and the first one, do not fit together."""
    previous: SegmentReport | None = None
    inherited = next((report.fields["fork_ordinal"] for report in reports if report.ours and report.fields), 0)
    for position, report in enumerate([report for report in reports if report.ours]):
        fields = report.fields
        base = {"type": "finding", "session": session_id, "segment": report.file.name, "offset": 0, "end": 0}
        if fields is None:
            found = _unnamed(previous, report, inherited)
        elif previous is None:
            found = _start(fields) if position == 0 else None
        elif previous.segment_id is None:
            found = _unnamed(previous, report, inherited)
        else:
            found = _link(previous, fields, repaired=bool(report.scan["notes"]))
        if found is not None:
            verdict, code, lost, detail = found
            yield {**base, "verdict": verdict, "code": code, "lost": lost, "detail": detail}
        previous = report


def _unnamed(
    previous: SegmentReport | None, report: SegmentReport, inherited: int
) -> tuple[str, str, list[int] | None, str] | None:
    """Compare by names and ordinals alone where a header is lost."""
    covered = inherited
    if previous is not None:
        covered = max([previous.last_seen, *(last for _, last in previous.lost)])
    lost = [covered + 1, report.file.first_ordinal - 1]
    return (recovery.LOST_DATA, "hole", lost, "events before this segment are missing") if lost[0] <= lost[1] else None


def follows(previous: SegmentReport, fields: Mapping[str, Any]) -> bool:
    """Tell whether a header names `previous` as its predecessor."""
    return bool(previous.segment_id == fields["prev_segment_id"])


def _start(fields: Mapping[str, Any]) -> tuple[str, str, list[int] | None, str] | None:
    first = fields["fork_ordinal"] + 1
    if fields["prev_segment_id"] != bytes(16):
        lost = [first, fields["first_ordinal"] - 1] if first < fields["first_ordinal"] else None
        count = fields["segment_number"] - 1
        return recovery.LOST_DATA, "hole", lost, f"the first {count} segment(s) are missing"
    start = _core.chain_start(
        fields["session_id"], fields["parent_session_id"], fields["fork_ordinal"], fields["parent_chain"]
    )
    if fields["prev_chain"] != start:
        return recovery.TAMPERED, "chain", None, "the chain does not begin with this session"
    if fields["first_ordinal"] != first:
        return recovery.ORDER, "ordinal", None, f"the session begins with ordinal {fields['first_ordinal']}"
    return None


def _link(
    previous: SegmentReport, fields: Mapping[str, Any], *, repaired: bool
) -> tuple[str, str, list[int] | None, str] | None:
    first = fields["first_ordinal"]
    before = previous.fields
    if not follows(previous, fields):
        lost = [previous.last_seen + 1, first - 1] if previous.last_seen + 1 < first else None
        missing = fields["segment_number"] - before["segment_number"] - 1 if before is not None else 0
        what = f"{missing} segment(s) before this one are" if missing > 0 else "the segment before this one is"
        return recovery.LOST_DATA, "hole", lost, f"{what} missing"
    bridged = repaired or bool(previous.scan["notes"])  # a bridge stands for any number of segments
    if before is not None and fields["segment_number"] != before["segment_number"] + 1 and not bridged:
        what = f"segment number {fields['segment_number']} after {before['segment_number']}"
        return recovery.ORDER, "number", None, what
    if previous.last_seen >= first:
        what = f"the segment before this one goes on to ordinal {previous.last_seen}"
        return recovery.ORDER, "overlap", None, what
    scan = previous.scan
    reaches = previous.scan["header"]["fault"] is None and scan["last_ordinal"] + 1 == first
    if reaches and scan["chain"] != fields["prev_chain"]:
        return recovery.TAMPERED, "chain", None, "the chain of the segment before this one leads elsewhere"
    return None
