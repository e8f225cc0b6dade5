"""What is known of a tool call, for asyncio.

Owns: the readable side of `AsyncToolCall`. Invariant: what names a call is plain, what may have to be read from the log
is awaited. Must not know: how a call is decided or run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.aio.threads import Facade
from turnlog.model.tools import ToolCall

if TYPE_CHECKING:
    from turnlog.state.records import Call


class AsyncCallView(Facade[ToolCall]):
    """The attributes of a tool call; applications meet it as `AsyncToolCall`."""

    @property
    def key(self) -> tuple[str, str]:
        """(turn, call id)."""
        return self.sync.key

    @property
    def turn_id(self) -> str:
        """The id of its turn."""
        return self.sync.turn_id

    @property
    def call_id(self) -> str:
        """Its id within the turn."""
        return self.sync.call_id

    @property
    def is_running(self) -> bool:
        """Whether this process runs it now."""
        return self.sync.is_running

    async def record(self) -> Call:
        """Return `ToolCall.record`, which may be read from the log.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return (await call.record()).proposed_ordinal
        >>> asyncio.run(main())
        3
        """
        return await self._threads.run(lambda: self.sync.record)

    async def state(self) -> str:
        """Return `ToolCall.state`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await call.state()
        >>> asyncio.run(main())
        'proposed'
        """
        return await self._threads.run(lambda: self.sync.state)

    async def standing(self) -> str:
        """Return `ToolCall.standing`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await call.standing()
        >>> asyncio.run(main())
        'not_started'
        """
        return await self._threads.run(lambda: self.sync.standing)

    async def name(self) -> str:
        """Return `ToolCall.name`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await call.name()
        >>> asyncio.run(main())
        'count'
        """
        return await self._threads.run(lambda: self.sync.name)

    async def effect(self) -> str:
        """Return `ToolCall.effect`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await call.effect()
        >>> asyncio.run(main())
        'external'
        """
        return await self._threads.run(lambda: self.sync.effect)

    async def idempotency_key(self) -> str:
        """Return `ToolCall.idempotency_key`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return len(await call.idempotency_key())
        >>> asyncio.run(main())
        36
        """
        return await self._threads.run(lambda: self.sync.idempotency_key)

    async def arguments(self) -> Any:
        """Return `ToolCall.arguments`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         return await call.arguments()
        >>> asyncio.run(main())
        {'folder': 'src'}
        """
        return await self._threads.run(lambda: self.sync.arguments)

    async def result(self) -> Any:
        """Return `ToolCall.result`. Raises ToolFailed, InvalidTransition while there is none.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         call = await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         await call.run(len, "four")
        ...         return await call.result()
        >>> asyncio.run(main())
        4
        """
        return await self._threads.run(lambda: self.sync.result)
