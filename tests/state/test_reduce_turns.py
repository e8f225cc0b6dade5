"""What an event does to turns, steps, waiting input and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.state.folding import CALL, TURN, codes, reduced
from turnlog.state.state import RECENT_INPUTS_MAX

if TYPE_CHECKING:
    from tests.histories import Item


def test_a_turn_that_overlaps_interrupts_the_one_before() -> None:
    state = reduced(TURN, ("step.started", {"step": "s1"}), ("turn.started", {"turn": "t2"}))
    assert state.turn is not None
    assert (state.turn.id, state.step, state.recent_turns["t1"].state) == ("t2", None, "interrupted")


def test_a_turn_counts_what_happened_in_it() -> None:
    state = reduced(
        ("session.configured", {"model": "m1"}),
        *(TURN, ("message.user", {"content": "Why?"}), ("step.started", {"step": "s1", "model": "m2"})),
        *(("step.completed", {"step": "s1", "usage": {"input": 5, "output": -1, "cache_read": True}}), CALL),
    )
    turn = state.turn
    assert turn is not None
    assert (turn.configured_ordinal, turn.input_ordinal, turn.steps, turn.calls, turn.messages) == (1, 3, 1, 1, 1)
    assert (state.usage.input, state.usage.output, list(state.usage_by_model)) == (5, 0, ["m2"])


def test_token_counts_beyond_all_measure_stop_at_the_largest_the_index_holds() -> None:
    state = reduced(*[("step.completed", {"usage": {"input": 2**80, "output": 1}})] * 2)
    assert (state.usage.input, state.usage.output) == (2**63 - 1, 2)


def test_waiting_input_is_taken_by_id_or_in_order() -> None:
    queue: list[Item] = [("turn.input_queued", {"input_id": "a"}), ("turn.input_queued", {}), ("turn.input_queued", {})]
    state = reduced(*queue, ("turn.input_consumed", {}), ("turn.input_consumed", {"input_id": "@3"}))
    assert [(found.id, found.consumed_ordinal) for found in state.consumed] == [("a", 4), ("@3", 5)]
    assert list(state.queued) == ["@2"]


@pytest.mark.parametrize(
    ("context", "items"),
    [
        ({"base": None, "kept": 0, "added": [["batch", {}, 40], ["value", 1]], "count": 41}, 41),
        ({"base": 3, "kept": 5, "added": [["base", 6, 9]], "count": 8}, 8),
        ({"base": 3, "kept": 5, "added": [], "count": 0}, 0),
        ({"base": 3, "kept": 5, "added": ["d1"]}, 6),
        ({}, 0),
    ],
)
def test_a_step_was_sent_as_many_messages_as_its_context_counts(context: dict[str, Any], items: int) -> None:
    step = reduced(TURN, ("step.started", {"step": "s1", "context": context})).step
    assert step is not None
    assert step.context_items == items


def test_input_that_became_an_artifact_is_told_by_its_summary() -> None:
    reference = {"$artifact": {"digest": "0" * 64, "size": 70_000, "summary": "why does\nit fail…"}}
    turn = reduced(("turn.started", {"turn": "t1", "input": reference})).turn
    assert turn is not None
    assert (turn.input, turn.input_ordinal) == ("why does it fail…", 1)


def test_the_context_of_a_step_is_a_reference() -> None:
    context = {"base": 1, "kept": 7, "added": ["d1", "d2"]}
    state = reduced(TURN, ("step.started", {"step": "s1", "context": context}), ("step.completed", {"step": "s1"}))
    assert state.last_step is not None
    assert (state.last_step.context_ordinal, state.last_step.context_items, state.step) == (2, 9, None)


def test_of_input_that_was_taken_the_last_is_kept() -> None:
    items: list[Item] = [("turn.input_queued", {})] * (RECENT_INPUTS_MAX + 2)
    state = reduced(*items, *[("turn.input_consumed", {})] * len(items))
    assert [found.id for found in state.consumed] == [f"@{ordinal}" for ordinal in range(3, len(items) + 1)]
    assert (state.queued, codes(state)) == ({}, [])


def test_an_observed_turn_may_end_again_and_the_last_end_counts() -> None:
    source = {"turn": "t1", "source": {"line": 1}}
    state = reduced(("turn.started", source), ("turn.interrupted", source), ("turn.completed", source))
    assert (state.recent_turns["t1"].state, state.recent_turns["t1"].ended_ordinal) == ("completed", 3)
    assert {name: number for name, number in state.turn_counts.items() if number} == {"completed": 1}


def test_a_step_whose_turn_ends_is_interrupted() -> None:
    state = reduced(TURN, ("step.started", {"step": "s1"}), ("turn.aborted", {"turn": "t1"}))
    assert (state.step, state.step_counts, codes(state)) == (None, {"interrupted": 1}, [])


def test_messages_are_counted_by_who_said_them() -> None:
    said = [(f"message.{who}", {"content": "x"}) for who in ("system", "user", "assistant", "user")]
    messages = reduced(*said).messages
    assert (messages.count, messages.user, messages.assistant, messages.system) == (4, 2, 1, 1)
    assert (messages.first_ordinal, messages.last_ordinal) == (1, 4)
