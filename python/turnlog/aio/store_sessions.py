"""The part of a store for asyncio about how its sessions hang together: forks, lineage, and feeds of all of them.

Owns: the names of that part of the API. Invariant: a fork made for a cancelled await is there, and closed. Must not
know: how sessions are forked, how feeds are merged.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from turnlog.aio.feeds import Steps, followed
from turnlog.aio.session import AsyncSession
from turnlog.aio.threads import Facade
from turnlog.aio.watching import AsyncSubscriber
from turnlog.feed.store_feed import StoreEvent
from turnlog.store import Store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
    from typing import Unpack

    from turnlog.aio.feeds import Call
    from turnlog.errors import TurnlogError
    from turnlog.log.lineage import Origin
    from turnlog.session import Session
    from turnlog.settings import ForkSettings


class AsyncStoreSessions(Facade[Store]):
    """The methods of an `AsyncStore` about all its sessions."""

    async def fork(
        self,
        parent: AsyncSession | str,
        at: int | None = None,
        *,
        turn: str | None = None,
        id: str | None = None,
        title: str | None = None,
        tags: Iterable[str] = (),
        custom: Mapping[str, Any] | None = None,
        **settings: Unpack[ForkSettings],
    ) -> AsyncSession:
        """Do as `Store.fork` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         child = await store.fork(session, 1, title="another way")
        ...         return (await child.append("note.written", {"text": "the other way"})).ordinal
        >>> asyncio.run(main())
        3
        """
        source = parent if isinstance(parent, str) else parent.sync
        return await self._opened(
            lambda: self.sync.fork(source, at, turn=turn, id=id, title=title, tags=tags, custom=custom, **settings)
        )

    async def _opened(self, opening: Callable[[], Session], stop: Callable[[], None] | None = None) -> AsyncSession:
        """Return the session that a function opens; for a cancelled await it is closed."""
        opened = await self._threads.begin(opening, lambda session: session.close(), alone=True, stop=stop)
        return AsyncSession(opened, self._threads)

    async def parent(self, id: str) -> Origin | None:
        """Do as `Store.parent` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         origin = await store.parent((await store.fork(session)).id)
        ...         return origin.session == session.id, origin.ordinal
        >>> asyncio.run(main())
        (True, 1)
        """
        return await self._threads.run(self.sync.parent, id)

    async def children(self, id: str) -> list[str]:
        """Do as `Store.children` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         child = await store.fork(session)
        ...         return await store.children(session.id) == [child.id]
        >>> asyncio.run(main())
        True
        """
        return await self._threads.run(self.sync.children, id)

    async def forget(self, id: str) -> str:
        """Do as `Store.forget` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.create() as session:
        ...             pass
        ...         return (await store.forget(session.id)).endswith("-forgotten")
        >>> asyncio.run(main())
        True
        """
        return await self._threads.run(self.sync.forget, id)

    def follow(
        self,
        *,
        after: str | None = None,
        types: Iterable[str] | None = None,
        timeout_ms: int | None = None,
        on_caught_up: Callable[[str], object] | None = None,
        on_failure: Callable[[str, TurnlogError], object] | None = None,
        on_damage: str = "raise",
    ) -> AsyncGenerator[StoreEvent, None]:
        """Iterate with `async for`, as `Store.follow` does; the functions are called in the loop.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return [event.session == session.id async for event in store.follow(timeout_ms=0)]
        >>> asyncio.run(main())
        [True]
        """

        def begin(note: Callable[[Call], None]) -> Iterator[StoreEvent | None]:
            caught_up = None if on_caught_up is None else lambda at: note(functools.partial(on_caught_up, at))
            failed = None if on_failure is None else lambda id, why: note(functools.partial(on_failure, id, why))
            return self.sync._steps(
                after=after,
                types=types,
                timeout_ms=timeout_ms,
                on_caught_up=caught_up,
                on_failure=failed,
                on_damage=on_damage,
            )

        return followed(self._threads, Steps[StoreEvent](begin))

    async def cursor(self) -> str:
        """Do as `Store.cursor` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         cursor = await store.cursor()
        ...         await session.append("note.written", {"text": "hello"})
        ...         return [event.type async for event in store.follow(after=cursor, timeout_ms=0)]
        >>> asyncio.run(main())
        ['note.written']
        """
        return await self._threads.run(self.sync.cursor)

    async def subscribe(
        self,
        callback: Callable[[Any], Awaitable[object] | object] | None = None,
        *,
        types: Iterable[str] | None = None,
        capacity: int = 1024,
        on_damage: str = "raise",
    ) -> AsyncSubscriber:
        """Do as `Store.subscribe` does; see `AsyncSession.subscribe`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.subscribe() as subscriber:
        ...         await store.create()
        ...         return [event.type for event in await subscriber.read()]
        >>> asyncio.run(main())
        ['session.created']
        """
        made = await self._threads.begin(
            lambda: self.sync.subscribe(types=types, capacity=capacity, on_damage=on_damage),
            lambda made: made.close(),
        )
        return AsyncSubscriber(made, self._threads, callback)
