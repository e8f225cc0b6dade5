"""Functions of the application are called in the loop; what they raise, and a loop that is gone, disturb nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Damaged, Store
from turnlog.aio import AsyncRecovery, AsyncStore
from turnlog.aio.feeds import batches
from turnlog.aio.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop go on until something holds."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - told by a thread, or by the code under test
            await asyncio.sleep(0.001)


def test_listeners_and_subscribers_are_called_in_the_loop(tmp_path: Path) -> None:
    heard: list[Any] = []

    def note(value: Any) -> None:
        heard.append((value, threading.get_ident()))

    async def told(event: Any) -> None:
        await asyncio.sleep(0)
        note(event.type)

    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            async with await session.watch(lambda state: state.title, lambda new, old: note((old, new)), now=True):
                await session.rename("flaky test")
                assert heard == [((None, ""), threading.get_ident()), (("", "flaky test"), threading.get_ident())]
            await session.rename("another title")
            assert len(heard) == 2
            async with await session.subscribe(told):
                await session.append("note.written", {})
                await until(lambda: len(heard) == 3)
            assert heard[-1] == ("note.written", threading.get_ident())

    asyncio.run(main())


def test_a_callback_that_raises_is_reported_and_called_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Any] = []

    def fails(*told: Any) -> None:
        heard.append(told)
        raise ValueError("not mine")

    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            subscriber = await session.subscribe(fails)
            await session.watch(lambda state: state.title, fails)
            await session.rename("a")
            await session.rename("b")
            await until(lambda: len(subscriber.failures) == 2)
            assert len(heard) == 4

    asyncio.run(main())
    assert len(caplog.records) == 4


def test_a_listener_of_a_loop_that_was_closed_does_not_disturb_an_append(tmp_path: Path) -> None:
    store = AsyncStore(Store.open(tmp_path))

    async def main() -> Any:
        session = await store.create()
        return session.sync, await session.watch(lambda state: state.title, print)

    session, subscription = asyncio.run(main())
    assert session.rename("flaky test").ordinal == 2
    assert subscription.closed
    asyncio.run(store.close())


def leave_unknown(path: Path) -> None:
    with Store.open(path) as store, store.create() as session:
        session.turn("send it").tool_call("send", call_id="c1").start()


def test_a_resume_awaits_coroutine_functions_in_the_loop_and_others_in_a_thread(tmp_path: Path) -> None:
    leave_unknown(tmp_path)
    where: dict[str, int] = {}

    async def verifier(key: str) -> str:
        where["verifier"] = threading.get_ident()
        await asyncio.sleep(0)
        return "completed"

    async def hook(recovery: AsyncRecovery) -> None:
        where["hook"] = threading.get_ident()
        assert recovery.unknown == []

    def plain(recovery: AsyncRecovery) -> None:
        where["plain"] = threading.get_ident()

    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store:
            session = await store.resume(verifier=verifier, hooks=[hook, plain])
            assert (await session.state()).open_calls == {}

    asyncio.run(main())
    assert where["verifier"] == where["hook"] == threading.get_ident() != where["plain"]


def test_a_resume_that_is_cancelled_in_its_hook_closes_the_session_first(tmp_path: Path) -> None:
    leave_unknown(tmp_path)
    ended: list[str] = []

    async def main() -> None:
        inside = asyncio.Event()

        async def hook(recovery: AsyncRecovery) -> None:
            inside.set()
            try:
                await asyncio.sleep(600)
            finally:
                ended.append("hook")

        async with await AsyncStore.open(tmp_path) as store:
            task = asyncio.ensure_future(store.resume(hooks=[hook]))
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ended == ["hook"]
            with Store.open(tmp_path) as other:
                other.resume().close()

    asyncio.run(main())


def test_what_a_hook_raises_comes_out_of_the_resume_and_the_session_is_closed(tmp_path: Path) -> None:
    leave_unknown(tmp_path)

    async def hook(recovery: AsyncRecovery) -> None:
        raise TimeoutError("the service does not answer")

    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store:
            with pytest.raises(TimeoutError, match="does not answer"):
                await store.resume(hooks=[hook])
            (await store.resume()).sync.close()

    asyncio.run(main())


def test_what_was_read_before_damage_is_handed_out_first() -> None:
    def reading() -> Iterator[int]:
        yield from range(700)
        raise Damaged("the next one was lost")

    async def main() -> list[int]:
        items = batches(Threads(), reading())
        found = [await anext(items) for _ in range(700)]
        with pytest.raises(Damaged):
            await anext(items)
        return found

    assert asyncio.run(main()) == list(range(700))


def test_input_that_was_taken_for_a_cancelled_await_is_given_to_the_next(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            turn = await session.turn("fix the test")
            await turn.steer("more")
            task = asyncio.ensure_future(turn.take_input())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await turn.take_input() == ["more"]

    asyncio.run(main())


PROGRAM = """
import asyncio, sys
from turnlog.aio import AsyncStore
async def main():
    store = await AsyncStore.open(sys.argv[1])
    store.close_on_signals()
    session = await store.create()
    async def work():
        turn = await session.turn("long")
        print("ready", flush=True)
        await turn.cancelled.wait()
        await turn.abort("asked to stop")
    task = asyncio.ensure_future(work())
    await asyncio.sleep(600)
asyncio.run(main())
"""


def end_by_signal(program: str, path: Path) -> None:
    """Run a program until it is ready, and see that a signal ends it."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


def test_a_signal_lets_the_tasks_end_their_turns_and_then_ends_the_process(tmp_path: Path) -> None:
    end_by_signal(PROGRAM, tmp_path)
    with Store.open(tmp_path) as store:
        assert store.session("latest").state.turn_counts == {"aborted": 1}


DEAF = """
import asyncio, sys
from turnlog.aio import AsyncStore
async def work(session):
    async with await session.turn("long"):
        print("ready", flush=True)
        await asyncio.sleep(600)
async def main():
    async with await AsyncStore.open(sys.argv[1]) as store, store.close_on_signals(deadline_ms=2000):
        async with await store.create() as session:
            WORK
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "work",
    [
        "await work(session)",
        "task = asyncio.ensure_future(work(session)); await asyncio.sleep(600)",
        "await asyncio.wait([asyncio.ensure_future(work(session))]); await asyncio.sleep(600)",
        "await asyncio.to_thread(lambda: asyncio.run(work(session)))",
    ],
)
def test_a_task_that_does_not_end_its_turn_is_cancelled_for_a_signal(tmp_path: Path, work: str) -> None:
    end_by_signal(DEAF.replace("WORK", work), tmp_path)
    with Store.open(tmp_path) as store:
        (aborted,) = store.session("latest").events(types=["turn.aborted"])
        assert aborted.payload["reason"] == "interrupted by SIGTERM"
        assert os.listdir(tmp_path / "live") == []
