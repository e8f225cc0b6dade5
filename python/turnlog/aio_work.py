"""Turns, steps and tool calls of the async facade.

Owns: their wrappers. Invariants: the blocks of `async with` record their outcome before they are left, also when they
are cancelled; a turn or step that was begun for a cancelled await is ended. Must not know: stores, logs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from turnlog.aio_threads import Facade
from turnlog.model.calling import is_async
from turnlog.model.step import Step
from turnlog.model.tools import ToolCall
from turnlog.model.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from turnlog.aio_threads import Threads


class AsyncStep(Facade[Step]):
    """A `Step` whose methods are awaited; made by `AsyncTurn.step`."""

    async def context(self) -> list[Any]:
        """Do as `Step.context` does."""
        return await self._threads.run(self.sync.context)

    async def complete(self, response: Any = None, **fields: Any) -> None:
        """Do as `Step.complete` does."""
        await self._threads.run(lambda: self.sync.complete(response, **fields))

    async def fail(self, error: BaseException | str, **fields: Any) -> None:
        """Do as `Step.fail` does."""
        await self._threads.run(lambda: self.sync.fail(error, **fields))

    async def __aenter__(self) -> Self:
        """Return the step."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record a failure if the step has no outcome."""
        await self._threads.finish(lambda: self.sync.__exit__(kind, error, trace))


class AsyncToolCall(Facade[ToolCall]):
    """A `ToolCall` whose methods are awaited; made by `AsyncTurn.tool_call`. What only reads is at `sync`."""

    async def request_approval(self, **fields: Any) -> Self:
        """Do as `ToolCall.request_approval` does."""
        await self._threads.run(lambda: self.sync.request_approval(**fields))
        return self

    async def approve(self, **fields: Any) -> Self:
        """Do as `ToolCall.approve` does."""
        await self._threads.run(lambda: self.sync.approve(**fields))
        return self

    async def deny(self, **fields: Any) -> Self:
        """Do as `ToolCall.deny` does."""
        await self._threads.run(lambda: self.sync.deny(**fields))
        return self

    async def cancel(self, reason: str | None = None) -> Self:
        """Do as `ToolCall.cancel` does."""
        await self._threads.run(lambda: self.sync.cancel(reason))
        return self

    async def resolve(self, *args: Any, **fields: Any) -> Self:
        """Do as `ToolCall.resolve` does; the verifier is called in a thread of its own."""
        await self._threads.run(lambda: self.sync.resolve(*args, **fields), alone=True)
        return self

    async def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do as `ToolCall.run` does: a coroutine function runs in the loop, another one in a thread of its own.

        Cancelling the await cancels a coroutine function, see `ToolCall.run_async`; a function in a thread goes on,
        and its outcome is kept: ask again, and it is returned.

        >>> import asyncio
        >>> from turnlog import Store
        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore(Store.ephemeral()) as store, await store.create() as session:
        ...         async with await session.turn("fetch it") as turn:
        ...             call = await turn.tool_call("fetch", {"url": "https://example.org"}, effect="none")
        ...             print(await call.run(lambda url: len(url)))
        ...             await turn.complete()
        >>> asyncio.run(main())
        19
        """
        if is_async(fn):
            return await self.sync.run_async(fn, *args, **kwargs)
        return await self._threads.run(lambda: self.sync.run(fn, *args, **kwargs), alone=True)


class AsyncTurn(Facade[Turn]):
    """A `Turn` whose methods are awaited; made by `AsyncSession.turn`. As an `async with` block it ends as `Turn` does.

    `task` is the asyncio task that began it.
    """

    def __init__(self, sync: Turn, threads: Threads) -> None:
        """Use `AsyncSession.turn`."""
        super().__init__(sync, threads)
        self.task = asyncio.current_task()

    async def step(self, context: Any = None, **fields: Any) -> AsyncStep:
        """Do as `Turn.step` does; a step whose await was cancelled is recorded as failed."""
        begun = await self._threads.run(
            lambda: self.sync.step(context, **fields), undo=lambda step: step.fail("cancelled while it began")
        )
        return AsyncStep(begun, self._threads)

    async def tool_call(self, name: str, arguments: Any = None, **fields: Any) -> AsyncToolCall:
        """Do as `Turn.tool_call` does; with a `call_id`, asking again gives the same call."""
        return AsyncToolCall(
            await self._threads.run(lambda: self.sync.tool_call(name, arguments, **fields)), self._threads
        )

    async def steer(self, input: Any, *, by: str | None = None) -> str:
        """Do as `Turn.steer` does."""
        return await self._threads.run(lambda: self.sync.steer(input, by=by))

    async def take_input(self) -> list[Any]:
        """Do as `Turn.take_input` does; input whose await was cancelled is taken nevertheless."""
        return await self._threads.finish(self.sync.take_input)

    def cancel(self) -> None:
        """Ask whoever works on the turn to stop, as `Turn.cancel` does."""
        self.sync.cancel()

    async def complete(self) -> None:
        """Do as `Turn.complete` does."""
        await self._threads.run(self.sync.complete)

    async def abort(self, reason: str | None = None) -> None:
        """Do as `Turn.abort` does."""
        await self._threads.run(lambda: self.sync.abort(reason))

    async def fail(self, error: BaseException | str) -> None:
        """Do as `Turn.fail` does."""
        await self._threads.run(lambda: self.sync.fail(error))

    async def __aenter__(self) -> Self:
        """Return the turn."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the outcome that fits the way the block was left, if it has none."""
        await self._threads.finish(lambda: self.sync.__exit__(kind, error, trace))
