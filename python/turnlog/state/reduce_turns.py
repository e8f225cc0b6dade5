"""What happens in a turn: its start and one outcome, waiting input, model calls, messages.

Owns: the rules of the families turn, step and message. Invariants: one turn runs at a time, and one step of it; an
illegal event is a violation, and the state still follows it where that thing is not final: a start is a start. Must not
know: tool calls, beyond whether a turn has open ones.
"""

from __future__ import annotations

from msgspec.structs import replace

from turnlog.state.records import MARKS_MAX, Messages, QueuedInput, Step, Turn, Usage
from turnlog.state.reduce_rules import (
    COUNT_MAX,
    Payload,
    Refusal,
    Rule,
    count,
    is_observed,
    legal,
    missing,
    note,
    positive,
    preview,
    text,
)
from turnlog.state.reduce_session import reopen
from turnlog.state.state import NAMES_MAX, RECENT_INPUTS_MAX, RECENT_TURNS_MAX, State
from turnlog.state.transitions import ABSENT, INTERRUPTED, RUNNING, SESSION, STEP, TURN

_OUTCOMES = TURN[RUNNING]


def judge_turn_start(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge the start of a turn."""
    name = text(payload, "turn")
    if not name:
        return missing(type, "turn")
    if type not in SESSION[state.phase]:
        return Refusal("session_order", f"{type} in a session that is {state.phase}")
    if state.turn is not None:
        return Refusal("turn_order", f"{type} {name!r} while turn {state.turn.id!r} runs")
    current = _turn_state(state, name)
    if type not in TURN[current]:
        return Refusal("turn_order", f"turn {name!r} is {current} already")
    return None


def _turn_state(state: State, name: str) -> str:
    """Return where a turn is; one that ended long ago is as if it had never been."""
    turn = state.turn if state.turn is not None and state.turn.id == name else state.recent_turns.get(name)
    return ABSENT if turn is None else turn.state


def judge_turn_end(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge the outcome of a turn; one that is completed leaves nothing open behind."""
    turn = state.turn
    name = text(payload, "turn") or ("" if turn is None else turn.id)
    current = _turn_state(state, name)
    if type not in TURN[current]:
        return Refusal("turn_unknown" if current == ABSENT else "turn_order", f"{type}: turn {name!r} is {current}")
    if type == "turn.completed" and turn is not None:
        if state.step is not None:
            return Refusal("turn_order", f"{type} while step {state.step.id!r} runs")
        calls = [call.call_id for call in state.open_calls.values() if call.turn == turn.id]
        if calls:
            return Refusal("turn_order", f"{type} while tool call {calls[0]!r} is open ({len(calls)} in all)")
    return None


def _turn_started(state: State, type: str, payload: Payload, ordinal: int, time_us: int) -> None:
    refusal = judge_turn_start(state, type, payload)
    if refusal is not None and not is_observed(payload):
        note(state, ordinal, refusal)
    name = text(payload, "turn")
    if not name:
        return
    if state.turn is not None:
        _end_turn(state, INTERRUPTED, ordinal, time_us)
    reopen(state)
    given = payload.get("input")
    state.turn = Turn(
        name,
        ordinal,
        time_us,
        input=preview(given),
        input_ordinal=0 if given is None else ordinal,
        configured_ordinal=state.configured_ordinal,
    )


def _turn_ended(state: State, type: str, payload: Payload, ordinal: int, time_us: int) -> None:
    refusal = judge_turn_end(state, type, payload)
    observed = is_observed(payload)
    if refusal is not None and not observed:
        note(state, ordinal, refusal)
    outcome, name = _OUTCOMES[type], text(payload, "turn")
    if state.turn is not None and (not name or name == state.turn.id or (observed and name not in state.recent_turns)):
        _end_turn(state, outcome, ordinal, time_us)
    elif observed and name in state.recent_turns:
        # What an importer took for the end of a file was not: the transcript went on and says how the turn ended.
        old = state.recent_turns[name]
        state.turn_counts[old.state] -= 1
        count(state.turn_counts, outcome)
        state.recent_turns[name] = replace(old, state=outcome, ended_ordinal=ordinal, ended_us=time_us)


def _end_turn(state: State, outcome: str, ordinal: int, time_us: int) -> None:
    if state.turn is None:
        return
    if state.step is not None:
        state.step = None
        count(state.step_counts, INTERRUPTED)
    ended = replace(state.turn, state=outcome, ended_ordinal=ordinal, ended_us=time_us)
    state.turn, recent = None, state.recent_turns
    recent.pop(ended.id, None)  # so that the latest is last
    recent[ended.id] = ended
    if len(recent) > RECENT_TURNS_MAX:
        del recent[next(iter(recent))]
    count(state.turn_counts, outcome)


def judge_input(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge waiting input."""
    name = text(payload, "input_id")
    if type == "turn.input_queued" and name in state.queued:
        return Refusal("input_order", f"input {name!r} waits already")
    if type == "turn.input_consumed" and (name not in state.queued if name else not state.queued):
        return Refusal("input_unknown", f"{type}: no input {name!r} waits")
    return None


def _input(state: State, type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    refusal = judge_input(state, type, payload)
    if refusal is not None:
        if not is_observed(payload):
            note(state, ordinal, refusal)
        return
    queued, name = state.queued, text(payload, "input_id")
    if type == "turn.input_queued":
        name = name or f"@{ordinal}"
        queued[name] = QueuedInput(name, ordinal, text(payload, "turn"))
    else:
        taken = replace(queued.pop(name or next(iter(queued))), consumed_ordinal=ordinal)
        state.consumed = (*state.consumed, taken)[-RECENT_INPUTS_MAX:]


def judge_step(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge a model call or its end."""
    name, step = text(payload, "step"), state.step
    if type == "step.started":
        if not name:
            return missing(type, "step")
        turn = text(payload, "turn")
        if turn and (state.turn is None or state.turn.id != turn):
            return Refusal("turn_not_running", f"{type} in turn {turn!r}, which does not run")
    if type not in STEP[ABSENT if step is None else RUNNING]:
        return Refusal("step_order", f"{type} {name!r} while {'no step' if step is None else repr(step.id)} runs")
    if type != "step.started" and step is not None and name and name != step.id:
        return Refusal("step_order", f"{type}: step {name!r} does not run, {step.id!r} does")
    return None


def _step_started(state: State, type: str, payload: Payload, ordinal: int, time_us: int) -> None:
    refusal = judge_step(state, type, payload)
    if refusal is not None and not is_observed(payload):
        note(state, ordinal, refusal)
    name, turn = text(payload, "step"), state.turn
    if not name:
        return
    if state.step is not None:
        count(state.step_counts, INTERRUPTED)
    context = payload.get("context")
    items = 0
    if isinstance(context, dict):
        added = context.get("added")  # parts, of which one may stand for many messages: only `count` counts those
        listed = positive(context, "kept") + (len(added) if isinstance(added, list | tuple) else 0)
        items = positive(context, "count") if "count" in context else listed
    where = turn.id if turn is not None else text(payload, "turn")
    state.step = Step(
        name, where, ordinal, time_us, text(payload, "model"), ordinal if context is not None else 0, items
    )
    if turn is not None:
        state.turn = replace(turn, steps=turn.steps + 1)


def _step_ended(state: State, type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    refusal = judge_step(state, type, payload)
    if refusal is not None and not is_observed(payload):
        note(state, ordinal, refusal)
    step = state.step
    _use(state, payload, text(payload, "model") or (step.model if step is not None else ""))
    if refusal is None and step is not None:
        state.step, state.last_step = None, replace(step, ended_ordinal=ordinal)
    elif state.turn is not None:
        state.turn = replace(state.turn, steps=state.turn.steps + 1)
    count(state.step_counts, type[5:])


def _use(state: State, payload: Payload, model: str) -> None:
    """Add up tokens, also those of a step that nothing is known of: they were spent."""
    usage = payload.get("usage")
    if not isinstance(usage, dict):
        return
    kinds = [positive(usage, name) for name in Usage.__struct_fields__]
    model = model or state.model
    by_model = state.usage_by_model
    if model not in by_model and len(by_model) >= NAMES_MAX:
        model = "(other)"
    state.usage = _plus(state.usage, kinds)
    by_model[model] = _plus(by_model.get(model, Usage()), kinds)


def _plus(usage: Usage, kinds: list[int]) -> Usage:
    totals = usage.input + kinds[0], usage.output + kinds[1], usage.cache_read + kinds[2], usage.cache_write + kinds[3]
    return Usage(*totals) if max(totals) <= COUNT_MAX else Usage(*[min(total, COUNT_MAX) for total in totals])


def _message(state: State, type: str, _payload: Payload, ordinal: int, _time_us: int) -> None:
    old = state.messages
    marks, stride = old.marks, old.stride
    if old.count % stride == 0:
        marks = (*marks, ordinal)
        if len(marks) > MARKS_MAX:
            marks, stride = marks[::2], stride * 2
    user, assistant = type == "message.user", type == "message.assistant"
    state.messages = Messages(
        old.count + 1,
        old.user + user,
        old.assistant + assistant,
        old.system + (not user and not assistant),
        old.first_ordinal or ordinal,
        ordinal,
        stride,
        marks,
    )
    turn = state.turn
    if turn is not None:
        asked = ordinal if user and not turn.input_ordinal else turn.input_ordinal
        state.turn = replace(turn, messages=turn.messages + 1, input_ordinal=asked)


RULES = {
    "turn.started": Rule(judge_turn_start, _turn_started, ("input",)),
    **dict.fromkeys(_OUTCOMES, Rule(judge_turn_end, _turn_ended)),
    "turn.input_queued": Rule(judge_input, _input, ("input_id",)),
    "turn.input_consumed": Rule(judge_input, _input, ("input_id",)),
    "step.started": Rule(judge_step, _step_started, ("step", "model", "context")),
    "step.completed": Rule(judge_step, _step_ended, ("step", "model", "usage")),
    "step.failed": Rule(judge_step, _step_ended, ("step", "model", "usage")),
    "message.user": Rule(legal, _message),
    "message.assistant": Rule(legal, _message),
    "message.system": Rule(legal, _message),
}
