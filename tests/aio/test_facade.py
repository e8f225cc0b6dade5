"""The async facade: the sync core's behaviour, and a cancelled await that neither loses nor doubles an append."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Closed, Conflict, InvalidTransition, Store
from turnlog.aio import AsyncSession, AsyncStore
from turnlog.ids import format_id, new_id
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog import Receipt


def test_a_session_is_written_read_and_followed(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create(title="flaky test") as session:
            await session.append_many([("note.written", {"n": 1}), ("note.written", {"n": 2})], atomic=True)
            await session.configure(effort="high")
            assert [event.ordinal async for event in session.events(types=["note.written"])] == [2, 3]
            assert (await session.state()).effort == "high"
            marks: list[str] = []
            seen = []
            async for event in session.follow(timeout_ms=0, on_caught_up=marks.append):
                assert marks == []
                seen.append(event.cursor)
            assert marks == seen[-1:]
            assert seen[-1].startswith(f"{session.id}:4:")
            assert [event.session async for event in store.follow(timeout_ms=0)] == [session.id] * 4
            rows, _ = await store.list()
            assert rows[0]["title"] == "flaky test"
            child = await store.fork(session, 2)
            assert (await child.append("note.written", {})).ordinal == 4
            with pytest.raises(Conflict):
                await store.create(id=session.id)

    asyncio.run(main())


def test_a_turn_goes_through_steps_and_calls(tmp_path: Path) -> None:
    async def fetch(url: str) -> int:
        await asyncio.sleep(0)
        return len(url)

    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            async with await session.turn("fetch both") as turn:
                async with await turn.step(context=["fetch both"]) as step:
                    await step.complete("I do", usage={"input": 1})
                assert await step.context() == ["fetch both"]
                calls = [await turn.tool_call("fetch", {"url": "x" * n}, effect="none") for n in (3, 4)]
                await calls[0].approve(by="user")
                assert list(await asyncio.gather(calls[0].run(fetch), calls[1].run(len, "four"))) == [3, 4]
                assert await calls[0].run(fetch) == 3
                await turn.steer("more")
                assert await turn.take_input() == ["more"]
                await turn.complete()
            with pytest.raises(RuntimeError, match="no network"):
                async with await session.turn("fail"):
                    raise RuntimeError("no network")
            state = await session.state()
            assert state.turn_counts == {"completed": 1, "failed": 1}
            assert state.violations == ()

    asyncio.run(main())


def test_a_cancelled_block_is_recorded_as_aborted_before_it_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            begun = asyncio.Event()

            async def work() -> None:
                async with await session.turn("long"):
                    begun.set()
                    await asyncio.sleep(600)

            task = asyncio.ensure_future(work())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert session.sync.state.turn_counts == {"aborted": 1}

    asyncio.run(main())


def test_many_turns_wait_in_line_without_taking_all_threads(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:

            async def work(number: int) -> None:
                async with await session.turn(str(number), on_running="queue", timeout_ms=60_000) as turn:
                    await session.append("note.written", {"n": number}, durability="buffered")
                    await turn.complete()

            await asyncio.gather(*(work(number) for number in range(12)))
            assert (await session.state()).turn_counts == {"completed": 12}

    asyncio.run(main())


async def append_often(session: AsyncSession, seed: int, rounds: int) -> dict[str, Receipt | None]:
    """Append with ids and cancel at random moments; return what each await gave, None where it was cancelled."""
    pick = random.Random(seed)
    answers: dict[str, Receipt | None] = {}
    for number in range(rounds):
        id_ = format_id(new_id())
        level = pick.choice(["durable", "buffered"])
        task = asyncio.ensure_future(session.append("note.written", {"id": id_}, id=id_, durability=level))
        if pick.random() < 0.7:
            for _ in range(pick.randrange(4)):
                await asyncio.sleep(pick.choice([0, 0, 0.0001, 0.001]))
            task.cancel()
        try:
            answers[id_] = await task
        except asyncio.CancelledError:
            answers[id_] = None
            if number % 2:  # asked for again at once, while the first attempt may still be on its way
                answers[id_] = await session.append("note.written", {"id": id_}, id=id_)
    return answers


@pytest.mark.parametrize("seed", range(3))
def test_cancelling_an_append_neither_loses_nor_doubles_it(tmp_path: Path, seed: int) -> None:
    answers: dict[str, Receipt | None] = {}

    async def main() -> str:
        async with await AsyncStore.open(tmp_path, roll_bytes=65536) as store, await store.create() as session:
            parts = await asyncio.gather(*(append_often(session, seed * 10 + part, 60) for part in range(6)))
            for part in parts:
                answers.update(part)
            return session.id

    session_id = asyncio.run(main())
    assert any(answer is None for answer in answers.values())
    assert check_session(str(tmp_path), session_id).ok
    with Store.open(tmp_path) as store, store.session(session_id) as session:
        found: dict[str, list[int]] = {}
        for event in session.events(types=["note.written"]):
            found.setdefault(event.payload["id"], []).append(event.ordinal)
        for id_, receipt in answers.items():
            if receipt is not None:
                assert found[id_] == [receipt.ordinal]
            assert len(found.get(id_, [])) <= 1
            again = session.append("note.written", {"id": id_}, id=id_)
            assert found.get(id_, [again.ordinal]) == [again.ordinal]


def test_what_was_begun_for_a_cancelled_await_is_ended(tmp_path: Path) -> None:
    async def cancelled(work: Any, pick: random.Random) -> bool:
        task = asyncio.ensure_future(work)
        for _ in range(pick.randrange(3)):
            await asyncio.sleep(pick.choice([0, 0.0005]))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        await task.result().abort()
        return False

    async def main() -> str:
        pick = random.Random(3)
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            outcomes = [await cancelled(session.turn(str(n), on_running="queue"), pick) for n in range(30)]
            assert True in outcomes
            async with await session.turn("last", on_running="queue", timeout_ms=30_000) as turn:
                await turn.complete()
            return session.id

    session_id = asyncio.run(main())
    with Store.open(tmp_path) as store:
        state = store.session(session_id).state
        assert state.turn is None
        assert state.turn_counts["completed"] == 1
        assert state.violations == ()


def test_a_session_made_for_a_cancelled_await_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store:
            id_ = format_id(new_id())
            task = asyncio.ensure_future(store.create(id=id_))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(5000):
                await asyncio.sleep(0.002)
                if store.sync.session_exists(id_) and not store.sync._open_sessions():
                    break
            with Store.open(tmp_path) as other:
                assert other.session(id_).append("note.written", {}).ordinal == 2

    asyncio.run(main())


def test_a_subscriber_is_iterated_and_ends_with_the_session(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with await AsyncStore.open(tmp_path) as store:
            session = await store.create()
            subscriber = await session.subscribe()

            async def listen() -> list[str]:
                return [event.type async for event in subscriber]

            heard = asyncio.ensure_future(listen())
            await session.append("progress.updated", {"done": 1}, durability="ephemeral")
            await session.append("note.written", {})
            await session.close()
            return await heard

    assert asyncio.run(main()) == ["progress.updated", "note.written"]


def test_closing_asks_the_turns_of_other_tasks_to_stop_and_waits_for_them(tmp_path: Path) -> None:
    async def main() -> None:
        store = await AsyncStore.open(tmp_path)
        session = await store.create()
        begun = asyncio.Event()

        async def work() -> None:
            async with await session.turn("long") as turn:
                begun.set()
                await asyncio.to_thread(turn.sync.cancelled.wait, 60)
                with pytest.raises(Closed):
                    await turn.step()
                await turn.abort("asked to stop")

        task = asyncio.ensure_future(work())
        await begun.wait()
        await store.close()
        await task
        with pytest.raises(Closed):
            await session.append("note.written", {})

    asyncio.run(main())
    with Store.open(tmp_path) as store:
        assert store.session("latest").state.turn_counts == {"aborted": 1}


def test_a_feed_that_is_left_early_closes_its_files(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            await session.append_many([("note.written", {})] * 1500, durability="buffered")
            feed: Any = session.follow()
            async for event in feed:
                if event.ordinal == 700:
                    break
            await feed.aclose()
            ordinals = [event.ordinal async for event in session.follow(after=event.cursor, timeout_ms=0)]
            assert ordinals == list(range(701, 1502))

    asyncio.run(main())


def test_a_second_turn_is_refused_as_in_the_sync_core(tmp_path: Path) -> None:
    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            turn = await session.turn("first")
            with pytest.raises(InvalidTransition):
                await session.turn("second")
            await turn.complete()

    asyncio.run(main())


def test_the_sync_core_does_not_load_asyncio() -> None:
    code = (
        "import sys, tempfile, turnlog; store = turnlog.Store.open(tempfile.mkdtemp()); session = store.create()\n"
        "session.turn('goal').complete(); list(session.follow(timeout_ms=0)); session.subscribe(); store.close()\n"
        "print(*sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert not {"asyncio", "turnlog.aio", "concurrent.futures"} & set(done.stdout.split())
