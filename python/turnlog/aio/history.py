"""Histories for model providers, for asyncio.

Owns: their wrapper. Invariants: the log is read in worker threads, a few messages at a time, so that memory stays
bounded; what comes before an error is handed out before it is raised. Must not know: shapes of messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlog.aio.feeds import batches
from turnlog.arguments import require_damage
from turnlog.history.history import History, Message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from turnlog.aio.threads import Threads
    from turnlog.session import Session

_BATCH = 16  # a message may be large


class AsyncHistory:
    """A `History` to iterate over with `async for`; made by `AsyncSession.history`.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
    ...         await session.record("message.user", {"content": "hello"})
    ...         return [message["role"] async for message in session.history("anthropic")]
    >>> asyncio.run(main())
    ['user']
    """

    def __init__(self, session: Session, threads: Threads, shape: str, on_damage: str | None = None) -> None:
        """Use `AsyncSession.history`; nothing is read yet. Raises HistoryInvalid for an unknown shape, InvalidInput."""
        require_damage(on_damage, optional=True)
        self.shape = History(session, shape).shape  # refuses an unknown one without reading
        self._on_damage = on_damage
        self._session = session
        self._threads = threads

    async def system(self) -> str:
        """Return `History.system`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await session.history().system()
        >>> asyncio.run(main())
        ''
        """
        return await self._threads.run(lambda: self._history().system)

    async def __aiter__(self) -> AsyncGenerator[Message, None]:
        """Yield the messages, oldest first. Raises as `History` does."""
        found = await self._threads.run(lambda: iter(self._history()))
        async for message in batches(self._threads, found, _BATCH):
            yield message

    def _history(self) -> History:
        return self._session.history(self.shape, on_damage=self._on_damage)

    def __repr__(self) -> str:
        """Show the shape."""
        return f"<async History {self.shape}>"
