"""`sessionctl forget`: takes sessions out of the store, into its quarantine.

Owns: the question, the report. Invariants: what would go is listed before anything is moved, and nothing is moved
before the answer is yes (or --yes). Must not know: how a session is moved.
"""

from __future__ import annotations

import sys

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.output import is_terminal
from turnlog.cli.place import session_of
from turnlog.cli.terminal import count, escape, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OBJECTS: dict[str, dict[str, Any]] = {
    "forget": {
        **dict.fromkeys(("session", "title"), "string"),
        **dict.fromkeys(("events", "bytes"), "integer"),
        "quarantined": "string?",
    }
}


@verb(
    "forget",
    OBJECTS,
    [
        click.Argument(["references"], metavar="ID...", nargs=-1, required=True),
        click.Option(["--yes"], is_flag=True, help="Do it without asking."),
    ],
)
def command(call: Invocation, *, references: tuple[str, ...], yes: bool) -> int:
    """Take sessions out of the store: their folders go to its quarantine, nothing is erased.

    A session from which others inherit stays: name its forks first. Where nobody can be asked, nothing is moved
    without --yes.
    """
    with call.open() as store:
        wanted = list(dict.fromkeys(store.resolve(session_of(text)) for text in references))
        rows = {session_id: store.index().get(session_id) or {} for session_id in wanted}
    if not yes:
        for session_id in wanted:
            _tell(call, session_id, rows[session_id], None)
        call.out.flush()
        asked = not call.json and call.out.terminal and is_terminal(sys.stdin)
        if not asked:
            call.out.note("nothing was moved", "dim")
            call.out.advise(f"sessionctl forget {' '.join(wanted)} --yes")
        if not asked or not click.confirm("Forget?", default=False):
            return exits.NO
    with call.open(read_only=False) as store:
        for session_id in wanted:
            _tell(call, session_id, rows[session_id], store.forget(session_id))
    return exits.OK


def _tell(call: Invocation, session_id: str, row: dict[str, Any], quarantined: str | None) -> None:
    facts = {"title": row.get("title", ""), "events": row.get("events", 0), "bytes": row.get("bytes", 0)}
    if call.json:
        call.out.object("forget", {"session": session_id, **facts, "quarantined": quarantined})
        return
    parts = [session_id, count(facts["events"], "event"), size(facts["bytes"]), escape(facts["title"])]
    if quarantined is not None:
        parts.append(f"now {escape(quarantined)}")
    call.out.line("  ".join(part for part in parts if part))
