"""The difference of two sessions, for asyncio.

Owns: its wrapper. Must not know: how the common point is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlog import diff as sync
from turnlog.aio.feeds import batches
from turnlog.aio.session import AsyncSession
from turnlog.aio.threads import Facade

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from turnlog._core import Event
    from turnlog.aio.store import AsyncStore


class AsyncDifference(Facade[sync.Difference]):
    """A `Difference` whose events are iterated over with `async for`; made by `diff`.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
    ...         async with await store.fork(session) as child:
    ...             await child.append("note.written", {"text": "the other way"})
    ...             found = await diff(store, session.id, child.id)
    ...             return found.ordinal, [event.type async for event in found.only_b()], await found.equal()
    >>> asyncio.run(main())
    (1, ['session.forked', 'note.written'], False)
    """

    @property
    def a(self) -> AsyncSession:
        """The first session."""
        return AsyncSession(self.sync.a, self._threads)

    @property
    def b(self) -> AsyncSession:
        """The second session."""
        return AsyncSession(self.sync.b, self._threads)

    @property
    def ancestor(self) -> str | None:
        """The nearest common ancestor; None: they share no history."""
        return self.sync.ancestor

    @property
    def ordinal(self) -> int:
        """Up to where both hold equal events; 0: nowhere."""
        return self.sync.ordinal

    def only_a(self) -> AsyncGenerator[Event, None]:
        """Do as `Difference.only_a` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         found = await diff(store, session.id, session.id)
        ...         return [event.type async for event in found.only_a()]
        >>> asyncio.run(main())
        []
        """
        return batches(self._threads, self.sync.only_a())

    def only_b(self) -> AsyncGenerator[Event, None]:
        """Do as `Difference.only_b` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         child = await store.fork(session)
        ...         return [event.type async for event in (await diff(store, session.id, child.id)).only_b()]
        >>> asyncio.run(main())
        ['session.forked']
        """
        return batches(self._threads, self.sync.only_b())

    async def equal(self) -> bool:
        """Return `Difference.equal`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         return await (await diff(store, session.id, session.id)).equal()
        >>> asyncio.run(main())
        True
        """
        return await self._threads.run(lambda: self.sync.equal)


async def diff(store: AsyncStore, a: str, b: str) -> AsyncDifference:
    """Do as `turnlog.diff.diff` does.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
    ...         return (await diff(store, session.id, (await store.fork(session)).id)).ordinal
    >>> asyncio.run(main())
    1
    """
    return AsyncDifference(await store.in_thread(lambda opened: sync.diff(opened, a, b)), store.threads)
