"""`sessionctl fork`: a new session that goes on from an event of another one.

Owns: the options and the report. Invariants: the parent is only read, so a live writer of it is not disturbed; the
fork is whole on disk when its id is printed. Must not know: how a fork is made.
"""

from __future__ import annotations

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.place import parse_reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.settings import ForkSettings

OBJECTS: dict[str, dict[str, Any]] = {
    "forked": {
        **dict.fromkeys(("session", "parent", "parent_chain"), "string"),
        "fork_ordinal": "integer",
    }
}


@verb(
    "fork",
    OBJECTS,
    [
        click.Argument(["reference"], metavar="ID[:ORDINAL]"),
        click.Option(["--title"], metavar="WORDS", help="The fork's title."),
        click.Option(["--model"], help="The model it goes on with, instead of the parent's."),
        click.Option(["--cwd"], metavar="PATH", help="The working directory, instead of the parent's."),
    ],
)
def command(call: Invocation, *, reference: str, title: str | None, model: str | None, cwd: str | None) -> int:
    """Make a session that goes on from another one after an event (default: its last one); print the new id.

    Nothing is copied: the fork reads what came before from the parent, which may be in use meanwhile.
    """
    wanted = parse_reference(reference)
    if wanted.first != wanted.last:
        raise click.UsageError(f"{reference!r}: a fork begins after one event, ID:ORDINAL")
    chosen: ForkSettings = {}
    if model is not None:
        chosen["model"] = model
    if cwd is not None:
        chosen["cwd"] = cwd
    with call.open(read_only=False) as store:
        child = store.fork(wanted.session, wanted.last, title=title, **chosen)
        origin = store.parent(child.id)
    assert origin is not None  # noqa: S101 - it was forked just now
    if call.json:
        fields = {"parent": origin.session, "fork_ordinal": origin.ordinal, "parent_chain": origin.chain.hex()}
        call.out.object("forked", {"session": child.id, **fields})
    else:
        call.out.line(child.id)
        call.out.note(f"goes on from {origin.session} after event {origin.ordinal}", "dim")
    return exits.OK
