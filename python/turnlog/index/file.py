"""The database file of the index: is it usable, how is a new one made, where does a broken one go.

Owns: the schema number, the tables' creation, replacing. Invariants: a rebuilt index takes the old one's place whole
or not at all; a usable database is replaced inside SQLite, in one transaction, never by renaming over it (a
connection that is still open would later delete the WAL of the file that has its name); a broken one is moved to
quarantine/, not deleted. Must not know: what the rows mean.
"""

from __future__ import annotations

import fcntl
import os
import time

import apsw

from turnlog import disk, names, sqlite
from turnlog.errors import IndexUnavailable
from turnlog.ids import now_us

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

SCHEMA_NUMBER = 2
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError)  # SQLError: a table or column is missing
_SIDE_FILES = ("", "-wal", "-shm")
_POLL_MS = 10
_DIVIDER = "-- The rest is created after"  # in schema.sql


class Replacing:
    """Held while a process replaces the database: others wait, then find it done.

    A flock on the folder `sessions/`; it leaves no file and ends with its process.
    """

    __slots__ = ("_descriptor", "_path", "_timeout_ms")

    def __init__(self, store: str, timeout_ms: int) -> None:
        """Use as `with Replacing(store, timeout_ms):`; raises IndexUnavailable when another holds it for longer."""
        self._path = os.path.join(store, names.SESSIONS)
        self._timeout_ms = timeout_ms
        self._descriptor = -1

    def __enter__(self) -> None:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    time.sleep(_POLL_MS / 1000)
                    continue
                os.close(descriptor)
                raise IndexUnavailable("another process is rebuilding the index") from None
            self._descriptor = descriptor
            return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)


def create(connection: apsw.Connection, fill: Callable[[apsw.Connection], None]) -> None:
    """Make an empty database an index of this schema: tables, their rows by `fill`, then what speeds up questions."""
    with open(os.path.join(os.path.dirname(__file__), "schema.sql"), encoding="utf-8") as file:
        tables, divider, rest = file.read().partition(_DIVIDER)
    with sqlite.Immediate(connection):
        connection.execute(tables)
    fill(connection)
    with sqlite.Immediate(connection):
        connection.execute(divider + rest)
        connection.pragma("user_version", SCHEMA_NUMBER)  # last: half an index is never taken for one


def is_current(connection: apsw.Connection, path: str) -> bool:
    """Tell whether the database has this schema (else rebuild it). Raises IndexUnavailable for a newer one."""
    if os.path.getsize(path) % connection.pragma("page_size"):
        raise apsw.CorruptError("the database ends inside a page")  # SQLite would take the rest for zeros
    number = int(connection.pragma("user_version"))
    if number > SCHEMA_NUMBER:
        newer = IndexUnavailable(
            f"the index {path} has schema {number} of a newer turnlog; this one knows {SCHEMA_NUMBER}"
        )
        newer.next = ("sessionctl --version", "sessionctl list")  # a list is answered from memory
        raise newer
    return number == SCHEMA_NUMBER


def open_current(path: str, *, busy_timeout_ms: int) -> apsw.Connection | None:
    """Open the index for writing; None when it is missing, empty, broken or older, so that it has to be rebuilt.

    Raises IndexUnavailable when it is locked, newer, or cannot be opened.
    """
    if not os.path.exists(path):
        return None
    try:
        connection = sqlite.open_writer(path, busy_timeout_ms=busy_timeout_ms)
    except BROKEN:
        return None
    try:
        usable = is_current(connection, path)
    except (*BROKEN, FileNotFoundError):  # the latter: removed since it was opened
        usable = False
    except BaseException:
        connection.close()
        raise
    if usable:
        return connection
    connection.close()
    return None


def replace(store: str, path: str, fill: Callable[[apsw.Connection], None], *, broken: bool) -> None:
    """Build a new database with `fill` beside `path`, then let it take the place of what is there. Hold `Replacing`.

    `broken`: what is there has proved unusable, even if it can be opened. Raises IndexUnavailable (the old one is a
    newer turnlog's), apsw.Error, OSError; then the old one is untouched.
    """
    temporary = path + names.TEMP_SUFFIX  # only the holder of the lock uses the name
    try:
        _remove(temporary)  # left by a process that was killed
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        scratch = sqlite.open_scratch(temporary)
        try:
            create(scratch, fill)
            if broken or not _copied_into(path, scratch):
                sqlite.write_ahead(scratch)
                scratch.close()
                _rename(store, temporary, path)
        finally:
            scratch.close()
    finally:
        _remove(temporary)


def _remove(path: str) -> None:
    for suffix in _SIDE_FILES:
        disk.remove_if_present(path + suffix)


def file_identity(path: str) -> tuple[int, ...]:
    """Return numbers that tell whether the name still leads to the same file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return ()
    return found.st_dev, found.st_ino


def _copied_into(path: str, scratch: apsw.Connection) -> bool:
    """Copy the new content into the database at `path`; False when there is none that SQLite can read."""
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return False
    try:
        old = sqlite.open_writer(path)
    except BROKEN:
        return False
    try:
        is_current(old, path)  # refuses a newer one
        sqlite.copy(scratch, old)
    except BROKEN:
        return False
    finally:
        old.close()
    return True


def _rename(store: str, temporary: str, path: str) -> None:
    descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        disk.sync_file(descriptor)
    finally:
        os.close(descriptor)
    _quarantine(store, path)
    os.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path))


def _quarantine(store: str, path: str) -> None:
    """Move a database that cannot be used, with its WAL, out of the way; empty files are removed."""
    folder = names.quarantined_index(store, now_us())
    for suffix in _SIDE_FILES:
        name = path + suffix
        try:
            if os.path.getsize(name) == 0:
                os.unlink(name)
                continue
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.rename(name, os.path.join(folder, os.path.basename(name)))
        except FileNotFoundError:
            continue
