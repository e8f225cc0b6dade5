"""What happens to a tool call, from the proposal to its one outcome.

Owns: the rules of the family tool; how an event finds its call. Invariants: (turn, call id) names a call, because
providers repeat ids in other turns; what is open is never let go, what is final is kept in a bounded window; the first
outcome stands; a call that was started without a proposal is still known as started, since it may have had an effect.
Must not know: turns, beyond which one runs.
"""

from __future__ import annotations

from msgspec.structs import replace

from turnlog.state.records import PREVIEW_CHARACTERS_MAX, Call
from turnlog.state.reduce_rules import Payload, Refusal, Rule, count, is_observed, missing, note, positive, text
from turnlog.state.state import RECENT_CALLS_MAX, State
from turnlog.state.transitions import (
    ABSENT,
    APPROVED,
    CALL,
    CALL_TABLES,
    CALL_TARGETS,
    DENIED,
    EFFECTS,
    EXTERNAL,
    FINAL_CALL_STATES,
    NOT_EXECUTED,
    OUTCOMES,
    PROVIDER_CALL,
    STARTED,
)


def find_call(state: State, type: str, payload: Payload) -> tuple[tuple[str, str], Call | None]:
    """Return the key an event speaks of, and the call as far as it is known.

    An event that names no turn, or that was observed, may end a call of an earlier turn: the oldest open one.
    """
    call_id, turn = text(payload, "call_id"), payload.get("turn")
    named = isinstance(turn, str)
    if not isinstance(turn, str):
        turn = "" if state.turn is None else state.turn.id
    key = turn, call_id
    call = state.open_calls.get(key) or state.recent_calls.get(key)
    if call is None and type != "tool.proposed" and (not named or is_observed(payload)):
        call = next((other for other in state.open_calls.values() if other.call_id == call_id), None)
    return key, call


def judge_call(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge an event of a tool call that is to be written: of one that may have been started by an event that is lost
    nothing can be said but that its outcome is unknown. A decision behind the loss would read as if it had not begun.
    """
    key, call = find_call(state, type, payload)
    refusal = _judge(state, type, payload, key, call)
    is_claim = refusal is None and type != "tool.outcome_unknown"
    if is_claim and call is not None and state.may_have_started(call):
        detail = f"{type}: tool call {key[1]!r} may have been started by an event that is lost: resolve it"
        return Refusal("call_in_doubt", detail)
    return refusal


def _judge(state: State, type: str, payload: Payload, key: tuple[str, str], call: Call | None) -> Refusal | None:
    turn, call_id = key
    if not call_id:
        return missing(type, "call_id")
    if call is None:
        if type not in CALL[ABSENT]:
            return Refusal("call_unknown", f"{type}: tool call {call_id!r} of turn {turn!r} was not proposed")
        if turn and (state.turn is None or state.turn.id != turn):
            return Refusal("turn_not_running", f"{type} in turn {turn!r}, which does not run")
        effect = payload.get("effect")
        if effect is not None and effect not in EFFECTS:
            return Refusal("field_invalid", f"{type}: effect is one of {', '.join(EFFECTS)}")
        return None
    table = PROVIDER_CALL if call.by_provider else CALL_TABLES.get(call.effect, CALL)
    if type not in table[call.state]:
        return Refusal("call_order", f"{type}: tool call {call_id!r} of turn {turn!r} is {call.state}")
    if type == "tool.resolved" and text(payload, "outcome") not in OUTCOMES:
        return Refusal("field_invalid", f"{type}: outcome is one of {', '.join(OUTCOMES)}")
    return None


def _call(state: State, type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    key, call = find_call(state, type, payload)
    refusal = _judge(state, type, payload, key, call)
    if refusal is not None and not is_observed(payload):
        note(state, ordinal, refusal)
    if not key[1]:
        return
    if type == "tool.proposed":
        if call is None or (call.state in FINAL_CALL_STATES and is_observed(payload)):
            state.recent_calls.pop(key, None)
            _propose(state, key, payload, ordinal)
        return
    if call is None:
        call = Call(*key, "", ABSENT)
    elif call.state in FINAL_CALL_STATES:
        return
    _advance(state, type, call, payload, ordinal)


def _propose(state: State, key: tuple[str, str], payload: Payload, ordinal: int) -> None:
    effect = payload.get("effect")
    state.open_calls[key] = Call(
        *key,
        text(payload, "name")[:PREVIEW_CHARACTERS_MAX],
        CALL[ABSENT]["tool.proposed"],
        effect if isinstance(effect, str) and effect in EFFECTS else EXTERNAL,
        payload.get("by") == "provider",
        text(payload, "idempotency_key"),
        ordinal=ordinal,
        proposed_ordinal=ordinal,
    )
    turn = state.turn
    if turn is not None and turn.id == key[0]:
        state.turn = replace(turn, calls=turn.calls + 1)


def _advance(state: State, type: str, call: Call, payload: Payload, ordinal: int) -> None:
    """Move a call that is not final to the state its event leads to."""
    target = CALL_TARGETS[type]
    if type == "tool.resolved" and payload.get("outcome") == NOT_EXECUTED:
        target = APPROVED
    if target == STARTED:
        key = text(payload, "idempotency_key") or call.idempotency_key
        attempts = positive(payload, "attempt") or call.attempts + 1
        moved = replace(
            call, state=target, ordinal=ordinal, started_ordinal=ordinal, idempotency_key=key, attempts=attempts
        )
    elif target in (APPROVED, DENIED) and type != "tool.resolved":
        moved = replace(call, state=target, ordinal=ordinal, decided_by=text(payload, "by")[:PREVIEW_CHARACTERS_MAX])
    else:
        moved = replace(call, state=target, ordinal=ordinal)
    if target not in FINAL_CALL_STATES:
        state.open_calls[call.key] = moved
        return
    state.open_calls.pop(call.key, None)
    recent = state.recent_calls
    recent[call.key] = replace(moved, outcome_ordinal=ordinal)
    if len(recent) > RECENT_CALLS_MAX:
        del recent[next(iter(recent))]
        state.calls_folded += 1
    count(state.call_counts, target)


RULES = {
    **dict.fromkeys(CALL_TARGETS, Rule(judge_call, _call, ("call_id",))),
    "tool.proposed": Rule(judge_call, _call, ("call_id", "name", "effect", "idempotency_key")),
    "tool.started": Rule(judge_call, _call, ("call_id", "idempotency_key", "attempt")),
    "tool.resolved": Rule(judge_call, _call, ("call_id", "outcome")),
}
