"""The session lock: one writer per session, across processes and forks.

Owns: the `LOCK` file of a session folder. Invariants: the kernel's flock is the only truth, the text inside serves
messages; the file is never deleted; a lock whose file was replaced behind our back is not held. Must not know: what
the lock protects. Source of the rules: flock(2); an inherited descriptor shares the lock, so a forked child closes
its copy without unlocking.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from contextlib import suppress

from turnlog import disk
from turnlog.errors import Locked, TurnlogError, WrongProcess
from turnlog.names import LOCK

_RETRIES = 5
_RETRY_MS = 20  # a killed writer's descriptors may outlive it for a moment
_TEXT_MAX_BYTES = 400
_FILE_MODE = 0o600

_held: weakref.WeakSet[SessionLock] = weakref.WeakSet()


class SessionLock:
    """An exclusive hold on one session folder, released by `release()` or by the death of the process."""

    def __init__(self, directory: str) -> None:
        """Take the lock of the session in `directory`, or raise Locked naming the holder."""
        self._path = os.path.join(directory, LOCK)
        self._pid = os.getpid()
        try:
            self._descriptor = self._take()
        except OSError as error:
            if isinstance(error, TurnlogError):
                raise
            raise disk.translate(error, f"taking the lock {self._path}") from error
        _held.add(self)

    def _take(self) -> int:
        for attempt in range(_RETRIES):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
            kept = False
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _same_file(descriptor, self._path):
                    with suppress(OSError):  # a full disk: the text only serves messages, the kernel holds the lock
                        _describe(descriptor)
                    kept = True
                    return descriptor
            except BlockingIOError:
                if attempt == _RETRIES - 1:
                    who = holder(os.path.dirname(self._path)) or "holder unknown"
                    message = f"the session is being written by another program: {who}"
                    raise Locked(message) from None
                time.sleep(_RETRY_MS / 1000)
            finally:
                if not kept:  # also a file that was replaced between open and flock: two holders would both believe
                    os.close(descriptor)
        message = f"the lock file {self._path} keeps being replaced"
        raise Locked(message)

    def check(self) -> None:
        """Raise WrongProcess in a forked child, Locked when the lock file was deleted or replaced."""
        if os.getpid() != self._pid:
            message = f"the session is open for writing in the parent process {self._pid}"
            raise WrongProcess(message)
        try:
            same = _same_file(self._descriptor, self._path)
        except OSError as error:
            raise disk.translate(error, f"looking at the lock {self._path}") from error
        if not same:
            message = (
                f"the lock file {self._path} was deleted or replaced; writing stops before a second writer can mix in"
            )
            raise Locked(message)

    def release(self) -> None:
        """Let the next writer in; idempotent. In a forked child only the copy of the descriptor is closed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def is_locked(directory: str) -> bool:
    """Tell whether a live writer holds the session in `directory`; creates nothing."""
    try:
        descriptor = os.open(os.path.join(directory, LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def holder(directory: str) -> str:
    """Return the text of the lock file: who holds it, or held it last."""
    try:
        with open(os.path.join(directory, LOCK), "rb") as file:
            return file.read(_TEXT_MAX_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""  # the text only serves messages


def _describe(descriptor: int) -> None:
    host = os.uname().nodename
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    text = f"pid {os.getpid()} on {host}, boot {_boot_id()}, since {started}\n".encode()
    os.ftruncate(descriptor, 0)
    disk.write_all(descriptor, text[:_TEXT_MAX_BYTES], 0)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read(8).decode()
    except OSError:
        return "unknown"  # macOS has no such file; the text is only for messages


def _same_file(descriptor: int, path: str) -> bool:
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _close_in_child() -> None:
    """Close inherited descriptors after fork: unlocking would free the parent's lock, keeping them would outlive it."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_close_in_child)
