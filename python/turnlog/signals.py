"""Closing a store at a signal: turns are asked to stop, what does not is interrupted, then the store closes.

Owns: the handler, and the exception that ends a turn of the main thread. Invariants: the process ends by the signal,
the way it would have without us, at the deadline at the latest and five seconds after it by force; a second signal
changes nothing. The main thread closes nothing inside turnlog's own code, where it may hold a lock: it does so when it
leaves that, and another thread if it does not within half a second. Must not know: how a store is closed, what a turn
does.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import sys
import threading
import time

from turnlog.shutdown import TURNS_PART, at_last, close_anyway, own_turn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType, TracebackType
    from typing import Any, Self

    from turnlog.model.live import Live
    from turnlog.store import Store

ASKED_PART = 0.2  # of the time, for turns to end because they were asked to; then comes the exception
POLL_S = 0.005
PUT_OFF_S = 0.5  # so long a signal waits for the main thread to leave turnlog's own code
_BEYOND_S = 5.0
_IMPORTERS = {"importlib._bootstrap", "_frozen_importlib"}
_LIBRARIES = sys.stdlib_module_names | {"apsw", "msgspec", "xxhash", "zstandard"}


class SignalExit(SystemExit):
    """Raised in the main thread for a signal that ends the process: `with` blocks end their turns, then the store.

    No Exception, like KeyboardInterrupt. `signum` is the signal, `code` 128 more.

    >>> str(SignalExit(15)), SignalExit(15).code
    ('SIGTERM', 143)
    """

    def __init__(self, signum: int) -> None:
        """Remember the signal."""
        super().__init__(128 + signum)
        self.signum = signum

    def __str__(self) -> str:
        """Name the signal."""
        return name_of(self.signum)


class SignalClose:
    """Closes a store at a signal, then lets the signal do what it did before; made by `Store.close_on_signals`."""

    def __init__(self, store: Store, signals: Iterable[int], deadline_ms: int) -> None:
        """Install the handlers; only the main thread may."""
        import signal

        self._store = store
        self._deadline_ms = deadline_ms
        self._pid = os.getpid()
        self._began = 0.0  # when the first signal came
        self._asked: list[Live] = []
        self._due = True  # the signal is the first one, or our own, for the next thing to do
        self._put_off_until = 0.0  # while the main thread is inside turnlog's own code
        self._raised = False
        self._closes = False  # the handler does, for good
        self._closed = False  # the store
        self._is_over = False  # for another thread, which cannot put back what the signal did before
        self._ended: list[bool] = []  # filled when the signal has had its say, so that nothing is forced any more
        self._previous: dict[int, Any] = {}
        for signum in signals:
            self._previous[signum] = signal.signal(signum, self._handle)

    def restore(self) -> None:
        """Put back the handlers that were there before, where ours are still installed; only in the main thread.

        While a signal ends the process, they stay until the store is closed.

        >>> import signal
        >>> from turnlog import Store
        >>> before = signal.getsignal(signal.SIGTERM)
        >>> with Store.ephemeral() as store:
        ...     store.close_on_signals().restore()
        >>> signal.getsignal(signal.SIGTERM) is before
        True
        """
        if not self._began:
            self._put_back()

    def _put_back(self) -> None:
        import signal

        if threading.current_thread() is not threading.main_thread():
            return
        for signum, previous in self._previous.items():
            if signal.getsignal(signum) == self._handle:
                signal.signal(signum, signal.SIG_DFL if previous is None else previous)

    def store_closed(self) -> None:
        """Give a handler that was there its say after a close by `with`; else put back the handlers (for `Store`).

        >>> from turnlog import Store
        >>> Store.ephemeral().close_on_signals().store_closed()
        """
        self._closed = True
        if not self._began:
            self._put_back()
        elif self._raised and not self._ended and callable(self._previous[self._signum]):
            self._let_go()

    # -- what happens at a signal, in the main thread ------------------------------------------------------------------

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self._is_over:
            self._let_go()
        if self._ended or not self._due:
            return  # a second signal; the first one ends the process
        if os.getpid() != self._pid:
            self._signum = signum
            self._let_go()
            return
        if not self._began:
            self._due = False
            self._begin(signum)
            return
        inside = _is_inside(frame)
        if inside and time.monotonic() < self._put_off_until:
            sys.setprofile(self._at_return)  # the main thread may hold a lock that closing needs
            return
        self._act(inside=inside)

    def _at_return(self, frame: FrameType, event: str, _value: object) -> None:
        """Do what is due when the main thread leaves turnlog's own code: it holds none of its locks then."""
        if event == "return" and not _is_inside(frame.f_back):
            sys.setprofile(None)
            if self._due and not self._ended:
                self._act(inside=False)

    def _act(self, *, inside: bool) -> None:
        self._due = False
        if not self._raised and self._has_own_turn(threading.get_ident()):
            self._raised = True
            raise SignalExit(self._signum)
        self._closes = True
        if inside:  # it waits there for something; what it holds it may still give back
            _thread.start_new_thread(self._close_aside, ())
        else:
            self._close()

    def _close(self) -> None:
        rest_ms = round(1000 * max(0.0, self._began + self._deadline_ms / 1000 - time.monotonic()))
        close_anyway(self._store, rest_ms)
        self._let_go()

    def _close_aside(self) -> None:
        self._close()
        while not self._ended:  # the main thread may just have begun to wait when the signal came
            _wait_while(lambda: not self._ended, time.monotonic() + PUT_OFF_S)
            self._let_go()

    def _begin(self, signum: int) -> None:
        """Begin in other threads: a handler may have interrupted code that holds any lock, such as that of a flag."""
        self._signum = signum
        self._began = time.monotonic()
        at_last(self._let_go)
        _thread.start_new_thread(end_by_force, (self._deadline_ms, self._ended))
        _thread.start_new_thread(self._go_on, (threading.get_ident(),))

    def _has_own_turn(self, thread: int) -> bool:
        return any(own_turn(live, thread) is not None for live in self._asked)

    def _let_go(self) -> None:
        """Let the signal do what it did before; ends the process unless a handler was there."""
        import signal

        if self._ended:
            return
        main = threading.main_thread()
        if threading.current_thread() is not main:
            self._is_over = True
            signal.pthread_kill(main.ident or 0, self._signum)
            return
        self._ended.append(True)
        previous = self._previous[self._signum]
        self._put_back()
        if previous == signal.SIG_IGN:
            return
        if not callable(previous):
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(AttributeError, OSError, ValueError, RuntimeError):  # none, unread, or in use
                    stream.flush()
            signal.signal(self._signum, signal.SIG_DFL)
        os.kill(os.getpid(), self._signum)

    # -- what makes it go on, in a thread ------------------------------------------------------------------------------

    def _go_on(self, main: int) -> None:
        """Ask turns to stop; signal the main thread again when its turns have ended or had their time, and when its
        blocks had theirs.
        """
        deadline_s = self._deadline_ms / 1000
        self._asked = ask_to_stop(self._store, self._signum)
        _wait_while(lambda: self._has_own_turn(main), self._began + deadline_s * ASKED_PART)
        self._send(main)
        _wait_while(lambda: not (self._raised or self._closes), self._began + deadline_s)  # it may be put off
        _wait_while(lambda: not (self._closed or self._closes), self._began + deadline_s * TURNS_PART)
        if self._closed:  # the blocks around it may still have something to do
            _wait_while(lambda: not self._ended, self._began + deadline_s)
        while not (self._ended or self._closes):
            self._send(main)

    def _send(self, main: int) -> None:
        """Let the main thread do what is due: when it leaves turnlog's own code, or after a while even there."""
        import signal

        self._due, self._put_off_until = True, time.monotonic() + PUT_OFF_S
        for _ in range(2):
            if not self._due or self._ended or self._closes:
                return
            signal.pthread_kill(main, self._signum)
            _wait_while(lambda: self._due and not self._ended, self._put_off_until)

    _signum = 0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back the handlers."""
        self.restore()


def name_of(signum: int) -> str:
    """Return the name of a signal.

    >>> name_of(15)
    'SIGTERM'
    """
    import signal

    try:
        return signal.Signals(signum).name
    except ValueError:  # a real-time signal
        return f"signal {signum}"


def ask_to_stop(store: Store, signum: int) -> list[Live]:
    """Let the sessions of a store take no new work and ask their turns to stop, for a signal; return their states.

    >>> from turnlog import Store
    >>> store = Store.ephemeral()
    >>> turn = store.create().turn("hello")
    >>> len(ask_to_stop(store, 15)), turn.cancelled.is_set()
    (1, True)
    """
    kept = [live for session in store._open_sessions() if (live := session._kept()) is not None]
    for live in kept:
        live.close(name_of(signum))
    return kept


def end_by_force(deadline_ms: int, ended: list[bool]) -> None:
    """End the process when closing hangs five seconds beyond its deadline, such as on a disk that does not answer;
    `ended` then is still empty. For a thread.

    >>> end_by_force(-5000, [True])
    """
    import signal

    time.sleep(max(0.0, deadline_ms / 1000 + _BEYOND_S))
    if not ended:
        os.kill(os.getpid(), signal.SIGKILL)


def _is_inside(frame: FrameType | None) -> bool:
    """Tell whether the code that runs in a frame is turnlog's own, possibly by way of a library or of an import, which
    may call anybody's hooks.
    """
    is_foreign = False
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        package = name.partition(".")[0]
        if package == "turnlog":
            return not is_foreign
        if name in _IMPORTERS:
            is_foreign = False
        elif package == "__main__" or package not in _LIBRARIES:
            is_foreign = True
        frame = frame.f_back
    return False


def _wait_while(holds: Callable[[], bool], end: float) -> None:
    """Wait while something holds, at most until a moment of the monotonic clock."""
    while holds() and time.monotonic() < end:
        time.sleep(POLL_S)
