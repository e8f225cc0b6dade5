"""Turns for asyncio.

Owns: their wrapper, and the flag that asks one to stop. Invariants: the block of `async with` records an outcome before
it is left, also when it is cancelled; a step or a proposal that was made for a cancelled await is ended before the
cancellation goes on; input that was taken for a cancelled await is given to the next one. Must not know: stores, logs.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from turnlog.aio.calls import AsyncToolCall
from turnlog.aio.step import AsyncStep
from turnlog.aio.threads import Facade
from turnlog.feed.feed import POLL_S
from turnlog.model.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from turnlog.aio.threads import Threads
    from turnlog.session import Session


class AsyncFlag(Facade[threading.Event]):
    """A `threading.Event` that can be awaited: `AsyncTurn.cancelled`."""

    def is_set(self) -> bool:
        """Tell whether it is set.

        >>> AsyncFlag(threading.Event()).is_set()
        False
        """
        return self.sync.is_set()

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the name that threading has
        """Wait in the loop until it is set, at most `timeout` seconds; return whether it is.

        >>> asyncio.run(AsyncFlag(threading.Event()).wait(0.001))
        False
        """
        clock = asyncio.get_running_loop().time
        end = None if timeout is None else clock() + timeout
        while not self.sync.is_set():
            left = POLL_S if end is None else min(POLL_S, end - clock())
            if left <= 0:
                return False
            await asyncio.sleep(left)
        return True


class AsyncTurn(Facade[Turn]):
    """A `Turn` whose methods are awaited; made by `AsyncSession.turn`. As an `async with` block it ends as `Turn` does.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
    ...         async with await session.turn("hello") as turn:
    ...             async with await turn.step(context=["hello"]) as step:
    ...                 await step.complete("hi")
    ...             await turn.complete()
    ...         return await turn.outcome()
    >>> asyncio.run(main())
    'completed'
    """

    def __init__(self, sync: Turn, threads: Threads) -> None:
        """Use `AsyncSession.turn`."""
        super().__init__(sync, threads)
        self._taken: deque[Any] = deque()

    @property
    def id(self) -> str:
        """The turn's id."""
        return self.sync.id

    @property
    def input(self) -> Any:
        """What it was begun with."""
        return self.sync.input

    @property
    def cancelled(self) -> AsyncFlag:
        """Set when somebody asked for the turn to stop, see `cancel`."""
        return AsyncFlag(self.sync.cancelled, self._threads)

    async def settings(self) -> dict[str, Any]:
        """Return `Turn.settings`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await (await session.turn("hello", effort="high")).settings()
        >>> asyncio.run(main())
        {'effort': 'high'}
        """
        return await self._threads.run(lambda: self.sync.settings)

    async def outcome(self) -> str | None:
        """Return `Turn.outcome`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await (await session.turn("hello")).outcome()
        >>> asyncio.run(main()) is None
        True
        """
        return await self._threads.run(lambda: self.sync.outcome)

    # -- what happens in it ----------------------------------------------------------------------------------------

    async def step(
        self, context: Iterable[Any] | None = None, *, model: str | None = None, effort: str | None = None
    ) -> AsyncStep:
        """Do as `Turn.step` does. When the await is cancelled, a step that began nevertheless is recorded as failed
        before the cancellation goes on.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         async with await (await session.turn("hello")).step(context=["hello"]) as step:
        ...             await step.complete("hi")
        ...         return step.id, step.outcome
        >>> asyncio.run(main())
        ('s1', 'completed')
        """
        begun = await self._threads.begin(
            lambda: self.sync.step(context, model=model, effort=effort),
            lambda step: step.fail("cancelled while it began"),
        )
        return AsyncStep(begun, self._threads)

    async def tool_call(
        self,
        name: str,
        arguments: Any = None,
        *,
        call_id: str | None = None,
        effect: str = "external",
        by: str | None = None,
    ) -> AsyncToolCall:
        """Do as `Turn.tool_call` does. When the await is cancelled: with a `call_id`, asking again gives the same call;
        without one, the call is cancelled before the cancellation goes on.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"}, effect="none")
        ...         return await call.run(lambda folder: {"files": 3})
        >>> asyncio.run(main())
        {'files': 3}
        """
        made = await self._threads.begin(
            lambda: self.sync.tool_call(name, arguments, call_id=call_id, effect=effect, by=by),
            lambda call: call if call_id else call.cancel("cancelled while it was proposed"),
        )
        return AsyncToolCall(made, self._threads)

    async def call(self, call_id: str) -> AsyncToolCall:
        """Do as `Turn.call` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("run the tests")
        ...         await turn.tool_call("bash", {"cmd": "pytest -x"}, call_id="c1")
        ...         return await (await turn.call("c1")).arguments()
        >>> asyncio.run(main())
        {'cmd': 'pytest -x'}
        """
        return AsyncToolCall(await self._threads.run(self.sync.call, call_id), self._threads)

    async def steer(self, input: Any, *, by: str | None = None) -> str:
        """Do as `Turn.steer` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("fix the test")
        ...         await turn.steer("do not touch the fixtures")
        ...         return await turn.take_input()
        >>> asyncio.run(main())
        ['do not touch the fixtures']
        """
        return await self._threads.run(self.sync.steer, input, by=by)

    async def take_input(self) -> list[Any]:
        """Do as `Turn.take_input` does. What was taken for a cancelled await is given to the next one.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await (await session.turn("fix the test")).take_input()
        >>> asyncio.run(main())
        []
        """
        await self._threads.finish(lambda: self._taken.extend(self.sync.take_input()))
        found = []
        while self._taken:
            found.append(self._taken.popleft())
        return found

    def cancel(self) -> None:
        """Do as `Turn.cancel` does: sets `cancelled`; nothing is stored.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("fix the test")
        ...         turn.cancel()
        ...         return await turn.cancelled.wait()
        >>> asyncio.run(main())
        True
        """
        self.sync.cancel()

    # -- its end ---------------------------------------------------------------------------------------------------

    async def complete(self) -> None:
        """Do as `Turn.complete` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("hello")
        ...         await turn.complete()
        ...         return await turn.outcome()
        >>> asyncio.run(main())
        'completed'
        """
        await self._threads.run(self.sync.complete)

    async def abort(self, reason: str | None = None) -> None:
        """Do as `Turn.abort` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("hello")
        ...         await turn.abort("the user pressed escape")
        ...         return await turn.outcome()
        >>> asyncio.run(main())
        'aborted'
        """
        await self._threads.run(self.sync.abort, reason)

    async def fail(self, error: BaseException | str) -> None:
        """Do as `Turn.fail` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("hello")
        ...         await turn.fail("the provider is down")
        ...         return await turn.outcome()
        >>> asyncio.run(main())
        'failed'
        """
        await self._threads.run(self.sync.fail, error)

    async def __aenter__(self) -> Self:
        """Return the turn."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the outcome that fits the way the block was left, if it has none."""
        await self._threads.finish(self.sync.__exit__, kind, error, trace)


def closing_here(sessions: Iterable[Session]) -> None:
    """Note that the current task closes these sessions: its own turns are not waited for.

    >>> closing_here([])
    """
    for session in sessions:
        live = session._kept()
        worker = None if live is None else live.worker
        if worker is not None and worker.task is not None:
            worker.closes = worker.task is asyncio.current_task()
