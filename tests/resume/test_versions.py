"""What a newer turnlog wrote, or what is lost, is reported: no resume repairs it, no history reads it by halves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store, events
from turnlog.errors import HistoryInvalid, InvalidTransition, Locked

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog import Session
    from turnlog.resume.recovered import Recovery


def kinds(recovery: Recovery) -> list[str]:
    return [str(part.get("event", part["kind"])) for part in recovery.repaired]


def recovery_of(session: Session) -> Recovery:
    assert session.recovery is not None
    return session.recovery


def left_open(store: Store, *items: tuple[str, dict[str, Any]]) -> str:
    """Write a session whose process seems to have died behind these events."""
    session = store.create()
    for type, payload in items:
        session.append(type, payload)
    session.close()
    return session.id


@pytest.mark.parametrize("proposal", [None, {"turn": "t1", "call_id": "c1", "name": "bash", "v": 99}])
@pytest.mark.parametrize("last", ["tool.approved", "tool.started", "tool.approval_requested"])
def test_a_session_whose_proposal_is_lost_or_newer_is_resumed(
    tmp_path: Path, proposal: dict[str, Any] | None, last: str
) -> None:
    items: list[tuple[str, dict[str, Any]]] = [("turn.started", {"turn": "t1"})]
    items += [] if proposal is None else [("tool.proposed", proposal)]
    with Store.open(tmp_path / "store") as store:
        id = left_open(store, *items, (last, {"turn": "t1", "call_id": "c1"}))
        with store.resume(id) as session:
            recovery = recovery_of(session)
            assert not recovery.retryable
            assert (session.state.turn is None) == (proposal is None)  # a newer event may have ended it
            head = session.head()
        with store.resume(id) as session:
            assert (session.head(), kinds(recovery_of(session))) == (head, [])


def test_what_a_newer_version_may_have_ended_is_not_repaired_but_reported(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        id = left_open(store, ("turn.started", {"turn": "t1"}), ("turn.completed", {"turn": "t1", "v": 99}))
        with store.resume(id) as session:
            recovery = recovery_of(session)
            assert kinds(recovery) == []
            assert recovery.not_understood == [{"event": "turn.completed", "version": 99, "count": 1}]
            assert not recovery.clean


def test_a_call_that_waits_for_approval_is_not_among_those_that_may_be_run(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        proposed = {"turn": "t1", "call_id": "c1", "name": "bash"}
        asked = ("tool.approval_requested", {"turn": "t1", "call_id": "c1"})
        id = left_open(store, ("turn.started", {"turn": "t1"}), ("tool.proposed", proposed), asked)
        with store.resume(id) as session:
            recovery = recovery_of(session)
            (call,) = recovery.waiting
            assert (recovery.retryable, recovery.unknown) == ([], [])
            with pytest.raises(InvalidTransition):
                call.handle.run(lambda: 1)
            assert call.handle.approve(by="user").run(lambda: 1) == 1


@pytest.mark.parametrize("shape", ["anthropic", "openai_responses", "openai_chat"])
def test_a_history_with_an_event_that_is_not_understood_says_so(tmp_path: Path, shape: str) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        session.append("message.user", {"content": "hello"})
        session.append("message.assistant", {"content": "hi", "v": 99})
        with pytest.raises(HistoryInvalid, match=r"event 3 .*message\.assistant version 99"):
            list(session.history(shape))


def test_older_payloads_are_raised_in_histories_as_in_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(events.VERSIONS, "message.user", 2)
    monkeypatch.setitem(events.UPCASTERS, ("message.user", 1), lambda old: {**old, "content": old["text"]})
    with Store.open(tmp_path / "store") as store, store.create() as session:
        session.append("message.user", {"text": "hello"})
        assert "hello" in str(list(session.history("anthropic")))


def test_an_upcaster_that_raises_anything_makes_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError

    monkeypatch.setitem(events.VERSIONS, "message.user", 2)
    monkeypatch.setitem(events.UPCASTERS, ("message.user", 1), broken)
    assert events.understood("message.user", {"content": "hello"}) is None
    assert "RuntimeError" in events.why_not("message.user", {"content": "hello"})


def test_a_resume_that_is_refused_leaves_the_callers_session_open(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        id = left_open(store, ("turn.started", {"turn": "t1"}))
        with Store.open(tmp_path / "store") as other, other.session(id) as writer:
            writer.append("acme.note", {})
            reader = store.session(id)
            with pytest.raises(Locked):
                store.resume(id)
            assert [event.ordinal for event in reader.events()] == [1, 2, 3]
