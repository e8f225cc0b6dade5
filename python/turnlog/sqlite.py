"""Connections to SQLite: opened one way, with each setting in its own function beside its reason.

Owns: the oldest SQLite accepted, every PRAGMA, how a reader opens without writing. Invariants: a writer's connection
is in WAL mode and its transactions begin IMMEDIATE; a reader's connection never writes a byte. Must not know: tables,
rows, sessions. Errors of apsw pass through unchanged; `IndexUnavailable` is raised only for a SQLite that is too old
or a file system that cannot hold a WAL.
"""

from __future__ import annotations

import os

import apsw

from turnlog.errors import IndexUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

OLDEST_SQLITE = 3_051_003  # 3.51.3: the first release without the WAL-reset race that could lose a checkpoint
BUSY_TIMEOUT_MS = 2_000


def require_sqlite(number: int) -> None:
    """Raise IndexUnavailable unless the linked SQLite (`number` as in SQLITE_VERSION_NUMBER) is recent enough."""
    if number < OLDEST_SQLITE:
        found, oldest = (f"{n // 1_000_000}.{n // 1_000 % 1_000}.{n % 1_000}" for n in (number, OLDEST_SQLITE))
        raise IndexUnavailable(f"SQLite {found} is linked, {oldest} or newer is needed: pip install --upgrade apsw")


def write_ahead(connection: apsw.Connection) -> None:
    """WAL: readers go on while a writer commits. A file system without shared memory cannot hold one; say so."""
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise IndexUnavailable(
            f"the file system of {connection.filename} cannot hold a SQLite WAL (journal mode stays {mode})"
        )


def sync_at_checkpoints(connection: apsw.Connection) -> None:
    """NORMAL: a power cut may take the newest commits, never the file's consistency; the log fills them in again."""
    connection.pragma("synchronous", "NORMAL")


def distrust_file(connection: apsw.Connection) -> None:
    """The file may be damaged or hostile: its schema runs no functions, odd cells are refused, nothing is mapped into
    memory.

    A mapped file that somebody truncates kills the process with SIGBUS; a read of it is an error.
    """
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.pragma("cell_size_check", True)
    connection.pragma("mmap_size", 0)


def strict_quotes(connection: apsw.Connection) -> None:
    """A misspelt column in double quotes is an error, not a string."""
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)


def temporary_in_memory(connection: apsw.Connection) -> None:
    """Temporary tables stay in memory: a reader writes nowhere, not even in the folder for temporary files."""
    connection.pragma("temp_store", "MEMORY")


def cache_lists(connection: apsw.Connection) -> None:
    """16 MiB of pages, used as they are needed: the 2 MiB default holds the list indexes of a few thousand sessions."""
    connection.pragma("cache_size", -16_384)


def unsynced_scratch(connection: apsw.Connection) -> None:
    """For a file that no one else sees yet: no journal, no sync. A crash leaves a file that is never opened."""
    connection.pragma("journal_mode", "OFF")
    connection.pragma("synchronous", "OFF")


_ALWAYS: tuple[Callable[[apsw.Connection], None], ...] = (
    distrust_file,
    strict_quotes,
    temporary_in_memory,
    cache_lists,
)


def _open(name: str, flags: int, *settings: Callable[[apsw.Connection], None], busy_timeout_ms: int) -> apsw.Connection:
    require_sqlite(apsw.SQLITE_VERSION_NUMBER)
    try:
        connection = apsw.Connection(name, flags=flags)
    except UnicodeEncodeError as error:
        message = "SQLite opens only files whose path is UTF-8"
        raise apsw.CantOpenError(message) from error
    try:
        connection.set_busy_timeout(busy_timeout_ms)
        for setting in (*_ALWAYS, *settings):
            setting(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_writer(path: str, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> apsw.Connection:
    """Open or create a database for writing, mode 0600.

    A lock held by others is waited for `busy_timeout_ms` milliseconds. Raises IndexUnavailable, apsw.Error.
    """
    descriptor_mode = 0o600
    if not os.path.exists(path):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, descriptor_mode))
    return _open(path, apsw.SQLITE_OPEN_READWRITE, write_ahead, sync_at_checkpoints, busy_timeout_ms=busy_timeout_ms)


def open_scratch(path: str) -> apsw.Connection:
    """Open a new database that nobody else sees: a temporary file, or ":memory:". Raises apsw.Error."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    settings = () if path == ":memory:" else (unsynced_scratch,)  # what is in memory is used on and must roll back
    return _open(path, flags, *settings, busy_timeout_ms=0)


def make_durable(connection: apsw.Connection) -> bool:
    """Put every commit so far on stable storage; False when a reader of an older state is in the way."""
    try:
        frames, copied = connection.wal_checkpoint()
    except apsw.BusyError:  # another connection is doing it
        return False
    return frames == copied


class Immediate:
    """A transaction that takes the write lock at once: it can wait for it, where a reader that becomes a writer can
    only fail.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: apsw.Connection) -> None:
        """Use as `with Immediate(connection):`."""
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:  # SQLite rolls back by itself after some errors
                self._connection.execute("ROLLBACK")


def copy(source: apsw.Connection, target: apsw.Connection) -> None:
    """Replace all of `target` by `source` in one transaction: its readers see the old content until the end."""
    with target.backup("main", source, "main") as backup:
        backup.step()


def file_state(path: str) -> tuple[int, ...]:
    """Return numbers that differ whenever the database or its WAL was changed, replaced, created or removed."""
    state: list[int] = []
    for name in (path, path + "-wal"):
        try:
            found = os.stat(name)
        except FileNotFoundError:
            state.append(-1)
        else:
            state += (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return tuple(state)


class Reader:
    """A connection that never writes a byte, and what it needs to be trusted.

    Without a WAL beside it the file is opened `immutable`: no lock, no shared memory, no new file. That is right only
    while nobody writes, so an answer counts only if `still_true()` afterwards. With a WAL the shared memory is mapped
    read-only; its locks are real.
    """

    __slots__ = ("_before", "connection", "path")

    def __init__(self, path: str, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
        """Open `path`. Raises IndexUnavailable, apsw.Error (also when there is no such file)."""
        self.path = path
        self._before: tuple[int, ...] | None = None
        options = "mode=ro&readonly_shm=1"
        if not os.path.exists(path + "-wal"):
            self._before = file_state(path)
            options = "mode=ro&immutable=1"
        uri = f"file:{_quote(os.path.abspath(path))}?{options}"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        self.connection = _open(uri, flags, busy_timeout_ms=busy_timeout_ms)

    def still_true(self) -> bool:
        """Tell whether answers read so far came from one unchanged state of the file."""
        return self._before is None or self._before == file_state(self.path)


def open_reader(path: str, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> Reader:
    """Open an existing database without ever writing to its folder. Raises IndexUnavailable, apsw.Error."""
    return Reader(path, busy_timeout_ms=busy_timeout_ms)


def close_without_traces(connection: apsw.Connection) -> None:
    """Close a connection whose file was replaced: a checkpoint now would delete the WAL of the database that has its
    name today.
    """
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def _quote(path: str) -> str:
    """Escape what a URI file name treats specially (sqlite.org/uri.html)."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
