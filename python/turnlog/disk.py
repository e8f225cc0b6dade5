"""Durable file operations: what must be on stable storage before the next step may happen.

Owns: the order write, sync, rename, sync of the directory. Invariant: a function returns only after what it made
survives a power cut. Must not know: segments, sessions or what the bytes mean.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

from turnlog.errors import NoSpace, ReadOnly, StorageError, TurnlogError, Unsupported
from turnlog.names import TEMP_SUFFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_COPY_BYTES = 1024 * 1024
_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700


def require_platform() -> None:
    """Raise Unsupported where turnlog cannot keep its durability promise (needs flock and fdatasync or F_FULLFSYNC)."""
    if sys.platform not in {"linux", "darwin"}:
        message = f"turnlog keeps its durability promise on Linux and macOS only, not on {sys.platform}"
        raise Unsupported(message)


def translate(error: OSError, doing: str) -> TurnlogError:
    """Return the typed error for an OSError met while `doing` something."""
    message = f"{doing}: {error.strerror or error}"
    if error.errno in NO_SPACE:
        return NoSpace(message, error.errno)
    if error.errno in _READ_ONLY:
        refused = ReadOnly(message)
        refused.next = ("sessionctl path",)  # nothing is damaged: it is about which folder, and whose
        return refused
    return StorageError(message, error.errno)


def sync_file(descriptor: int) -> None:
    """Put the file's data and length on stable storage (F_FULLFSYNC on macOS, where fsync stops at the drive's
    cache).
    """
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def settle(path: str) -> None:
    """Put what a dead process may have left in the page cache on stable storage, and read from there afterwards."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
        if sys.platform == "linux":
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    """Put the names in a directory on stable storage."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: str) -> bool:
    """Create a directory (mode 0700) below an existing one, durably; return False when it was already there."""
    try:
        os.mkdir(path, _DIRECTORY_MODE)
        made = True
    except FileExistsError:
        made = False  # whoever made it may have died, or not come that far yet, before its name was durable
    sync_directory(os.path.dirname(path))
    return made


def make_directories(path: str) -> None:
    """Create a directory and those above it that are missing, each durably."""
    path = os.path.abspath(path)
    parent = os.path.dirname(path)
    if not os.path.isdir(parent):
        make_directories(parent)
    if not os.path.isdir(path) or os.access(parent, os.R_OK):  # what we may not open was not filled by us
        make_directory(path)


def create_file(path: str, write: Callable[[int], None]) -> None:
    """Create `path` durably: temporary name, `write(descriptor)`, sync, rename, directory sync. A crash leaves it
    whole or absent.
    """
    temporary = path + TEMP_SUFFIX
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
    try:
        try:
            write(descriptor)
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except BaseException:
        remove_if_present(temporary)
        raise
    sync_directory(os.path.dirname(path))


def create_directory(path: str, files: Mapping[str, bytes]) -> None:
    """Create a directory that holds `files`, durably, and the one above it if that is missing: built under a temporary
    name, synced, renamed. A crash leaves it whole or absent. Raises OSError, also when there is something at `path`.
    """
    parent = os.path.dirname(path)
    with suppress(FileExistsError):
        os.mkdir(parent, _DIRECTORY_MODE)
    temporary = f"{path}.{os.urandom(4).hex()}{TEMP_SUFFIX}"
    os.mkdir(temporary, _DIRECTORY_MODE)
    try:
        for name, data in files.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(os.path.join(temporary, name), flags, _FILE_MODE)
            try:
                write_all(descriptor, data, 0)
                sync_file(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(temporary)
        os.rename(temporary, path)
    except BaseException:
        for name in files:
            remove_if_present(os.path.join(temporary, name))
        os.rmdir(temporary)
        raise
    sync_directory(parent)
    sync_directory(os.path.dirname(parent))  # also where `parent` was there: its maker may not have come that far


def write_all(descriptor: int, data: bytes | memoryview, offset: int) -> None:
    """Write all of `data` at `offset`; raise OSError (ENOSPC) when the system stops accepting bytes."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view = view[written:]
        offset += written


def copy_range(source: int, path: str, start: int, end: int) -> None:
    """Copy bytes start..end of an open file into the new file `path`, durably."""

    def write(descriptor: int) -> None:
        position = start
        while position < end:
            chunk = os.pread(source, min(_COPY_BYTES, end - position), position)
            if not chunk:
                break
            write_all(descriptor, chunk, position - start)
            position += len(chunk)

    create_file(path, write)


def cut(path: str, end: int) -> None:
    """Truncate a file to `end` bytes, durably."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, end)
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def remove_if_present(path: str) -> bool:
    """Unlink a file; return False when it was not there. The caller syncs the directory if the removal must last."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True
