"""Many threads, turns in a queue, calls side by side, listeners that append: nothing hangs, the state is the log's."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from turnlog import Session, State, Store, ToolCall
from turnlog.log.appender import Appender
from turnlog.state.reduce import fold

if TYPE_CHECKING:
    from pathlib import Path

TURNS_EACH = 4
CALLS_EACH = 4


def work(session: Session, name: int) -> None:
    """Go through some turns, each with a step, calls in threads of their own and one of several ends."""
    for number in range(TURNS_EACH):
        with session.turn(f"{name}.{number}", on_running="queue") as turn:
            with turn.step(context=[f"{name}.{number}"]) as step:
                step.complete("response", usage={"input": 1})
            calls = [turn.tool_call("count", {"n": at}, call_id=f"c{at}") for at in range(CALLS_EACH)]
            threads = [threading.Thread(target=run, args=(call,)) for call in calls[1:]]
            for thread in threads:
                thread.start()
            turn.steer("more")
            for thread in threads:
                thread.join()
            turn.take_input()
            if number % 3 == 0:
                calls[0].deny()
                turn.complete()
            elif number % 3 == 1:
                turn.abort("enough")


def run(call: ToolCall) -> None:
    call.approve(by="policy").run(lambda n: n)


def talk(session: Session, seed: int) -> None:
    pick = random.Random(seed)
    for number in range(40):
        session.append("message.user", {"content": str(number)}, durability=pick.choice(["durable", "buffered"]))


@pytest.mark.timeout(60)
def test_threads_that_use_everything_at_once_leave_a_legal_history(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as session:

        def listen(count: int, _old: int) -> None:
            if count % 7 == 0:
                session.rename(str(count))

        session.watch(lambda state: state.messages.count, listen)
        session.watch(lambda state: len(state.open_calls), lambda new, _old: session.tag(f"open-{new}"))
        threads = [threading.Thread(target=work, args=(session, name)) for name in range(3)]
        threads += [threading.Thread(target=talk, args=(session, seed)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        state = session.state
        assert state.violations == ()
        assert sum(state.turn_counts.values()) == 3 * TURNS_EACH
        assert state.call_counts["completed"] == 3 * TURNS_EACH * (CALLS_EACH - 1)
        assert fold(session.events(), State(session.id)).to_snapshot() == state.to_snapshot()


def test_the_close_of_a_store_waits_for_a_session_that_another_thread_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_end, go_on, closed = threading.Event(), threading.Event(), threading.Event()
    close = Appender.close

    def held_up(appender: Appender) -> None:
        at_end.set()
        go_on.wait()
        close(appender)

    monkeypatch.setattr(Appender, "close", held_up)
    store = Store.open(tmp_path)
    session = store.create()

    def close_store() -> None:
        store.close()
        closed.set()

    threads = [threading.Thread(target=session.close), threading.Thread(target=close_store)]
    threads[0].start()
    at_end.wait()
    threads[1].start()
    assert not closed.wait(0.2)
    go_on.set()
    for thread in threads:
        thread.join()
    assert list((tmp_path / "live").iterdir()) == []
