"""The fold: valid histories reduce without a finding, junk never raises, and what an event does to the state."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import Item, StoredEvent, histories, history, stored
from tests.state.folding import CALL, TURN, call, codes, reduced
from turnlog import events
from turnlog.errors import InvalidTransition
from turnlog.state.reduce import RULES, check_transition, fold, reduce, refusal_of
from turnlog.state.state import RECENT_CALLS_MAX, RECENT_TURNS_MAX, VIOLATIONS_MAX, State

TYPES = st.sampled_from([*events.TYPES, "acme.note", "turn.paused", "nodot", ""])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["t1", "c1", "", "running"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner), max_leaves=5
)
NAMES = st.sampled_from(
    [
        *("v", "turn", "call_id", "step", "input_id", "task", "depends_on", "state", "version", "usage", "context"),
        *("title", "tags", "effect", "outcome", "attempt", "parent", "fork_ordinal", "source", "by", "input", "goal"),
        *("grant", "x"),
    ]
)
PAYLOADS = st.dictionaries(NAMES, VALUES, max_size=6) | VALUES


# -- all histories -----------------------------------------------------------------------------------------------------


@given(histories())
def test_every_prefix_of_a_valid_history_reduces_without_violation(items: list[Item]) -> None:
    state = State()
    for ordinal, (type, payload) in enumerate(items, 1):
        check_transition(state, type, payload)
        reduce(state, type, ordinal, 0, payload)
        assert codes(state) == []
    assert (state.ordinal, state.events) == (len(items), len(items))


@given(histories(), st.data())
def test_a_history_cut_into_batches_folds_to_the_same_state(items: list[Item], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(items)))
    whole = fold(stored(items))
    parts = fold(stored(items[cut:], first=cut + 1), fold(stored(items[:cut])))
    assert parts == whole == fold(stored(items))


@given(histories())
def test_folding_stored_bytes_and_reducing_payloads_give_the_same_state(items: list[Item]) -> None:
    state = State()
    for event in stored(items):
        reduce(state, event.type, event.ordinal, event.time_us, event.payload)
    assert fold(stored(items)) == state


@given(st.lists(st.tuples(TYPES, PAYLOADS), max_size=30))
def test_junk_never_raises_and_snapshots_survive_it(items: list[tuple[str, Any]]) -> None:
    state = State()
    for ordinal, (type, payload) in enumerate(items, 1):
        if isinstance(payload, dict):
            refusal_of(state, type, payload)
        reduce(state, type, ordinal, 0, payload)
    assert state.ordinal == len(items)
    assert len(state.violations) == min(state.violation_count, VIOLATIONS_MAX)
    assert State.from_snapshot(state.to_snapshot()).to_snapshot() == state.to_snapshot()


@pytest.mark.parametrize("payload", [None, 7, "text", [], b"bytes"])
@pytest.mark.parametrize("type", RULES)
def test_a_payload_that_is_no_object_is_a_finding(type: str, payload: object) -> None:
    state = State()
    reduce(state, type, 1, 0, payload)
    assert codes(state) == ["payload_shape"]


@given(histories(events_max=60), st.data())
def test_a_lifecycle_event_that_comes_twice_is_a_finding(items: list[Item], data: st.DataObject) -> None:
    once = [at for at, (type, _) in enumerate(items) if type.startswith(("turn.", "step.", "tool.")) or at == 0]
    at = data.draw(st.sampled_from([at for at in once if not _may_repeat(items[at])]))
    assert codes(fold(stored([*items[: at + 1], items[at], *items[at + 1 :]]))) != []


def _may_repeat(item: Item) -> bool:
    """A repeatable call may be started again, and the second such event is then legal."""
    return item[0] == "tool.started"


@given(histories(events_max=60), st.data())
def test_a_start_that_is_missing_is_a_finding(items: list[Item], data: st.DataObject) -> None:
    starts = [at for at, (type, _) in enumerate(items) if type in ("turn.started", "tool.proposed", "step.started")]
    used = [at for at in starts if _is_used(items, at)]
    if used:
        at = data.draw(st.sampled_from(used))
        assert codes(fold(stored(items[:at] + items[at + 1 :]))) != []


def _is_used(items: list[Item], at: int) -> bool:
    """Tell whether a later event ends what began at `at`."""
    type, payload = items[at]
    name = {"turn": "turn", "step": "step", "tool": "call_id"}[type.partition(".")[0]]
    later = (other for kind, other in items[at + 1 :] if kind.partition(".")[0] == type.partition(".")[0])
    return any(other.get(name) == payload[name] and other.get("turn") == payload["turn"] for other in later)


def test_an_ordinal_that_does_not_grow_is_a_finding_and_changes_nothing() -> None:
    state = reduced(TURN)
    reduce(state, "turn.completed", 1, 0, {"turn": "t1"})
    assert codes(state) == ["ordinal_order"]
    assert state.turn is not None


def test_a_call_is_in_doubt_while_its_latest_event_lies_before_one_that_is_lost() -> None:
    state = reduced(TURN)
    reduce(state, "tool.proposed", state.ordinal + 1, 0, {"turn": "t1", "call_id": "c1", "name": "send"})
    reduce(state, "acme.note", state.ordinal + 2, 0, {})
    assert state.lost_ordinal == state.ordinal - 1
    assert state.may_have_started(state.open_calls["t1", "c1"])
    reduce(state, "tool.approved", state.ordinal + 1, 0, {"turn": "t1", "call_id": "c1"})
    assert not state.may_have_started(state.open_calls["t1", "c1"])  # who approved it knew that it had not begun


# -- what is not understood --------------------------------------------------------------------------------------------


def test_types_outside_the_vocabulary_are_counted_and_change_nothing_else() -> None:
    state = reduced(("acme.note", {}), ("acme.note", {"v": 9}), ("turn.paused", {}), ("plain", {}))
    assert (state.custom, state.unknown) == ({"acme.note": 2}, {"turn.paused": 1, "plain": 1})
    assert (codes(state), state.is_complete) == ([], False)


def test_a_newer_version_is_counted_and_not_reduced() -> None:
    state = reduced(TURN, ("turn.completed", {"turn": "t1", "v": 2}))
    assert state.unknown == {"turn.completed@2": 1}
    assert state.turn is not None
    assert fold(stored([TURN, ("turn.completed", {"turn": "t1", "v": 2})])).unknown == state.unknown


def test_an_older_version_is_reduced_as_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(events.VERSIONS, "session.renamed", 2)
    monkeypatch.setitem(events.UPCASTERS, ("session.renamed", 1), lambda old: {"title": old["name"]})
    assert reduced(("session.renamed", {"name": "Old field"})).title == "Old field"
    assert reduced(("session.renamed", {"title": "New field", "v": 2})).title == "New field"
    assert codes(reduced(("session.renamed", {}))) == ["payload_version"]


def test_an_ephemeral_event_in_a_log_is_a_finding() -> None:
    assert codes(reduced(("dialog.opened", {"dialog": "d1"}))) == ["ephemeral_stored"]


def test_a_raw_event_of_a_known_type_is_a_finding() -> None:
    assert codes(fold([StoredEvent(1, "turn.started", b"\xff", is_raw=True)])) == ["payload_shape"]


def test_what_only_the_slow_decoder_reads_is_reduced_too() -> None:
    payload = {"turn": "t1", "input": "\ud800", "big": 2**80}
    assert fold(stored([("turn.started", payload)])).turn == reduced(("turn.started", payload)).turn


# -- what the tables forbid, and whom they do not bind ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "type", "payload"),
    [
        ([TURN], "turn.started", {"turn": "t2"}),
        ([TURN, ("turn.completed", {"turn": "t1"})], "turn.started", {"turn": "t1"}),
        ([TURN, ("turn.completed", {"turn": "t1"})], "turn.failed", {"turn": "t1"}),
        ([TURN, CALL], "turn.completed", {"turn": "t1"}),
        ([TURN, ("step.started", {"step": "s1"})], "turn.completed", {"turn": "t1"}),
        ([TURN, ("step.started", {"step": "s1"})], "step.started", {"step": "s2"}),
        ([TURN], "step.completed", {"step": "s1"}),
        ([TURN, CALL], *CALL),
        ([TURN, CALL], *call("completed")),
        ([TURN], *call("started")),
        ([TURN], "tool.proposed", {"turn": "t2", "call_id": "c1"}),
        ([TURN], "tool.proposed", {"call_id": "c1", "effect": "harmless"}),
        ([TURN], "turn.input_consumed", {}),
        ([("session.created", {})], "session.created", {}),
        ([("session.deleted", {})], "turn.started", {"turn": "t1"}),
        ([], "session.forked", {"parent": "p"}),
        ([], "plan.approved", {}),
        ([("plan.proposed", {}), ("plan.approved", {})], "plan.approved", {}),
        ([("plan.proposed", {}), ("plan.revised", {})], "plan.approved", {"version": 1}),
        ([("task.added", {"task": "a"})], "task.added", {"task": "a"}),
        ([("task.added", {"task": "a"})], "task.updated", {"task": "b"}),
        ([("task.added", {"task": "a"})], "task.updated", {"task": "a", "state": "asleep"}),
        ([("task.added", {"task": "a"})], "task.updated", {"task": "a", "depends_on": ["a"]}),
        ([], "task.added", {"task": "a", "depends_on": ["b"]}),
        ([], "permission.revoked", {"grant": "g1"}),
    ],
)
def test_what_is_illegal_is_refused_before_and_found_after(items: list[Item], type: str, payload: Any) -> None:
    state = reduced(*items, session="s")
    assert codes(state) == []
    with pytest.raises(InvalidTransition):
        check_transition(state, type, payload)
    assert codes(state) == []
    reduce(state, type, len(items) + 1, 0, payload)
    assert len(codes(state)) == 1


def test_an_observed_history_is_not_held_to_the_tables() -> None:
    source = {"source": {"line": 1, "offset": 0}}
    state = reduced(
        ("tool.completed", {"call_id": "c0", **source}),
        ("turn.completed", {"turn": "t9", **source}),
        ("turn.started", {"turn": "t1", **source}),
        ("turn.started", {"turn": "t2", **source}),
        ("tool.proposed", {"turn": "t2", "call_id": "c1", **source}),
        ("turn.interrupted", {"turn": "t2", **source}),
        ("tool.completed", {"turn": "t3", "call_id": "c1", **source}),
        ("turn.completed", {"turn": "t2", **source}),
    )
    assert codes(state) == []
    assert (state.turn_counts, state.open_calls) == ({"interrupted": 1, "completed": 1}, {})


# -- bounds ------------------------------------------------------------------------------------------------------------


def test_a_long_history_leaves_a_small_state() -> None:
    state = fold(stored(history(Random(5), 20_000)))
    assert len(state.recent_turns) == RECENT_TURNS_MAX
    assert len(state.recent_calls) == RECENT_CALLS_MAX
    assert state.calls_folded + RECENT_CALLS_MAX == sum(state.call_counts.values())
    sizes = {name: len(json.dumps(value)) for name, value in state.to_snapshot().items() if name != "tasks"}
    assert sum(sizes.values()) < 60_000


def test_of_many_violations_the_first_are_kept_and_all_are_counted() -> None:
    state = reduced(*[call("completed")] * (VIOLATIONS_MAX + 50))
    assert (len(state.violations), state.violation_count) == (VIOLATIONS_MAX, VIOLATIONS_MAX + 50)
    assert state.violations[0].ordinal == 1
