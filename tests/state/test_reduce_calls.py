"""What an event does to a tool call: the way to its one outcome, ids that come again, what is kept of what is final."""

from __future__ import annotations

import pytest

from tests.state.folding import CALL, TURN, call, codes, reduced
from turnlog.errors import InvalidInput, InvalidTransition
from turnlog.state.records import PREVIEW_CHARACTERS_MAX
from turnlog.state.reduce import check_transition, reduce
from turnlog.state.state import RECENT_CALLS_MAX
from turnlog.state.transitions import CALL_TARGETS


def test_a_call_goes_from_proposal_to_result() -> None:
    state = reduced(TURN, CALL, call("approval_requested"), call("approved", by="user"), call("started", attempt=1))
    (open_call,) = state.open_calls.values()
    assert (open_call.state, open_call.decided_by, open_call.attempts, open_call.standing) == (
        *("started", "user", 1, "unknown"),
    )
    reduce(state, *("tool.completed", 6, 0), call("completed")[1])
    done = state.call("t1", "c1")
    assert done is not None
    assert (done.standing, done.outcome_ordinal, state.open_calls) == ("finished", 6, {})


def test_the_first_outcome_stands() -> None:
    state = reduced(TURN, CALL, call("started"), call("completed"), call("failed"))
    found = state.call("t1", "c1")
    assert found is not None
    assert (codes(state), found.state, state.call_counts) == (["call_order"], "completed", {"completed": 1})


def test_a_call_id_may_come_again_in_the_next_turn() -> None:
    state = reduced(
        *(TURN, CALL, call("denied"), ("turn.completed", {"turn": "t1"})),
        *(("turn.started", {"turn": "t2"}), ("tool.proposed", {"turn": "t2", "call_id": "c1"})),
    )
    assert codes(state) == []
    assert {key: found.state for key, found in (state.recent_calls | state.open_calls).items()} == {
        ("t1", "c1"): "denied",
        ("t2", "c1"): "proposed",
    }


def test_a_started_call_whose_proposal_is_lost_is_still_unknown() -> None:
    state = reduced(call("started"))
    (found,) = state.open_calls.values()
    assert (codes(state), found.standing) == (["call_unknown"], "unknown")


def test_only_a_repeatable_call_may_start_again() -> None:
    again = (call("started"), call("started"))
    assert codes(reduced(TURN, CALL, *again)) == ["call_order"]
    state = reduced(TURN, ("tool.proposed", {**CALL[1], "effect": "idempotent"}), *again)
    assert (codes(state), next(iter(state.open_calls.values())).attempts) == ([], 2)


def test_a_call_resolved_as_not_executed_may_be_started() -> None:
    lost = (TURN, CALL, call("started"), call("outcome_unknown"), call("resolved", outcome="not_executed"))
    state = reduced(*lost)
    assert [found.standing for found in state.open_calls.values()] == ["not_started"]
    assert codes(reduced(*lost, call("started"), call("completed"))) == []


@pytest.mark.parametrize("name", [type[5:] for type in CALL_TARGETS if type != "tool.proposed"])
def test_nothing_happens_to_a_call_that_was_denied(name: str) -> None:
    state = reduced(TURN, CALL, call("denied"))
    with pytest.raises(InvalidTransition) as caught:
        check_transition(state, *call(name))
    assert (caught.value.code, caught.value.rule) == ("invalid_transition", "call_order")
    assert isinstance(caught.value, InvalidInput)


def test_a_call_that_is_named_without_a_turn_is_the_oldest_open_one_with_that_id() -> None:
    state = reduced(
        *(TURN, CALL, ("turn.interrupted", {"turn": "t1"})),
        *(("turn.started", {"turn": "t2"}), ("tool.cancelled", {"call_id": "c1"})),
    )
    assert codes(state) == []
    assert [(found.key, found.state) for found in state.recent_calls.values()] == [(("t1", "c1"), "cancelled")]


def test_a_call_of_a_named_turn_is_not_looked_for_in_another() -> None:
    state = reduced(TURN, CALL, ("tool.denied", {"turn": "t0", "call_id": "c1"}))
    assert codes(state) == ["call_unknown"]
    assert state.open_calls["t1", "c1"].state == "proposed"


def test_only_a_call_of_the_provider_may_end_without_a_start() -> None:
    assert codes(reduced(TURN, CALL, call("completed"))) == ["call_order"]
    assert codes(reduced(TURN, ("tool.proposed", {**CALL[1], "by": "provider"}), call("completed"))) == []


def test_a_start_counts_attempts_and_keeps_the_first_key_unless_it_brings_one() -> None:
    proposed = ("tool.proposed", {**CALL[1], "effect": "none", "idempotency_key": "k1"})
    (found,) = reduced(TURN, proposed, call("started"), call("started")).open_calls.values()
    assert (found.attempts, found.idempotency_key, found.started_ordinal) == (2, "k1", 4)
    (found,) = reduced(TURN, proposed, call("started", attempt=7, idempotency_key="k2")).open_calls.values()
    assert (found.attempts, found.idempotency_key) == (7, "k2")


def test_an_effect_that_nobody_knows_counts_as_external() -> None:
    (found,) = reduced(TURN, ("tool.proposed", {**CALL[1], "effect": 3, "name": "x" * 999})).open_calls.values()
    assert (found.effect, len(found.name)) == ("external", PREVIEW_CHARACTERS_MAX)


def test_what_is_final_is_kept_in_a_window_and_what_is_open_always() -> None:
    ids = [f"c{number}" for number in range(RECENT_CALLS_MAX + 3)]
    proposed = [("tool.proposed", {"turn": "t1", "call_id": id}) for id in ids]
    denied = [("tool.denied", {"turn": "t1", "call_id": id}) for id in ids]
    state = reduced(TURN, *proposed)
    assert len(state.open_calls) == len(ids)
    state = reduced(TURN, *proposed, *denied)
    assert [call_id for _, call_id in state.recent_calls] == ids[3:]
    assert (state.open_calls, state.calls_folded, state.call_counts) == ({}, 3, {"denied": len(ids)})
