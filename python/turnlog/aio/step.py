"""Steps for asyncio.

Owns: their wrapper. Invariant: the block of `async with` records an outcome before it is left, also when it is
cancelled. Must not know: turns, stores, logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.aio.threads import Facade
from turnlog.model.step import Step

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self


class AsyncStep(Facade[Step]):
    """A `Step` whose methods are awaited; made by `AsyncTurn.step`. As an `async with` block it ends as `Step` does."""

    @property
    def id(self) -> str:
        """The step's id within its turn."""
        return self.sync.id

    @property
    def turn_id(self) -> str:
        """The id of its turn."""
        return self.sync.turn_id

    @property
    def ordinal(self) -> int:
        """The ordinal of the event that began it."""
        return self.sync.ordinal

    @property
    def ended_ordinal(self) -> int:
        """The ordinal of the event that ended it, 0 while it runs."""
        return self.sync.ended_ordinal

    @property
    def outcome(self) -> str | None:
        """How it ended: completed or failed; None while it runs."""
        return self.sync.outcome

    async def response(self) -> Any:
        """Return `Step.response`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         step = await (await session.turn("hello")).step()
        ...         await step.complete("hi")
        ...         return await step.response()
        >>> asyncio.run(main())
        'hi'
        """
        return await self._threads.run(lambda: self.sync.response)

    async def usage(self) -> dict[str, Any] | None:
        """Return `Step.usage`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         step = await (await session.turn("hello")).step()
        ...         await step.complete("hi", usage={"input": 5})
        ...         return await step.usage()
        >>> asyncio.run(main())
        {'input': 5}
        """
        return await self._threads.run(lambda: self.sync.usage)

    async def stop_reason(self) -> str | None:
        """Return `Step.stop_reason`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         step = await (await session.turn("hello")).step()
        ...         await step.complete("hi", stop_reason="end_turn")
        ...         return await step.stop_reason()
        >>> asyncio.run(main())
        'end_turn'
        """
        return await self._threads.run(lambda: self.sync.stop_reason)

    async def error(self) -> Any:
        """Return `Step.error`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         step = await (await session.turn("hello")).step()
        ...         await step.fail("overloaded")
        ...         return await step.error()
        >>> asyncio.run(main())
        {'message': 'overloaded'}
        """
        return await self._threads.run(lambda: self.sync.error)

    async def context(self) -> list[Any]:
        """Do as `Step.context` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("hello")
        ...         return await (await turn.step(context=["hello"])).context()
        >>> asyncio.run(main())
        ['hello']
        """
        return await self._threads.run(self.sync.context)

    async def complete(
        self, response: Any = None, *, usage: Mapping[str, Any] | None = None, stop_reason: str | None = None
    ) -> None:
        """Do as `Step.complete` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         step = await (await session.turn("hello")).step()
        ...         await step.complete("hi", usage={"input": 5})
        ...         return step.outcome
        >>> asyncio.run(main())
        'completed'
        """
        await self._threads.run(self.sync.complete, response, usage=usage, stop_reason=stop_reason)

    async def fail(
        self, error: BaseException | str, *, status: int | None = None, usage: Mapping[str, Any] | None = None
    ) -> None:
        """Do as `Step.fail` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         step = await (await session.turn("hello")).step()
        ...         await step.fail("overloaded", status=529)
        ...         return step.outcome
        >>> asyncio.run(main())
        'failed'
        """
        await self._threads.run(self.sync.fail, error, status=status, usage=usage)

    async def __aenter__(self) -> Self:
        """Return the step."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record a failure if the step has no outcome."""
        await self._threads.finish(self.sync.__exit__, kind, error, trace)
