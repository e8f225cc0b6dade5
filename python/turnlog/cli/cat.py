"""`sessionctl cat`: the events of a session, one a line, or their bytes.

Owns: the window options. Invariants: writes nothing; memory is bounded whatever the session's size; events around
damage are printed, and the damage is named. Must not know: how events are found.
"""

from __future__ import annotations

import sys
from itertools import islice

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.events import OBJECTS, Losses, encode, line
from turnlog.cli.output import terminal_width
from turnlog.cli.place import parse_reference
from turnlog.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog._core import Event
    from turnlog.log.log import Log, Window


@verb(
    "cat",
    OBJECTS,
    [
        click.Argument(["reference"], metavar="ID[:FROM..TO]"),
        click.Option(["--after"], type=click.IntRange(0), default=0, metavar="N", help="Only ordinals above N."),
        click.Option(["--before"], type=click.IntRange(1), metavar="N", help="Only ordinals below N."),
        click.Option(["-n", "--limit"], type=click.IntRange(1), help="At most so many events."),
        click.Option(["--reverse"], is_flag=True, help="Newest first."),
        click.Option(["--type", "types"], multiple=True, metavar="TYPE", help="Only this type; may be given again."),
        click.Option(["--raw"], is_flag=True, help="The payloads' bytes and nothing between them."),
        click.Option(["--pager/--no-pager"], default=True, help="On a terminal: through $PAGER."),
    ],
)
def command(
    call: Invocation,
    *,
    reference: str,
    after: int,
    before: int | None,
    limit: int | None,
    reverse: bool,
    types: tuple[str, ...],
    raw: bool,
    pager: bool,
) -> int:
    """Print the events of a session, one a line, oldest first. Writes nothing.

    ID:FROM..TO names a range of ordinals, both ends included. `--type source.line --raw` gives an imported file back,
    byte for byte. Times are UTC; an imported event shows the time that its source gave it.
    """
    from turnlog.log.log import Window

    wanted = parse_reference(reference)
    if raw and call.json:
        raise click.UsageError("--raw prints bytes and --json prints objects: give one of them")
    if raw and call.out.terminal:
        raise click.UsageError("--raw to a terminal would let stored bytes drive it: redirect to a file or a pipe")
    if wanted.first is not None:
        after = max(after, wanted.first - 1)
    if wanted.last is not None:
        before = wanted.last + 1 if before is None else min(before, wanted.last + 1)
    window = Window(after, before, frozenset(types) or None, "skip")
    with call.open() as store, call.out.paged(wanted=pager and not raw) as out:
        session = store.session(wanted.session)
        log = session.log()
        losses = Losses(out, session.id)
        columns = terminal_width()
        printed = 0
        for event in islice(_events(log, window, reverse=reverse), None if limit is None else min(limit, sys.maxsize)):
            losses.tell(log.damage)
            try:
                if raw:
                    out.bytes(event.raw)
                elif call.json:
                    out.encoded(encode(event, session.id))
                else:
                    out.line(line(out, event, columns))
            except Damaged as damage:  # changed between the check and this read
                losses.tell([damage])
                continue
            printed += 1
        losses.tell(log.damage)
        log.close()
    losses.advise()
    if losses:
        return exits.PARTIAL
    if not printed:
        out.note("no event matches")
        return exits.NO
    return exits.OK


def _events(log: Log, window: Window, *, reverse: bool) -> Iterator[Event]:
    return log.events_reversed(window) if reverse else log.events(window)
