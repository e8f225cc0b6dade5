"""`sessionctl resume`: the card of a session and what its process left open; then, if wanted, the repairs.

Owns: what the card holds, the question, the report. Invariants: nothing is written before the answer is yes (or --yes);
without a person to ask, nothing is written at all, and the exit code says so; a call of unknown outcome is named with
the command that settles it, never run. Must not know: how a session is resumed.
"""

from __future__ import annotations

import sys
import time

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.output import is_terminal
from turnlog.cli.place import session_of
from turnlog.cli.settle import settle_command
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
        **{name: [_CALL] for name in ("reused", "retryable", "unknown", "waiting")},
        "not_understood": [{"event": "string", "version": "integer", "count": "integer"}],
        "damaged": "[[integer]]",
        "snapshot_ordinal": "integer",
        "events": "integer",
        "violations": "integer",
        "next": "[string]",
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
    tool call is finished, not started (it may be run) or unknown (find out, then `settle` it). Repeating changes
    nothing. Where nobody can be asked, nothing is written without --yes.
    """
    from turnlog.resume.resume import preview

    with call.open() as store:
        session, recovery, state = preview(store, session_of(reference))
        card = _facts(session, state, recovery)
        locked = is_locked(session_dir(store.path, session.id))
    if locked:  # what seems to be left open is being worked on
        message = "another process is writing the session now; it needs no resume"
        raise Locked(message, session=session.id)
    if yes:
        return _go_on(call, session.id, card, accept_damage=accept_damage)
    _tell(call, card, recovery, applied=False, accept_damage=accept_damage)
    if not call.json and call.out.terminal and is_terminal(sys.stdin):
        call.out.flush()
        if not click.confirm("Go on?", default=not recovery.unknown):
            return exits.NO
        return _go_on(call, session.id, card, accept_damage=accept_damage)
    return _without_a_person(call, recovery, accept_damage=accept_damage)


def _without_a_person(call: Invocation, recovery: Recovery, *, accept_damage: bool) -> int:
    """Say what would be done, with a command that does it; return the exit code."""
    if recovery.damaged and not accept_damage:
        call.out.note("nothing was written: events are lost", "dim")
    elif recovery.repaired:
        would = ", ".join(escape(_planned(repair)) for repair in recovery.repaired)
        call.out.note(f"nothing was written; with --yes: {would}", "dim")
    elif recovery.unknown:
        call.out.note("nothing was written: all that is open are calls of unknown outcome", "dim")
    else:
        call.out.note("nothing was written: there is nothing to put right", "dim")
    for command in _next(recovery, accept_damage=accept_damage):
        call.out.advise(command)
    if recovery.damaged and not accept_damage:
        return exits.NO
    return exits.REFUSED if recovery.unknown else exits.NO if recovery.repaired else exits.OK


def _planned(repair: dict[str, Any]) -> str:
    """Name an event that would be appended."""
    return f"{repair['event']} {repair.get('call_id') or repair.get('step') or repair.get('turn') or ''}".rstrip()


def _next(recovery: Recovery, *, accept_damage: bool) -> list[str]:
    """Return the commands that go on from here."""
    if recovery.damaged and not accept_damage:
        return [f"sessionctl repair {recovery.session}"]
    options = "--yes --accept-damage" if recovery.damaged else "--yes"
    commands = [f"sessionctl resume {recovery.session} {options}"] if recovery.repaired else []
    return commands + [settle_command(recovery, one) for one in recovery.unknown]


def _go_on(call: Invocation, session_id: str, card: dict[str, Any], *, accept_damage: bool) -> int:
    with call.open(read_only=False) as store, store.resume(session_id, accept_damage=accept_damage) as session:
        recovery = session.recovery
        assert recovery is not None  # noqa: S101 - it was resumed just now
        _tell(call, card, recovery, applied=True, accept_damage=accept_damage)
    if not call.json and not recovery.writable:
        call.out.note("nothing was written: with its damage the session can be read only", "dim")
        call.out.advise(f"sessionctl repair {session_id}")
    elif not call.json:
        call.out.note(f"resumed; {count(len(recovery.repaired), 'repair')} made", "dim")
        for one in recovery.unknown:
            call.out.advise(settle_command(recovery, one))
    return exits.OK


def _tell(call: Invocation, card: dict[str, Any], recovery: Recovery, *, applied: bool, accept_damage: bool) -> None:
    """Print the card, or the object that holds the same."""
    if not call.json:
        _show(call.out, card, recovery)
        return
    if applied:
        following = [settle_command(recovery, one) for one in recovery.unknown]
    else:
        following = _next(recovery, accept_damage=accept_damage)
    told = {"applied": applied, "next": [call.out.following(command) for command in following]}
    call.out.object("resume", {**recovery.as_json(), **card, **told})


def _facts(session: Session, state: State, recovery: Recovery) -> dict[str, Any]:
    return {
        "title": state.title,
        "summary": _summary(session, state, recovery),
        "cwd": state.cwd,
        "model": state.model,
        "last_activity_us": state.time_us,
        "turns": sum(state.turn_counts.values()) + (state.turn is not None),
        "messages": _messages(state),
        "tokens_input": state.usage.input,
        "tokens_output": state.usage.output,
    }


def _messages(state: State) -> int:
    """Return how many messages a person would count: those in the log; of a history without them, what was asked in its
    turns and answered in its steps.
    """
    found, turns = state.messages, sum(state.turn_counts.values()) + (state.turn is not None)
    return (found.user or turns) + (found.assistant or state.step_counts.get("completed", 0)) + found.system


def _summary(session: Session, state: State, recovery: Recovery) -> str:
    """Return what it was about: the last summary of its history, else what was asked last."""
    at = state.context.compacted_ordinal
    if at:
        from turnlog.events import understood
        from turnlog.history.content import parts_of, text_of

        for event in session.events(after=at - 1, before=at + 1, on_damage="skip"):
            text = text_of(parts_of((understood(event.type, session.payload(event)) or {}).get("summary")))
            if text:
                return " ".join(text.split())[:_SUMMARY_COLUMNS]
    newest = recovery.interrupted or next(reversed(state.recent_turns.values()), None)
    return "" if newest is None else newest.input


def _show(out: Output, card: dict[str, Any], recovery: Recovery) -> None:
    tokens = {"input": card["tokens_input"], "output": card["tokens_output"]}
    turn, newer = recovery.interrupted, recovery.not_understood
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
        "newer": ", ".join(f"{one['count']} {one['event']} (version {one['version']})" for one in newer),
        "damaged": ", ".join(f"events {first} to {last}" for first, last in recovery.damaged),
    }
    for name, value in facts.items():
        if value:
            out.line(f"{out.paint(f'{name:<8}', 'dim')}  {escape(value)}")
    _calls(out, "finished, reused", recovery.reused, None)
    _calls(out, "may be run", recovery.retryable, "green")
    _calls(out, "waiting for a decision: approve, deny or cancel", recovery.waiting, "yellow")
    _calls(
        out, "outcome unknown: find out, then settle it as completed, failed or not-executed", recovery.unknown, "red"
    )


def _calls(out: Output, title: str, calls: list[DanglingCall], color: str | None) -> None:
    if calls:
        out.line(out.paint(f"{count(len(calls), 'call')} {title}", color) if color else f"{len(calls)} {title}")
    for call in calls:
        key = f"  key {call.idempotency_key}" if call.idempotency_key else ""
        out.line(escape(f"  {call.call_id}  {call.name}  {call.record.state}{key}"))
