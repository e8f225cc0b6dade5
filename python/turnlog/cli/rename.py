"""`sessionctl rename`: gives a session a title.

Owns: the arguments, the report. Invariant: the same title again is no event. Must not know: where titles are shown.
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
    "renamed": {**dict.fromkeys(("session", "title", "before"), "string"), "changed": "boolean"}
}


@verb(
    "rename",
    OBJECTS,
    [click.Argument(["reference"], metavar="ID"), click.Argument(["title"], metavar="TITLE")],
)
def command(call: Invocation, *, reference: str, title: str) -> int:
    """Give a session another title; an empty one ('') takes it away."""
    with call.open(read_only=False) as store, store.session(session_of(reference)) as session:
        before = session.state.title or ""
        if title != before:
            session.rename(title or None)
        facts = {"session": session.id, "title": title, "before": before}
    if call.json:
        call.out.object("renamed", {**facts, "changed": title != before})
    else:
        call.out.line(f"{facts['session']}  {escape(title)}".rstrip())
    return exits.OK
