"""Ordered shutdown: nothing new, running turns asked to stop, children stopped; then the sessions close.

Owns: the order and its deadline, closing when the interpreter exits. Invariants: what hangs, hangs until the deadline
and no longer; an event that was acknowledged is in the log whatever happens here. Must not know: how a session is
closed, what a turn does, what a signal is (signals.py).
"""

from __future__ import annotations

import atexit
import threading
import time

from turnlog.children import stop_children
from turnlog.errors import TurnlogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from turnlog.model.live import Live
    from turnlog.model.turn import Turn
    from turnlog.session import Session
    from turnlog.store import Store

DEADLINE_MS = 10_000
TURNS_PART = 0.4  # of the time, for turns to end by themselves; children have the rest
_POLL_S = 0.005

_open_stores: dict[int, Store] = {}  # those that write, by id(): strong, so that the exit finds them
_last: list[Callable[[], None]] = []  # what the exit does when all of them are closed


def stop_work(sessions: Iterable[Session], deadline_ms: int) -> list[str]:
    """Refuse new turns, steps and calls, ask running turns to stop and wait for them, stop the children.

    Return the names of children that could not be stopped in time. A turn whose thread is the calling one, or has
    ended, is not waited for; a tool that another thread runs is. When a signal closes, the calling thread's turn is
    aborted: that thread does not come back to it.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> turn = session.turn("hello")
    >>> stop_work([session], 1000), turn.cancelled.is_set()
    ([], True)
    """
    sessions = list(sessions)
    end = time.monotonic() + deadline_ms / 1000
    turns_end = time.monotonic() + deadline_ms / 1000 * TURNS_PART
    kept = [live for session in sessions if (live := session._kept()) is not None]
    for live in kept:
        live.close()
    while any(_is_worked_on(live) or live.book.runs_elsewhere() for live in kept) and time.monotonic() < turns_end:
        time.sleep(_POLL_S)
    registries = [found for session in sessions if (found := session._kept_children()) is not None]
    left = stop_children(registries, max(0.0, end - time.monotonic()))
    for live in kept:
        _abort_own(live)
    if left:
        import logging

        logging.getLogger("turnlog").error("children that could not be stopped: %s", ", ".join(left))
    return left


def _is_worked_on(live: Live) -> bool:
    """Tell whether another thread, or a task, that goes on began the running turn."""
    worker = live.worker
    if worker is None or worker.closes or worker.thread in _closing(live) or live.running_turn() is None:
        return False
    return worker.goes_on()


def _closing(live: Live) -> set[int | None]:
    """Return the threads that do not come back to their turns: the calling one, at a signal the main one too."""
    here = threading.get_ident()
    return {here} if live.ended_by is None else {here, threading.main_thread().ident}


def own_turn(live: Live, thread: int) -> Turn | None:
    """Return the running turn if a thread began it.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> turn = session.turn("hello")
    >>> own_turn(session._keeper(), threading.get_ident()) is turn, own_turn(session._keeper(), 0)
    (True, None)
    """
    worker = live.worker
    return live.running_turn() if worker is not None and worker.thread == thread else None


def _abort_own(live: Live) -> None:
    worker = live.worker
    turn = live.running_turn() if worker is not None and worker.thread in _closing(live) else None
    if live.ended_by is None or turn is None:
        return
    try:
        turn.abort(f"interrupted by {live.ended_by}")
    except TurnlogError:  # the session must still be closed; without an outcome the turn is interrupted at the resume
        import logging

        logging.getLogger("turnlog").exception("the end of turn %s could not be recorded", turn.id)


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
        close_anyway(store, DEADLINE_MS)
    while _last:
        _last.pop()()


def at_last(end: Callable[[], None]) -> None:
    """Call a function when the interpreter exits and the stores are closed; only with a store open for writing.

    >>> at_last(lambda: None)
    >>> _last.pop()()
    """
    _last.append(end)


def close_anyway(store: Store, deadline_ms: int) -> None:
    """Close a store; an error is logged.

    >>> from turnlog import Store
    >>> close_anyway(Store.ephemeral(), 500)
    """
    try:
        store.close(deadline_ms=deadline_ms)
    except Exception:  # the process ends, and the other stores must still be closed
        import logging

        logging.getLogger("turnlog").exception("closing %r failed; the log holds what was acknowledged", store)
