"""The fold of a log as a resume reads it - lazily, one batch ahead - is the fold of its events, one by one.

Method: histories are stored in segments that roll often, some forked, compacted, damaged or mended, and read both
ways, once raising at damage and once passing it over; the states, what is said to be lost and the errors are compared.
"""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults import damage
from tests.histories import history
from tests.state.test_fold import NATIVE, assert_same
from turnlog import Store, _core, names
from turnlog.compact.compact import compact_session
from turnlog.errors import TurnlogError
from turnlog.log import ahead
from turnlog.log.ahead import read_ahead
from turnlog.log.log import Log, Window
from turnlog.log.segments import list_segments
from turnlog.repair.repair import plan_session
from turnlog.state import fold as folding
from turnlog.state.fold import fold_batches
from turnlog.state.reduce import reduce_stored
from turnlog.state.state import State

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = 400
Outcome = tuple[State, list[Any], Any]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the core and the second thread begin at once."""
    monkeypatch.setattr(folding, "LEAD_EVENTS", 0)
    monkeypatch.setattr(ahead, "NEAR_BATCHES", 1)


def lost(error: TurnlogError) -> tuple[Any, ...]:
    return type(error).__name__, str(error), getattr(error, "lost", None)


def one_by_one(log: Log, on_damage: str) -> Outcome:
    state, raised = State("s"), None
    try:
        for event in log.events(Window(on_damage=on_damage)):
            reduce_stored(state, event)
    except TurnlogError as error:
        raised = lost(error)
    return state, [lost(error) for error in log.damage], raised


def as_resumed(log: Log, on_damage: str) -> Outcome:
    state, raised = State("s"), None
    try:
        fold_batches(read_ahead(log.batches(Window(on_damage=on_damage, lazy=True))), state)
    except TurnlogError as error:
        raised = lost(error)
    return state, [lost(error) for error in log.damage], raised


def check(store: str, session: str) -> Outcome:
    """Read both ways, raising and passing over; return what the second says."""
    outcome = None
    for on_damage in ("raise", "skip"):
        expected, outcome = (
            read(Log(names.session_dir(store, session), session), on_damage) for read in (one_by_one, as_resumed)
        )
        assert_same(outcome[0], expected[0])
        assert outcome[1:] == expected[1:]
    assert outcome is not None
    return outcome


def made(path: Path, random: Random) -> tuple[str, str, str]:
    """Store a history in small segments, and a fork that goes on; return the store and both sessions."""
    with Store.open(path, roll_bytes=random.choice([8192, 20_000, 1 << 20])) as store:
        items = history(random, EVENTS)
        with store.create() as session:
            session.append_many(items[1:EVENTS], durability="buffered")
            session.append("acme.note", b"\xff\x00", raw=True)
            session.append("message.user", b"{}", raw=True)
            session.append("message.user", {"v": 9})
            child = store.fork(session, random.randrange(1, EVENTS // 2))
        child.append_many(history(random, 60)[1:], durability="buffered")
        return store.path, session.id, child.id


def injure(folder: str, random: Random) -> None:
    """Change, cut or take away one of a session's files."""
    paths = [file.path for file in list_segments(folder) if os.path.getsize(file.path)]
    if not paths:
        return
    path = random.choice(paths)
    size = os.path.getsize(path)
    way = random.choice(["flip", "flip", "flip", "cut", "unlink"])
    if way == "flip":
        damage.flip(path, random.randrange(size))
    elif way == "cut":
        damage.cut(path, random.randrange(size))
    else:
        os.unlink(path)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 32), compacts=st.booleans(), wounds=st.integers(0, 4))
def test_a_log_in_any_condition_folds_as_its_events_do(
    tmp_path_factory: pytest.TempPathFactory, seed: int, compacts: bool, wounds: int
) -> None:
    random = Random(seed)
    store, parent, child = made(tmp_path_factory.mktemp("logs") / "store", random)
    if compacts:
        compact_session(store, parent)
    for _ in range(wounds):
        injure(names.session_dir(store, parent), random)
    for session in (parent, child):
        state, losses, raised = check(store, session)
        assert raised is None
        assert wounds or (not losses and state.events == state.ordinal > 0)


@pytest.mark.parametrize("injury", [damage.flipped_payload, damage.zeroed_frames, damage.missing_middle])
def test_a_log_with_a_recorded_gap_folds_as_its_events_do(tmp_path: Path, injury: damage.Injury) -> None:
    victim = damage.Victim(tmp_path / "store")
    gone = injury(victim)
    plan_session(victim.store, victim.session).apply()
    state, losses, _ = check(victim.store, victim.session)
    assert gone
    assert state.events == damage.EVENTS - len(gone)
    assert len(losses) <= 1


@pytest.mark.skipif(not NATIVE, reason="the reference core makes every handle")
def test_a_resume_makes_a_handle_of_few_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_rule: list[_core.Event] = []
    original = reduce_stored

    def counted(state: State, event: _core.Event) -> None:
        by_rule.append(event)
        original(state, event)

    monkeypatch.setattr(folding, "reduce_stored", counted)
    store, parent, _ = made(tmp_path / "store", Random(5))
    batches = list(Log(names.session_dir(store, parent), parent).batches(Window(lazy=True)))
    assert not any(isinstance(batch, list) for batch in batches)
    state = fold_batches(iter(batches), State("s"))
    assert len(by_rule) < state.events / 2
