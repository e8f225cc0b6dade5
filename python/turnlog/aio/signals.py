"""Closing a store at a signal while an asyncio loop runs.

Owns: the handlers in the loop. Invariants: the store is closed by a task, so that the tasks that work on turns can end
them; then the signal does what it would have done before; a process that hangs in the close is ended by force. Must not
know: how a store is closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from turnlog.errors import TurnlogError
from turnlog.shutdown import end_by_force

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from turnlog.aio.store import AsyncStore


class AsyncSignalClose:
    """Closes a store at a signal, then lets the signal do what it did before; made by `AsyncStore.close_on_signals`."""

    def __init__(self, store: AsyncStore, signals: tuple[int, ...], deadline_ms: int) -> None:
        """Install the handlers in the running loop, that of the main thread."""
        store.sync._refuse_closed()
        self._store = store
        self._deadline_ms = deadline_ms
        self._loop = asyncio.get_running_loop()
        self._closing: asyncio.Task[None] | None = None
        self._previous: dict[int, Any] = {}
        for signum in signals or (signal.SIGTERM,):
            previous = signal.getsignal(signum)
            self._loop.add_signal_handler(signum, self._handle, signum)
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

    def _handle(self, signum: int) -> None:
        if self._closing is None:  # a second signal changes nothing; the first one ends the process
            self._closing = self._loop.create_task(self._close(signum))

    async def _close(self, signum: int) -> None:
        closed: list[bool] = []
        force = threading.Thread(target=end_by_force, args=(self._deadline_ms, closed), daemon=True)
        force.start()
        try:
            await self._store.close(deadline_ms=self._deadline_ms)
        except TurnlogError:  # the process ends; the log holds what was acknowledged
            logging.getLogger("turnlog").exception("closing %r failed", self._store)
        closed.append(True)
        self.restore()
        os.kill(os.getpid(), signum)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back the handlers."""
        self.restore()
