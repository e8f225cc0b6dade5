"""A survey: reads the segments of one session and judges each, changing nothing.

Owns: turning scans, headers, links between segments and the witness into verdicts and findings. Invariants: reads
only; every finding names session, segment, offset and the ordinals concerned. Must not know: how damage is repaired
or shown.
"""

from __future__ import annotations

from turnlog import _core, recovery
from turnlog.errors import NewerFormat, StorageError
from turnlog.ids import format_id
from turnlog.segments import SegmentFile, list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from turnlog.recovery import Witness

_EXPLANATIONS = {
    recovery.CLEAN: "every byte is as it was written",
    recovery.UNCOMMITTED: "the last atomic group was not finished; none of its events was acknowledged",
    recovery.TORN_TAIL: "the last write did not reach the disk whole; nothing in it was acknowledged as durable",
    recovery.SUSPECT_TAIL: "the bytes after the last durable event are unreadable and do not look like an unfinished write",
    recovery.CORRUPT: "bytes that were promised have changed",
    recovery.LOST_DATA: "bytes that were promised are missing",
    recovery.ORDER: "events are out of order",
    recovery.MISDIRECTED: "the bytes belong to another place",
    recovery.UNSUPPORTED: "written by a newer turnlog",
    recovery.IO_ERROR: "the disk failed to return the bytes",
    recovery.DEGRADED: "the segment header is damaged, but readable from its copy",
    recovery.TAMPERED: "the checksums match, the digest or the chain does not: the bytes were changed on purpose",
}


class SegmentReport:
    """What one segment holds and what its state is."""

    def __init__(
        self, file: SegmentFile, scan: dict[str, Any], verdict: str, mark: int, lost: list[tuple[int, int]]
    ) -> None:
        """Keep the parts; `mark` is the durable mark, `lost` the inclusive ranges of ordinals that cannot be served."""
        self.file = file
        self.scan = scan
        self.verdict = verdict
        self.mark = mark
        self.lost = lost

    @property
    def fields(self) -> dict[str, Any] | None:
        """Return the header fields, or None when the header cannot be believed."""
        fields: dict[str, Any] | None = self.scan["header"]["fields"]
        return fields

    def detail(self) -> str:
        """Say in one sentence what the verdict means here."""
        fault = self.scan["header"]["fault"]
        if fault is not None:
            return f"{_EXPLANATIONS[self.verdict]} (header: {fault.replace('_', ' ')})"
        return _EXPLANATIONS[self.verdict]

    def findings(self, session_id: str) -> Iterator[dict[str, Any]]:
        """Yield one finding per damaged range, or one for the verdict when there is no range; nothing when CLEAN."""
        if self.verdict == recovery.CLEAN:
            return
        base = {"type": "finding", "session": session_id, "segment": self.file.name, "verdict": self.verdict}
        faults = self.scan["faults"]
        for fault in faults:
            ordinals = [fault["before"] + 1, fault["after"] - 1] if fault["after"] > fault["before"] + 1 else None
            yield {
                **base,
                "code": fault["code"],
                "offset": fault["offset"],
                "end": fault["end"],
                "lost": ordinals,
                "detail": fault["detail"],
            }
        if not faults:
            lost = list(self.lost[0]) if self.lost else None
            yield {
                **base,
                "code": "segment",
                "offset": self.scan["commit_end"],
                "end": self.scan["size"],
                "lost": lost,
                "detail": self.detail(),
            }


def examine(
    file: SegmentFile,
    session_id: str,
    *,
    successor: Mapping[str, Any] | None = None,
    newest: bool = True,
    witness: Witness | None = None,
    digests: bool = False,
) -> SegmentReport:
    """Scan one segment and judge it.

    `successor` holds the next segment's header fields; `newest` says that there is no next one. Raises StorageError
    only when the file cannot be opened; read errors become the verdict IO_ERROR.
    """
    with _core.SegmentReader(file.path) as reader:
        scan = reader.scan(digests=digests)
    fields = scan["header"]["fields"]
    misplaced = fields is not None and not _belongs(fields, file, session_id)
    mark = recovery.durable_mark(scan, successor, witness)
    seal = scan["seal"]
    successor_missing = newest and seal is not None
    facts = recovery.weigh(scan, mark, misplaced=misplaced or _moved(scan), successor_missing=successor_missing)
    next_first = successor["first_ordinal"] if successor is not None else None
    lost = recovery.lost_ordinals(scan, next_first=next_first)
    if witness is not None and fields is not None and witness["segment_id"] == fields["segment_id"]:
        known = max([scan["last_ordinal"], *(fault["after"] for fault in scan["faults"])])
        if facts["missing_below"] and witness["ordinal"] > known and not lost:
            lost = [(known + 1, witness["ordinal"])]
    return SegmentReport(file, scan, recovery.judge(facts), mark, lost)


def _belongs(fields: Mapping[str, Any], file: SegmentFile, session_id: str) -> bool:
    return (
        format_id(fields["session_id"]) == session_id
        and fields["segment_id"][:4].hex() == file.prefix
        and fields["first_ordinal"] == file.first_ordinal
    )


def _moved(scan: Mapping[str, Any]) -> bool:
    """Tell whether a damaged range holds a frame of this very segment that is valid at another offset."""
    return any(fault.get("misplaced", False) for fault in scan["faults"])


def survey(
    directory: str, session_id: str, *, witness: Witness | None = None, digests: bool = False
) -> Iterator[SegmentReport]:
    """Examine every segment of a session, oldest first, with the links between them."""
    files = list_segments(directory)
    headers = [header_fields(file) for file in files]
    for position, file in enumerate(files):
        following = headers[position + 1] if position + 1 < len(files) else None
        newest = position + 1 == len(files)
        yield examine(file, session_id, successor=following, newest=newest, witness=witness, digests=digests)


def header_fields(file: SegmentFile) -> dict[str, Any] | None:
    """Return a segment's header fields, or None when they cannot be read."""
    try:
        with _core.SegmentReader(file.path) as reader:
            fields: dict[str, Any] | None = reader.header["fields"]
            return fields
    except StorageError:
        return None  # the same failure is reported by the scan of that segment


def link_findings(files: Sequence[SegmentFile], session_id: str) -> Iterator[dict[str, Any]]:
    """Yield a finding for each hole between segments: a missing number, a wrong predecessor, a jump of the ordinals.

    Raises NewerFormat when a header says that this program is too old.
    """
    base = {"type": "finding", "session": session_id, "verdict": recovery.LOST_DATA, "code": "link"}
    previous: dict[str, Any] | None = None
    for file in files:
        fields = header_fields(file)
        if fields is None:
            previous = None
            continue
        if fields["min_writer"] > _core.WRITER_LEVEL and fields["format_major"] > 1:
            message = "the segment was written by a newer turnlog"
            raise NewerFormat(message, session=session_id, segment=file.name)
        if previous is None and file is files[0] and fields["segment_number"] != 1:
            lost = [fields["fork_ordinal"] + 1, fields["first_ordinal"] - 1]
            detail = f"segments 1 to {fields['segment_number'] - 1} are missing"
            yield {**base, "segment": file.name, "offset": 0, "end": 0, "lost": lost, "detail": detail}
        if previous is not None and fields["prev_segment_id"] != previous["segment_id"]:
            lost = [previous["first_ordinal"], fields["first_ordinal"] - 1]
            missing = fields["segment_number"] - previous["segment_number"] - 1
            detail = (
                f"{missing} segment(s) before this one are missing"
                if missing > 0
                else "this segment does not follow the one before it"
            )
            yield {**base, "segment": file.name, "offset": 0, "end": 0, "lost": lost, "detail": detail}
        previous = fields
