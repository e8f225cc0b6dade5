"""Child processes that belong to a session: they do not outlive its close.

Owns: the registry, and stopping what is in it: asked first, then killed. Invariants: stopping ends at its deadline,
whatever a child does; a process that forked from the one that added a child leaves it alone. Must not know: sessions,
why a session closes.
"""

from __future__ import annotations

import os
import threading
import time

from turnlog.arguments import require_text
from turnlog.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    Process = TypeVar("Process")

_POLL_S = 0.01


class Child:
    """A process with `terminate`, `kill` and one of `poll`, `is_alive`, `returncode`: those of subprocess,
    multiprocessing and asyncio.
    """

    __slots__ = ("name", "process", "waits")

    def __init__(self, process: Any, name: str, *, waits: bool) -> None:
        """Keep it; `waits` gives it time to end by itself first."""
        self.process = process
        self.name = name
        self.waits = waits

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended yet."""
        process = self.process
        if hasattr(process, "poll"):
            return process.poll() is None
        if hasattr(process, "is_alive"):
            return bool(process.is_alive())
        return process.returncode is None

    def send(self, order: str) -> None:
        """Call `terminate` or `kill`, unless the process has ended.

        >>> class Job:
        ...     def terminate(self): print("asked")
        >>> Child(Job(), "tests", waits=False).send("terminate")
        asked
        """
        try:
            getattr(self.process, order)()
        except ProcessLookupError:
            return  # it ended by itself since it was asked
        except Exception:
            import logging

            logging.getLogger("turnlog").exception("%s of child %s failed", order, self.name)


class Children:
    """The child processes of one session. Thread-safe.

    >>> import subprocess, sys
    >>> from turnlog import Store
    >>> with Store.ephemeral() as store, store.create() as session:
    ...     server = session.children.add(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
    ...     server.poll() is None
    True
    >>> server.poll() is None, server.stdin.close()
    (False, None)
    """

    def __init__(self) -> None:
        """Hold none."""
        self._pid = os.getpid()
        self._guard = threading.Lock()
        self._children: tuple[Child, ...] = ()

    def add(self, process: Process, *, name: str | None = None, wait: bool = False) -> Process:
        """Let a process be stopped when the session closes; return it.

        It is terminated, and killed when it does not end. With `wait` it is first given half of the time to end by
        itself. `process` is a subprocess.Popen, a multiprocessing.Process, an asyncio process or the like.

        >>> class Job:
        ...     returncode = None
        ...     def terminate(self): self.returncode = -15
        ...     def kill(self): self.returncode = -9
        >>> children = Children()
        >>> job = children.add(Job(), name="tests")
        >>> children.names(), stop_children([children], 0.1), job.returncode
        (['tests'], [], -15)
        """
        require_text("name", name, optional=True)
        if not all(hasattr(process, order) for order in ("terminate", "kill")):
            raise InvalidInput(f"a child has `terminate` and `kill`, such as a subprocess.Popen: not {process!r}")
        child = Child(process, name or str(getattr(process, "pid", process)), waits=wait)
        with self._guard:
            self._children = (*self.running(), child)
        return process

    def names(self) -> list[str]:
        """Return the names of those that run: as given, or the process id.

        >>> Children().names()
        []
        """
        return [child.name for child in self.running()]

    def running(self) -> tuple[Child, ...]:
        """Return the children that run; none in a process that is not the one that began this registry.

        >>> Children().running()
        ()
        """
        return tuple(child for child in self.known() if child.is_running)

    def known(self) -> tuple[Child, ...]:
        """Return those that ran when the last one was added, without asking them.

        >>> Children().known()
        ()
        """
        return self._children if os.getpid() == self._pid else ()


class _Stop:
    """The stopping of one child, by threads that nobody waits for: each of its methods may hang."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.ended = threading.Event()
        self._is_watched = _aside(self._watch)

    def order(self, order: str) -> None:
        if not self.ended.is_set() and not _aside(lambda: self.child.send(order)):
            self.child.send(order)

    def has_ended(self, until: float) -> bool:
        """Tell it when it is so, or at a moment of the monotonic clock."""
        if self._is_watched:
            return self.ended.wait(max(0.0, until - time.monotonic()))
        while self.child.is_running and time.monotonic() < until:
            time.sleep(_POLL_S)
        return not self.child.is_running

    def _watch(self) -> None:
        try:
            while self.child.is_running:
                time.sleep(_POLL_S)
        except Exception:
            import logging

            logging.getLogger("turnlog").exception("child %s does not say whether it runs", self.child.name)
        else:
            self.ended.set()


def stop_children(registries: Iterable[Children], within_s: float) -> list[str]:
    """Stop all children and return the names of those that are still there at the end of the time.

    Half of the time passes before those that may end by themselves are terminated, three quarters before any is killed.
    A method of a child that hangs holds nothing: it is left behind in a daemon thread, and the child counts as there.

    >>> stop_children([Children()], 1.0)
    []
    """
    began = time.monotonic()
    stops = [_Stop(child) for registry in registries for child in registry.known()]
    for stop in stops:
        if not stop.child.waits:
            stop.order("terminate")
    for stop in _wait([stop for stop in stops if stop.child.waits], began + within_s / 2):
        stop.order("terminate")
    left = _wait(stops, began + within_s * 3 / 4)
    for stop in left:
        stop.order("kill")
    return [stop.child.name for stop in _wait(left, began + within_s)]


def _wait(stops: list[_Stop], until: float) -> list[_Stop]:
    """Return those whose child still runs at a moment of the monotonic clock, or none as soon as all have ended."""
    return [stop for stop in stops if not stop.has_ended(until)]


def _aside(work: Callable[[], None]) -> bool:
    """Let a daemon thread do something, unless the interpreter ends and starts none any more; tell which."""
    try:
        threading.Thread(target=work, name="turnlog-children", daemon=True).start()
    except RuntimeError:
        return False
    return True
