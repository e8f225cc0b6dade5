"""The async facade: the same names for asyncio, done by the sync core in a few worker threads.

Owns: stores, sessions and subscribers of the facade. Invariants: an append whose await was cancelled is done in its
thread, once, or refused there: ask again with the same `id`, and the receipt is that of the first time; a session that
was opened for a cancelled await is closed. Must not know: how threads are used (aio_threads.py), logs.

Not imported by `import turnlog`: `from turnlog.aio import AsyncStore`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from turnlog.aio_threads import Facade, Steps, Threads, batches, followed, forwarded
from turnlog.aio_work import AsyncStep, AsyncToolCall, AsyncTurn
from turnlog.feed.feed import POLL_S, FeedEvent
from turnlog.feed.store_feed import StoreEvent
from turnlog.feed.subscribers import Subscriber
from turnlog.model.turn import QUEUE
from turnlog.session import Session
from turnlog.store import Store

if TYPE_CHECKING:
    import builtins
    import os
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType
    from typing import Self

    from turnlog._core import Event, Receipt
    from turnlog.feed.subscribers import EphemeralEvent
    from turnlog.model.turn import Turn
    from turnlog.state.state import State

__all__ = ["AsyncSession", "AsyncStep", "AsyncStore", "AsyncSubscriber", "AsyncToolCall", "AsyncTurn"]

_TURNS_PART = 0.4  # of the time that closing has, for turns to end by themselves


class AsyncSession(Facade[Session]):
    """A `Session` whose methods are awaited; made by `AsyncStore`. What has no wrapper: `in_thread`, or `sync`.

    >>> from turnlog import Store
    >>> async def main():
    ...     async with AsyncStore(Store.ephemeral()) as store, await store.create(title="flaky test") as session:
    ...         await session.append("note.written", {"text": "hello"})
    ...         return [event.type async for event in session.events()]
    >>> asyncio.run(main())
    ['session.created', 'note.written']
    """

    def __init__(self, sync: Session, threads: Threads) -> None:
        """Use `AsyncStore.create`, `session` or `resume`."""
        super().__init__(sync, threads)
        self.id = sync.id
        self._turn: AsyncTurn | None = None

    append = forwarded(Session.append)
    append_many = forwarded(Session.append_many)
    record = forwarded(Session.record)
    flush = forwarded(Session.flush)
    event = forwarded(Session.event)
    payload = forwarded(Session.payload)
    head = forwarded(Session.head)
    rename = forwarded(Session.rename)
    tag = forwarded(Session.tag)
    archive = forwarded(Session.archive)
    unarchive = forwarded(Session.unarchive)
    grant = forwarded(Session.grant)
    revoke = forwarded(Session.revoke)

    async def configure(self, **settings: Any) -> Receipt:
        """Do as `Session.configure` does."""
        return await self._threads.run(lambda: self.sync.configure(**settings))

    async def state(self) -> State:
        """Return `Session.state`: read-only, and it changes as events are appended."""
        return await self._threads.run(lambda: self.sync.state)

    def events(self, **window: Any) -> AsyncIterator[Event]:
        """Iterate with `async for`, as `Session.events` does."""
        return batches(self._threads, self.sync.events(**window))

    def follow(self, *, on_caught_up: Callable[[str], object] | None = None, **where: Any) -> AsyncIterator[FeedEvent]:
        """Iterate with `async for`, as `Session.follow` does; `on_caught_up` is called in the loop."""
        steps = Steps[FeedEvent](lambda caught_up: self.sync.steps(on_caught_up=caught_up, **where))
        return followed(self._threads, steps, on_caught_up)

    async def subscribe(self, **what: Any) -> AsyncSubscriber:
        """Do as `Session.subscribe` does; iterate over the subscriber with `async for`."""
        made = await self._threads.run(lambda: self.sync.subscribe(**what), undo=lambda made: made.close())
        return AsyncSubscriber(made, self._threads)

    async def turn(self, input: Any = None, *, on_running: str = "refuse", **fields: Any) -> AsyncTurn:
        """Do as `Session.turn` does; a turn whose await was cancelled is aborted.

        >>> from turnlog import Store
        >>> async def main():
        ...     async with AsyncStore(Store.ephemeral()) as store, await store.create() as session:
        ...         async with await session.turn("hello") as turn:
        ...             async with await turn.step(context=["hello"]) as step:
        ...                 await step.complete("hi")
        ...             await turn.complete()
        ...         return turn.sync.outcome
        >>> asyncio.run(main())
        'completed'
        """

        def begin() -> Turn:
            begun = self.sync.turn(input, on_running=on_running, **fields)
            self.sync.live().turn_thread = 0  # that of nobody: the thread that began it may serve anybody next
            return begun

        begun = await self._threads.run(
            begin, undo=lambda turn: turn.abort("cancelled while it began"), alone=on_running == QUEUE
        )
        self._turn = AsyncTurn(begun, self._threads)
        return self._turn

    async def call(self, turn: str, call_id: str) -> AsyncToolCall:
        """Do as `Session.call` does."""
        return AsyncToolCall(await self._threads.run(lambda: self.sync.call(turn, call_id)), self._threads)

    async def stop_turn(self, deadline_ms: int) -> None:
        """Take no new work, ask the running turn to stop, and wait for it if another task that goes on began it.

        >>> from turnlog import Store
        >>> async def main():
        ...     async with AsyncStore(Store.ephemeral()) as store, await store.create() as session:
        ...         turn = await session.turn("hello")
        ...         await session.stop_turn(1000)
        ...         return turn.sync.cancelled.is_set()
        >>> asyncio.run(main())
        True
        """
        turn, until = self._turn, time.monotonic() + deadline_ms / 1000 * _TURNS_PART
        live = self.sync.kept()
        if live is not None:
            await self._threads.run(live.close)
        if turn is None or live is None or live.running_turn() is not turn.sync:
            return
        worker = turn.task
        if worker is None or worker is asyncio.current_task():
            return
        while live.running_turn() is turn.sync and not worker.done() and time.monotonic() < until:
            await asyncio.wait([worker], timeout=POLL_S)

    async def close(self, *, deadline_ms: int = 10_000) -> None:
        """Do as `Session.close` does; a cancelled await waits for it."""
        await self.stop_turn(deadline_ms)
        await self._threads.finish(lambda: self.sync.close(deadline_ms=deadline_ms), alone=True)

    async def __aenter__(self) -> Self:
        """Return the session."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        await self.close()


class AsyncSubscriber(Facade[Subscriber]):
    """A `Subscriber` to iterate over with `async for`; made by `AsyncSession.subscribe` and `AsyncStore.subscribe`.

    >>> from turnlog import Store
    >>> async def main():
    ...     async with AsyncStore(Store.ephemeral()) as store, await store.create() as session:
    ...         async with await session.subscribe(after=0) as subscriber:
    ...             async for event in subscriber:
    ...                 return event.type
    >>> asyncio.run(main())
    'session.created'
    """

    async def __aiter__(self) -> AsyncIterator[FeedEvent | EphemeralEvent]:
        """Yield what comes until the subscriber is closed, or what it follows."""
        while not self.sync.closed:
            found = await self._threads.run(self.sync.read)
            for event in found:
                yield event
            if not found:
                await asyncio.sleep(POLL_S)

    def close(self) -> None:
        """Hear nothing more, as `Subscriber.close`."""
        self.sync.close()

    async def __aenter__(self) -> Self:
        """Return the subscriber."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hear nothing more."""
        self.close()


class AsyncStore(Facade[Store]):
    """A `Store` whose methods are awaited.

    An append may be cancelled at any moment and asked for again:

    >>> from turnlog import Store
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
        super().__init__(sync, threads or Threads())
        self._sessions: dict[str, AsyncSession] = {}

    flush = forwarded(Store.flush)
    cursor = forwarded(Store.cursor)
    session_ids = forwarded(Store.session_ids)

    async def list(self, **filters: Any) -> tuple[builtins.list[dict[str, Any]], str | None]:
        """Do as `Store.list` does."""
        return await self._threads.run(lambda: self.sync.list(**filters))

    @classmethod
    async def open(cls, path: str | os.PathLike[str], **how: Any) -> AsyncStore:
        """Do as `Store.open` does."""
        threads = Threads()
        return cls(await threads.run(lambda: Store.open(path, **how), undo=lambda store: store.close()), threads)

    async def create(self, **fields: Any) -> AsyncSession:
        """Do as `Store.create` does; a session whose await was cancelled is there, and closed."""
        return await self._opened(lambda: self.sync.create(**fields))

    async def session(self, id: str) -> AsyncSession:
        """Do as `Store.session` does."""
        return self._wrapped(await self._threads.run(lambda: self.sync.session(id)))

    async def resume(self, id: str = "latest", **how: Any) -> AsyncSession:
        """Do as `Store.resume` does; verifier and hooks are called in a thread of their own."""
        return await self._opened(lambda: self.sync.resume(id, **how))

    async def fork(self, parent: AsyncSession | str, at: int | None = None, **fields: Any) -> AsyncSession:
        """Do as `Store.fork` does."""
        source = parent if isinstance(parent, str) else parent.sync
        return await self._opened(lambda: self.sync.fork(source, at, **fields))

    async def _opened(self, opening: Callable[[], Session]) -> AsyncSession:
        return self._wrapped(await self._threads.run(opening, undo=lambda session: session.close(), alone=True))

    def _wrapped(self, session: Session) -> AsyncSession:
        known = self._sessions.get(session.id)
        if known is None or known.sync is not session:
            known = self._sessions[session.id] = AsyncSession(session, self._threads)
        return known

    def follow(self, *, on_caught_up: Callable[[str], object] | None = None, **where: Any) -> AsyncIterator[StoreEvent]:
        """Iterate with `async for`, as `Store.follow` does; `on_caught_up` is called in the loop."""
        steps = Steps[StoreEvent](lambda caught_up: self.sync.steps(on_caught_up=caught_up, **where))
        return followed(self._threads, steps, on_caught_up)

    async def subscribe(self, **what: Any) -> AsyncSubscriber:
        """Do as `Store.subscribe` does; iterate over the subscriber with `async for`."""
        made = await self._threads.run(lambda: self.sync.subscribe(**what), undo=lambda made: made.close())
        return AsyncSubscriber(made, self._threads)

    async def close(self, *, deadline_ms: int = 10_000) -> None:
        """Do as `Store.close` does; a cancelled await waits for it."""
        await asyncio.gather(*(session.stop_turn(deadline_ms) for session in self._sessions.values()))
        try:
            await self._threads.finish(lambda: self.sync.close(deadline_ms=deadline_ms), alone=True)
        finally:
            self._threads.close()

    async def __aenter__(self) -> Self:
        """Return the store."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        await self.close()
