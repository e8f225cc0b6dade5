"""A call that runs outside the program, or in an event loop, has its one outcome too."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import InvalidInput, InvalidTransition, Session, Store, Turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=["disk", "memory"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = Store.open(tmp_path / "store") if request.param == "disk" else Store.ephemeral()
    with store, store.create() as made:
        yield made


@pytest.fixture
def turn(session: Session) -> Turn:
    return session.turn("goal", id="t1")


def test_a_call_that_runs_elsewhere_is_started_and_ended_by_hand(session: Session, turn: Turn) -> None:
    call = turn.tool_call("deploy", call_id="c1")
    assert call.start() == call.idempotency_key
    ways: list[Callable[[], object]] = [call.start, lambda: call.run(print)]
    for again in ways:
        with pytest.raises(InvalidTransition, match="running already"):
            again()
    assert call.complete({"ok": True}).result == {"ok": True}
    failed = turn.tool_call("deploy", call_id="c2")
    failed.start()
    assert failed.fail(OSError("no route")).state == "failed"
    with pytest.raises(InvalidTransition):
        failed.complete("late")
    with pytest.raises(InvalidTransition):
        turn.tool_call("deploy", call_id="c3").complete("never started")
    assert session.state.violation_count == 0


def test_a_coroutine_function_is_awaited_and_runs_once(session: Session, turn: Turn) -> None:
    runs: list[str] = []

    async def fetch(url: str) -> dict[str, str]:
        runs.append(url)
        await asyncio.sleep(0)
        return {"from": url}

    class Fetch:
        async def __call__(self, url: str) -> dict[str, str]:
            return await fetch(url)

    async def main() -> None:
        tools: list[Callable[..., Awaitable[dict[str, str]]]] = [fetch, functools.partial(fetch), Fetch()]
        for number, tool in enumerate(tools):
            call = turn.tool_call("fetch", {"url": "a"}, call_id=f"c{number}")
            answers = await asyncio.gather(*(call.run(tool) for _ in range(10)))
            assert answers == [{"from": "a"}] * 10
            assert await session.call("t1", f"c{number}").run_async(tool) == {"from": "a"}

    asyncio.run(main())
    assert len(runs) == 3
    turn.complete()
    assert session.state.violation_count == 0


def test_a_function_that_returns_an_awaitable_by_surprise_is_a_failure(turn: Turn) -> None:
    async def fetch(url: str) -> str:
        return url

    call = turn.tool_call("fetch")
    with pytest.raises(InvalidInput, match="run_async"):
        call.run(lambda: fetch("a"))
    assert asyncio.run(turn.tool_call("fetch").run_async(lambda: fetch("b"))) == "b"


@pytest.mark.parametrize("effect", ["external", "none"])
def test_a_cancelled_await_leaves_an_outcome(session: Session, turn: Turn, effect: str) -> None:
    async def main() -> None:
        began = asyncio.Event()

        async def hang() -> None:
            began.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(call.run(hang))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    call = turn.tool_call("fetch", effect=effect)
    asyncio.run(main())
    assert call.state == ("outcome_unknown" if effect == "external" else "cancelled")
    assert not call.is_running
    assert session.state.violation_count == 0


def test_an_await_that_is_cancelled_while_the_intent_is_stored_runs_nothing(
    session: Session, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[int] = []
    reached, go = threading.Event(), threading.Event()
    record = session._keeper().record

    def slow(type: str, payload: dict[str, Any], **how: Any) -> Any:
        if type == "tool.started":
            reached.set()
            assert go.wait(10)
        return record(type, payload, **how)

    async def tool() -> None:
        runs.append(1)

    async def main() -> None:
        task = asyncio.ensure_future(call.run(tool))
        assert await asyncio.to_thread(reached.wait, 10)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    call = turn.tool_call("send")
    monkeypatch.setattr(session._keeper(), "record", slow)
    asyncio.run(main())
    assert (runs, call.state, call.is_running) == ([], "cancelled", False)
    assert session.state.violation_count == 0


def numbers(**_: object) -> Iterator[int]:
    yield 1


async def later_numbers(**_: object) -> AsyncIterator[int]:
    yield 1


class Numbers:
    def __call__(self) -> Iterator[int]:
        yield 1


def gives_numbers() -> Iterator[int]:
    return numbers()


def gives_later_numbers() -> AsyncIterator[int]:
    return later_numbers()


async def awaits_numbers() -> Iterator[int]:
    return numbers()


GENERATORS: list[Callable[..., object]] = [numbers, later_numbers, functools.partial(numbers, a=1), Numbers()]


@pytest.mark.parametrize("tool", GENERATORS)
def test_a_generator_function_is_refused_before_the_call_starts(session: Session, turn: Turn, tool: Any) -> None:
    call = turn.tool_call("count", call_id="c1")
    with pytest.raises(InvalidInput, match="runs nothing"):
        call.run(tool)
    with pytest.raises(InvalidInput, match="runs nothing"):
        asyncio.run(call.run_async(tool))
    assert (call.state, session.head()[0]) == ("proposed", 3)
    assert call.run(lambda: list(numbers())) == [1]


@pytest.mark.parametrize("tool", [gives_numbers, gives_later_numbers])
def test_a_function_that_returns_a_generator_fails(turn: Turn, tool: Any) -> None:
    call = turn.tool_call("count", call_id="c1")
    with pytest.raises(InvalidInput, match="has not run"):
        call.run(tool)
    assert call.state == "failed"


@pytest.mark.parametrize("tool", [gives_numbers, gives_later_numbers, awaits_numbers])
def test_a_coroutine_that_returns_a_generator_fails(turn: Turn, tool: Any) -> None:
    call = turn.tool_call("count", call_id="c1")
    with pytest.raises(InvalidInput, match="has not run"):
        asyncio.run(call.run_async(tool))
    assert call.state == "failed"
