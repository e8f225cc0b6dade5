"""The turns of a log, seen again after a restart: what was asked, sent, answered and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turnlog import Damaged, InvalidInput, Store, ToolFailed

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog import Session, TurnView


Told = tuple[object, str | None, list[object], list[tuple[str, str]]]


def told(view: TurnView) -> Told:
    return (
        view.input,
        view.outcome,
        [step.response for step in view.steps()],
        [(call.call_id, call.state) for call in view.calls()],
    )


def work(session: Session) -> None:
    with session.turn("reproduce it", id="t1") as turn:
        with turn.step(context=["reproduce it"]) as step:
            step.complete({"text": "I run it"}, usage={"input": 3, "output": 2}, stop_reason="tool_use")
        turn.tool_call("bash", {"cmd": "pytest"}, call_id="c1").run(lambda cmd: f"ran {cmd}")
        turn.step(context=["reproduce it", "ran pytest"]).fail("overloaded", status=529)
        turn.complete()
    with pytest.raises(ZeroDivisionError), session.turn("divide"):
        _ = 1 // 0
    session.turn("stop me").abort("escape")
    session.turn("go on").tool_call("send", call_id="c1").start()


EXPECTED: list[Told] = [
    ("reproduce it", "completed", [{"text": "I run it"}, None], [("c1", "completed")]),
    ("divide", "failed", [], []),
    ("stop me", "aborted", [], []),
]


def test_a_restart_finds_every_turn_with_what_happened_in_it(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as session:
        work(session)
        running = session.current_turn
        assert running is not None
        assert [told(view) for view in session.turns()] == [*EXPECTED, ("go on", None, [], [("c1", "started")])]
    with Store.open(tmp_path) as store, store.resume(session.id) as again:
        assert again.current_turn is None
        views = list(again.turns())
        last: Told = ("go on", "interrupted", [], [("c1", "outcome_unknown")])
        assert [told(view) for view in views] == [*EXPECTED, last]
        assert [told(view) for view in again.turns(reverse=True)] == [last, *reversed(EXPECTED)]
        assert (views[1].error["type"], views[2].reason) == ("ZeroDivisionError", "escape")
        assert all(0 < view.ordinal < view.ended_ordinal for view in views)
        assert all(0 < view.started_us <= view.ended_us for view in views)
        (call,) = views[0].calls()
        assert call.result == "ran pytest"


def test_a_step_tells_what_was_sent_and_how_it_ended_after_a_restart(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as session:
        work(session)
    with Store.open(tmp_path) as store:
        again = store.session(session.id)
        first, second = next(again.turns()).steps()
        assert first.context() == ["reproduce it"]
        assert (first.usage, first.stop_reason, first.error) == ({"input": 3, "output": 2}, "tool_use", None)
        assert (second.context(), second.outcome) == (["reproduce it", "ran pytest"], "failed")
        assert second.error == {"message": "overloaded"}
        assert again.step("t1", "s1").response == {"text": "I run it"}
        assert again.head()[0] == session_head(tmp_path, session.id)


def session_head(folder: Path, id: str) -> int:
    with Store.open(folder) as store:
        return store.session(id).head()[0]


def test_the_running_turn_is_the_handle_of_this_process_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as session:
        with session.turn("goal") as turn:
            assert session.current_turn is turn
            with Store.open(tmp_path) as reading:
                assert reading.session(session.id).current_turn is None
            turn.complete()
        assert session.current_turn is None


def test_a_history_of_messages_gives_its_turns_their_input(tmp_path: Path) -> None:
    source = {"line": 1}
    with Store.open(tmp_path) as store, store.create() as session:
        for number in (1, 2):
            session.append("turn.started", {"turn": f"t{number}", "source": source})
            session.append("message.user", {"turn": f"t{number}", "content": f"goal {number}", "source": source})
            session.append("step.completed", {"response": f"answer {number}", "source": source})
            session.append("turn.interrupted", {"turn": f"t{number}", "source": source})
            session.append("turn.completed", {"turn": f"t{number}", "source": source})
        expected: list[Told] = [(f"goal {number}", "completed", [f"answer {number}"], []) for number in (1, 2)]
        assert [told(view) for view in session.turns()] == expected
        assert [told(view) for view in session.turns(reverse=True)] == expected[::-1]


def test_a_turn_that_another_one_followed_without_an_outcome_was_interrupted() -> None:
    session = Store.ephemeral().create()
    for name in ("t1", "t2"):
        session.append("turn.started", {"turn": name})
    for views in (list(session.turns()), list(session.turns(reverse=True))[::-1]):
        assert [(view.id, view.outcome) for view in views] == [("t1", "interrupted"), ("t2", None)]
    assert session.state.recent_turns["t1"].state == "interrupted"


def test_a_failed_call_raises_what_its_run_raised() -> None:
    session = Store.ephemeral().create()
    turn = session.turn("goal")
    with pytest.raises(ZeroDivisionError):
        turn.tool_call("divide", call_id="c1").run(lambda: 1 // 0)
    (call,) = next(session.turns()).calls()
    with pytest.raises(ToolFailed):
        _ = call.result


def test_turns_are_read_lazily_and_damage_is_passed_over_where_that_is_asked_for(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as session:
        for goal in ("first", "second", "third"):
            session.turn(goal, id=goal).complete()
    (segment,) = (tmp_path / "sessions").rglob("*.seg")
    data = bytearray(segment.read_bytes())
    at = data.index(b'"second"')
    data[at + 1] ^= 1
    segment.write_bytes(data)
    with Store.open(tmp_path, read_only=True) as store:
        again = store.session(session.id)
        found = again.turns()
        assert next(found).id == "first"
        with pytest.raises(Damaged):
            list(found)
        assert [view.id for view in again.turns(on_damage="skip")] == ["first", "third"]
        with pytest.raises(InvalidInput, match="on_damage"):
            again.turns(on_damage="perhaps")
