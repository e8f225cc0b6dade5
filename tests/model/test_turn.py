"""A turn has exactly one outcome, however its block is left; one runs at a time; input waits for a safe point."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Closed, InvalidInput, InvalidTransition, Session, Store, Turn
from turnlog.disk import translate
from turnlog.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["disk", "memory"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = Store.open(tmp_path / "store") if request.param == "disk" else Store.ephemeral()
    with store, store.create() as made:
        yield made


def types_of(session: Session) -> list[str]:
    return [event.type for event in session.events(after=1)]


def test_a_turn_that_is_completed_says_so_once(session: Session) -> None:
    with session.turn("goal", id="t1") as turn:
        assert session.state.turn is not None
        turn.complete()
    assert turn.outcome == "completed"
    assert types_of(session) == ["turn.started", "turn.completed"]
    for end in (turn.complete, turn.abort, lambda: turn.fail("late")):
        with pytest.raises(InvalidTransition, match="is completed"):
            end()
    assert session.state.turn_counts == {"completed": 1}


def test_an_exception_that_leaves_the_block_is_a_failure_with_its_type_and_message(session: Session) -> None:
    with pytest.raises(ZeroDivisionError), session.turn("goal"):
        _ = 1 // 0
    event = list(session.events())[-1]
    assert event.type == "turn.failed"
    assert event.payload["error"] == {"type": "ZeroDivisionError", "message": "integer division or modulo by zero"}


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, concurrent.futures.CancelledError],
    ids=["KeyboardInterrupt", "SystemExit", "GeneratorExit", "asyncio", "futures"],
)
def test_a_stop_that_leaves_the_block_is_an_abort(session: Session, error: type[BaseException]) -> None:
    with pytest.raises(error), session.turn("goal") as turn:
        raise error
    assert turn.outcome == "aborted"
    assert list(session.events())[-1].payload["reason"] == f"interrupted by {error.__name__}"


def test_a_generator_that_is_closed_inside_a_turn_aborts_it(session: Session) -> None:
    def work() -> Iterator[Turn]:
        with session.turn("goal") as turn:
            yield turn

    running = work()
    turn = next(running)
    del running
    assert turn.outcome == "aborted"


def test_a_block_that_is_left_without_an_outcome_is_never_completed(session: Session) -> None:
    with session.turn("goal") as turn:
        pass
    assert turn.outcome == "aborted"
    assert "without complete" in list(session.events())[-1].payload["reason"]


def test_an_exception_after_the_outcome_changes_nothing(session: Session) -> None:
    def work() -> None:
        with session.turn("goal") as turn:
            turn.complete()
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError):
        work()
    assert types_of(session) == ["turn.started", "turn.completed"]


def test_the_exception_of_the_block_is_raised_when_its_record_fails(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: Any, **_kwargs: Any) -> None:
        raise translate(OSError(28, "No space left on device"), "appending")

    def work() -> None:
        with session.turn("goal"):
            monkeypatch.setattr(session, "append", full)
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError) as caught:
        work()
    assert "could not record" in caught.value.__notes__[0]
    monkeypatch.undo()
    assert session.state.turn is not None


def test_a_turn_is_not_completed_while_something_is_open(session: Session) -> None:
    with session.turn("goal") as turn:
        step = turn.step()
        with pytest.raises(InvalidTransition, match=r"while .*'s1'"):
            turn.complete()
        step.complete("hi")
        call = turn.tool_call("bash", {"cmd": "ls"}, call_id="c1")
        with pytest.raises(InvalidTransition, match="'c1' is open"):
            turn.complete()
        call.deny(by="user")
        turn.complete()
    assert session.state.violation_count == 0


def test_calls_that_were_not_started_are_cancelled_with_their_turn(session: Session) -> None:
    with session.turn("goal") as turn:
        proposed = turn.tool_call("bash", {"cmd": "ls"}, call_id="c1")
        approved = turn.tool_call("bash", {"cmd": "ls"}, call_id="c2").approve(by="user")
        done = turn.tool_call("bash", {"cmd": "ls"}, call_id="c3")
        done.run(lambda cmd: cmd)
        turn.fail("the provider is down")
    assert [call.state for call in (proposed, approved, done)] == ["cancelled", "cancelled", "completed"]
    assert session.state.open_calls == {}
    assert session.state.violation_count == 0


def test_a_call_that_runs_while_its_turn_is_aborted_still_brings_its_result(session: Session) -> None:
    turn = session.turn("goal")
    call = turn.tool_call("deploy")
    began, go = threading.Event(), threading.Event()

    def deploy() -> str:
        began.set()
        assert go.wait(10)
        return "deployed"

    runner = threading.Thread(target=call.run, args=(deploy,))
    runner.start()
    assert began.wait(10)
    turn.abort("stop")
    assert call.state == "started"
    go.set()
    runner.join()
    assert call.result == "deployed"
    assert session.state.violation_count == 0


def test_a_second_turn_is_refused_while_one_runs(session: Session) -> None:
    session.turn("first", id="t1")
    before = session.head()
    with pytest.raises(InvalidTransition, match="while turn 't1' runs"):
        session.turn("second")
    assert session.head() == before


def test_those_who_wait_for_a_turn_are_served_in_the_order_they_came(session: Session) -> None:
    first = session.turn("0")
    live = session._keeper()

    def work(number: int) -> None:
        with session.turn(str(number), on_running="queue") as turn:
            turn.complete()

    threads = []
    for number in range(1, 5):
        thread = threading.Thread(target=work, args=(number,))
        thread.start()
        threads.append(thread)
        while len(live.waiting) < number:
            threading.Event().wait(0.001)
    with pytest.raises(InvalidTransition, match=r"wait for their turn|while turn"):
        session.turn("out of line")
    first.complete()
    for thread in threads:
        thread.join(10)
    asked = [event.payload["input"] for event in session.events(types=["turn.started"])]
    assert asked == ["0", "1", "2", "3", "4"]
    assert session.state.violation_count == 0


def test_many_submitters_without_a_queue_get_one_turn_or_a_refusal(session: Session) -> None:
    refused: list[InvalidTransition] = []
    started: list[str] = []

    def submit() -> None:
        try:
            with session.turn("goal") as turn:
                started.append(turn.id)
                turn.complete()
        except InvalidTransition as error:
            refused.append(error)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(started) + len(refused) == 8
    assert session.state.turn_counts == {"completed": len(started)}
    assert session.state.violation_count == 0


def test_waiting_for_a_turn_never_hangs(session: Session) -> None:
    session.turn("mine")
    with pytest.raises(InvalidTransition, match="same thread"):
        session.turn("next", on_running="queue")
    problems: list[Exception] = []

    def wait(timeout_ms: int | None) -> None:
        try:
            session.turn("next", on_running="queue", timeout_ms=timeout_ms)
        except (InvalidTransition, Closed) as error:
            problems.append(error)

    thread = threading.Thread(target=wait, args=(1,))
    thread.start()
    thread.join(10)
    assert "has waited 1 ms" in str(problems[0])
    thread = threading.Thread(target=wait, args=(None,))
    thread.start()
    while not session._keeper().waiting:
        threading.Event().wait(0.001)
    session.close()
    thread.join(10)
    assert isinstance(problems[1], Closed)


def test_a_turn_that_a_dead_process_left_running_is_not_waited_for(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.create().turn("first", id="t1")
    with Store.open(tmp_path) as store:
        session = store.session("latest")
        for on_running in ("refuse", "queue"):
            with pytest.raises(InvalidTransition, match="t1"):
                session.turn("second", on_running=on_running)


def test_an_unknown_way_to_wait_is_refused(session: Session) -> None:
    with pytest.raises(InvalidInput, match="on_running"):
        session.turn("goal", on_running="maybe")


def test_settings_of_a_turn_hold_for_that_turn(session: Session) -> None:
    session.configure(model="provider/model-x", effort="low")
    values: dict[str, Any] = {**dict.fromkeys(SETTINGS, "x"), "cwd": "/src"}
    with session.turn("goal", id="t1", **values) as turn:
        assert turn.settings == values
        turn.step().complete("hi", usage={"input": 3})
        turn.complete()
    assert session.state.settings == {"model": "provider/model-x", "effort": "low"}
    assert session.state.usage_by_model["x"].input == 3
    assert next(session.events(types=["turn.started"])).payload["settings"] == values


def test_input_that_arrives_meanwhile_is_taken_once_and_in_order(session: Session) -> None:
    with session.turn("goal") as turn:
        steerers = [threading.Thread(target=turn.steer, args=(f"note {number}",)) for number in range(4)]
        for thread in steerers:
            thread.start()
            thread.join()
        turn.steer({"type": "image", "data": "x" * 100_000})
        taken = turn.take_input()
        assert taken[:4] == [f"note {number}" for number in range(4)]
        assert len(taken[4]["data"]) == 100_000
        assert turn.take_input() == []
        turn.complete()
    assert session.state.queued == {}
    with pytest.raises(InvalidTransition, match="does not run"):
        turn.steer("too late")


def test_input_that_a_turn_never_took_waits_for_the_next(session: Session) -> None:
    with session.turn("goal") as turn:
        turn.steer("not taken", by="user")
        turn.complete()
    with session.turn("next") as turn:
        assert turn.take_input() == ["not taken"]
        turn.complete()


def test_cancel_wakes_who_waits_for_it_and_records_nothing(session: Session) -> None:
    with session.turn("goal") as turn:
        before = session.state.ordinal
        threading.Thread(target=turn.cancel).start()
        assert turn.cancelled.wait(10)
        assert session.state.ordinal == before
        turn.abort("cancelled by the user")
    assert turn.outcome == "aborted"
