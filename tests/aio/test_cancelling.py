"""Awaits cancelled at seeded moments: what was acknowledged is in the log once, nothing twice, nothing stays open."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import OutcomeUnknown, Store
from turnlog.aio import AsyncSession, AsyncStore
from turnlog.ids import format_id, new_id
from turnlog.log.appender import Appender
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

Answers = dict[str, int | None]  # id -> the ordinal that an await gave; None: it was cancelled


async def cut(work: Coroutine[Any, Any, Any], pick: random.Random) -> Any:
    """Return what `work` gives, None if it was cancelled before."""
    task = asyncio.ensure_future(work)
    if pick.random() < 0.7:
        for _ in range(pick.randrange(5)):
            await asyncio.sleep(pick.choice([0, 0, 0.0002, 0.001]))
        task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return None


async def write(session: AsyncSession, pick: random.Random, rounds: int) -> Answers:
    """Append single events, lists and atomic groups, each event with an id of its own."""
    answers: Answers = {}
    for _ in range(rounds):
        ids = [format_id(new_id()) for _ in range(pick.choice([1, 1, 2, 5]))]
        items = [("note.written", {"id": id_}, id_) for id_ in ids]
        level = pick.choice(["durable", "buffered"])
        if len(ids) == 1:
            receipt = await cut(session.append(*items[0][:2], id=ids[0], durability=level), pick)
            receipts = None if receipt is None else [receipt]
        else:
            atomic = pick.random() < 0.5
            receipts = await cut(session.append_many(items, atomic=atomic, durability=level), pick)
        answers |= {id_: None if receipts is None else receipts[at].ordinal for at, id_ in enumerate(ids)}
    return answers


def wrongs(path: Path, session_id: str, answers: Answers) -> list[str]:
    """Return what the log holds otherwise than was acknowledged: lost, elsewhere, or twice."""
    with Store.open(path, read_only=True) as store:
        found = [
            (event.payload["id"], event.ordinal) for event in store.session(session_id).events(types=["note.written"])
        ]
    counts, places = Counter(id_ for id_, _ in found), dict(found)
    wrong = [f"{id_} twice" for id_, count in counts.items() if count > 1]
    for id_, ordinal in answers.items():
        if ordinal is not None and places.get(id_) != ordinal:
            wrong.append(f"{id_} lost")
    return wrong


@pytest.mark.parametrize("seed", range(6))
def test_what_was_acknowledged_is_in_the_log_once_and_a_repetition_gives_its_receipt(tmp_path: Path, seed: int) -> None:
    answers: Answers = {}

    async def main() -> str:
        async with await AsyncStore.open(tmp_path, roll_bytes=65536) as store, await store.create() as session:
            for part in await asyncio.gather(*(write(session, random.Random(seed * 9 + n), 40) for n in range(5))):
                answers.update(part)
            return session.id

    session_id = asyncio.run(main())
    assert None in answers.values()
    assert wrongs(tmp_path, session_id, answers) == []
    assert check_session(str(tmp_path), session_id).ok
    with Store.open(tmp_path) as store, store.session(session_id) as session:
        there = {event.payload["id"]: event.ordinal for event in session.events(types=["note.written"])}
        for id_ in answers:
            receipt = session.append("note.written", {"id": id_}, id=id_, durability="buffered")
            assert receipt.ordinal == there.get(id_, receipt.ordinal)


@pytest.mark.parametrize("fault", ["lost", "twice"])
def test_an_append_that_is_lost_or_doubled_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    append = Appender.append

    def faulty(self: Appender, type: str, payload: object, id: bytes | None, **how: Any) -> Any:
        if type != "note.written" or fault == "twice":
            append(self, type, payload, None, **how)
        return append(self, "note.other" if fault == "lost" else type, payload, id, **how)

    async def main() -> tuple[str, Answers]:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            monkeypatch.setattr(Appender, "append", faulty)
            answers = await write(session, random.Random(1), 20)
            monkeypatch.undo()
            return session.id, answers

    session_id, answers = asyncio.run(main())
    assert any(fault in wrong for wrong in wrongs(tmp_path, session_id, answers))


def test_tasks_cancelled_in_a_group_and_by_a_timeout_lose_nothing(tmp_path: Path) -> None:
    answers: Answers = {}

    async def one(session: AsyncSession) -> None:
        while True:
            id_ = format_id(new_id())
            answers[id_] = None
            answers[id_] = (await session.append("note.written", {"id": id_}, id=id_)).ordinal

    async def fail() -> None:
        await asyncio.sleep(0.02)
        raise ValueError("one of the group failed")

    async def group_of(session: AsyncSession) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(one(session))
            group.create_task(fail())

    async def main() -> str:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            with pytest.raises(ExceptionGroup):
                await group_of(session)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await one(session)
            return session.id

    session_id = asyncio.run(main())
    assert sum(ordinal is not None for ordinal in answers.values()) > 0
    assert wrongs(tmp_path, session_id, answers) == []


@pytest.mark.parametrize("seed", range(4))
def test_turns_steps_and_ends_cancelled_anywhere_leave_a_legal_history_and_nothing_open(
    tmp_path: Path, seed: int
) -> None:
    ran: Counter[str] = Counter()

    async def tool(name: str) -> str:
        ran[name] += 1
        await asyncio.sleep(0)
        return name

    async def work(session: AsyncSession, name: str) -> None:
        async with await session.turn(name) as turn:
            async with await turn.step(context=[name]) as step:
                await step.complete("hi")
            call = await turn.tool_call("tool", {"name": name}, call_id="c1")
            await call.run(tool)
            await turn.complete()

    async def main() -> str:
        pick = random.Random(seed)
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            for number in range(40):
                await cut(work(session, str(number)), pick)
                assert (await session.state()).turn is None, "the next turn would be refused"
            return session.id

    session_id = asyncio.run(main())
    with Store.open(tmp_path) as store:
        state = store.session(session_id).state
    assert max(ran.values()) == 1
    assert state.violations == ()
    assert sum(state.turn_counts.values()) >= state.turn_counts["completed"] > 0


def test_an_external_tool_that_is_cancelled_is_unknown_and_is_not_run_again(tmp_path: Path) -> None:
    begun: list[str] = []

    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            turn = await session.turn("send it")
            inside = asyncio.Event()

            async def send() -> None:
                begun.append("sent")
                inside.set()
                await asyncio.sleep(600)

            for call_id, effect, state in (("c1", "external", "outcome_unknown"), ("c2", "idempotent", "cancelled")):
                inside.clear()
                call = await turn.tool_call("send", call_id=call_id, effect=effect)
                task = asyncio.ensure_future(call.run(send))
                await inside.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await call.state() == state
            with pytest.raises(OutcomeUnknown):
                await (await turn.call("c1")).run(send)
            await turn.abort()

    asyncio.run(main())
    assert begun == ["sent", "sent"]


def test_a_disk_that_hangs_does_not_stop_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, goes_on = threading.Event(), threading.Event()
    append = Appender.append

    def hanging(self: Appender, *args: Any, **how: Any) -> Any:
        hangs.set()
        assert goes_on.wait(60)
        return append(self, *args, **how)

    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            monkeypatch.setattr(Appender, "append", hanging)
            waiting = [asyncio.ensure_future(session.append("note.written", {"n": n})) for n in range(8)]
            waiting.append(asyncio.ensure_future(session.rename("flaky test")))
            await asyncio.to_thread(hangs.wait, 60)
            for _ in range(100):
                await asyncio.sleep(0)
            waiting[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting[0]
            assert not any(task.done() for task in waiting[1:])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await session.append("note.written", {"n": 9})
            goes_on.set()
            await asyncio.gather(*waiting[1:])
            assert (await session.head())[0] >= 9

    asyncio.run(main())


def test_the_same_hang_in_a_call_of_the_sync_core_stops_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, goes_on = threading.Event(), threading.Event()
    ticks: list[int] = []
    append = Appender.append

    def hanging(self: Appender, *args: Any, **how: Any) -> Any:
        hangs.set()
        assert goes_on.wait(60)
        return append(self, *args, **how)

    def release() -> None:
        hangs.wait(60)
        goes_on.set()

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    async def main() -> None:
        async with await AsyncStore.open(tmp_path) as store, await store.create() as session:
            ticking = asyncio.ensure_future(tick())
            await asyncio.sleep(0)
            monkeypatch.setattr(Appender, "append", hanging)
            before = len(ticks)
            threading.Thread(target=release).start()
            session.sync.append("note.written", {})
            assert len(ticks) == before
            ticking.cancel()

    asyncio.run(main())


def test_a_loop_that_closes_while_threads_work_loses_nothing(tmp_path: Path) -> None:
    ids = [format_id(new_id()) for _ in range(64)]
    store = AsyncStore(Store.open(tmp_path))

    async def main() -> str:
        session = await store.create()
        tasks = [asyncio.ensure_future(session.append("note.written", {"id": id_}, id=id_)) for id_ in ids]
        await asyncio.sleep(0)
        assert not all(task.done() for task in tasks)
        return session.id

    session_id = asyncio.run(main())  # cancels the appends and closes the loop
    asyncio.run(store.close())  # another loop
    assert wrongs(tmp_path, session_id, dict.fromkeys(ids)) == []
    assert check_session(str(tmp_path), session_id).ok


def test_ctrl_c_aborts_the_turn_and_closes_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            await AsyncStore.open(tmp_path) as store,
            await store.create() as session,
            await session.turn("long"),
        ):
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(600)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
    finally:
        signal.signal(signal.SIGINT, before)
    with Store.open(tmp_path) as store, store.session("latest") as session:
        assert session.state.turn_counts == {"aborted": 1}
        assert session.append("note.written", {}).ordinal == 4


def test_two_loops_in_two_threads_share_a_store(tmp_path: Path) -> None:
    store = AsyncStore(Store.open(tmp_path))
    session_id = asyncio.run(store.create()).id
    answers: list[Answers] = []

    async def main(seed: int) -> None:
        session = await store.session(session_id)
        answers.append(await write(session, random.Random(seed), 40))
        async with await session.turn(str(seed), on_running="queue", timeout_ms=60_000) as turn:
            await turn.complete()

    threads = [threading.Thread(target=asyncio.run, args=(main(seed),)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asyncio.run(store.close())
    assert len(answers) == 2
    assert wrongs(tmp_path, session_id, answers[0] | answers[1]) == []
    with Store.open(tmp_path) as reopened:
        assert reopened.session(session_id).state.turn_counts == {"completed": 2}


def test_a_cancelled_close_ends_the_store_before_the_cancellation_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        store = await AsyncStore.open(tmp_path)
        await (await store.create()).append("note.written", {})
        task = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with Store.open(tmp_path) as other:
            assert other.session("latest").append("note.written", {}).ordinal == 3

    asyncio.run(main())
