"""Closing a store at a signal while an asyncio loop runs.

Owns: the handlers in the loop. Invariants: the store is closed by a task, so that the tasks that work on turns can end
them, and those that do not are cancelled; then the signal does what it would have done before, also when the loop ends
meanwhile; a process that hangs in the close, or whose loop never comes to it, is ended by force. Must not know: how a
store is closed.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import logging
import os
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from turnlog.errors import TurnlogError
from turnlog.shutdown import TURNS_PART
from turnlog.signals import ASKED_PART, POLL_S, ask_to_stop, end_by_force

if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Self

    from turnlog.aio.store import AsyncStore
    from turnlog.model.live import Live


class AsyncSignalClose:
    """Closes a store at a signal, then lets the signal do what it did before; made by `AsyncStore.close_on_signals`."""

    def __init__(self, store: AsyncStore, signals: tuple[int, ...], deadline_ms: int) -> None:
        """Install the handlers in the running loop, that of the main thread."""
        store.sync._refuse_closed()
        self._store = store
        self._deadline_ms = deadline_ms
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        self._ended: list[bool] = []  # filled when the signal has had its say, so that nothing is forced any more
        self._is_noticed = False
        self._previous: dict[int, Any] = {}
        for signum in signals or (signal.SIGTERM,):
            previous = signal.getsignal(signum)
            self._loop.add_signal_handler(signum, self._handle, signum)
            signal.signal(signum, partial(self._notice, signal.getsignal(signum)))
            signal.siginterrupt(signum, False)
            self._previous[signum] = previous

    def restore(self) -> None:
        """Put back the handlers that were there before; only in the main thread.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     before = signal.getsignal(signal.SIGTERM)
        ...     async with AsyncStore.ephemeral() as store:
        ...         store.close_on_signals().restore()
        ...     return signal.getsignal(signal.SIGTERM) is before
        >>> asyncio.run(main())
        True
        """
        if threading.current_thread() is not threading.main_thread():
            return
        while self._previous:
            signum, previous = self._previous.popitem()
            if self._loop.remove_signal_handler(signum):
                signal.signal(signum, signal.SIG_DFL if previous is None else previous)

    def _notice(self, of_loop: Any, signum: int, frame: FrameType | None) -> None:
        """Begin to count the time when the signal comes, not when the loop hears of it: something may block it."""
        if not self._is_noticed:
            self._is_noticed = True
            _thread.start_new_thread(end_by_force, (self._deadline_ms, self._ended))
        if callable(of_loop):
            of_loop(signum, frame)

    def _handle(self, signum: int) -> None:
        if self._closing is None:  # a second signal changes nothing; the first one ends the process
            self._closing = self._loop.create_task(self._close(signum))

    async def _close(self, signum: int) -> None:
        end = self._loop.time() + self._deadline_ms / 1000
        try:
            with contextlib.suppress(asyncio.CancelledError):  # the main task has ended, so the loop ends
                await self._end_turns(signum)
            await self._store.close(deadline_ms=max(0, round(1000 * (end - self._loop.time()))))
        except TurnlogError:  # the process ends; the log holds what was acknowledged
            logging.getLogger("turnlog").exception("closing %r failed", self._store)
        finally:
            self._ended.append(True)
            self.restore()
            os.kill(os.getpid(), signum)

    async def _end_turns(self, signum: int) -> None:
        """Ask the turns to stop, then cancel the tasks that go on with them."""
        began, deadline_s = self._loop.time(), self._deadline_ms / 1000
        kept = await self._store.threads.alone(ask_to_stop, self._store.sync, signum)
        await self._wait_while_tasks_work(kept, began + deadline_s * ASKED_PART)
        for task in _at_work(kept):
            task.get_loop().call_soon_threadsafe(task.cancel)
        await self._wait_while_tasks_work(kept, began + deadline_s * TURNS_PART)

    async def _wait_while_tasks_work(self, kept: list[Live], end: float) -> None:
        while _at_work(kept) and self._loop.time() < end:  # noqa: ASYNC110 - turns set no event of a loop
            await asyncio.sleep(POLL_S)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back the handlers."""
        self.restore()


def _at_work(kept: list[Live]) -> list[asyncio.Task[Any]]:
    """Return the tasks that work on a running turn."""
    workers = [live.worker for live in kept if live.running_turn() is not None]
    tasks = [worker.task for worker in workers if worker is not None]
    return [task for task in tasks if isinstance(task, asyncio.Task) and not task.done()]
