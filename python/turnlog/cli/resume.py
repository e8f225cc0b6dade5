"""`sessionctl resume`: the card of a session and what its process left open; then, if wanted, the repairs.

Owns: what the card holds, the question, the report. Invariants: nothing is written before the answer is yes (or --yes);
without a person to ask, nothing is written at all; a call of unknown outcome is named, never run. Must not know: how a
session is resumed.
"""

from __future__ import annotations

import sys
import time

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.output import is_terminal
from turnlog.cli.place import session_of
from turnlog.cli.terminal import age, count, cut, escape
from turnlog.errors import Locked
from turnlog.log.lock import is_locked
from turnlog.names import session_dir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.cli.output import Output
    from turnlog.resume.recovered import DanglingCall, Recovery
    from turnlog.session import Session
    from turnlog.state.state import State

_SUMMARY_COLUMNS = 400
_CALL: dict[str, Any] = {
    **dict.fromkeys(("turn", "call_id", "name", "standing", "state", "effect", "idempotency_key"), "string"),
    **dict.fromkeys(("attempts", "proposed_ordinal", "started_ordinal", "outcome_ordinal"), "integer"),
}
OBJECTS: dict[str, dict[str, Any]] = {
    "resume": {
        **dict.fromkeys(("session", "title", "summary", "cwd", "model"), "string"),
        **dict.fromkeys(("last_activity_us", "turns", "messages", "tokens_input", "tokens_output"), "integer"),
        "applied": "boolean",
        "writable": "boolean",
        "interrupted": "any",
        "repaired": "[object]",
        **{name: [_CALL] for name in ("reused", "retryable", "unknown")},
        "damaged": "[[integer]]",
        "snapshot_ordinal": "integer",
        "events": "integer",
        "violations": "integer",
    }
}


@verb(
    "resume",
    OBJECTS,
    [
        click.Argument(["reference"], metavar="[ID]", default="latest"),
        click.Option(["--yes"], is_flag=True, help="Go on without asking, also when outcomes are unknown."),
        click.Option(["--accept-damage"], is_flag=True, help="Go on although events are lost; they are named."),
    ],
)
def command(call: Invocation, *, reference: str, yes: bool, accept_damage: bool) -> int:
    """Show what a session's dead process left open, ask, then repair it: the turn it ran becomes interrupted, and each
    tool call is finished, not started (it may be run) or unknown (ask whoever it concerns). Repeating changes nothing.
    """
    from turnlog.resume.resume import preview

    with call.open() as store:
        session, recovery, state = preview(store, session_of(reference))
        card = _facts(session, state, recovery)
        locked = is_locked(session_dir(store.path, session.id))
    if yes:
        return _go_on(call, session.id, card, accept_damage=accept_damage)
    if call.json:
        call.out.object("resume", {**recovery.as_json(), **card, "applied": False})
    else:
        _show(call.out, card, recovery)
    if locked:
        message = "another process is writing the session now; it needs no resume"
        raise Locked(message, session=session.id)
    if not call.json and call.out.terminal and is_terminal(sys.stdin):
        call.out.flush()
        if not click.confirm("Go on?", default=not recovery.unknown):
            return exits.NO
        return _go_on(call, session.id, card, accept_damage=accept_damage)
    return _without_a_person(call, recovery, accept_damage=accept_damage)


def _without_a_person(call: Invocation, recovery: Recovery, *, accept_damage: bool) -> int:
    """Say what would go on, with a command that does; return the exit code."""
    if recovery.damaged and not accept_damage:
        call.out.note("nothing was written: events are lost", "dim")
        call.out.advise(f"sessionctl repair {recovery.session}")
        return exits.NO
    if not recovery.repaired and not recovery.unknown:
        call.out.note("nothing was written: there is nothing to put right", "dim")
        return exits.OK
    options = "--yes --accept-damage" if recovery.damaged else "--yes"
    following = call.out.following(f"sessionctl resume {recovery.session} {options}")
    call.out.note(f"nothing was written; {following} goes on", "dim")
    return exits.REFUSED if recovery.unknown else exits.OK


def _go_on(call: Invocation, session_id: str, card: dict[str, Any], *, accept_damage: bool) -> int:
    with call.open(read_only=False) as store, store.resume(session_id, accept_damage=accept_damage) as session:
        recovery = session.recovery
        assert recovery is not None  # noqa: S101 - it was resumed just now
        if call.json:
            call.out.object("resume", {**recovery.as_json(), **card, "applied": True})
        else:
            _show(call.out, card, recovery)
            call.out.note(f"resumed; {count(len(recovery.repaired), 'repair')} made", "dim")
    return exits.OK


def _facts(session: Session, state: State, recovery: Recovery) -> dict[str, Any]:
    return {
        "title": state.title,
        "summary": _summary(session, state, recovery),
        "cwd": state.cwd,
        "model": state.model,
        "last_activity_us": state.time_us,
        "turns": sum(state.turn_counts.values()) + (state.turn is not None),
        "messages": state.messages.count,
        "tokens_input": state.usage.input,
        "tokens_output": state.usage.output,
    }


def _summary(session: Session, state: State, recovery: Recovery) -> str:
    """Return what it was about: the last summary of its history, else what was asked last."""
    at = state.context.compacted_ordinal
    if at:
        from turnlog.history.content import parts_of, text_of

        for event in session.events(after=at - 1, before=at + 1, on_damage="skip"):
            text = text_of(parts_of(session.payload(event).get("summary")))
            if text:
                return " ".join(text.split())[:_SUMMARY_COLUMNS]
    newest = recovery.interrupted or next(reversed(state.recent_turns.values()), None)
    return "" if newest is None else newest.input


def _show(out: Output, card: dict[str, Any], recovery: Recovery) -> None:
    tokens = {"input": card["tokens_input"], "output": card["tokens_output"]}
    turn = recovery.interrupted
    facts = {
        "session": recovery.session,
        "title": card["title"],
        "age": age(card["last_activity_us"], time.time_ns() // 1000),
        "summary": cut(card["summary"], _SUMMARY_COLUMNS),
        "cwd": card["cwd"],
        "model": card["model"],
        "turns": count(card["turns"], "turn"),
        "messages": count(card["messages"], "message"),
        "tokens": ", ".join(f"{count(number)} {name}" for name, number in tokens.items() if number),
        "cut off": "" if turn is None else f"turn {turn.id}: its process ended in it",
        "damaged": ", ".join(f"events {first} to {last}" for first, last in recovery.damaged),
    }
    for name, value in facts.items():
        if value:
            out.line(f"{out.paint(f'{name:<8}', 'dim')}  {escape(value)}")
    _calls(out, "finished, reused", recovery.reused, None)
    _calls(out, "may be run", recovery.retryable, "green")
    _calls(out, "outcome unknown: ask before it is run again", recovery.unknown, "red")


def _calls(out: Output, title: str, calls: list[DanglingCall], color: str | None) -> None:
    if calls:
        out.line(out.paint(f"{count(len(calls), 'call')} {title}", color) if color else f"{len(calls)} {title}")
    for call in calls:
        key = f"  key {call.idempotency_key}" if call.idempotency_key else ""
        out.line(escape(f"  {call.call_id}  {call.name}  {call.record.state}{key}"))
