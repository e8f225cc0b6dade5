"""A survey: reads the segments of one session and judges each, changing nothing.

Owns: turning the scan of a segment, what its neighbours and the witness promise, into a verdict and findings.
Invariants: reads only; every finding names session, segment, offset and the ordinals concerned. Must not know: how
damage is repaired or shown; the links between segments (links.py).
"""

from __future__ import annotations

import os

from turnlog import _core
from turnlog.errors import Damaged, StorageError
from turnlog.ids import format_id
from turnlog.log import misplaced, recovery
from turnlog.log.segments import SegmentFile, list_segments, open_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from turnlog.log.recovery import Witness

_EXPLANATIONS = {
    recovery.CLEAN: "every byte is as it was written",
    recovery.UNCOMMITTED: "the last atomic group was not finished; none of its events was acknowledged",
    recovery.TORN_TAIL: "the last write did not reach the disk whole; nothing in it was acknowledged as durable",
    recovery.SUSPECT_TAIL: "the bytes after the last durable event are unreadable and look like no unfinished write",
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
        self,
        file: SegmentFile,
        scan: dict[str, Any],
        facts: dict[str, bool],
        *,
        mark: int,
        lost: list[tuple[int, int]],
        last_seen: int,
        known_id: bytes | None = None,
        moved: frozenset[int] = frozenset(),
        ours: bool = True,
    ) -> None:
        """Keep the parts.

        `mark` is the durable mark, `lost` the inclusive ranges of ordinals that cannot be served, `last_seen` the
        highest readable ordinal, `known_id` the segment id where only neighbours know it, `moved` the offsets at which
        bytes of another place lie, `ours` whether the header is that of the session and of the file's name.
        """
        self.file = file
        self.scan = scan
        self.facts = facts
        self.verdict = recovery.judge(facts)
        self.mark = mark
        self.lost = lost
        self.last_seen = last_seen
        self.moved = moved
        self.ours = ours
        self._known_id = known_id

    @property
    def fields(self) -> dict[str, Any] | None:
        """Return the header fields, or None when the header cannot be believed."""
        fields: dict[str, Any] | None = self.scan["header"]["fields"]
        return fields

    @property
    def segment_id(self) -> bytes | None:
        """Return the segment id, from the header or from a neighbour."""
        return self.fields["segment_id"] if self.fields is not None else self._known_id

    def detail(self) -> str:
        """Say in one sentence what the verdict means here."""
        return self._explain(self.verdict)

    def _explain(self, verdict: str) -> str:
        fault = self.scan["header"]["fault"]
        about = f" (header: {fault.replace('_', ' ')})" if fault is not None else ""
        return _EXPLANATIONS[verdict] + about

    def findings(self, session_id: str) -> Iterator[dict[str, Any]]:
        """Yield one finding per damaged range and one per fact about the whole segment; nothing when CLEAN."""
        base = {"type": "finding", "session": session_id, "segment": self.file.name}
        for fault in self.scan["faults"]:
            moved = fault["offset"] in self.moved
            yield {
                **base,
                "verdict": recovery.MISDIRECTED if moved else recovery.fault_verdict(fault, self.mark),
                "code": "misplaced" if moved else fault["code"],
                "offset": fault["offset"],
                "end": fault["end"],
                "lost": self._lost_at(fault),
                "detail": "a frame of another place lies here" if moved else fault["detail"],
            }
        for verdict, code, offset in self._whole():
            whole = self.scan["header"]["fault"] is not None or code == "name" or verdict == recovery.LOST_DATA
            lost = list(self.lost[-1]) if whole and self.lost else None
            yield {
                **base,
                "verdict": verdict,
                "code": code,
                "offset": offset,
                "end": self.scan["size"],
                "lost": lost,
                "detail": self._explain(verdict),
            }

    def _whole(self) -> Iterator[tuple[str, str, int]]:
        """Yield (verdict, code, offset) of what is wrong with the segment as a whole."""
        header, facts = self.scan["header"], self.facts
        if header["fault"] is not None:
            verdict = recovery.judge({name: facts[name] and name in _OF_HEADER for name in recovery.FACTS})
            yield verdict, header["fault"], 0
        elif facts["misplaced"] and not self.moved:
            yield recovery.MISDIRECTED, "name", 0
        if facts["missing_below"] and header["fault"] is None:
            yield recovery.LOST_DATA, "end", self.scan["commit_end"]
        inside = facts["damaged_below"] and self.scan["commit_end"] < self.mark  # its end was promised, and is damaged
        if facts["open_group"] and not inside:
            yield recovery.UNCOMMITTED, "group", self.scan["commit_end"]
        if facts["degraded"]:
            yield recovery.DEGRADED, "header_copy", 0

    def _lost_at(self, fault: Mapping[str, Any]) -> list[int] | None:
        first = fault["before"] + 1 if fault["before"] else self.file.first_ordinal
        return next((list(part) for part in self.lost if part[0] == first), None)


_OF_HEADER = frozenset({"unsupported", "damaged_below", "missing_below"})


def examine(
    file: SegmentFile,
    session_id: str,
    *,
    successor: Mapping[str, Any] | None = None,
    newest: bool = True,
    following: int = 0,
    witness: Witness | None = None,
    digests: bool = False,
    known_id: bytes | None = None,
    siblings: Sequence[SegmentFile] = (),
    helper: bool = True,
) -> SegmentReport:
    """Scan one segment and judge it.

    `successor` holds the next segment's header fields; `newest` says that there is no next one; `following` is the
    first ordinal in the next one's name (0: none). `known_id` is the segment id that a neighbour states, `siblings` are
    the session's segments, where a misplaced frame may come from. `helper` allows the scan a second thread.
    Raises StorageError or Damaged only when nothing of the file can be read; read errors become the verdict IO_ERROR.
    """
    with open_segment(file, known_id) as reader:
        scan = reader.scan(digests=digests, helper=helper)
        last_seen = _last_seen(reader, scan, file)
        moved = misplaced.moved_frames(reader, scan, known_id, siblings or [file])
    fields = scan["header"]["fields"]
    ours = fields is None or belongs(fields, file, session_id)
    mark = recovery.durable_mark(scan, successor, witness)
    promised = recovery.promised_ordinal(scan, successor, witness, newest=newest and ours)
    facts = recovery.weigh(
        scan,
        mark,
        misplaced=bool(moved) or not ours,
        successor_missing=newest and scan["seal"] is not None and not _appeared(file, scan["seal"]["successor"]),
        events_missing=promised > last_seen and not _loses(scan, mark),
    )
    lost = recovery.lost_ordinals(
        scan,
        mark=mark,
        begin=file.first_ordinal,
        last_seen=last_seen,
        promised=max(promised, _sealed(scan), _by_name(scan, following)),
    )
    if not ours:
        last_seen = file.first_ordinal - 1
        lost = [(file.first_ordinal, following - 1)] if file.first_ordinal < following else []
    return SegmentReport(
        file,
        scan,
        facts,
        mark=mark,
        lost=lost,
        last_seen=last_seen,
        known_id=known_id,
        moved=frozenset(moved),
        ours=ours,
    )


def _appeared(file: SegmentFile, successor: bytes) -> bool:
    """Tell whether the successor is there by now: a live writer may have made it since the files were listed."""
    later = list_segments(os.path.dirname(file.path))
    return any(other.prefix == successor[:4].hex() for other in later)


def belongs(fields: Mapping[str, Any], file: SegmentFile, session_id: str) -> bool:
    """Tell whether a header is that of the session and of the file's name."""
    return (
        format_id(fields["session_id"]) == session_id
        and fields["segment_id"][:4].hex() == file.prefix
        and fields["first_ordinal"] == file.first_ordinal
    )


def _loses(scan: Mapping[str, Any], mark: int) -> bool:
    """Tell whether damage below the mark explains why promised events are not there."""
    return any(fault["code"] in recovery.DAMAGE and fault["offset"] < mark for fault in scan["faults"])


def _by_name(scan: Mapping[str, Any], following: int) -> int:
    """Return the last ordinal that the next segment's name leaves to a damaged one, else 0."""
    damaged = scan["faults"] or scan["header"]["fault"] is not None
    return following - 1 if following and damaged else 0


def _sealed(scan: Mapping[str, Any]) -> int:
    """Return the ordinal at the end of the run when it is promised by an orderly end, else 0."""
    return int(scan["last_ordinal"]) if scan["closed"] else 0


def _last_seen(reader: _core.SegmentReader, scan: Mapping[str, Any], file: SegmentFile) -> int:
    """Return the highest ordinal that a valid frame of the file speaks of, which for a control frame is that of the
    event before it; first ordinal - 1 when there is none.
    """
    last: int = max(scan["last_ordinal"], file.first_ordinal - 1)
    if scan["header"]["fault"] is None and not scan["faults"]:
        return last
    if not scan["frame_bytes"]:
        return last
    offset = max([_core.HEADER_BYTES, *(fault["end"] for fault in scan["faults"] if fault["after"])])
    while True:
        start = offset
        _, offset, following, _, _, fault = reader.replay(start, 0, limit=1 << 16, types=frozenset())
        last = max(last, following - 1)
        if fault is None and offset == start:
            return last
        if fault is not None:
            resumed = reader.resync(fault["offset"])
            if resumed is None:
                return last
            offset, ordinal = resumed
            last = max(last, ordinal)


def survey(
    directory: str, session_id: str, *, witness: Witness | None = None, digests: bool = False
) -> Iterator[SegmentReport]:
    """Examine every segment of a session, oldest first."""
    files = list_segments(directory)
    for index, file in enumerate(files):
        yield examine(
            file, session_id, **surroundings(files, index, session_id, witness), witness=witness, digests=digests
        )


def surroundings(files: Sequence[SegmentFile], index: int, session_id: str, witness: Witness | None) -> dict[str, Any]:
    """Return what `examine` should know of the files around one: successor, newest, following, known_id, siblings.

    Files whose header says that they belong elsewhere are passed over.
    """
    successor: dict[str, Any] | None = None
    following = 0
    for file in files[index + 1 :]:
        successor = header_fields(file)
        if successor is None or belongs(successor, file, session_id):
            following = file.first_ordinal
            break
        successor = None
    return {
        "successor": successor,
        "newest": not following,
        "following": following,
        "known_id": _known_id(files, index, successor, witness),
        "siblings": files,
    }


def _known_id(
    files: Sequence[SegmentFile], index: int, successor: Mapping[str, Any] | None, witness: Witness | None
) -> bytes | None:
    """Return the id that neighbours state for a segment whose own header cannot be read."""
    if header_fields(files[index]) is not None:
        return None
    stated = stated_ids(files, index, successor, witness)
    return next((segment_id for segment_id in stated if segment_id[:4].hex() == files[index].prefix), None)


def stated_ids(
    files: Sequence[SegmentFile], index: int, successor: Mapping[str, Any] | None, witness: Witness | None
) -> list[bytes]:
    """Return the segment ids that neighbours and witness state for the segment at `index`."""
    stated = [successor["prev_segment_id"]] if successor is not None else []
    stated += [witness["segment_id"]] if witness is not None else []
    if index and header_fields(files[index - 1]) is not None:
        with open_segment(files[index - 1]) as reader:
            seal = reader.scan()["seal"]
        stated += [seal["successor"]] if seal is not None else []
    return stated


def header_fields(file: SegmentFile) -> dict[str, Any] | None:
    """Return a segment's header fields, or None when they cannot be read."""
    try:
        with open_segment(file) as reader:
            fields: dict[str, Any] | None = reader.header["fields"]
            return fields
    except (StorageError, Damaged):
        return None  # the same failure is reported by the scan of that segment
