"""Tool calls for asyncio: decided, run, settled.

Owns: what changes a call; `call_view.py` holds what is known of it. Invariants: a coroutine function runs in the loop
and is cancelled with its await, and the log says what that means: the outcome of an external call is then unknown;
another function runs in a thread of its own to its end, and its outcome is kept whatever becomes of the await. Must not
know: turns, logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from turnlog.aio.call_view import AsyncCallView
from turnlog.aio.feeds import InLoop
from turnlog.model.calling import is_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Self

    from turnlog.model.tools import Resolution

    Found = Resolution | str | None

Value = TypeVar("Value")


class AsyncToolCall(AsyncCallView):
    """A `ToolCall` whose methods are awaited; made by `AsyncTurn.tool_call` and `AsyncSession.call`.

    >>> from turnlog.aio import AsyncStore
    >>> async def count(folder):
    ...     return {"files": 3}
    >>> async def main():
    ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
    ...         call = await (await session.turn("how many files?")).tool_call("count", {"folder": "src"})
    ...         await call.approve(by="user")
    ...         return await call.run(count), await call.state()
    >>> asyncio.run(main())
    ({'files': 3}, 'completed')
    """

    # -- deciding --------------------------------------------------------------------------------------------------

    async def request_approval(self, *, by: str | None = None, reason: str | None = None) -> Self:
        """Do as `ToolCall.request_approval` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await (await call.request_approval(reason="reads files")).state()
        >>> asyncio.run(main())
        'approval_requested'
        """
        await self._threads.run(self.sync.request_approval, by=by, reason=reason)
        return self

    async def approve(self, *, by: str | None = None, reason: str | None = None) -> Self:
        """Do as `ToolCall.approve` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await (await call.approve(by="user")).state()
        >>> asyncio.run(main())
        'approved'
        """
        await self._threads.run(self.sync.approve, by=by, reason=reason)
        return self

    async def deny(self, *, by: str | None = None, reason: str | None = None) -> Self:
        """Do as `ToolCall.deny` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await (await call.deny(by="policy")).state()
        >>> asyncio.run(main())
        'denied'
        """
        await self._threads.run(self.sync.deny, by=by, reason=reason)
        return self

    async def cancel(self, reason: str | None = None) -> Self:
        """Do as `ToolCall.cancel` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await (await call.cancel("the user changed their mind")).state()
        >>> asyncio.run(main())
        'cancelled'
        """
        await self._threads.run(self.sync.cancel, reason)
        return self

    async def resolve(
        self,
        verifier: Callable[[str], Found | Awaitable[Found]] | None = None,
        *,
        outcome: str | None = None,
        result: Any = None,
        error: Any = None,
        by: str | None = None,
    ) -> Self:
        """Do as `ToolCall.resolve` does. A verifier that is a coroutine function runs in the loop, and is cancelled
        with the await; another one is called in a thread of its own.

        >>> from turnlog.aio import AsyncStore
        >>> async def look_up(key):
        ...     return "completed"
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.create() as session:
        ...             await (await (await session.turn("send it")).tool_call("send", call_id="c1")).start()
        ...         async with await store.resume() as session:
        ...             (call,) = session.recovery.unknown
        ...             return await (await call.resolve(look_up)).state()
        >>> asyncio.run(main())
        'resolved'
        """
        calls = InLoop()
        ask = None if verifier is None else calls.answering(verifier)
        try:
            await self._threads.alone(
                lambda: self.sync.resolve(ask, outcome=outcome, result=result, error=error, by=by)
            )
        finally:
            calls.stop()
        return self

    # -- running ---------------------------------------------------------------------------------------------------

    @overload
    async def run(self, fn: Callable[..., Awaitable[Value]], /, *args: Any, **kwargs: Any) -> Value: ...
    @overload
    async def run(self, fn: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Value: ...
    async def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do as `ToolCall.run` does: a coroutine function runs in the loop, another one in a thread of its own.

        Cancelling the await cancels a coroutine function, see `ToolCall.run_async`; a function in a thread goes on,
        and its outcome is kept: ask again, and it is returned.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await call.run(lambda folder: f"looked into {folder}")
        >>> asyncio.run(main())
        'looked into src'
        """
        if is_async(fn):
            return await self.sync.run_async(fn, *args, **kwargs)
        return await self._threads.alone(lambda: self.sync.run(fn, *args, **kwargs))

    @overload
    async def run_async(self, fn: Callable[..., Awaitable[Value]], /, *args: Any, **kwargs: Any) -> Value: ...
    @overload
    async def run_async(self, fn: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Value: ...
    async def run_async(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do as `ToolCall.run_async` does: `fn` is called in the loop, and what it returns is awaited.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await call.run_async(asyncio.sleep, 0, "slept")
        >>> asyncio.run(main())
        'slept'
        """
        return await self.sync.run_async(fn, *args, **kwargs)

    async def start(self) -> str:
        """Do as `ToolCall.start` does. When the await is cancelled, a start that was stored nevertheless is recorded
        as failed before the cancellation goes on.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return len(await call.start()), await call.state()
        >>> asyncio.run(main())
        (36, 'started')
        """
        return await self._threads.begin(
            self.sync.start, lambda _: self.sync.fail("cancelled before it began"), alone=True
        )

    async def complete(self, result: Any = None) -> Self:
        """Do as `ToolCall.complete` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         await call.start()
        ...         return await (await call.complete("done")).result()
        >>> asyncio.run(main())
        'done'
        """
        await self._threads.run(self.sync.complete, result)
        return self

    async def fail(self, error: BaseException | str) -> Self:
        """Do as `ToolCall.fail` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await (await call.fail("there is no such tool")).state()
        >>> asyncio.run(main())
        'failed'
        """
        await self._threads.run(self.sync.fail, error)
        return self
