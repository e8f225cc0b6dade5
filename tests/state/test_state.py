"""The state: snapshots stand for the events they were made of, views say what the fields hold."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import Item, histories, history, stored
from turnlog.errors import InvalidInput
from turnlog.state.records import MARK_EVERY, MARKS_MAX, Messages
from turnlog.state.reduce import fold, reduce, reduce_ephemeral
from turnlog.state.state import FINISHED_TASKS_MAX, NAMES_MAX, NOTICES_MAX, SNAPSHOT_SCHEMA, State


def restored(state: State) -> State:
    """Return the state after its snapshot was stored and read, with its members in another order."""
    return State.from_snapshot(json.loads(json.dumps(state.to_snapshot(), sort_keys=True)))


@given(histories(), st.data())
def test_a_snapshot_and_the_tail_give_the_full_fold(items: list[Item], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(items)))
    tail = stored(items[cut:], first=cut + 1)
    assert fold(tail, restored(fold(stored(items[:cut])))) == fold(stored(items))


def test_a_snapshot_of_a_long_history_and_the_tail_give_the_full_fold() -> None:
    items = history(Random(11), 12_000)
    whole, half = fold(stored(items)), restored(fold(stored(items[:9_000])))
    again = fold(stored(items[9_000:], first=9_001), half)
    assert again == whole
    in_order = [json.dumps(state.to_snapshot(), sort_keys=True) for state in (again, whole)]
    assert in_order[0] == in_order[1]


def test_a_snapshot_does_not_share_anything_with_the_state() -> None:
    state = fold(stored(history(Random(2), 500)))
    snapshot = state.to_snapshot()
    before = json.dumps(snapshot)
    for event in stored(history(Random(3), 500), first=state.ordinal + 1):
        reduce(state, event.type, event.ordinal, 0, event.payload)
    assert json.dumps(snapshot) == before


@pytest.mark.parametrize(
    "change",
    [
        {"schema": SNAPSHOT_SCHEMA + 1},
        {"schema": None},
        {"ordinal": "7"},
        {"open_calls": [["t1"]]},
        {"turn": {"id": "t1"}},
        {"stranger": 1},
    ],
)
def test_a_snapshot_that_cannot_be_used_says_so(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="snapshot"):
        State.from_snapshot({**State().to_snapshot(), **change})


def test_what_is_on_the_screen_is_in_no_snapshot() -> None:
    state = State()
    before = state.to_snapshot()
    reduce_ephemeral(state, "notification.shown", 5, {"notification": "n1", "text": "Saved"})
    reduce_ephemeral(state, "dialog.opened", 6, {"dialog": "d1", "text": "Run it?", "choices": ["yes"]})
    reduce_ephemeral(state, "progress.updated", 7, {"call_id": "c1", "done": 3})
    assert (state.live.notifications["n1"].time_us, state.live.dialogs["d1"].fields["choices"]) == (5, ["yes"])
    assert state.live.progress["c1"].fields["done"] == 3
    assert state.to_snapshot() == before


@pytest.mark.parametrize("type", ["dialog.answered", "dialog.closed", "notification.cleared"])
def test_what_is_gone_is_off_the_screen(type: str) -> None:
    state = State()
    family = type.partition(".")[0]
    opened = {"dialog": "dialog.opened", "notification": "notification.shown"}[family]
    reduce_ephemeral(state, opened, 1, {family: "x"})
    reduce_ephemeral(state, type, 2, {family: "x"})
    reduce_ephemeral(state, type, 3, {family: "x"})
    assert (state.live.dialogs, state.live.notifications) == ({}, {})


@given(st.text(max_size=20), st.none() | st.integers() | st.dictionaries(st.text(max_size=4), st.none() | st.text()))
def test_an_ephemeral_event_of_any_shape_is_accepted(type: str, payload: object) -> None:
    state = State()
    reduce_ephemeral(state, type, 0, payload)
    reduce_ephemeral(state, f"dialog.{type}", 0, payload)
    assert State.from_snapshot(state.to_snapshot()) == State()


def test_the_oldest_notice_makes_room() -> None:
    state = State()
    for number in range(NOTICES_MAX + 3):
        reduce_ephemeral(state, "notification.shown", number, {"notification": f"n{number}"})
    assert next(iter(state.live.notifications)) == "n3"
    assert len(state.live.notifications) == NOTICES_MAX


def test_messages_are_found_near_a_mark() -> None:
    state = State()
    for ordinal in range(1, 2_001):
        reduce(state, "message.user" if ordinal % 2 else "file.read", ordinal, 0, {})
    messages = state.messages
    assert (messages.count, messages.user, messages.last_ordinal, len(messages.marks)) == (1_000, 1_000, 1_999, 4)
    assert messages.near(999) == (768, 1_537)
    assert messages.near(0) == (0, 1)
    with pytest.raises(IndexError):
        messages.near(1_000)


def test_marks_get_sparser_and_stay_right() -> None:
    full = Messages(MARK_EVERY * MARKS_MAX, marks=tuple(range(1, MARK_EVERY * MARKS_MAX, MARK_EVERY)))
    state = State(messages=full, ordinal=full.count)
    for ordinal in range(full.count + 1, full.count + 600):
        reduce(state, "message.system", ordinal, 0, {})
    messages = state.messages
    assert (messages.stride, len(messages.marks)) == (2 * MARK_EVERY, MARKS_MAX // 2 + 2)
    for index in (0, MARK_EVERY * 5, messages.count - 1):
        at, ordinal = messages.near(index)
        assert ordinal == at + 1
        assert 0 <= index - at < messages.stride


def test_finished_tasks_are_let_go_except_those_that_are_needed() -> None:
    state = State()
    reduce(state, "task.added", 1, 0, {"task": "first", "state": "completed"})
    reduce(state, "task.added", 2, 0, {"task": "last", "depends_on": ["first"]})
    for number in range(3, FINISHED_TASKS_MAX + 4):
        reduce(state, "task.added", number, 0, {"task": f"k{number}", "state": "completed"})
    assert state.tasks_folded == FINISHED_TASKS_MAX // 2
    assert [task.id for task in state.ready] == ["last"]
    assert "first" in state.tasks
    reduce(state, "task.added", 9_999, 0, {"task": "later", "depends_on": ["k3"]})
    assert (state.violations, [task.id for task in state.unfinished_tasks]) == ((), ["last", "later"])


def test_names_that_never_end_do_not_fill_the_memory() -> None:
    state = State()
    for ordinal in range(1, 3 * NAMES_MAX):
        reduce(state, f"acme.x{ordinal}", 4 * ordinal, 0, None)
        reduce(state, "step.completed", 4 * ordinal + 1, 0, {"model": f"m{ordinal}", "usage": {"input": 1}})
        reduce(state, "session.configured", 4 * ordinal + 2, 0, {f"s{ordinal}": 1})
    assert {len(state.custom), len(state.usage_by_model)} == {NAMES_MAX + 1}
    assert len(state.settings) == NAMES_MAX
    assert state.usage.input == sum(usage.input for usage in state.usage_by_model.values()) == 3 * NAMES_MAX - 1
