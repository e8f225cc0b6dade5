"""Worker threads for asyncio: what runs where, and what a cancelled await means.

Owns: the threads of one facade, and the four ways to wait for them. Invariants: what was handed to a thread is done
there whatever becomes of the await, once; the loop never waits for a lock or a disk; what may wait for somebody else
takes none of the few threads; a loop that is closed meanwhile disturbs nobody. Must not know: sessions, turns, events.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

P = ParamSpec("P")
Value = TypeVar("Value")
Core = TypeVar("Core")

THREADS = 4  # appends share syncs, so a few threads are enough


class Threads:
    """The worker threads of one store, started when they are needed. Usable from several loops.

    >>> async def main():
    ...     threads = Threads()
    ...     print(await threads.run(divmod, 85, 2))
    ...     threads.close()
    >>> asyncio.run(main())
    (42, 1)
    """

    def __init__(self) -> None:
        """Start none yet."""
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="turnlog-aio")
        self._closed = False

    async def run(self, work: Callable[P, Value], /, *args: P.args, **kwargs: P.kwargs) -> Value:
        """Return what `work` returns. A cancelled await ends at once; the work goes on to its end.

        >>> async def main():
        ...     print(await Threads().run(max, [1, 3, 2]))
        >>> asyncio.run(main())
        3
        """
        return await _answer(self.hand_over(functools.partial(work, *args, **kwargs)))

    async def alone(self, work: Callable[P, Value], /, *args: P.args, **kwargs: P.kwargs) -> Value:
        """Do the same in a thread of its own: for work that may wait for somebody who needs one of the few.

        >>> async def main():
        ...     print(await Threads().alone(threading.Event().wait, timeout=0))
        >>> asyncio.run(main())
        False
        """
        return await _answer(self.hand_over(functools.partial(work, *args, **kwargs), alone=True))

    async def finish(self, work: Callable[P, Value], /, *args: P.args, **kwargs: P.kwargs) -> Value:
        """Do as `alone`, but a cancelled await waits for the work first, and then goes on being cancelled.

        >>> async def main():
        ...     done = []
        ...     task = asyncio.ensure_future(Threads().finish(done.append, 1))
        ...     await asyncio.sleep(0)
        ...     task.cancel()
        ...     await asyncio.wait([task])
        ...     print(done, task.cancelled())
        >>> asyncio.run(main())
        [1] True
        """
        future = self.hand_over(functools.partial(work, *args, **kwargs), alone=True)
        waiter = _waiter(future)
        try:
            await asyncio.shield(waiter)
        except asyncio.CancelledError as cancelled:
            await _outlast(waiter)
            raise cancelled from future.exception()
        return future.result()

    async def begin(
        self,
        work: Callable[[], Value],
        undo: Callable[[Value], object],
        *,
        alone: bool = False,
        stop: Callable[[], object] | None = None,
    ) -> Value:
        """Return what `work` began. A cancelled await calls `stop`, waits, and gives what was begun to `undo`, in a
        thread, before it goes on being cancelled: nothing stays open that nobody holds.

        >>> async def main():
        ...     task = asyncio.ensure_future(Threads().begin(lambda: "a file", lambda name: print(name, "is closed")))
        ...     await asyncio.sleep(0)
        ...     task.cancel()
        ...     await asyncio.wait([task])
        >>> asyncio.run(main())
        a file is closed
        """
        future = self.hand_over(work, alone=alone)
        waiter = _waiter(future)
        try:
            await asyncio.shield(waiter)
        except asyncio.CancelledError as cancelled:
            if stop is not None:
                stop()
            await _outlast(waiter)
            if future.exception() is None:
                undone = self.hand_over(functools.partial(undo, future.result()), alone=True)
                await _outlast(_waiter(undone))
                if (failure := undone.exception()) is not None:
                    cancelled.add_note(f"turnlog could not end what was begun for this await: {failure}")
            raise
        return future.result()

    def hand_over(self, work: Callable[[], Value], *, alone: bool = False) -> Future[Value]:
        """Let a thread do it, in the caller's context, without waiting.

        >>> Threads().hand_over(lambda: 6 * 7).result()
        42
        """
        bound = functools.partial(contextvars.copy_context().run, work)
        if not (alone or self._closed):
            try:
                return self._pool.submit(bound)
            except RuntimeError:  # closed just now, by another loop or at the interpreter's exit
                self._closed = True
        return _in_own_thread(bound)

    def close(self) -> None:
        """Let the threads end when they have done what was handed to them; what comes later has threads of its own.

        >>> Threads().close()
        """
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


async def _answer(future: Future[Value]) -> Value:
    await _waiter(future)
    return future.result()


def _waiter(future: Future[Any]) -> asyncio.Future[None]:
    """Return what is done in this loop when `future` is; cancelling it does not touch `future`."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def tell(_: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, so nobody waits in it
            loop.call_soon_threadsafe(wake)

    future.add_done_callback(tell)
    return waiter


async def _outlast(waiter: asyncio.Future[None]) -> None:
    """Wait, whatever is cancelled meanwhile: the first cancellation goes on afterwards."""
    while not waiter.done():
        try:
            await asyncio.wait([waiter])
        except asyncio.CancelledError:
            continue


class Closing:
    """What is closed, and the close awaited, when its `async with` block is left."""

    if TYPE_CHECKING:

        async def close(self) -> None: ...  # noqa: D102 - the class has it

    async def __aenter__(self) -> Self:
        """Return the object itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()


class Facade(Generic[Core]):
    """What the wrappers have in common: the object of the sync core at `sync`, and the threads.

    Two wrappers of one object are equal.
    """

    def __init__(self, sync: Core, threads: Threads | None = None) -> None:
        """Wrap `sync`, which stays usable."""
        self.sync = sync
        self._threads = threads or Threads()

    @property
    def threads(self) -> Threads:
        """What does the work."""
        return self._threads

    async def in_thread(self, work: Callable[[Core], Value]) -> Value:
        """Call a function with the sync object in a worker thread: several steps with one change of threads.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         print(await session.in_thread(lambda session: [session.rename(title).ordinal for title in "ab"]))
        >>> asyncio.run(main())
        [2, 3]
        """
        return await self._threads.run(work, self.sync)

    def __eq__(self, other: object) -> bool:
        """Tell whether the same object is wrapped."""
        return isinstance(other, Facade) and other.sync is self.sync

    def __hash__(self) -> int:
        """Return what equal wrappers have in common."""
        return hash((Facade, id(self.sync)))

    def __repr__(self) -> str:
        """Show what is wrapped."""
        return f"<async {self.sync!r}>"
