"""`sessionctl verify`: is everything that was acknowledged still there, unchanged.

Owns: the report and the exit code. Invariants: writes nothing; every finding is shown, not the first; a session that
cannot be judged is a finding, never skipped. Must not know: how damage is found.
"""

from __future__ import annotations

import os
import time

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.place import session_of
from turnlog.cli.progress import Progress
from turnlog.cli.terminal import count, escape, size
from turnlog.errors import IndexUnavailable
from turnlog.log import recovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from turnlog.cli.output import Output
    from turnlog.log.recovery import Witness
    from turnlog.store import Store
    from turnlog.verify.verify import SessionCheck

_NO_HEAD = (0, "")
_EXIT_CODES = {"UNSUPPORTED": exits.NEWER, "IO_ERROR": exits.IO}

FINDING: dict[str, Any] = {
    **dict.fromkeys(("verdict", "code", "detail"), "string"),
    **dict.fromkeys(("session", "segment"), "string?"),
    **dict.fromkeys(("offset", "end"), "integer"),
    "lost": "[integer]?",
    "ordinal": "integer-",
    "digest": "string-",
    "next": "[string]",
}
OBJECTS: dict[str, dict[str, Any]] = {
    "finding": FINDING,
    "check": {
        **dict.fromkeys(("session", "verdict", "head"), "string"),
        "ok": "boolean",
        **dict.fromkeys(("events", "bytes", "segments", "findings"), "integer"),
    },
    "summary": {
        **dict.fromkeys(("store", "core"), "string"),
        **dict.fromkeys(("ok", "full"), "boolean"),
        **dict.fromkeys(("sessions", "damaged", "events", "bytes", "findings", "ms"), "integer"),
        "next": "[string]",
    },
}


@verb(
    "verify",
    OBJECTS,
    [
        click.Argument(["session_ids"], metavar="[ID]...", nargs=-1),
        click.Option(["--full"], is_flag=True, help="Also compute every digest, and look for every artifact."),
        click.Option(["--expect"], metavar="HEAD", help="The history up to this head must be the one it was taken of."),
    ],
)
def command(call: Invocation, *, session_ids: tuple[str, ...], full: bool, expect: str | None) -> int:
    """Check sessions (default: all, and the store itself) for loss and change; report every finding. Writes nothing.

    Checks headers, checksums, order, chain and what the index saw synced; --full adds the digest of every payload,
    that each artifact an event refers to is there with its size and, where the store is checked, what artifacts hold.
    A HEAD is SESSION:ORDINAL:CHAIN as `show` prints it (SESSION may be left out). Kept elsewhere it proves, with
    --expect, that nothing up to that ordinal was changed, reordered or removed since.
    """
    if expect is not None and len(session_ids) != 1:
        raise click.UsageError("--expect takes exactly one session")
    started_s = time.monotonic()
    with call.open_damaged() as store, Progress("verifying") as progress:
        report = Report(call.out, progress, full=full or expect is not None)
        if progress.active:
            progress.expect(_bytes(store, session_ids))
        if session_ids:
            from turnlog.verify.verify import check_session

            for session_id in [store.resolve(session_of(text)) for text in session_ids]:
                witness = witness_of(store, session_id)
                check = check_session(
                    store.path, session_id, full=full, expect=expect, witness=witness, progress=progress.add
                )
                report.session(check)
        else:
            from turnlog.verify.verify import check_store

            whole = check_store(
                store.path,
                full=full,
                witness_of=lambda session_id: witness_of(store, session_id),
                progress=progress.add,
                on_session=report.session,
            )
            report.findings(whole.findings)
    return report.end(store.path, round((time.monotonic() - started_s) * 1000))


class Report:
    """Prints checks as they come, and adds them up."""

    def __init__(self, out: Output, progress: Progress, *, full: bool) -> None:
        """Start with nothing checked."""
        self._out = out
        self._progress = progress
        self._full = full
        self._totals = dict.fromkeys(("sessions", "damaged", "events", "bytes", "findings"), 0)
        self._codes: set[int] = set()
        self._next: dict[str, None] = {}

    def session(self, check: SessionCheck) -> None:
        """Print a session's findings, and with --json its result."""
        self._progress.passed(check.events)
        self._totals["sessions"] += 1
        self._totals["damaged"] += not check.ok
        self._totals["events"] += check.events
        self._totals["bytes"] += check.bytes
        self.findings(check.findings)
        if not check.ok:
            self._codes.add(_EXIT_CODES.get(check.verdict, exits.NO))
        if self._out.json:
            fields = check.as_json()
            self._out.object(fields.pop("type"), fields)

    def findings(self, findings: Sequence[dict[str, Any]]) -> None:
        """Print findings, and remember what to run next."""
        self._progress.clear()
        for finding in findings:
            self._totals["findings"] += 1
            self._next |= dict.fromkeys(finding["next"])
            if finding["session"] is None and finding["verdict"] not in recovery.ROUTINE:
                self._codes.add(exits.NO)
            show_finding(self._out, finding)

    def end(self, store: str, ms: int) -> int:
        """Print the summary; return the exit code."""
        from turnlog import _core

        ok = not self._codes
        if self._out.json:
            answer = {**self._totals, "store": store, "ok": ok, "full": self._full, "core": _core.IMPLEMENTATION}
            self._out.object("summary", {**answer, "ms": ms, "next": [self._out.following(one) for one in self._next]})
        else:
            self._print_summary(ms, ok=ok)
        return self._codes.pop() if len(self._codes) == 1 else exits.OK if ok else exits.NO

    def _print_summary(self, ms: int, *, ok: bool) -> None:
        totals = self._totals
        word = self._out.paint("ok", "green") if ok else self._out.paint("damaged", "red")
        parts = [
            f"{totals['damaged']:,} of {count(totals['sessions'], 'session')}"
            if totals["damaged"]
            else count(totals["sessions"], "session"),
            count(totals["events"], "event"),
            size(totals["bytes"]),
            "(full)" if self._full else "(quick; --full adds the digest of every payload)",
            f"{ms / 1000:.1f} s",
        ]
        self._out.line("  ".join([word, *parts]))
        for command_line in self._next:
            self._out.advise(command_line)


def show_finding(out: Output, finding: dict[str, Any]) -> None:
    """Print one finding: session, verdict, place, explanation."""
    if out.json:
        fields = {name: value for name, value in finding.items() if name != "type"}
        out.object("finding", {**fields, "next": [out.following(one) for one in finding["next"]]})
        return
    place = [finding["segment"] or "", f"offset {finding['offset']}" if finding["offset"] else ""]
    if lost := finding["lost"]:
        place.append(f"lost {lost[0]}" if lost[0] == lost[1] else f"lost {lost[0]}..{lost[1]}")
    where = ", ".join(part for part in place if part)
    text = f"{finding['session'] or 'store'}  {finding['verdict']}  {escape(where)}: {escape(finding['detail'])}"
    out.line(out.paint(text, "red" if finding["next"] else "yellow"))


def witness_of(store: Store, session_id: str) -> Witness | None:
    """Return what the index saw synced of the session; None without an index, which takes nothing from the log."""
    try:
        witness: Any = store.index().witness(session_id)
    except IndexUnavailable:
        return None
    return witness  # type: ignore[no-any-return]  # a row with the columns of a Witness


def _bytes(store: Store, session_ids: Sequence[str]) -> int:
    """Return the size of the segment files that will be read."""
    from turnlog import names
    from turnlog.log.segments import list_segments

    wanted = [store.resolve(session_of(text)) for text in session_ids] or store.session_ids()
    files = [file for session_id in wanted for file in list_segments(names.session_dir(store.path, session_id))]
    return sum(os.path.getsize(file.path) for file in files)
