"""Closing in order: no new work, turns may end, children are stopped, and what hangs does not hold the close."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from turnlog import Closed, Locked, Session, Store, Turn
from turnlog.children import Children, stop_children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STUBBORN = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); sys.stdin.read()"
OBEDIENT = "import sys; print(1, flush=True); sys.stdin.read()"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def start(code: str) -> subprocess.Popen[bytes]:
    """Start a child that waits for its standard input to end, and return when it runs."""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline()
    return child


def clean(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()
    child.wait()


too_late: list[Closed] = []


def work(session: Session, end: Callable[[Turn], None]) -> threading.Thread:
    """Run a turn in a thread of its own until it is asked to stop; return when it has begun."""
    begun = threading.Event()

    def run() -> None:
        try:
            with session.turn("a long goal") as turn:
                begun.set()
                turn.cancelled.wait(60)
                end(turn)
        except Closed as error:
            too_late.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert begun.wait(30)
    return thread


def test_a_running_turn_is_asked_to_stop_and_its_end_is_kept(store: Store) -> None:
    session = store.create()
    thread = work(session, lambda turn: turn.abort("asked to stop"))
    session.close()
    thread.join(30)
    assert [event.type for event in store.session(session.id).events(after=1)] == ["turn.started", "turn.aborted"]


def test_a_turn_that_does_not_stop_is_interrupted_for_the_next_one(store: Store) -> None:
    session = store.create()
    release = threading.Event()
    too_late.clear()

    def hang(turn: Turn) -> None:
        release.wait(60)
        turn.complete()

    thread = work(session, hang)
    began = time.monotonic()
    session.close(deadline_ms=200)
    assert time.monotonic() - began < 30
    with store.resume(session.id) as again:
        assert again.recovery is not None
        assert again.recovery.interrupted is not None
        assert again.recovery.interrupted.input == "a long goal"
    release.set()
    thread.join(30)
    assert len(too_late) == 1


def test_the_turn_of_the_thread_that_closes_is_not_waited_for(store: Store) -> None:
    session = store.create()
    turn = session.turn("mine")
    session.close(deadline_ms=3_600_000)
    assert turn.cancelled.is_set()


def test_what_is_new_is_refused_while_a_session_closes(store: Store) -> None:
    session = store.create()
    refused: list[str] = []

    def try_everything(turn: Turn) -> None:
        for attempt in (turn.step, lambda: turn.tool_call("bash", {}), lambda: turn.steer("more"), session.turn):
            try:
                attempt()
            except Closed:
                refused.append("refused")
        turn.abort()

    thread = work(session, try_everything)
    session.close()
    thread.join(30)
    assert refused == ["refused"] * 4
    assert store.session(session.id).state.turn_counts == {"aborted": 1}


def test_who_waits_for_a_turn_is_told_that_there_will_be_none(store: Store) -> None:
    session = store.create()
    errors: list[BaseException] = []
    first = work(session, lambda turn: turn.abort())

    def wait() -> None:
        try:
            session.turn("next", on_running="queue")
        except Closed as error:
            errors.append(error)

    second = threading.Thread(target=wait)
    second.start()
    while not session._keeper().waiting:
        time.sleep(0.001)
    session.close()
    first.join(30)
    second.join(30)
    assert len(errors) == 1


def test_a_store_that_closes_opens_nothing_any_more(store: Store) -> None:
    session, other = store.create(), store.create()
    refused: list[str] = []

    def try_to_open(turn: Turn) -> None:
        for attempt in (store.create, store.session(other.id).open_for_writing):
            try:
                attempt()
            except Closed:
                refused.append("refused")
        turn.abort()

    other.close()
    thread = work(session, try_to_open)
    store.close()
    thread.join(30)
    assert refused == ["refused", "refused"]


def test_children_end_with_their_session(store: Store) -> None:
    session = store.create()
    children = [session.children.add(start(OBEDIENT), name="server"), session.children.add(start(OBEDIENT), wait=True)]
    job = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,))
    job.start()
    session.children.add(job)
    assert session.children.names() == ["server", str(children[1].pid), str(job.pid)]
    stdin = children[1].stdin
    assert stdin is not None
    stdin.close()  # so it ends by itself
    session.close()
    assert [child.poll() for child in children] == [-15, 0]
    assert job.exitcode == -15
    for child in children:
        clean(child)


def test_a_child_that_hangs_is_killed_and_the_log_ends_in_order(store: Store) -> None:
    with store.create() as session:
        child = session.children.add(start(STUBBORN))
        session.append("note.written", {})
        session.close(deadline_ms=400)
        assert child.poll() == -9
        clean(child)
    with Store.open(store.path) as other:
        again = other.session(session.id)
        again.append("note.written", {})
        assert again._appender is not None
        assert again._appender.recovered is None
        assert again._appender._epoch == 2
        assert [event.ordinal for event in again.events()] == [1, 2, 3]


def test_a_child_that_cannot_be_killed_holds_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Immortal:
        returncode: int | None = None
        orders: tuple[str, ...] = ()

        def terminate(self) -> None:
            self.orders += ("terminate",)

        def kill(self) -> None:
            self.orders += ("kill",)

    with Store.ephemeral() as store, store.create() as session:
        immortal = session.children.add(Immortal(), name="immortal")
        session.close(deadline_ms=60)
    assert immortal.orders == ("terminate", "kill")
    assert "immortal" in caplog.text


@pytest.mark.parametrize("hangs", ["terminate", "kill", "poll"])
def test_a_child_whose_methods_hang_holds_no_close_beyond_its_deadline(
    hangs: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    orders: list[str] = []

    class Hanging:
        status: int | None = None

        def do(self, name: str) -> None:
            orders.append(name)
            if name == hangs and stopping.is_set():
                released.wait(60)

        def terminate(self) -> None:
            self.do("terminate")

        def kill(self) -> None:
            self.do("kill")
            self.status = -9

        def poll(self) -> int | None:
            self.do("poll")
            return self.status

    stopping = threading.Event()
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        session.children.add(Hanging(), name="the hanging one")
        obedient = session.children.add(start(OBEDIENT))
        stopping.set()
        closing = threading.Thread(target=lambda: session.close(deadline_ms=1000))
        closing.start()
        closing.join(30)
        is_held = closing.is_alive()
        released.set()
        closing.join(30)
        assert not is_held
        assert obedient.poll() == -15
        clean(obedient)
        assert ("the hanging one" in caplog.text) == (hangs != "terminate")
        assert "kill" in orders or hangs == "poll"


def test_children_are_stopped_without_threads_where_the_interpreter_starts_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    children = Children()
    obedient = children.add(start(OBEDIENT))
    stubborn = children.add(start(STUBBORN))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert stop_children([children], 1.0) == []
    assert (obedient.poll(), stubborn.poll()) == (-15, -9)
    clean(obedient)
    clean(stubborn)


def test_children_that_have_ended_are_forgotten() -> None:
    children = Children()
    for _ in range(3):
        clean(children.add(subprocess.Popen([sys.executable, "-c", ""])))
    assert children.names() == []
    assert stop_children([children], 0.0) == []


def test_closing_twice_and_from_many_threads_is_closing_once(store: Store) -> None:
    session = store.create()
    assert session.state.ordinal == 1
    threads = [threading.Thread(target=session.close) for _ in range(4)]
    threads += [threading.Thread(target=store.close) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with Store.open(store.path) as other:
        try:
            assert other.session(session.id).append("note.written", {}).ordinal == 2
        except Locked:
            pytest.fail("the lock was not released")


def test_a_child_whose_terminate_fails_keeps_nothing_from_being_closed(tmp_path: Path) -> None:
    class Broken:
        returncode = None

        def terminate(self) -> None:
            raise OSError(5, "no")

        def kill(self) -> None:
            self.returncode = -9

    with Store.open(tmp_path / "store") as store:
        session = store.create()
        broken = session.children.add(Broken(), name="broken")
        session.close(deadline_ms=200)
        assert broken.returncode == -9
        store.session(session.id).append("acme.note", {})  # the lock is free


def test_a_tool_that_another_thread_runs_is_waited_for_whoever_began_the_turn(store: Store) -> None:
    session = store.create()
    turn = session.turn("goal")
    begun, done = threading.Event(), threading.Event()

    def tool() -> str:
        begun.set()
        assert turn.cancelled.wait(20)
        threading.Event().wait(0.5)  # it puts its things in order
        return "stopped in order"

    def run() -> None:
        turn.tool_call("bash", {}, call_id="c1").run(tool)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(20)
    session.close(deadline_ms=20_000)
    thread.join(20)
    assert done.is_set()
    assert store.session(session.id).call(turn.id, "c1").state == "completed"
