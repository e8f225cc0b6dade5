"""`sessionctl tail`: the last events of a session, and with -f the new ones as they become durable.

Owns: where following begins. Invariants: writes nothing; between the last events and the first followed one none is
left out and none is shown twice. Must not know: how a log is followed.
"""

from __future__ import annotations

from itertools import islice

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.events import OBJECTS, Losses, encode, line
from turnlog.cli.output import terminal_width
from turnlog.cli.place import session_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog._core import Event


@verb(
    "tail",
    OBJECTS,
    [
        click.Argument(["session_id"], metavar="[ID]", default="latest"),
        click.Option(
            ["-n", "--limit"],
            type=click.IntRange(0, 100_000),
            default=10,
            show_default=True,
            help="How many of the last events.",
        ),
        click.Option(["-f", "--follow"], is_flag=True, help="Go on with new events, from any process; Ctrl-C ends it."),
        click.Option(["--type", "types"], multiple=True, metavar="TYPE", help="Only this type; may be given again."),
        click.Option(["--idle-ms"], type=click.IntRange(0), help="With -f: end when nothing came for so long."),
    ],
)
def command(
    call: Invocation, *, session_id: str, limit: int, follow: bool, types: tuple[str, ...], idle_ms: int | None
) -> int:
    """Print the last events of a session (default: the latest one). Writes nothing."""
    from turnlog.log.log import Window
    from turnlog.log.lost import LostEvents

    out = call.out
    with call.open() as store:
        session = store.session(session_of(session_id))
        log = session.log()
        losses = Losses(out, session.id)
        columns = terminal_width()

        def show(event: Event) -> None:
            if call.json:
                out.encoded(encode(event, session.id))
            else:
                out.line(line(out, event, columns))

        newest = next(log.events_reversed(Window(on_damage="skip")), None)
        end = newest.ordinal if newest is not None else 0
        window = Window(0, end + 1, frozenset(types) or None, "skip")
        last = list(islice(log.events_reversed(window), limit))[::-1]
        losses.tell(log.damage)
        for event in last:
            show(event)
        log.close()
        if follow:
            out.flush()
            for item in session.follow(after=end, types=types or None, timeout_ms=idle_ms, on_damage="skip"):
                if isinstance(item.event, LostEvents):
                    losses.tell([item.event.error])
                else:
                    show(item.event)
                out.flush()
    losses.advise()
    if losses:
        return exits.PARTIAL
    return exits.OK
