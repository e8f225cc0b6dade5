"""Ordered shutdown: nothing new, running turns asked to stop, children stopped; then the sessions close.

Owns: the order and its deadline, closing at a signal and when the interpreter exits. Invariants: what hangs, hangs
until the deadline and no longer; an event that was acknowledged is in the log whatever happens here; a signal ends the
process the way it would have without us. Must not know: how a session is closed, what a turn does.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import time

from turnlog.children import stop_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType, TracebackType
    from typing import Any, Self

    from turnlog.model.live import Live
    from turnlog.session import Session
    from turnlog.store import Store

DEADLINE_MS = 10_000
_TURNS_PART = 0.4  # of the time, for turns to end by themselves; children have the rest
_POLL_S = 0.005
_TRIES = 100  # how often a signal waits for the main thread to leave turnlog's own code, every 5 ms
_BEYOND_S = 5.0

_open_stores: dict[int, Store] = {}  # those that write, by id(): strong, so that the exit finds them


def stop_work(sessions: Iterable[Session], deadline_ms: int) -> list[str]:
    """Refuse new turns, steps and calls, ask running turns to stop and wait for them, stop the children.

    Return the names of children that could not be stopped in time. A turn whose thread is the calling one, or has
    ended, is not waited for; a tool that another thread runs is.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> turn = session.turn("hello")
    >>> stop_work([session], 1000), turn.cancelled.is_set()
    ([], True)
    """
    sessions = list(sessions)
    end = time.monotonic() + deadline_ms / 1000
    turns_end = time.monotonic() + deadline_ms / 1000 * _TURNS_PART
    kept = [live for session in sessions if (live := session._kept()) is not None]
    for live in kept:
        live.close()
    while any(_is_worked_on(live) or live.book.runs_elsewhere() for live in kept) and time.monotonic() < turns_end:
        time.sleep(_POLL_S)
    registries = [found for session in sessions if (found := session._kept_children()) is not None]
    left = stop_children(registries, max(0.0, end - time.monotonic()))
    if left:
        import logging

        logging.getLogger("turnlog").error("children that could not be stopped: %s", ", ".join(left))
    return left


def _is_worked_on(live: Live) -> bool:
    """Tell whether another thread, or a task, that goes on began the running turn."""
    worker = live.worker
    if worker is None or worker.closes or worker.thread == threading.get_ident() or live.running_turn() is None:
        return False
    return worker.goes_on()


# -- at exit -----------------------------------------------------------------------------------------------------------


def close_at_exit(store: Store) -> None:
    """Close a store when the interpreter exits, unless it is closed before.

    >>> from turnlog import Store
    >>> store = Store.ephemeral()
    >>> close_at_exit(store); store.close()
    """
    if not _open_stores:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _open_stores[id(store)] = store


def forget(store: Store) -> None:
    """Drop a store that was closed.

    >>> from turnlog import Store
    >>> forget(Store.ephemeral())
    """
    _open_stores.pop(id(store), None)


def _close_all() -> None:
    for store in list(_open_stores.values()):
        _close(store, DEADLINE_MS)


def _close(store: Store, deadline_ms: int) -> None:
    try:
        store.close(deadline_ms=deadline_ms)
    except Exception:  # the process ends, and the other stores must still be closed
        import logging

        logging.getLogger("turnlog").exception("closing %r failed; the log holds what was acknowledged", store)


# -- at a signal -------------------------------------------------------------------------------------------------------


class SignalClose:
    """Closes a store at a signal, then lets the signal do what it did before; made by `Store.close_on_signals`."""

    def __init__(self, store: Store, signals: Iterable[int], deadline_ms: int) -> None:
        """Install the handlers; only the main thread may."""
        import signal

        self._store = store
        self._deadline_ms = deadline_ms
        self._pid = os.getpid()
        self._tries = 0
        self._closing = False
        self._previous: dict[int, Any] = {}
        for signum in signals:
            self._previous[signum] = signal.signal(signum, self._handle)

    def restore(self) -> None:
        """Put back the handlers that were there before, where ours are still installed; only in the main thread.

        >>> import signal
        >>> from turnlog import Store
        >>> before = signal.getsignal(signal.SIGTERM)
        >>> with Store.ephemeral() as store:
        ...     store.close_on_signals().restore()
        >>> signal.getsignal(signal.SIGTERM) is before
        True
        """
        import signal

        if threading.current_thread() is not threading.main_thread():
            return
        for signum, previous in self._previous.items():
            if signal.getsignal(signum) == self._handle:
                signal.signal(signum, signal.SIG_DFL if previous is None else previous)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        import signal

        if self._closing:
            return  # a second signal; the first one ends the process
        if os.getpid() == self._pid:
            if _is_inside(frame) and self._tries < _TRIES:
                self._tries += 1
                _thread.start_new_thread(_send_again, (threading.get_ident(), signum))
                return  # the main thread may hold a lock that closing needs
            self._closing = True
            closed: list[bool] = []
            _thread.start_new_thread(end_by_force, (self._deadline_ms, closed))
            _close(self._store, self._deadline_ms)
            closed.append(True)
        previous = self._previous[signum]
        self.restore()
        if callable(previous):
            previous(signum, frame)
        elif previous != signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back the handlers."""
        self.restore()


def _is_inside(frame: FrameType | None) -> bool:
    """Tell whether the code that was interrupted is turnlog's own, possibly by way of the standard library."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package not in sys.stdlib_module_names or package == "__main__":
            return package == "turnlog"
        frame = frame.f_back
    return False


def _send_again(thread: int, signum: int) -> None:
    """Signal the main thread once more, where handlers run."""
    import signal

    time.sleep(_POLL_S)
    signal.pthread_kill(thread, signum)


def end_by_force(deadline_ms: int, closed: list[bool]) -> None:
    """End the process when closing hangs five seconds beyond its deadline, such as on a disk that does not answer;
    `closed` then is still empty. For a thread.

    >>> end_by_force(-5000, [True])
    """
    import signal

    time.sleep(max(0.0, deadline_ms / 1000 + _BEYOND_S))
    if not closed:
        os.kill(os.getpid(), signal.SIGKILL)
