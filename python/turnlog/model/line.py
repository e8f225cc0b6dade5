"""Who works on a turn, and who waits in line for the next one.

Owns: the order of those who wait, and what can be told of a worker. Invariants: first come, first served; nobody waits
for a turn that cannot end while they wait. Must not know: what a turn is; of event loops, more than that a task ends.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from turnlog.errors import Closed, InvalidTransition

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnlog.model.live import Live

_WAKE_S = 0.2  # a waiting thread looks this often whether somebody outside the model changed the state


class Task(Protocol):
    """A task of an event loop, as far as it matters here."""

    @property
    def done(self) -> Callable[[], bool]:
        """What tells whether it has ended."""


class Worker:
    """Who asked for a turn and works on it: the calling thread, or a task, for which some thread asks.

    `gave_up` says that it waits no longer, `closes` that it is itself the one who closes the session.

    >>> Worker().goes_on(), Worker().is_same(Worker())
    (True, True)
    """

    def __init__(self, task: Task | None = None) -> None:
        """Remember the task, and the thread: the calling one, in which the task's loop runs."""
        self.task = task
        self.thread = threading.get_ident()
        self.gave_up = False
        self.closes = False

    def is_same(self, other: Worker) -> bool:
        """Tell whether both are the same thread, or the same task.

        >>> Worker().is_same(Worker())
        True
        """
        return self.task is other.task and (self.task is not None or self.thread == other.thread)

    def goes_on(self) -> bool:
        """Tell whether the thread, or the task, has not ended.

        >>> Worker().goes_on()
        True
        """
        if self.task is not None and self.task.done():
            return False
        return any(thread.ident == self.thread for thread in threading.enumerate())


def wait_in_line(live: Live, name: str, timeout_ms: int | None, worker: Worker) -> None:
    """Return, holding `order`, when no turn runs and nobody who came earlier waits.

    >>> from turnlog import Store
    >>> live = Store.ephemeral().create()._keeper()
    >>> with live.order:
    ...     wait_in_line(live, "t1", 0, Worker())
    """
    deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    ticket = object()
    live.waiting.append(ticket)
    try:
        while (running := live.current().turn) is not None or live.waiting[0] is not ticket:
            if live.closed:
                raise Closed("the session was closed while a turn waited", session=live.session.id)
            if running is not None:
                _refuse_endless(live, name, running.id, worker)
            if worker.gave_up or (deadline is not None and time.monotonic() >= deadline):
                waited = "no longer waits" if worker.gave_up else f"has waited {timeout_ms} ms"
                message = f"turn {name!r} {waited}, another one still runs"
                raise InvalidTransition(message, "turn_order", session=live.session.id)
            rest = _WAKE_S if deadline is None else min(_WAKE_S, max(0.0, deadline - time.monotonic()))
            live.order.wait(rest)
    finally:
        live.waiting.remove(ticket)
        live.order.notify_all()


def _refuse_endless(live: Live, name: str, running: str, worker: Worker) -> None:
    """Refuse to wait for a turn that cannot end while this worker waits."""
    if live.worker is None:
        message = f"turn {running!r} was left running by a process that is gone: resume the session"
    elif live.worker.is_same(worker):
        what = "thread" if worker.task is None else "task"
        message = f"turn {name!r} would wait for turn {running!r}, which this same {what} began"
    else:
        return
    raise InvalidTransition(message, "turn_order", session=live.session.id)
