"""Turns as the log tells of them, for asyncio.

Owns: their wrapper. Invariant: what reads the log is awaited, or iterated over with `async for`. Must not know: turns
that run, stores, logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.aio.calls import AsyncToolCall
from turnlog.aio.feeds import batches
from turnlog.aio.step import AsyncStep
from turnlog.aio.threads import Facade
from turnlog.model.turn_view import TurnView

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class AsyncTurnView(Facade[TurnView]):
    """A `TurnView` that is read in threads; made by `AsyncSession.turns`.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
    ...         turn = await session.turn("hello", effort="high")
    ...         await (await turn.step()).complete("hi")
    ...         await turn.fail("the disk is full")
    ...         (view,) = [view async for view in session.turns()]
    ...         return await view.settings(), (await view.error())["message"]
    >>> asyncio.run(main())
    ({'effort': 'high'}, 'the disk is full')
    """

    @property
    def id(self) -> str:
        """The turn's id."""
        return self.sync.id

    @property
    def ordinal(self) -> int:
        """The ordinal of its first event."""
        return self.sync.ordinal

    @property
    def started_us(self) -> int:
        """When it began."""
        return self.sync.started_us

    @property
    def outcome(self) -> str | None:
        """completed, aborted, failed or interrupted; None for the turn that runs."""
        return self.sync.outcome

    @property
    def ended_ordinal(self) -> int:
        """The ordinal of its last event, 0 for the turn that runs."""
        return self.sync.ended_ordinal

    @property
    def ended_us(self) -> int:
        """When it ended."""
        return self.sync.ended_us

    async def input(self) -> Any:
        """Return `TurnView.input`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.turn("hello")
        ...         return [await view.input() async for view in session.turns()]
        >>> asyncio.run(main())
        ['hello']
        """
        return await self._threads.run(lambda: self.sync.input)

    async def settings(self) -> dict[str, Any]:
        """Return `TurnView.settings`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.turn("hello", effort="high")
        ...         return [await view.settings() async for view in session.turns()]
        >>> asyncio.run(main())
        [{'effort': 'high'}]
        """
        return await self._threads.run(lambda: self.sync.settings)

    async def error(self) -> Any:
        """Return `TurnView.error`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await (await session.turn("hello")).fail("the disk is full")
        ...         return [await view.error() async for view in session.turns()]
        >>> asyncio.run(main())
        [{'message': 'the disk is full'}]
        """
        return await self._threads.run(lambda: self.sync.error)

    async def reason(self) -> Any:
        """Return `TurnView.reason`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await (await session.turn("hello")).abort("the user pressed escape")
        ...         return [await view.reason() async for view in session.turns()]
        >>> asyncio.run(main())
        ['the user pressed escape']
        """
        return await self._threads.run(lambda: self.sync.reason)

    async def steps(self) -> AsyncGenerator[AsyncStep, None]:
        """Iterate with `async for`, as `TurnView.steps` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await (await (await session.turn("hello")).step()).complete("hi")
        ...         return [await step.response() async for view in session.turns() async for step in view.steps()]
        >>> asyncio.run(main())
        ['hi']
        """
        async for step in batches(self._threads, self.sync.steps()):
            yield AsyncStep(step, self._threads)

    async def calls(self) -> AsyncGenerator[AsyncToolCall, None]:
        """Iterate with `async for`, as `TurnView.calls` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await (await session.turn("list the files")).tool_call("bash", {"cmd": "ls"}, call_id="c1")
        ...         return [call.call_id async for view in session.turns() async for call in view.calls()]
        >>> asyncio.run(main())
        ['c1']
        """
        async for call in batches(self._threads, self.sync.calls()):
            yield AsyncToolCall(call, self._threads)
