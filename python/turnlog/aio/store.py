"""A store for asyncio: a folder of sessions, whose methods are awaited.

Owns: the names of that part of the API. Invariants: a session that was opened for a cancelled await is closed before
the cancellation goes on; closing waits for its end whatever is cancelled. Must not know: how threads are used, logs.

Not imported by `import turnlog`: `from turnlog.aio import AsyncStore`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog import _core
from turnlog.aio.artifacts import AsyncArtifacts
from turnlog.aio.feeds import InLoop
from turnlog.aio.recovery import AsyncRecovery
from turnlog.aio.session import AsyncSession
from turnlog.aio.signals import AsyncSignalClose
from turnlog.aio.store_sessions import AsyncStoreSessions
from turnlog.aio.threads import Closing, Threads
from turnlog.aio.turn import closing_here
from turnlog.session import DURABLE
from turnlog.store import Store
from turnlog.store_model import OFFLOAD_BYTES

if TYPE_CHECKING:
    import builtins
    import os
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from typing import Unpack

    from turnlog.aio.calls import Found
    from turnlog.errors import TurnlogError
    from turnlog.resume.recovered import Recovery
    from turnlog.settings import FirstSettings


class AsyncStore(Closing, AsyncStoreSessions):
    """A `Store` whose methods are awaited. Usable from several tasks and loops.

    An append may be cancelled at any moment and asked for again:

    >>> async def main():
    ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
    ...         id = "019b76da-a800-7000-8000-000000000001"
    ...         append = asyncio.ensure_future(session.append("note.written", {"text": "hello"}, id=id))
    ...         await asyncio.sleep(0)
    ...         append.cancel()
    ...         return (await session.append("note.written", {"text": "hello"}, id=id)).ordinal
    >>> asyncio.run(main())
    2
    """

    def __init__(self, sync: Store, threads: Threads | None = None) -> None:
        """Wrap a store that is open; `open` opens one."""
        super().__init__(sync, threads)
        self._signal_close: AsyncSignalClose | None = None

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        read_only: bool = False,
        roll_bytes: int = _core.ROLL_BYTES,
        offload_bytes: int | None = OFFLOAD_BYTES,
    ) -> AsyncStore:
        """Do as `Store.open` does.

        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         return store.read_only
        >>> asyncio.run(main())
        False
        """
        threads = Threads()
        opened = await threads.begin(
            lambda: Store.open(
                path, create=create, read_only=read_only, roll_bytes=roll_bytes, offload_bytes=offload_bytes
            ),
            lambda store: store.close(),
        )
        return cls(opened, threads)

    @staticmethod
    def ephemeral() -> AsyncStore:
        """Do as `Store.ephemeral` does.

        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create(title="a try") as session:
        ...         return session.is_ephemeral
        >>> asyncio.run(main())
        True
        """
        return AsyncStore(Store.ephemeral())

    @property
    def path(self) -> str:
        """The store's folder; empty for an ephemeral store."""
        return self.sync.path

    @property
    def read_only(self) -> bool:
        """Whether it promised to write nothing."""
        return self.sync.read_only

    @property
    def offload_bytes(self) -> int | None:
        """The session model puts longer strings into artifacts; None: never."""
        return self.sync.offload_bytes

    @property
    def index_error(self) -> TurnlogError | None:
        """Why the last projection failed; the log is not affected."""
        return self.sync.index_error

    @property
    def artifacts(self) -> AsyncArtifacts:
        """As `Store.artifacts`."""
        return AsyncArtifacts(self.sync.artifacts, self._threads)

    # -- sessions --------------------------------------------------------------------------------------------------

    async def create(
        self,
        *,
        id: str | None = None,
        title: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        tags: Iterable[str] = (),
        parent: str | None = None,
        durability: str = DURABLE,
        ephemeral: bool = False,
        custom: Mapping[str, Any] | None = None,
        **settings: Unpack[FirstSettings],
    ) -> AsyncSession:
        """Do as `Store.create` does; a session made for a cancelled await is there, and closed.

        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create(title="flaky test") as session:
        ...         return (await session.state()).title
        >>> asyncio.run(main())
        'flaky test'
        """
        fields: dict[str, Any] = {
            "cwd": cwd,
            "model": model,
            "tags": tags,
            "parent": parent,
            "ephemeral": ephemeral,
            "custom": custom,
        }
        return await self._opened(
            lambda: self.sync.create(id=id, title=title, durability=durability, **fields, **settings)
        )

    async def session(self, id: str) -> AsyncSession:
        """Do as `Store.session` does.

        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         return await store.session("latest") == session
        >>> asyncio.run(main())
        True
        """
        return AsyncSession(await self._threads.run(self.sync.session, id), self._threads)

    async def resume(
        self,
        id: str = "latest",
        *,
        verifier: Callable[[str], Found | Awaitable[Found]] | None = None,
        hooks: Iterable[Callable[[AsyncRecovery], Awaitable[object] | object]] = (),
        accept_damage: bool = False,
    ) -> AsyncSession:
        """Do as `Store.resume` does. A verifier or hook that is a coroutine function runs in the loop, and is cancelled
        with the await; another one is called in a thread of its own.

        >>> async def hook(recovery):
        ...     print([call.call_id for call in recovery.unknown])
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.create() as session:
        ...             call = await (await session.turn("deploy it")).tool_call("deploy", call_id="c1")
        ...             key = await call.start()  # and now the process dies
        ...         async with await store.resume(hooks=[hook]) as session:
        ...             return session.recovery.interrupted.input
        >>> asyncio.run(main())
        ['c1']
        'deploy it'
        """
        calls = InLoop()
        ask = None if verifier is None else calls.answering(verifier)

        def hooked(hook: Callable[[AsyncRecovery], Awaitable[object] | object]) -> Callable[[Recovery], object]:
            answering = calls.answering(hook)
            return lambda recovery: answering(AsyncRecovery(recovery, self._threads))

        told = [hooked(hook) for hook in hooks]
        return await self._opened(
            lambda: self.sync.resume(id, verifier=ask, hooks=told, accept_damage=accept_damage), calls.stop
        )

    async def session_exists(self, session_id: str) -> bool:
        """Do as `Store.session_exists` does.

        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         return await store.session_exists((await store.create()).id)
        >>> asyncio.run(main())
        True
        """
        return await self._threads.run(self.sync.session_exists, session_id)

    async def resolve(self, id: str) -> str:
        """Do as `Store.resolve` does.

        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         return await store.resolve("latest") == session.id
        >>> asyncio.run(main())
        True
        """
        return await self._threads.run(self.sync.resolve, id)

    async def session_ids(self) -> builtins.list[str]:
        """Do as `Store.session_ids` does.

        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         return session.id in await store.session_ids()
        >>> asyncio.run(main())
        True
        """
        return await self._threads.run(self.sync.session_ids)

    async def list(self, **filters: Any) -> tuple[builtins.list[dict[str, Any]], str | None]:
        """Do as `Store.list` does.

        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create(title="flaky test"):
        ...         rows, next_page = await store.list(limit=10)
        ...         return rows[0]["title"], next_page
        >>> asyncio.run(main())
        ('flaky test', None)
        """
        return await self._threads.run(self.sync.list, **filters)

    async def flush(self) -> None:
        """Do as `Store.flush` does.

        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, await store.create() as session:
        ...         await session.append("note.written", {"text": "hello"}, durability="buffered")
        ...         await store.flush()
        >>> asyncio.run(main())
        """
        await self._threads.run(self.sync.flush)

    # -- the end ---------------------------------------------------------------------------------------------------

    def close_on_signals(self, *signals: int, deadline_ms: int = 10_000) -> AsyncSignalClose:
        """Do as `Store.close_on_signals` does, in the running loop: tasks go on while the store is closed, and the
        signal then does what it would have done before. Call it in the main thread. Raises Closed, ValueError,
        RuntimeError.

        >>> import signal
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store, store.close_on_signals(signal.SIGTERM):
        ...         session = await store.create(title="a service")
        >>> asyncio.run(main())
        """
        self._signal_close = AsyncSignalClose(self, signals, deadline_ms)
        return self._signal_close

    async def close(self, *, deadline_ms: int = 10_000) -> None:
        """Do as `Store.close` does: running turns are waited for if other tasks work on them. A cancelled await waits
        for the end.

        >>> async def main():
        ...     store = await AsyncStore.open("runs")
        ...     await store.create()
        ...     await store.close()
        >>> asyncio.run(main())
        """
        closing_here(self.sync._open_sessions())
        try:
            await self._threads.finish(self.sync.close, deadline_ms=deadline_ms)
        finally:
            self._threads.close()
            if self._signal_close is not None:
                self._signal_close.restore()
