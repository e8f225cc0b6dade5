"""A session for asyncio: append events to it, read them back, follow and watch it.

Owns: the raw level of the API; `session_model.py` holds the level above it. Invariants: an append whose await was
cancelled is done in its thread, once, or refused there: ask again with the same `id`, and the receipt is that of the
first time; an event is handed out only when the sync core hands it out. Must not know: how threads are used, logs.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from turnlog.aio.feeds import Steps, batches, followed
from turnlog.aio.session_model import AsyncSessionModel
from turnlog.aio.threads import Closing
from turnlog.aio.turn import closing_here
from turnlog.aio.watching import AsyncSubscriber
from turnlog.feed.feed import FeedEvent
from turnlog.session import DURABLE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator

    from turnlog._core import Event, Receipt
    from turnlog.aio.feeds import Call
    from turnlog.children import Children


class AsyncSession(Closing, AsyncSessionModel):
    """A `Session` whose methods are awaited; made by `AsyncStore`. Usable from several tasks and loops.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with AsyncStore.ephemeral() as store, await store.create(title="flaky test") as session:
    ...         await session.append("note.written", {"text": "hello"})
    ...         return [event.type async for event in session.events()]
    >>> asyncio.run(main())
    ['session.created', 'note.written']
    """

    # -- appending -------------------------------------------------------------------------------------------------

    async def append(
        self, type: str, payload: object, *, id: str | bytes | None = None, durability: str = DURABLE, raw: bool = False
    ) -> Receipt:
        """Do as `Session.append` does. When the await is cancelled, the event is stored once or not at all: appending
        it again with the same `id` gives its receipt.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return (await session.append("note.written", {"text": "hello"})).ordinal
        >>> asyncio.run(main())
        2
        """
        return await self._threads.run(self.sync.append, type, payload, id=id, durability=durability, raw=raw)

    async def append_many(
        self,
        items: Iterable[
            tuple[str, object] | tuple[str, object, str | bytes | None] | tuple[str, object, str | bytes | None, bool]
        ],
        *,
        atomic: bool = False,
        durability: str = DURABLE,
    ) -> list[Receipt]:
        """Do as `Session.append_many` does; a cancelled await means the same as for `append`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         receipts = await session.append_many([("note.written", {"n": n}) for n in range(3)], atomic=True)
        ...         return [receipt.ordinal for receipt in receipts]
        >>> asyncio.run(main())
        [2, 3, 4]
        """
        return await self._threads.run(self.sync.append_many, list(items), atomic=atomic, durability=durability)

    async def flush(self) -> None:
        """Do as `Session.flush` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.append("note.written", {"text": "hello"}, durability="buffered")
        ...         await session.flush()
        >>> asyncio.run(main())
        """
        await self._threads.run(self.sync.flush)

    # -- reading ---------------------------------------------------------------------------------------------------

    def events(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        reverse: bool = False,
        types: Iterable[str] | None = None,
        on_damage: str = "raise",
    ) -> AsyncGenerator[Event, None]:
        """Iterate with `async for`, as `Session.events` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return [event.ordinal async for event in session.events(limit=1)]
        >>> asyncio.run(main())
        [1]
        """
        found = self.sync.events(
            after=after, before=before, limit=limit, reverse=reverse, types=types, on_damage=on_damage
        )
        return batches(self._threads, found)

    async def event(self, ordinal: int) -> Event:
        """Do as `Session.event` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return (await session.event(1)).type
        >>> asyncio.run(main())
        'session.created'
        """
        return await self._threads.run(self.sync.event, ordinal)

    async def head(self) -> tuple[int, str]:
        """Do as `Session.head` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         ordinal, chain = await session.head()
        ...         return ordinal, len(chain)
        >>> asyncio.run(main())
        (1, 64)
        """
        return await self._threads.run(self.sync.head)

    # -- what runs beside it ---------------------------------------------------------------------------------------

    def follow(
        self,
        *,
        after: int | str = 0,
        types: Iterable[str] | None = None,
        timeout_ms: int | None = None,
        on_caught_up: Callable[[str], object] | None = None,
        on_damage: str = "raise",
    ) -> AsyncGenerator[FeedEvent, None]:
        """Iterate with `async for`, as `Session.follow` does; `on_caught_up` is called in the loop.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return [event.type async for event in session.follow(timeout_ms=0)]
        >>> asyncio.run(main())
        ['session.created']
        """

        def begin(note: Callable[[Call], None]) -> Iterator[FeedEvent | None]:
            caught_up = None if on_caught_up is None else lambda at: note(functools.partial(on_caught_up, at))
            return self.sync._steps(
                after=after, types=types, timeout_ms=timeout_ms, on_caught_up=caught_up, on_damage=on_damage
            )

        return followed(self._threads, Steps[FeedEvent](begin))

    async def subscribe(
        self,
        callback: Callable[[Any], Awaitable[object] | object] | None = None,
        *,
        after: int | str | None = None,
        types: Iterable[str] | None = None,
        capacity: int = 1024,
        on_damage: str = "raise",
    ) -> AsyncSubscriber:
        """Do as `Session.subscribe` does: iterate over the subscriber with `async for`, or give a function, which a
        task calls in the loop and awaits if need be.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         async with await session.subscribe() as subscriber:
        ...             await session.append("progress.updated", {"done": 1}, durability="ephemeral")
        ...             return [event.type for event in await subscriber.read()]
        >>> asyncio.run(main())
        ['progress.updated']
        """
        made = await self._threads.begin(
            lambda: self.sync.subscribe(after=after, types=types, capacity=capacity, on_damage=on_damage),
            lambda made: made.close(),
        )
        return AsyncSubscriber(made, self._threads, callback)

    @property
    def children(self) -> Children:
        """As `Session.children`, also for the processes of asyncio."""
        return self.sync.children

    # -- what was ---------------------------------------------------------------------------------------------------

    # -- the end ---------------------------------------------------------------------------------------------------

    async def close(self, *, deadline_ms: int = 10_000) -> None:
        """Do as `Session.close` does: the running turn is waited for if another task works on it. A cancelled await
        waits for the end.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store:
        ...         session = await store.create()
        ...         turn = await session.turn("hello")
        ...         await session.close()
        ...         return turn.cancelled.is_set()
        >>> asyncio.run(main())
        True
        """
        closing_here([self.sync])
        await self._threads.finish(self.sync.close, deadline_ms=deadline_ms)
