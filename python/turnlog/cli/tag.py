"""`sessionctl tag`: adds tags to a session, removes them, or shows them.

Owns: the arguments, the report. Invariants: without a change nothing is written; a tag that is there already, or is
not, is no event. Must not know: what tags mean.
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
    "tagged": {"session": "string", **dict.fromkeys(("tags", "added", "removed"), "[string]")}
}


@verb(
    "tag",
    OBJECTS,
    [
        click.Argument(["reference"], metavar="ID"),
        click.Argument(["tags"], metavar="[TAG...]", nargs=-1),
        click.Option(["--add"], metavar="TAG", multiple=True, help="Add it, as TAG behind the ID does."),
        click.Option(["--remove"], metavar="TAG", multiple=True, help="Take it away."),
    ],
)
def command(
    call: Invocation, *, reference: str, tags: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...]
) -> int:
    """Add tags to a session, and take others away; without a tag, show those it has.

    `list --tag` finds the sessions with a tag.
    """
    wanted = dict.fromkeys((*tags, *add))
    if "" in (*wanted, *remove):
        raise click.UsageError("a tag is not empty")
    if both := [tag for tag in wanted if tag in remove]:
        raise click.UsageError(f"{both[0]!r} cannot be added and removed at once")
    with call.open(read_only=not (wanted or remove)) as store, store.session(session_of(reference)) as session:
        known = session.state.tags
        added = [tag for tag in wanted if tag not in known]
        removed = [tag for tag in dict.fromkeys(remove) if tag in known]
        if added or removed:
            session.tag(*added, remove=removed)
        facts = {"session": session.id, "tags": [*session.state.tags], "added": added, "removed": removed}
    if call.json:
        call.out.object("tagged", facts)
    else:
        for tag in facts["tags"]:
            call.out.line(escape(tag))
    return exits.OK
