"""What a dead process left open, and the events that put it right.

Owns: the three classes of a tool call after a crash, who may run an open one, the repair of turn, step and calls.
Invariants: pure; a call is finished, not started or unknown, and nothing else; a repair is an event that is legal in
the state; in the state that the repairs lead to there is nothing left to repair; what was open when an event came that
is not understood (`newest`, its ordinal) is left alone, because that event may have ended it. Must not know: logs, how
an event is appended.

>>> from turnlog.state.state import State
>>> repairs(State("s"))
[]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from turnlog.state.transitions import APPROVAL_REQUESTED, EXTERNAL, INTERRUPTED, OUTCOME_UNKNOWN, STARTED

if TYPE_CHECKING:
    from turnlog.state.records import Call, Turn
    from turnlog.state.state import State

FINISHED, NOT_STARTED, UNKNOWN = "finished", "not_started", "unknown"
RETRYABLE, WAITING = "retryable", "waiting"
BY = "resume"

Key = tuple[str, str]
Sources = Mapping[Key, Any]
"""Of calls that another product recorded: what their proposals have in `source`."""

Repair = tuple[str, dict[str, Any]]


def standing(call: Call, state: State, sources: Sources | None = None) -> str:
    """Return the class of a call. One that another product recorded and did not finish is unknown: such histories do
    not say whether a call was started. So is one that events which are lost may have started.

    >>> from turnlog.state.records import Call
    >>> from turnlog.state.state import State
    >>> calls = Call("t1", "c1", "bash", "started"), Call("t1", "c2", "bash", "approved", ordinal=2)
    >>> [standing(call, State()) for call in calls], standing(calls[1], State(lost_ordinal=3))
    (['unknown', 'not_started'], 'unknown')
    """
    is_untold = sources is not None and call.key in sources and call.standing == NOT_STARTED
    return UNKNOWN if is_untold else state.standing(call)


def class_of(call: Call, state: State, sources: Sources | None = None, newest: int = 0) -> str:
    """Return what may become of an open call: `retryable` if a policy may run it without asking, since it never began
    or its effect can be repeated; `unknown` if it must be found out how it ended; `waiting` if somebody has to decide
    first: approval was asked for, its proposal is lost, or what came after it is not understood.

    >>> from turnlog.state.records import Call
    >>> from turnlog.state.state import State
    >>> calls = Call("t1", "c1", "bash", "started", "external"), Call("t1", "c1", "bash", "started", "none")
    >>> [class_of(call, State()) for call in calls]
    ['unknown', 'retryable']
    >>> class_of(Call("t1", "c1", "bash", "approval_requested", proposed_ordinal=3), State())
    'waiting'
    """
    if standing(call, state, sources) == UNKNOWN:
        return UNKNOWN if call.effect == EXTERNAL else RETRYABLE
    waits = call.state == APPROVAL_REQUESTED or not call.proposed_ordinal or call.ordinal < newest
    return WAITING if waits else RETRYABLE


def unstarted(state: State) -> Iterable[Call]:
    """Return the open calls whose proposal tells, by its `source`, whether a start would have been recorded."""
    return [call for call in state.open_calls.values() if call.standing == NOT_STARTED and not call.by_provider]


def opened(state: State) -> list[int]:
    """Return the ordinals at which what is open came to stand as it does.

    >>> from turnlog.state.state import State
    >>> opened(State("s"))
    []
    """
    records = [record for record in (state.turn, state.step) if record is not None]
    return [record.ordinal for record in (*records, *state.open_calls.values())]


def repairs(state: State, sources: Sources | None = None, newest: int = 0) -> list[Repair]:
    """Return the events that a resume appends, in order, as one atomic group; none when nothing was left open.

    >>> from turnlog.state.records import Call
    >>> from turnlog.state.state import State
    >>> state = State("s")
    >>> state.open_calls["t1", "c1"] = Call("t1", "c1", "bash", "started")
    >>> [type for type, _ in repairs(state)]
    ['tool.outcome_unknown']
    """
    newest = newest or -1  # a state that was folded from no log has no ordinals
    calls = [call for call in state.open_calls.values() if call.ordinal > newest]
    found = [repair for call in calls if (repair := _of_call(call, state, sources or {})) is not None]
    step, turn = state.step, state.turn
    if step is not None and step.ordinal > newest and (turn is None or step.turn != turn.id):  # else it ends with it
        reason = "its process ended before the response was recorded"
        found.append(("step.failed", {"turn": step.turn, "step": step.id, "error": reason, "by": BY}))
    if turn is not None and turn.ordinal > newest:
        found.append(("turn.interrupted", {"turn": turn.id, "reason": "its process ended", "by": BY}))
    return found


def _of_call(call: Call, state: State, sources: Sources) -> Repair | None:
    named = {"turn": call.turn, "call_id": call.call_id, "by": BY}
    if call.by_provider:
        if call.state == OUTCOME_UNKNOWN:
            return None
        return "tool.cancelled", {**named, "reason": "the model call that ran it ended without its result"}
    if call.state == STARTED:
        return "tool.outcome_unknown", {**named, "reason": "started, and its process ended before an outcome"}
    if state.may_have_started(call):
        return "tool.outcome_unknown", {**named, "reason": "events behind it are lost, which may have started it"}
    if call.key in sources and call.standing == NOT_STARTED:
        reason = "proposed in an imported history that does not record starts, and no outcome"
        return "tool.outcome_unknown", {**named, "reason": reason, "source": sources[call.key]}
    if not call.proposed_ordinal and call.standing == NOT_STARTED:
        return "tool.cancelled", {**named, "reason": "its proposal is lost: nothing says what was to run"}
    return None


def interrupted_turn(state: State) -> Turn | None:
    """Return the newest turn when it is one that was interrupted, also by an earlier resume.

    >>> from turnlog.state.state import State
    >>> interrupted_turn(State("s")) is None
    True
    """
    newest = next(reversed(state.recent_turns.values()), None)
    return newest if newest is not None and newest.state == INTERRUPTED and state.turn is None else None


def finished_calls(state: State, turn: Turn | None) -> list[Call]:
    """Return the calls of a turn whose outcome is in the log: it is reused, nothing runs again."""
    return [] if turn is None else [call for call in state.recent_calls.values() if call.turn == turn.id]
