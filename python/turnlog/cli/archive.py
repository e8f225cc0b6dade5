"""`sessionctl archive`: sets sessions aside, or takes them up again.

Owns: the options, the report. Invariant: a session that is archived already, or is not, gets no event. Must not know:
what a list does with archived sessions.
"""

from __future__ import annotations

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.place import session_of
from turnlog.cli.terminal import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OBJECTS: dict[str, dict[str, Any]] = {
    "archived": {**dict.fromkeys(("session", "title"), "string"), **dict.fromkeys(("archived", "changed"), "boolean")}
}


@verb(
    "archive",
    OBJECTS,
    [
        click.Argument(["references"], metavar="ID...", nargs=-1, required=True),
        click.Option(["--undo"], is_flag=True, help="Take them up again."),
        click.Option(["--reason"], metavar="WORDS", help="Why: kept with the event."),
    ],
)
def command(call: Invocation, *, references: tuple[str, ...], undo: bool, reason: str | None) -> int:
    """Set sessions aside: lists show them as archived, and they stay as they are. --undo takes them up again.

    `list --state archived` finds them. What nobody wants any more goes with `forget`.
    """
    if undo and reason is not None:
        raise click.UsageError("--reason is for setting aside")
    with call.open(read_only=False) as store:
        wanted = dict.fromkeys(store.resolve(session_of(text)) for text in references)
        for session_id in wanted:
            with store.session(session_id) as session:
                changed = session.state.archived == undo
                if changed:
                    session.unarchive() if undo else session.archive(reason)
                title = session.state.title or ""
            if call.json:
                facts = {"session": session_id, "title": title, "archived": not undo, "changed": changed}
                call.out.object("archived", facts)
            else:
                done = "taken up again" if undo else "archived"
                parts = [session_id, done if changed else "nothing to do", escape(title)]
                call.out.line("  ".join(part for part in parts if part))
    return exits.OK
