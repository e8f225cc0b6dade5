"""The part of a session for asyncio that knows what came before: turns, steps, plan, files, the history for a provider.

Owns: the names of that part of the API. Invariant: what may read the log is awaited, or iterated over with `async for`.
Must not know: how threads are used, how a history is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlog.aio.feeds import batches
from turnlog.aio.files import AsyncSessionFiles
from turnlog.aio.history import AsyncHistory
from turnlog.aio.plans import AsyncPlan
from turnlog.aio.step import AsyncStep
from turnlog.aio.threads import Facade
from turnlog.aio.turn import AsyncTurn
from turnlog.aio.turn_view import AsyncTurnView
from turnlog.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class AsyncSessionHistory(Facade[Session]):
    """What an `AsyncSession` tells of its past."""

    async def files(self) -> AsyncSessionFiles:
        """Do as `Session.files` does; the first use reads the log.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return len(await session.files())
        >>> asyncio.run(main())
        0
        """
        return AsyncSessionFiles(await self._threads.run(lambda: self.sync.files), self._threads)

    async def current_turn(self) -> AsyncTurn | None:
        """Return `Session.current_turn`: asking may read the log.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("hello")
        ...         return (await session.current_turn()).id == turn.id
        >>> asyncio.run(main())
        True
        """
        found = await self._threads.run(lambda: self.sync.current_turn)
        return None if found is None else AsyncTurn(found, self._threads)

    async def turns(
        self, *, reverse: bool = False, on_damage: str | None = None
    ) -> AsyncGenerator[AsyncTurnView, None]:
        """Iterate with `async for`, as `Session.turns` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await (await session.turn("hello")).complete()
        ...         return [(await view.input(), view.outcome) async for view in session.turns()]
        >>> asyncio.run(main())
        [('hello', 'completed')]
        """
        found = await self._threads.run(lambda: self.sync.turns(reverse=reverse, on_damage=on_damage))
        async for view in batches(self._threads, found):
            yield AsyncTurnView(view, self._threads)

    async def step(self, turn: str, step: str) -> AsyncStep:
        """Do as `Session.step` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await (await session.turn("hello", id="t1")).step(context=["hello"])
        ...         return await (await session.step("t1", "s1")).context()
        >>> asyncio.run(main())
        ['hello']
        """
        return AsyncStep(await self._threads.run(self.sync.step, turn, step), self._threads)

    async def current_plan(self) -> AsyncPlan | None:
        """Do as `Session.current_plan` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.plan("1. reproduce 2. fix")
        ...         return (await session.current_plan()).content
        >>> asyncio.run(main())
        '1. reproduce 2. fix'
        """
        found = await self._threads.run(lambda: self.sync.current_plan)
        return None if found is None else AsyncPlan(found, self._threads)

    def history(self, shape: str = "anthropic", *, on_damage: str | None = None) -> AsyncHistory:
        """Do as `Session.history` does; iterate with `async for`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.turn("list the files")
        ...         return [message["role"] async for message in session.history("openai_chat")]
        >>> asyncio.run(main())
        ['user']
        """
        return AsyncHistory(self.sync, self._threads, shape, on_damage)
