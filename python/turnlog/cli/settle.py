"""`sessionctl settle`: a person says how a tool call ended of which nothing is known.

Owns: the options, which call a call id means, the report. Invariants: only a call of unknown outcome is settled, and
never one that somebody may still be running; settling is an event that names who said so. Must not know: what may
follow what.
"""

from __future__ import annotations

import os
import sys

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.place import session_of
from turnlog.cli.terminal import escape
from turnlog.errors import InvalidTransition, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.resume.recovered import DanglingCall, Recovery
    from turnlog.state.state import State

OUTCOMES = {"completed": "completed", "failed": "failed", "not-executed": "not_executed"}
_RESULT_BYTES_MAX = 64 << 20  # longer strings become artifacts

OBJECTS: dict[str, dict[str, Any]] = {
    "settled": {
        **dict.fromkeys(("session", "turn", "call_id", "name", "outcome", "by"), "string"),
        "repaired": "[object]",
    }
}


@verb(
    "settle",
    OBJECTS,
    [
        click.Argument(["reference"], metavar="ID"),
        click.Argument(["call_id"], metavar="CALL"),
        click.Option(
            ["--outcome"], type=click.Choice([*OUTCOMES]), required=True, help="How it ended; not-executed: run it."
        ),
        click.Option(["--result"], metavar="FILE", help="What it gave, - for stdin: JSON where it is JSON, else text."),
        click.Option(["--by"], metavar="WHO", default="user", show_default=True, help="Who found that out."),
        click.Option(["--turn"], help="The turn of the call, where several turns have one of this id."),
    ],
)
def command(
    call: Invocation, *, reference: str, call_id: str, outcome: str, result: str | None, by: str, turn: str | None
) -> int:
    """Say how a tool call ended that was started and has no outcome: find out first, with its idempotency key.

    `resume` lists such calls. A session that its process left open is put right first, as by `resume --yes`.
    """
    content = None if result is None else _content(result)
    if content is not None and outcome == "not-executed":
        raise click.UsageError("--result: what was not executed has given nothing")
    from turnlog.resume.resume import preview

    with call.open() as store:
        _, planned, state = preview(store, session_of(reference))
        found = _turn_of(planned, state, call_id, turn)
    with call.open(read_only=False) as store, store.resume(planned.session) as session:
        recovery = session.recovery
        assert recovery is not None  # noqa: S101 - it was resumed just now
        settled = session.call(found, call_id).resolve(outcome=OUTCOMES[outcome], result=content, by=by)
    fields = {"turn": found, "call_id": call_id, "name": settled.name, "outcome": OUTCOMES[outcome], "by": by}
    if call.json:
        call.out.object("settled", {"session": session.id, **fields, "repaired": recovery.repaired})
    else:
        call.out.line(escape(f"{call_id}  {settled.name}  {outcome}"))
    return exits.OK


def _turn_of(recovery: Recovery, state: State, call_id: str, turn: str | None) -> str:
    """Return the turn of the one unknown call that is meant. Raises NotFound, InvalidTransition, click.UsageError."""
    open_calls = [*recovery.unknown, *(one for one in recovery.retryable if one.standing == "unknown")]
    turns = [one.turn for one in open_calls if one.call_id == call_id and turn in (None, one.turn)]
    if len(turns) > 1:
        raise click.UsageError(f"several turns have a call {call_id}: add --turn with one of {', '.join(turns)}")
    if turns:
        return turns[0]
    every = [*state.recent_calls.values(), *state.open_calls.values()]
    known = [one for one in every if one.call_id == call_id and turn in (None, one.turn)]
    if known:
        message = f"tool call {call_id!r} is {known[-1].state}: there is nothing to settle"
        raise InvalidTransition(message, "call_order", session=recovery.session)
    raise NotFound(f"there is no tool call {call_id!r} without an outcome", session=recovery.session)


def settle_command(recovery: Recovery, one: DanglingCall) -> str:
    """Return the command that settles an unknown call as completed."""
    from shlex import quote

    named = [other for other in (*recovery.unknown, *recovery.retryable) if other.call_id == one.call_id]
    turn = f" --turn {quote(one.turn)}" if len(named) > 1 else ""
    return f"sessionctl settle {recovery.session} {quote(one.call_id)}{turn} --outcome completed"


def _content(name: str) -> Any:
    """Return what a file, or stdin, holds: JSON, else text. Raises click.UsageError."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(_RESULT_BYTES_MAX + 1)
        else:
            with open(name, "rb") as file:
                data = file.read(_RESULT_BYTES_MAX + 1)
    except OSError as error:
        raise click.UsageError(f"--result {name}: {os.strerror(error.errno or 0)}") from error
    if len(data) > _RESULT_BYTES_MAX:
        raise click.UsageError(f"--result {name}: more than {_RESULT_BYTES_MAX >> 20} MiB")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--result {name}: neither JSON nor text in UTF-8") from error
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text
