"""`sessionctl diff`: what each of two sessions holds behind their common point.

Owns: the report. Invariants: writes nothing; memory is bounded whatever the sessions' size. Must not know: how the
common point is found.
"""

from __future__ import annotations

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.events import EVENT, encode, line
from turnlog.cli.output import terminal_width
from turnlog.cli.place import session_of
from turnlog.cli.terminal import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from turnlog._core import Event
    from turnlog.cli.output import Output
    from turnlog.diff import Difference

_SIGNS = {"a": ("-", "red"), "b": ("+", "green")}
OBJECTS: dict[str, dict[str, Any]] = {
    "event": EVENT,
    "difference": {
        **dict.fromkeys(("a", "b"), "string"),
        "ancestor": "string?",
        "equal": "boolean",
        **dict.fromkeys(("ordinal", "only_a", "only_b"), "integer"),
    },
}


@verb(
    "diff",
    OBJECTS,
    [
        click.Argument(["a"]),
        click.Argument(["b"]),
        click.Option(["-n", "--limit"], type=click.IntRange(0), metavar="N", help="Show N events of each at most."),
    ],
)
def command(call: Invocation, *, a: str, b: str, limit: int | None) -> int:
    """Compare two sessions from their common point on: where they were forked, and what equal events follow.

    Prints the events that only one of them holds, those of A with -, those of B with +. Writes nothing.
    """
    from turnlog.diff import diff

    with call.open() as store:
        found = diff(store, session_of(a), session_of(b))
        if not call.json:
            call.out.line(_point(found))
        only_a = _show(call.out, "a", found.a.id, found.only_a(), limit)
        only_b = _show(call.out, "b", found.b.id, found.only_b(), limit)
        equal = not only_a and not only_b
        if call.json:
            fields = {"a": found.a.id, "b": found.b.id, "ancestor": found.ancestor, "ordinal": found.ordinal}
            call.out.object("difference", {**fields, "equal": equal, "only_a": only_a, "only_b": only_b})
        else:
            told = f"{count(only_a, 'event')} only in {found.a.id}, {count(only_b, 'event')} only in {found.b.id}"
            call.out.line("equal" if equal else told)
    return exits.OK if equal else exits.NO


def _point(found: Difference) -> str:
    if not found.ordinal:
        return "nothing in common"
    where = f", inherited from {found.ancestor}" if found.ancestor not in {None, found.a.id, found.b.id} else ""
    return f"equal up to event {found.ordinal}{where}"


def _show(out: Output, side: str, session_id: str, events: Iterator[Event], limit: int | None) -> int:
    """Print one side's events, up to the limit; return how many there are."""
    sign, color = _SIGNS[side]
    columns = terminal_width()
    number = 0
    for event in events:
        number += 1
        if limit is not None and number > limit:
            continue
        if out.json:
            out.encoded(encode(event, session_id))
        else:
            out.line(out.paint(sign, color) + line(out, event, None if columns is None else columns - 1))
    if limit is not None and number > limit and not out.json:
        out.line(f"{sign} … {count(number - limit, 'more event')}")
    return number
