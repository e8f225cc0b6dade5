"""Reading in the loop: batches of an iterator, feeds that wait for more, functions of the application called from it.

Owns: how an iterator of the sync core becomes an async one. Invariants: what was read before an error is handed out
before the error is raised; where a feed has nothing now, the loop waits, not a thread; functions of the application run
in the loop, in the order in which the core called them. Must not know: sessions, what is iterated over.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from turnlog.errors import Closed
from turnlog.feed.feed import POLL_S

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
    from concurrent.futures import Future

    from turnlog.aio.threads import Threads

P = ParamSpec("P")
Value = TypeVar("Value")
Call = functools.partial[object]  # of a function of the application, to be made in the loop

BATCH = 512
_LOOKS_AGAIN_S = 0.5


async def batches(threads: Threads, items: Iterator[Value], size: int = BATCH) -> AsyncGenerator[Value, None]:
    """Yield from an iterator that reads but never waits.

    >>> from turnlog.aio.threads import Threads
    >>> async def main():
    ...     print([item async for item in batches(Threads(), iter("abc"), 2)])
    >>> asyncio.run(main())
    ['a', 'b', 'c']
    """
    goes_on = True
    while goes_on:
        found, goes_on, error = await threads.run(_take, items, size)
        for item in found:
            yield item
        if error is not None:
            raise error


def _take(items: Iterator[Value], size: int) -> tuple[list[Value], bool, Exception | None]:
    """Return the next items, whether there may be more, and what ended the reading early."""
    found: list[Value] = []
    try:
        for item in items:
            found.append(item)
            if len(found) == size:
                return found, True, None
    except Exception as error:  # noqa: BLE001 - raised behind what came before it
        return found, False, error
    return found, False, None


class Steps(Generic[Value]):
    """The steps of a feed, taken in batches by a worker thread.

    >>> steps = Steps(lambda note: iter([1, None, 2]))
    >>> steps.take(), steps.take()
    (([1], True, None), ([2], False, None))
    """

    def __init__(self, begin: Callable[[Callable[[Call], None]], Iterator[Value | None]]) -> None:
        """Call `begin` with a function that notes a call in its place among the steps."""
        self._found: list[Value | Call] = []
        self._steps = begin(self._found.append)
        self._guard = threading.Lock()

    def take(self) -> tuple[list[Value | Call], bool, Exception | None]:
        """Return what there is now, whether the feed goes on, and what ended it.

        >>> Steps(lambda note: iter("ab")).take()
        (['a', 'b'], False, None)
        """
        with self._guard:
            self._found.clear()
            goes_on, error = False, None
            try:
                for item in self._steps:
                    if item is not None:
                        self._found.append(item)
                    if item is None or len(self._found) >= BATCH:
                        goes_on = True
                        break
            except Exception as failure:  # noqa: BLE001 - raised behind what came before it
                error = failure
            return list(self._found), goes_on, error

    def close(self) -> None:
        """Close the files.

        >>> Steps(lambda note: iter("ab")).close()
        """
        with self._guard:
            if hasattr(self._steps, "close"):
                self._steps.close()


async def followed(threads: Threads, steps: Steps[Value]) -> AsyncGenerator[Value, None]:
    """Yield from a feed; where there is nothing now, the loop waits, not a thread.

    >>> from turnlog.aio.threads import Threads
    >>> async def main():
    ...     print([item async for item in followed(Threads(), Steps(lambda note: iter([1, None, 2])))])
    >>> asyncio.run(main())
    [1, 2]
    """
    try:
        goes_on = True
        while goes_on:
            found, goes_on, error = await threads.run(steps.take)
            for item in found:
                if isinstance(item, functools.partial):
                    item()
                else:
                    yield item
            if error is not None:
                raise error
            if goes_on and len(found) < BATCH:
                await asyncio.sleep(POLL_S)
    finally:
        await threads.finish(steps.close)


class InLoop:
    """Calls functions of the application for a thread: what they return and can be awaited is awaited in the loop.

    Made in the loop, for one await; `stop` cancels what it still waits for.
    """

    def __init__(self) -> None:
        """Remember the running loop."""
        self._loop = asyncio.get_running_loop()
        self._guard = threading.Lock()
        self._waits: Future[Any] | None = None
        self._stopped = False

    def answering(self, function: Callable[P, Awaitable[Value] | Value]) -> Callable[P, Value]:
        """Return a function for a thread that returns what `function` does, or what that gives when awaited.

        >>> from turnlog.aio.threads import Threads
        >>> async def double(n):
        ...     return 2 * n
        >>> async def main():
        ...     print(await Threads().alone(InLoop().answering(double), 21))
        >>> asyncio.run(main())
        42
        """

        def call(*args: P.args, **kwargs: P.kwargs) -> Value:
            answer: Any = function(*args, **kwargs)
            found: Value = self._awaited(answer) if hasattr(answer, "__await__") else answer
            return found

        return call

    def _awaited(self, answer: Awaitable[Value]) -> Value:
        waiting = _await(answer)
        with self._guard:  # a `stop` comes before, or finds what to cancel
            if self._stopped or self._loop.is_closed():
                waiting.close()
                raise Closed("the await was cancelled, or its loop closed")
            future = asyncio.run_coroutine_threadsafe(waiting, self._loop)
            self._waits = future
        while True:
            try:
                return future.result(_LOOKS_AGAIN_S)
            except TimeoutError:
                if future.done():
                    raise  # of the function itself
                if self._loop.is_closed():
                    raise Closed("the loop was closed before the function had returned") from None

    def stop(self) -> None:
        """Cancel what is awaited, and let nothing more be.

        >>> async def main():
        ...     InLoop().stop()
        >>> asyncio.run(main())
        """
        with self._guard:
            self._stopped = True
            if self._waits is not None:
                self._waits.cancel()


async def _await(answer: Awaitable[Value]) -> Value:
    return await answer
