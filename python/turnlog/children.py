"""Child processes that belong to a session: they do not outlive its close.

Owns: the registry, and stopping what is in it: asked first, then killed. Invariants: stopping ends at its deadline,
whatever a child does; a process that forked from the one that added a child leaves it alone. Must not know: sessions,
why a session closes.
"""

from __future__ import annotations

import os
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
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
        return tuple(child for child in self._children if child.is_running) if os.getpid() == self._pid else ()


def stop_children(registries: Iterable[Children], within_s: float) -> list[str]:
    """Stop all children and return the names of those that are still there at the end of the time.

    Half of the time passes before those that may end by themselves are terminated, three quarters before any is killed.

    >>> stop_children([Children()], 1.0)
    []
    """
    children = [child for registry in registries for child in registry.running()]
    began = time.monotonic()
    for child in children:
        if not child.waits:
            child.send("terminate")
    left = _wait([child for child in children if child.waits], began + within_s / 2)
    for child in left:
        child.send("terminate")
    left = _wait(children, began + within_s * 3 / 4)
    for child in left:
        child.send("kill")
    return [child.name for child in _wait(left, began + within_s)]


def _wait(children: list[Child], until: float) -> list[Child]:
    """Return those that still run at a moment of the monotonic clock, or none as soon as all have ended."""
    while (left := [child for child in children if child.is_running]) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return left
