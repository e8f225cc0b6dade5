"""An interrupt as an append returns: the log has the event, the state looks there before anything else is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store
from turnlog.log.appender import Appender

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog import Session

KINDS = (
    *("turn.started", "step.started", "step.completed", "tool.proposed", "tool.approved", "tool.started"),
    *("tool.completed", "turn.completed"),
)
OUTCOMES = {"turn.completed", "turn.aborted", "turn.failed", "turn.interrupted"}


def interrupt_after(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise KeyboardInterrupt, once, as the append of an event of this type returns: its sync takes the time."""
    append = Appender.append

    def hit(self: Appender, type: str, *rest: Any, **more: Any) -> Any:
        receipt = append(self, type, *rest, **more)
        if type == kind:
            monkeypatch.setattr(Appender, "append", append)
            raise KeyboardInterrupt
        return receipt

    monkeypatch.setattr(Appender, "append", hit)


def work(session: Session) -> None:
    with session.turn("go") as turn:
        with turn.step(context=["go"]) as step:
            step.complete("ok")
        turn.tool_call("bash", {}, call_id="c1").approve(by="user").run(lambda: 1)
        turn.complete()


def test_the_work_has_every_kind_of_event_that_is_hit(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        work(session)
        assert set(KINDS) <= {event.type for event in session.events()}


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_append_leaves_one_outcome_and_a_true_state(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        assert session.state.turn is None
        interrupt_after(kind, monkeypatch)
        with pytest.raises(KeyboardInterrupt) as caught:
            work(session)
        assert getattr(caught.value, "__notes__", []) == []
        types = [event.type for event in session.events()]
        assert len(OUTCOMES.intersection(types)) == sum(type in OUTCOMES for type in types) == 1
        assert types.count("step.completed") + types.count("step.failed") == types.count("step.started")
        with session.turn("next") as turn:
            turn.complete()
        assert (session.state.violations, session.state.ordinal) == ((), session.head()[0])


def test_an_interrupted_group_is_looked_up_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append_many = Appender.append_many

    def hit(self: Appender, *rest: Any, **more: Any) -> Any:
        append_many(self, *rest, **more)
        raise KeyboardInterrupt

    with Store.open(tmp_path / "store") as store, store.create() as session:
        assert session.state.title == ""
        monkeypatch.setattr(Appender, "append_many", hit)
        with pytest.raises(KeyboardInterrupt):
            session.append_many([("session.renamed", {"title": "a"}), ("session.renamed", {"title": "b"})])
        assert session.state.title == "b"


def test_control_a_state_that_trusts_itself_writes_two_outcomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlog.model.live.Live.doubt", lambda _: None)
    with Store.open(tmp_path / "store") as store, store.create() as session:
        assert session.state.turn is None
        interrupt_after("turn.completed", monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            work(session)
        assert sum(event.type in OUTCOMES for event in session.events()) == 2
