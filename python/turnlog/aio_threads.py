"""What the async facade stands on: worker threads, what a cancelled await means, feeds that wait in the loop.

Owns: the threads of one facade. Invariants: what was handed to a thread is done there whatever becomes of the await;
what a cancelled await would have returned is given to its `undo`; a wait never takes one of the few threads. Must not
know: sessions, turns, events.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from turnlog.feed.feed import POLL_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

P = ParamSpec("P")
Value = TypeVar("Value")
Core = TypeVar("Core")
Owner = TypeVar("Owner")

THREADS = 4  # appends share syncs, so a few threads are enough
_BATCH = 512


class Threads:
    """The worker threads of one store.

    >>> async def main():
    ...     threads = Threads()
    ...     print(await threads.run(lambda: 6 * 7))
    ...     threads.close()
    >>> asyncio.run(main())
    42
    """

    def __init__(self) -> None:
        """Start none yet."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="turnlog-aio")
        self._closed = False

    async def run(
        self, work: Callable[[], Value], undo: Callable[[Value], object] | None = None, *, alone: bool = False
    ) -> Value:
        """Return `work()`. A cancelled await does not stop it; its result is then given to `undo`, in its thread.

        `alone` gives it a thread of its own, because it may wait for somebody who needs one of the few.
        """
        future: Future[Value] = _in_own_thread(work) if alone or self._closed else self._pool.submit(work)
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if undo is not None:
                future.add_done_callback(functools.partial(_undo, undo))
            raise

    async def finish(self, work: Callable[[], Value], *, alone: bool = False) -> Value:
        """Return `work()`; a cancelled await waits for it first, and then goes on being cancelled."""
        task = asyncio.ensure_future(self.run(work, alone=alone))
        cancelled = False
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError
        return task.result()

    def close(self) -> None:
        """Let the threads end when they have done what was handed to them; what comes later has threads of its own."""
        self._closed = True
        self._pool.shutdown(wait=False)


def _in_own_thread(work: Callable[[], Value]) -> Future[Value]:
    future: Future[Value] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever awaits the future gets it
            future.set_exception(error)

    threading.Thread(target=run, name="turnlog-aio-wait", daemon=True).start()
    return future


def _undo(undo: Callable[[Value], object], future: Future[Value]) -> None:
    if future.exception() is None:
        undo(future.result())


class Facade(Generic[Core]):
    """What the wrappers have in common: the object of the sync core, and the threads."""

    def __init__(self, sync: Core, threads: Threads) -> None:
        """Wrap `sync`, which stays usable; made by the wrapper above."""
        self.sync = sync
        self._threads = threads

    async def in_thread(self, work: Callable[[Core], Value]) -> Value:
        """Call a function with the sync object in a worker thread: for whatever has no wrapper here.

        >>> from turnlog import Store
        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore(Store.ephemeral()) as store, await store.create() as session:
        ...         task = await session.in_thread(lambda session: session.tasks.add("fix it"))
        ...         print(task.title)
        >>> asyncio.run(main())
        fix it
        """
        return await self._threads.run(lambda: work(self.sync))

    def __repr__(self) -> str:
        """Show what is wrapped."""
        return f"<async {self.sync!r}>"


def forwarded(
    method: Callable[Concatenate[Owner, P], Value],
) -> Callable[Concatenate[Facade[Owner], P], Coroutine[Any, Any, Value]]:
    """Return the async form of a method: the same arguments, done in a worker thread.

    >>> from turnlog import Session
    >>> forwarded(Session.flush).__doc__
    'Do as `Session.flush` does, in a worker thread.'
    """

    async def call(self: Facade[Owner], /, *args: P.args, **kwargs: P.kwargs) -> Value:
        return await self._threads.run(functools.partial(method, self.sync, *args, **kwargs))

    call.__name__ = method.__name__
    call.__qualname__ = f"Async{method.__qualname__}"
    call.__doc__ = f"Do as `{method.__qualname__}` does, in a worker thread."
    return call


async def batches(threads: Threads, events: Iterator[Value]) -> AsyncIterator[Value]:
    """Yield from an iterator that reads but never waits."""
    while batch := await threads.run(lambda: list(islice(events, _BATCH))):
        for event in batch:
            yield event


class Steps(Generic[Value]):
    """The steps of a feed, taken in batches by a worker thread."""

    def __init__(self, begin: Callable[[Callable[[str], object]], Iterator[Value | None]]) -> None:
        self._found: list[Value | str] = []
        self._steps = begin(self._found.append)
        self._guard = threading.Lock()

    def take(self) -> tuple[list[Value | str], bool]:
        """Return what there is, with a cursor (text) where the end was reached, and whether the feed goes on."""
        with self._guard:
            found: list[Value | str] = []
            for item in self._steps:
                found += self._found
                self._found.clear()
                if item is None:
                    return found, True
                found.append(item)
                if len(found) >= _BATCH:
                    return found, True
            found += self._found
            self._found.clear()
            return found, False

    def close(self) -> None:
        """Close the files."""
        with self._guard:
            if hasattr(self._steps, "close"):
                self._steps.close()


async def followed(
    threads: Threads, steps: Steps[Value], on_caught_up: Callable[[str], object] | None
) -> AsyncIterator[Value]:
    """Yield from a feed; where there is nothing now, the loop waits, not a thread."""
    try:
        goes_on = True
        while goes_on:
            found, goes_on = await threads.run(steps.take)
            for item in found:
                if not isinstance(item, str):
                    yield item
                elif on_caught_up is not None:
                    on_caught_up(item)
            if goes_on and len(found) < _BATCH:
                await asyncio.sleep(POLL_S)
    finally:
        await threads.finish(steps.close)
