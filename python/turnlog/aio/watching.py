"""Those who watch, for asyncio: subscribers, and listeners of the state, called in the loop.

Owns: what is handed from the core's threads to the loop, and in which order. Invariants: what was read for a cancelled
await is kept for the next one; a function that raises is reported, as in the sync core, and called again; a loop that
was closed hears nothing more and disturbs nobody. Must not know: who appends, what events mean.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from turnlog.aio.threads import Closing, Facade, Threads
from turnlog.feed.feed import POLL_S
from turnlog.feed.subscribers import FAILURES_MAX, Subscriber
from turnlog.state.selectors import Subscription

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from types import TracebackType
    from typing import Self

    from turnlog.feed.ephemeral import EphemeralEvent
    from turnlog.feed.feed import FeedEvent


class AsyncSubscriber(Closing, Facade[Subscriber]):
    """A `Subscriber` to iterate over with `async for`; made by `AsyncSession.subscribe` and `AsyncStore.subscribe`.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
    ...         async with await session.subscribe(after=0) as subscriber:
    ...             async for event in subscriber:
    ...                 return event.type
    >>> asyncio.run(main())
    'session.created'
    """

    def __init__(
        self,
        sync: Subscriber,
        threads: Threads,
        callback: Callable[[Any], Awaitable[object] | object] | None = None,
    ) -> None:
        """Begin to call `callback`, in a task, if there is one."""
        super().__init__(sync, threads)
        self.callback = callback
        self._guard = threading.Lock()  # of the threads that read
        self._read: deque[FeedEvent | EphemeralEvent] = deque()
        self._calling = None if callback is None else asyncio.ensure_future(self._call_each(callback))

    @property
    def closed(self) -> bool:
        """Whether nothing more is heard."""
        return self.sync.closed

    @property
    def failures(self) -> list[BaseException]:
        """The latest exceptions of the callback."""
        return self.sync.failures

    @property
    def missed(self) -> int:
        """How many ephemeral events were dropped because nobody read them."""
        return self.sync.missed

    async def read(self, timeout_ms: int | None = 0) -> list[FeedEvent | EphemeralEvent]:
        """Do as `Subscriber.read` does, waiting in the loop.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         async with await session.subscribe(after=0) as subscriber:
        ...             return [event.type for event in await subscriber.read()]
        >>> asyncio.run(main())
        ['session.created']
        """
        await self._fetch(timeout_ms)
        found = []
        while self._read:
            found.append(self._read.popleft())
        return found

    async def _fetch(self, timeout_ms: int | None) -> None:
        """Wait until something was read, nothing more comes, or the time is over."""
        clock = asyncio.get_running_loop().time
        end = None if timeout_ms is None else clock() + timeout_ms / 1000
        while True:
            await self._threads.run(self._look)
            left = POLL_S if end is None else min(POLL_S, end - clock())
            if self._read or self.sync.closed or left <= 0:
                return
            await asyncio.sleep(left)

    def _look(self) -> None:
        with self._guard:
            self._read.extend(self.sync.read())

    async def __aiter__(self) -> AsyncGenerator[FeedEvent | EphemeralEvent, None]:
        """Yield what comes until the subscriber is closed, or what it follows."""
        while not self.sync.closed:
            await self._fetch(None)
            while self._read:
                yield self._read.popleft()

    async def _call_each(self, callback: Callable[[Any], Awaitable[object] | object]) -> None:
        try:
            async for event in self:
                try:
                    answer = callback(event)
                    if hasattr(answer, "__await__"):
                        await answer
                except Exception as error:  # noqa: BLE001 - a subscriber's failure is reported, and is not the writer's
                    self._report(error)
        except Exception as error:  # noqa: BLE001 - a task has nobody to raise to
            self._report(error)
            await self.close()

    def _report(self, error: Exception) -> None:
        self.sync.failures = [*self.sync.failures, error][-FAILURES_MAX:]
        logging.getLogger("turnlog").error("a subscriber failed: %r", self, exc_info=error)

    async def close(self) -> None:
        """Do as `Subscriber.close` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         subscriber = await session.subscribe()
        ...         await subscriber.close()
        ...         return subscriber.closed
        >>> asyncio.run(main())
        True
        """
        await self._threads.finish(self.sync.close)
        if self._calling is not None and self._calling is not asyncio.current_task():
            self._calling.cancel()


class AsyncSubscription(Facade[Subscription]):
    """A `Subscription` whose listener is called in the loop; made by `AsyncSession.watch`."""

    def __init__(self, sync: Subscription, threads: Threads, callback: Callable[[Any, Any], object]) -> None:
        """Use `AsyncSession.watch`."""
        super().__init__(sync, threads)
        self.callback = callback

    @property
    def selector(self) -> Callable[[Any], Any]:
        """What selects the part, in the appending thread."""
        return self.sync.selector

    @property
    def seen(self) -> Any:
        """The part that the listener was told of last."""
        return self.sync.seen

    @property
    def calls(self) -> int:
        """How often it was told of a change."""
        return self.sync.calls

    @property
    def closed(self) -> bool:
        """Whether it hears nothing more."""
        return self.sync.closed

    def close(self) -> None:
        """Stop listening, also to what is on its way to the loop.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         subscription = await session.watch(lambda state: state.title, print)
        ...         subscription.close()
        ...         await session.rename("flaky test")
        ...         return subscription.calls
        >>> asyncio.run(main())
        0
        """
        self.sync.close()

    async def __aenter__(self) -> Self:
        """Return the subscription."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self.close()


class Listener:
    """Hears of changes in the threads that append, and calls a function in the loop in which it was made."""

    def __init__(self, callback: Callable[[Any, Any], object]) -> None:
        """Remember the running loop."""
        self.subscription: Subscription | None = None  # set when it is there; `now` comes before
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[object]] = set()

    def hear(self, new: Any, old: Any) -> None:
        """Let the loop call the function.

        >>> async def main():
        ...     Listener(print).hear("new", "old")
        ...     await asyncio.sleep(0)
        >>> asyncio.run(main())
        new old
        """
        try:
            self._loop.call_soon_threadsafe(self._call, new, old)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            if self.subscription is not None:
                self.subscription.close()

    def _call(self, new: Any, old: Any) -> None:
        if self.subscription is not None and self.subscription.closed:
            return
        try:
            answer = self._callback(new, old)
        except Exception as error:  # noqa: BLE001 - a listener's failure is reported, and is not the writer's
            self._report(error)
            return
        if asyncio.iscoroutine(answer):
            task = self._loop.create_task(answer)
            self._tasks.add(task)  # a loop holds its tasks only weakly
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._report(error)

    def _report(self, error: Exception) -> None:
        logging.getLogger("turnlog").error("a listener of the session's state failed: %r", self, exc_info=error)

    def __repr__(self) -> str:
        """Name the function."""
        return f"<Listener {getattr(self._callback, '__qualname__', self._callback)}>"
