"""`sessionctl show`: a session's card and its last turns, or one event whole.

Owns: what a card holds and which events follow it. Invariants: writes nothing; a large session is shown as fast as a
small one, so its events are counted by type only up to a size. Must not know: how rows and events are found.
"""

from __future__ import annotations

from itertools import islice

import click

from turnlog.cli import events, exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.list import SESSION
from turnlog.cli.output import Output, terminal_width
from turnlog.cli.place import Reference, parse_reference
from turnlog.cli.terminal import count, escape, escape_lines, moment, size
from turnlog.index.query import INTERRUPTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog._core import Event
    from turnlog.log.log import Log
    from turnlog.session import Session
    from turnlog.store import Store

_COUNTED_BYTES_MAX = 64 << 20
_LOOKED_AT_MAX = 2_000
_SHOWN_MAX = 60
_VERBATIM = "source.line"

OBJECTS = {
    "session": {**SESSION, "types": "{integer}?", "folder": "string"},
    **events.OBJECTS,
}


@verb(
    "show",
    OBJECTS,
    [
        click.Argument(["reference"], metavar="ID[:ORDINAL]"),
        click.Option(["--turns"], type=click.IntRange(0, 1000), default=2, show_default=True, help="How many turns."),
        click.Option(["--pager/--no-pager"], default=True, help="On a terminal: through $PAGER."),
    ],
)
def command(call: Invocation, reference: str, turns: int, pager: bool) -> int:
    """Show a session: what it is, what it holds, its last turns. ID:ORDINAL shows one event whole. Writes nothing."""
    wanted = parse_reference(reference)
    if not wanted.is_event and (wanted.first is not None or wanted.last is not None):
        raise click.UsageError(f"{reference!r}: show takes one ordinal; for a range: sessionctl cat {reference}")
    with call.open() as store, call.out.paged(wanted=pager) as out:
        session = store.session(wanted.session)
        losses = events.Losses(out, session.id)
        if wanted.is_event:
            _show_event(out, session, wanted)
        else:
            _show_session(out, store, session, turns, losses)
    losses.advise()
    return exits.PARTIAL if losses else exits.OK


def _show_session(out: Output, store: Store, session: Session, turns: int, losses: events.Losses) -> None:
    from turnlog import names

    row = store.index().get(session.id) or {"id": session.id}
    log = session.log()
    types = _count_types(log) if row.get("bytes", 0) <= _COUNTED_BYTES_MAX else None
    recent = _recent(log, turns)
    if out.json:
        folder = names.session_dir(store.path, session.id)
        out.object("session", {**row, "types": types, "folder": folder})
        for event in recent:
            out.encoded(events.encode(event, session.id))
    else:
        _card(out, row, types)
        columns = terminal_width()
        if recent:
            out.line()
        for event in recent:
            out.line(events.line(out, event, columns))
    losses.tell(log.damage)
    log.close()


def _count_types(log: Log) -> dict[str, int]:
    from turnlog.log.log import Window

    types: dict[str, int] = {}
    for batch in log.batches(Window(on_damage="skip")):
        for event in batch:
            types[event.type] = types.get(event.type, 0) + 1
    return types


def _recent(log: Log, turns: int) -> list[Event]:
    """Return the events of the last turns, oldest first, without verbatim lines; the last few where there are none."""
    from turnlog.log.log import Window

    found: list[Event] = []
    started = 0
    for event in islice(log.events_reversed(Window(on_damage="skip")), _LOOKED_AT_MAX):
        if started >= turns or len(found) >= _SHOWN_MAX:
            break
        if event.type == _VERBATIM:
            continue
        found.append(event)
        started += event.type == "turn.started"
    return found[::-1]


def _card(out: Output, row: dict[str, Any], types: dict[str, int] | None) -> None:
    """Print what is known of a session, a fact a line, leaving out what is empty."""
    tokens = [
        f"{count(row[f'tokens_{kind}'])} {kind.replace('_', ' ')}"
        for kind in ("input", "output", "cache_read", "cache_write")
        if row.get(f"tokens_{kind}")
    ]
    facts = {
        "session": row["id"],
        "title": row.get("title", ""),
        "state": _state(out, row),
        "created": moment(row.get("created_us", 0)),
        "last": moment(row.get("last_activity_us", 0)),
        "cwd": row.get("cwd", ""),
        "model": row.get("model", ""),
        "tags": ", ".join(row.get("tags", [])),
        "parent": _parent(row),
        "turns": _turns(row),
        "events": _events(row, types),
        "tokens": ", ".join(tokens),
        "size": size(row.get("bytes", 0)),
        "head": f"{row['id']}:{row.get('head_ordinal', 0)}:{row.get('head_chain', '')}",
    }
    for name, value in facts.items():
        if value:
            out.line(f"{out.paint(f'{name:<8}', 'dim')}  {escape(value)}")


def _state(out: Output, row: dict[str, Any]) -> str:
    """Return the state, with the command for one that is not as it should be."""
    state = str(row.get("state", ""))
    if row.get("damaged"):
        return f"{state}, damaged: {out.following('sessionctl verify ' + row['id'])}"
    return f"{state}: {out.following('sessionctl resume ' + row['id'])}" if state == INTERRUPTED else state


def _parent(row: dict[str, Any]) -> str:
    fork = row.get("fork_ordinal")
    return f"{row.get('parent')} up to event {fork}" if fork else str(row.get("parent") or "")


def _turns(row: dict[str, Any]) -> str:
    names = {"turns": "turn", "steps": "step", "messages": "message", "tool_calls": "tool call"}
    return ", ".join(count(row[name], noun) for name, noun in names.items() if row.get(name))


def _events(row: dict[str, Any], types: dict[str, int] | None) -> str:
    total = count(row.get("events", 0))
    if types is None:
        return f"{total} (by type: sessionctl stats {row['id']})"
    ranked = sorted(types.items(), key=lambda item: (-item[1], item[0]))
    return f"{total}: " + ", ".join(f"{number:,} {kind}" for kind, number in ranked) if ranked else total


def _show_event(out: Output, session: Session, wanted: Reference) -> None:
    event = session.event(wanted.first or 0)
    if out.json:
        out.encoded(events.encode(event, session.id))
        return
    facts = {
        "event": f"{session.id}:{event.ordinal}",
        "id": event.id,
        "type": event.type,
        "time": moment(event.time_us),
        "payload": f"{size(event.size)}{', bytes kept verbatim' if event.is_raw else ''}",
        "digest": event.digest.hex(),
    }
    for name, value in facts.items():
        out.line(f"{out.paint(f'{name:<8}', 'dim')}  {value}")
    out.line()
    if event.is_raw:
        out.line(escape_lines(event.raw.decode("utf-8", "backslashreplace")))
        return
    import json

    out.line(escape_lines(json.dumps(event.payload, indent=2, ensure_ascii=False)))
