"""The three classes of a call after a crash, and repairs: legal, complete, and done once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from tests.histories import histories, stored
from tests.turns import CREATED, STANDINGS, TURN
from turnlog.resume import dangling
from turnlog.state.records import Call
from turnlog.state.reduce import fold, reduce, refusal_of
from turnlog.state.state import State
from turnlog.state.transitions import CALL, FINAL_CALL_STATES

if TYPE_CHECKING:
    from tests.histories import Item

STATES = sorted(CALL.keys() - {"absent"})


def folded(items: list[Item]) -> State:
    return fold(stored(items), State("s"))


def repaired(state: State, sources: dangling.Sources | None = None) -> list[str]:
    """Apply the repairs to the state, each of which must be legal there; return their types."""
    planned = dangling.repairs(state, sources)
    for type, payload in planned:
        refusal = refusal_of(state, type, payload)
        assert refusal is None, (type, refusal)
        reduce(state, type, state.ordinal + 1, 0, payload)
    return [type for type, _ in planned]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("effect", ["none", "idempotent", "external"])
def test_every_state_of_a_call_is_in_exactly_one_class(state: str, effect: str) -> None:
    call = Call("t1", "c1", "bash", state, effect)
    found = dangling.standing(call, State())
    assert (found == dangling.FINISHED) == (state in FINAL_CALL_STATES)
    assert (found == dangling.UNKNOWN) == (state in {"started", "outcome_unknown"})
    if found == dangling.UNKNOWN:
        assert dangling.class_of(call, State()) == (dangling.UNKNOWN if effect == "external" else dangling.RETRYABLE)
    elif found == dangling.NOT_STARTED:
        assert dangling.class_of(call, State()) == dangling.WAITING  # its proposal is lost
        proposed = dangling.RETRYABLE if state != "approval_requested" else dangling.WAITING
        assert dangling.class_of(replace(call, ordinal=3, proposed_ordinal=3), State()) == proposed
        assert dangling.class_of(replace(call, ordinal=3, proposed_ordinal=3), State(), newest=4) == dangling.WAITING


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("effect", ["none", "idempotent", "external"])
def test_a_call_that_a_lost_event_may_have_started_is_unknown_unless_it_may_run_twice(state: str, effect: str) -> None:
    call = Call("t1", "c1", "bash", state, effect, ordinal=3, proposed_ordinal=3)
    calls = State(lost_ordinal=4)
    in_doubt = effect == "external" and state not in FINAL_CALL_STATES
    assert (dangling.standing(call, calls) == dangling.UNKNOWN) == (in_doubt or state in {"started", "outcome_unknown"})
    assert not in_doubt or dangling.class_of(call, calls) == dangling.UNKNOWN
    assert dangling.standing(call, State(lost_ordinal=2)) == dangling.standing(call, State())


@pytest.mark.parametrize("events", range(len(TURN) + 1))
def test_a_turn_cut_after_any_event_is_repaired_once(events: int) -> None:
    state = folded([(CREATED, {}), *TURN[:events]])
    first, second, cut_short = STANDINGS[events]
    types = repaired(state)
    unknown = [found for found in (first, second) if found == "unknown"]
    assert types == ["tool.outcome_unknown"] * len(unknown) + ["turn.interrupted"] * cut_short
    assert (dangling.interrupted_turn(state) is not None) == cut_short
    assert [dangling.standing(call, state) for call in state.open_calls.values()] == [
        found for found in (first, second) if found in {"unknown", "not_started"}
    ]
    assert repaired(state) == []


@given(histories())
def test_repairs_of_any_history_are_legal_and_leave_nothing_to_repair(items: list[Item]) -> None:
    state = folded(items)
    if state.phase == "deleted":
        return
    before = state.violation_count
    repaired(state)
    assert state.violation_count == before
    assert state.turn is None
    assert state.step is None
    assert all(call.state != "started" for call in state.open_calls.values())
    assert dangling.repairs(state) == []


def test_an_imported_call_without_an_outcome_is_unknown() -> None:
    place = {"line": 3, "offset": 10}
    items: list[Any] = [("tool.proposed", {"turn": "t1", "call_id": "c1", "name": "bash", "source": place})]
    state = folded(items)
    (call,) = dangling.unstarted(state)
    sources = {call.key: place}
    assert dangling.standing(call, state, sources) == dangling.UNKNOWN
    assert dangling.class_of(call, state, sources) == dangling.UNKNOWN
    assert repaired(state, sources) == ["tool.outcome_unknown"]
    assert dangling.repairs(state, sources) == []


def test_a_call_of_the_provider_ends_with_its_model_call() -> None:
    state = folded([("tool.proposed", {"turn": "", "call_id": "c1", "name": "web_search", "by": "provider"})])
    assert repaired(state) == ["tool.cancelled"]
    assert state.open_calls == {}


def test_a_step_outside_of_the_running_turn_is_ended() -> None:
    state = folded([("step.started", {"step": "s1"})])
    assert repaired(state) == ["step.failed"]
