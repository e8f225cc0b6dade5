"""A turn id of a caller's names one turn of a session for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turnlog import InvalidTransition, Store
from turnlog.model.turn_ids import TurnIds
from turnlog.state.state import RECENT_TURNS_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog import Session
    from turnlog.state.state import State


def work(session: Session, turns: int) -> None:
    for _ in range(turns):
        session.turn("goal").complete()


@pytest.mark.parametrize("turns_between", [0, 1, RECENT_TURNS_MAX - 1, RECENT_TURNS_MAX, 2 * RECENT_TURNS_MAX + 1])
def test_an_id_is_refused_however_long_ago_it_was_used(turns_between: int) -> None:
    session = Store.ephemeral().create()
    session.turn("goal", id="again").complete()
    work(session, turns_between)
    head = session.head()
    for on_running in ("refuse", "queue"):
        with pytest.raises(InvalidTransition, match="again"):
            session.turn("goal", id="again", on_running=on_running)
    assert session.head() == head
    assert session.state.turn is None
    session.turn("goal", id="another").complete()


def test_a_counter_that_starts_anew_in_another_process_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as session:
        for number in range(RECENT_TURNS_MAX + 10):
            turn = session.turn("goal", id=f"turn-{number}")
            turn.tool_call("bash", {}, call_id="c1").run(lambda: "old")
            turn.complete()
    with Store.open(tmp_path) as store, store.resume(session.id) as again:
        with pytest.raises(InvalidTransition, match="turn-0"):
            again.turn("goal", id="turn-0")
        turn = again.turn("goal", id=f"turn-{RECENT_TURNS_MAX + 10}")
        assert turn.tool_call("bash", {}, call_id="c1").run(lambda: "new") == "new"
        turn.complete()


def test_a_fork_refuses_the_ids_it_inherits(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as parent:
        parent.turn("goal", id="again").complete()
        work(parent, RECENT_TURNS_MAX + 1)
        child = store.fork(parent)
        with pytest.raises(InvalidTransition, match="again"):
            child.turn("goal", id="again")
        parent.turn("goal", id="only here").complete()
        child.turn("goal", id="only here").complete()


def test_the_log_is_looked_into_once_for_as_many_turns_as_the_state_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Store.ephemeral().create()
    looks: list[int] = []
    look = TurnIds._read

    def counted(ids: TurnIds, read: Session, state: State) -> None:
        looks.append(state.ordinal)
        look(ids, read, state)

    monkeypatch.setattr(TurnIds, "_read", counted)
    for number in range(4 * RECENT_TURNS_MAX):
        session.turn("goal", id=f"turn-{number}").complete()
    assert len(looks) == 3
