"""Verify: reads every segment of a session, or of a whole store, and says whether it is what was written.

Owns: the order of the checks and the answer. Invariants: never writes a byte; reports all findings, not the first;
what an honest crash leaves behind, and gaps that repair has recorded, are told and are no damage. Must not know: how
damage is repaired or shown.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from turnlog import identity, names
from turnlog.artifacts.check import wrong_artifacts
from turnlog.errors import Damaged, NewerFormat, SessionNotFound, StorageError, TurnlogError
from turnlog.log import recovery
from turnlog.log.links import link_findings
from turnlog.log.lock import is_locked
from turnlog.log.notes import lost_in_note
from turnlog.log.segments import list_segments, stray_names
from turnlog.log.survey import examine, surroundings
from turnlog.verify.lineage_check import lineage_findings
from turnlog.verify.proof import chain_at, head_text, of_another, owner_of, parse_head
from turnlog.verify.reference_check import reference_findings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from turnlog.log.recovery import Witness
    from turnlog.log.segments import SegmentFile
    from turnlog.log.survey import SegmentReport

    Finding = dict[str, Any]
    Progress = Callable[[int], None]

_THREADS = 2
_INFORMATIVE = frozenset({"repaired", "stray", "twin", "live"})
_REPAIR = "sessionctl repair {session}"


class SessionCheck:
    """What the check of one session found.

    `findings` are dicts with type, session, segment, verdict, code, offset, end, lost, detail and next (commands to
    run); `verdict` is the most severe of them; `head` is (last ordinal, chain as hex) of what is readable. `ok` is
    False when something was lost, changed or misplaced; what an honest crash leaves and recorded gaps keep it True.
    """

    def __init__(self, session: str, reports: Sequence[SegmentReport], findings: list[Finding]) -> None:
        """Add up the reports."""
        self.session = session
        self.findings = findings
        self.verdict = recovery.worst(finding["verdict"] for finding in findings)
        self.ok = self.verdict in recovery.ROUTINE
        ours = [report for report in reports if report.ours]
        self.segments = len(ours)
        self.events: int = sum(report.scan["events"] for report in ours)
        self.bytes: int = sum(report.scan["size"] for report in ours)
        self.head = _head(ours)

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form; the findings are separate objects.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     check_session(store.path, session.id).as_json()["events"]
        1
        """
        return {
            "type": "check",
            "session": self.session,
            "verdict": self.verdict,
            "ok": self.ok,
            "head": head_text(self.session, *self.head),
            "events": self.events,
            "bytes": self.bytes,
            "segments": self.segments,
            "findings": len(self.findings),
        }

    def __repr__(self) -> str:
        """Show session and verdict."""
        return f"<SessionCheck {self.session} {self.verdict}>"


class StoreCheck:
    """What the check of a store found: `findings` about the store itself, and one check per session."""

    def __init__(self, store: str, findings: list[Finding], sessions: list[SessionCheck]) -> None:
        """Add up."""
        self.store = store
        self.findings = findings
        self.sessions = sessions
        self.verdict = recovery.worst(
            [finding["verdict"] for finding in findings] + [check.verdict for check in sessions]
        )
        self.ok = self.verdict in recovery.ROUTINE


def check_session(
    store_path: str,
    session_id: str,
    *,
    full: bool = False,
    expect: str | None = None,
    witness: Witness | None = None,
    progress: Progress | None = None,
) -> SessionCheck:
    """Check a session: every segment, the links between them, what the index saw synced.

    `full` also computes the SHA-256 of each payload, without which a payload changed together with its checksum is
    not noticed, and looks whether each artifact that an event refers to is there with its size (`check_store` reads
    their content). `expect` is a head kept elsewhere, `[SESSION:]ORDINAL:CHAIN`: the history up to it must be that one
    (implies `full`). `witness` is what the index saw synced. `progress` is called with the bytes read since the last
    call. Raises SessionNotFound, InvalidInput (`expect` malformed, or a head of another session), StorageError (the
    folder cannot be read).

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create() as session:
    ...     head, chain = session.head()
    ...     check = check_session(store.path, session.id, full=True, expect=f"{head}:{chain}")
    ...     check.verdict, check.findings
    ('CLEAN', [])
    """
    head = parse_head(expect, session_id) if expect is not None else None
    directory = names.session_dir(store_path, session_id)
    if not os.path.isdir(directory):
        raise SessionNotFound("there is no such session", session=session_id, store=store_path)
    files = list_segments(directory)
    digests = full or head is not None
    reports, findings = _check_segments(files, session_id, witness, digests=digests, progress=progress)
    findings += link_findings(reports, session_id)
    findings += lineage_findings(directory, session_id)
    findings += _repaired(reports, session_id)
    findings += _folder(files, directory, session_id, known=witness is not None)
    if digests:
        findings += reference_findings(directory, session_id)
    if is_locked(directory):
        findings = _while_written(findings, files)
    ours = [report for report in reports if report.ours]
    if witness is not None and witness["chain"]:
        findings += _prove(ours, session_id, witness["ordinal"], witness["chain"], kept="by the index")
    if head is not None:
        unlike = list(_prove(ours, session_id, *head, kept=None))
        if unlike and (other := owner_of(store_path, session_id, *head)) is not None:
            raise of_another(other, session_id, f"{head[0]}:{head[1].hex()}")
        findings += unlike
    return SessionCheck(session_id, reports, [_with_next(finding) for finding in findings])


def _check_segments(
    files: Sequence[SegmentFile], session_id: str, witness: Witness | None, *, digests: bool, progress: Progress | None
) -> tuple[list[SegmentReport], list[Finding]]:
    """Examine all segments, two at a time: the native core releases the interpreter lock while it scans."""

    def scan(index: int) -> SegmentReport:
        around = surroundings(files, index, session_id, witness)
        # a second thread inside a scan helps only where no other segment is scanned beside it
        helper = index == len(files) - 1

        def look() -> SegmentReport:
            return examine(files[index], session_id, **around, witness=witness, digests=digests, helper=helper)

        report = look()
        harmless = report.verdict in recovery.ROUTINE or index < len(files) - 2
        # a frame may have been read while it was written, and one behind it after; real damage is there again
        return report if harmless or not is_locked(os.path.dirname(files[index].path)) else look()

    reports: list[SegmentReport] = []
    findings: list[Finding] = []
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="turnlog-verify") as pool:
        for file, pending in zip(files, [pool.submit(scan, index) for index in range(len(files))], strict=True):
            try:
                report = pending.result()
            except (Damaged, StorageError) as error:
                finding = _unreadable(file, session_id, error)
                findings.append({**finding, "lost": _whole_range(files, file, reports, witness)})
                continue
            reports.append(report)
            findings += report.findings(session_id)
            if progress is not None:
                progress(report.scan["size"])
    return reports, findings


def _unreadable(file: SegmentFile, session_id: str, error: TurnlogError) -> Finding:
    """Return the finding for a file of which nothing could be read."""
    verdict = recovery.IO_ERROR if isinstance(error, StorageError) else recovery.CORRUPT
    return _finding(session_id, file.name, verdict, "unreadable", error.message)


def _whole_range(
    files: Sequence[SegmentFile], file: SegmentFile, before: Sequence[SegmentReport], witness: Witness | None
) -> list[int] | None:
    """Return the ordinals lost with a file of which nothing can be read, as far as its neighbours tell."""
    first = file.first_ordinal
    if before:
        first = min(first, max([before[-1].last_seen, *(last for _, last in before[-1].lost)]) + 1)
    behind = [other.first_ordinal for other in files if other.first_ordinal > file.first_ordinal]
    last = min(behind) - 1 if behind else witness["ordinal"] if witness is not None else 0
    return [first, last] if first <= last else None


def _repaired(reports: Sequence[SegmentReport], session_id: str) -> Iterator[Finding]:
    for report in reports:
        for note in report.scan["notes"]:
            lost = lost_in_note(note["payload"])
            if lost is not None:
                detail = f"events {lost[0]} to {lost[1]} were lost and the gap was recorded by repair"
                finding = _finding(session_id, report.file.name, recovery.CLEAN, "repaired", detail)
                yield {**finding, "lost": list(lost), "offset": note["offset"], "end": note["offset"]}


def _folder(files: Sequence[SegmentFile], directory: str, session_id: str, *, known: bool) -> Iterator[Finding]:
    for file in files:
        if file.twin is not None:
            detail = "compaction was interrupted: the raw file is still there, and is not read"
            yield _finding(session_id, file.name, recovery.CLEAN, "twin", detail)
    for name in stray_names(directory):
        yield _finding(session_id, name, recovery.CLEAN, "stray", "the file is not part of the log")
    if not files:  # a crash while the session was made leaves this too, and then nobody ever knew it
        verdict = recovery.LOST_DATA if known else recovery.CLEAN
        yield _finding(session_id, None, verdict, "empty", "the session folder holds no segment")


def _while_written(findings: list[Finding], files: Sequence[SegmentFile]) -> list[Finding]:
    """Take the unfinished end of a segment that a live writer works on, or seals just now, for what it is."""
    working = {file.name for file in files[-2:]}
    return [
        {**finding, "verdict": recovery.CLEAN, "code": "live", "detail": "a live writer is at work here"}
        if finding["segment"] in working and finding["verdict"] in recovery.CUTTABLE
        else finding
        for finding in findings
    ]


def _prove(
    reports: Sequence[SegmentReport], session_id: str, ordinal: int, chain: bytes, *, kept: str | None
) -> Iterator[Finding]:
    """Compare the chain at an ordinal with one that was kept elsewhere; `kept` by what, None: by the caller."""
    found, place = chain_at(reports, ordinal)
    if found is not None and found != chain:
        what = f"the chain at ordinal {ordinal} is {found.hex()}, not {chain.hex()} as kept {kept or 'elsewhere'}"
        yield _finding(session_id, place, recovery.TAMPERED, "expect", what)
    elif found is None and kept is None:  # what the index promises is counted segment by segment
        what = f"the history up to ordinal {ordinal} is not whole, so it cannot be the expected one"
        yield _finding(session_id, place, recovery.LOST_DATA, "expect", what)


def check_store(
    store_path: str,
    *,
    full: bool = False,
    witness_of: Callable[[str], Witness | None] | None = None,
    progress: Progress | None = None,
    on_session: Callable[[SessionCheck], None] | None = None,
) -> StoreCheck:
    """Check a store: its identity, its folders, every session, and with `full` its artifacts.

    `witness_of` gives what the index saw synced of a session; `on_session` is called with each check as it is done.

    >>> from turnlog import Store
    >>> with Store.open("whole") as store, store.create():
    ...     check_store(store.path).ok
    True
    """
    findings: list[Finding] = []
    try:
        identity.ensure(store_path, create=False)
    except NewerFormat:
        raise
    except Damaged as error:
        finding = _finding(None, names.STORE_FILE, recovery.CORRUPT, "identity", error.message)
        findings.append({**finding, "next": error.next_commands()})
    sessions: list[SessionCheck] = []
    for session_id, stray in _sessions(store_path):
        if stray is not None:
            findings.append({**_finding(None, stray, recovery.CLEAN, "stray", "this is no session folder"), "next": []})
            continue
        witness = witness_of(session_id) if witness_of is not None else None
        check = check_session(store_path, session_id, full=full, witness=witness, progress=progress)
        sessions.append(check)
        if on_session is not None:
            on_session(check)
    for name, detail in wrong_artifacts(store_path, full=full):
        findings.append({**_finding(None, name, recovery.CORRUPT, "artifact", detail), "next": []})
    return StoreCheck(store_path, findings, sessions)


def _sessions(store_path: str) -> Iterator[tuple[str, str | None]]:
    """Yield (session id, None) for each session folder and ("", path) for what is none."""
    root = os.path.join(store_path, names.SESSIONS)
    for shard in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        folder = os.path.join(root, shard)
        if not names.is_shard(shard) or not os.path.isdir(folder):
            yield "", os.path.join(names.SESSIONS, shard)
            continue
        for name in sorted(os.listdir(folder)):
            if names.is_session_id(name) and names.shard(name) == shard:
                yield name, None
            elif name.endswith(names.TEMP_SUFFIX):
                continue  # a fork that a crash cut short: it was never there
            else:
                yield "", os.path.join(names.SESSIONS, shard, name)


def _finding(session_id: str | None, segment: str | None, verdict: str, code: str, detail: str) -> Finding:
    return {
        "type": "finding",
        "session": session_id,
        "segment": segment,
        "verdict": verdict,
        "code": code,
        "offset": 0,
        "end": 0,
        "lost": None,
        "detail": detail,
    }


def _with_next(finding: Finding) -> Finding:
    """Add the commands to run next, unless the finding names its own."""
    if "next" in finding:
        return finding
    harmless = finding["verdict"] in recovery.ROUTINE or finding["code"] in _INFORMATIVE
    return {**finding, "next": [] if harmless else [_REPAIR.format(session=finding["session"])]}


def _head(reports: Sequence[SegmentReport]) -> tuple[int, str]:
    readable = [report for report in reports if report.scan["header"]["fault"] is None]
    if not readable:
        return 0, ""
    scan = readable[-1].scan
    return scan["last_ordinal"], scan["chain"].hex()
