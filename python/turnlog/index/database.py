"""The index's connection: opened, reopened, mended or replaced by one in memory, so that questions meet an intact
database.

Owns: the connection and what happens when the file is missing, broken, locked, newer, removed or replaced.
Invariants: a writer rebuilds what is broken (once per breakage, whichever process comes first); a read-only user does
so in memory and never writes a byte; every failure is IndexUnavailable with its cause. Must not know: what is asked,
what rows mean.
"""

from __future__ import annotations

import apsw

from turnlog import sqlite
from turnlog.errors import Closed, IndexUnavailable
from turnlog.index import catch_up
from turnlog.index.file import BROKEN, Replacing, create, file_identity, is_current, open_current, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from turnlog.index.plan import Heads

    Answer = TypeVar("Answer")
    Progress = Callable[[int, int], None]

_ATTEMPTS = 5

_NO_REBUILD_HELPS = (apsw.BusyError, apsw.LockedError, apsw.ReadOnlyError, apsw.CantOpenError, PermissionError)


class _Changed(Exception):
    """A file that was read without locks changed meanwhile; read it again."""


class Database:
    """One connection at a time to the index of a store; not thread-safe."""

    def __init__(self, store: str, path: str, *, read_only: bool, busy_timeout_ms: int) -> None:
        """Open nothing yet: the first question does."""
        self.path = path
        self.read_only = read_only
        self.generation = 0  # counts the connections: what a caller keeps from an older one is void
        self._store = store
        self._busy_timeout_ms = busy_timeout_ms
        self._connection: apsw.Connection | None = None
        self._reader: sqlite.Reader | None = None  # of a read-only user, while it reads the file itself
        self._state: tuple[
            int, ...
        ] = ()  # of the file: identity for a writer, all of `file_state` for a read-only user
        self._closed = False

    def ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        """Answer from an intact database: opened, reopened or rebuilt as it takes. Raises IndexUnavailable, Closed."""
        failure: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                answer = question(self._connected())
            except _Changed as change:
                failure = change
                self._disconnect()
                continue
            except BROKEN as error:
                failure = error
                self._mend()
                continue
            except (apsw.Error, OSError) as error:
                if self._connection is None or file_identity(self.path) == self._state[:2]:
                    raise self._unavailable(error) from error
                failure = error  # the file was removed or replaced under the connection
                self._disconnect()
                continue
            if self._reader is None or self._reader.still_true():
                return answer
            self._disconnect()
        raise self._unavailable("it kept changing or breaking while it was read") from failure

    def writable(self) -> apsw.Connection:
        """Return the connection to write to, within a question.

        For a read-only user that is a copy in memory, made when it is first needed.
        """
        connection = self._connected()
        if self._reader is None:
            return connection
        self._state = sqlite.file_state(self.path)
        memory = sqlite.open_scratch(":memory:")
        sqlite.copy(connection, memory)
        if not self._reader.still_true():
            raise _Changed
        connection.close()
        self._connection, self._reader = memory, None
        return memory

    def rebuild(self, heads: Heads, progress: Progress | None) -> None:
        """Build all tables anew; a writer's take the old ones' place when complete. Raises IndexUnavailable."""
        self._disconnect()
        try:
            if self.read_only:
                self._connection = self._in_memory(heads, progress)
                self.generation += 1
                return
            with Replacing(self._store, self._busy_timeout_ms):
                self._replace(heads, progress, broken=False)
        except (apsw.Error, OSError) as error:
            raise self._unavailable(error) from error

    def follow_file(self) -> None:
        """Let go of a database that was removed or replaced, and of a copy of one that has changed since."""
        if self._connection is None:
            return
        if not self.read_only:
            same = file_identity(self.path) == self._state
        elif self._reader is not None:
            same = file_identity(self.path) == self._state[:2]
        else:
            same = sqlite.file_state(self.path) == self._state
        if not same:
            self._disconnect()

    def close(self) -> None:
        """Close the connection; idempotent."""
        self._closed = True
        self._disconnect()

    def _connected(self) -> apsw.Connection:
        if self._closed:
            raise Closed("the index is closed")
        if self._connection is None:
            self._connection = self._open_reader() if self.read_only else self._open_writer()
            self.generation += 1
        return self._connection

    def _open_writer(self) -> apsw.Connection:
        connection = open_current(self.path, busy_timeout_ms=self._busy_timeout_ms)
        if connection is None:
            with Replacing(self._store, self._busy_timeout_ms):
                connection = open_current(self.path, busy_timeout_ms=self._busy_timeout_ms)  # by whoever held it before
                if connection is None:
                    self._replace({}, None, broken=False)
                    connection = open_current(self.path, busy_timeout_ms=self._busy_timeout_ms)
        if connection is None:
            raise self._unavailable("it is unusable right after it was rebuilt")
        self._state = file_identity(self.path)
        return connection

    def _open_reader(self) -> apsw.Connection:
        self._state = sqlite.file_state(self.path)
        try:
            reader = sqlite.open_reader(self.path, busy_timeout_ms=self._busy_timeout_ms)
        except apsw.Error:
            return self._in_memory({}, None)
        try:
            current = is_current(reader.connection, self.path)
        except (apsw.Error, OSError, IndexUnavailable):
            current = False
        if current:
            self._reader = reader
            return reader.connection
        reader.connection.close()
        return self._in_memory({}, None)

    def _in_memory(self, heads: Heads, progress: Progress | None) -> apsw.Connection:
        connection = sqlite.open_scratch(":memory:")
        create(connection, lambda made: catch_up.fill(made, self._store, heads, progress, sync=False))
        return connection

    def _replace(self, heads: Heads, progress: Progress | None, *, broken: bool) -> None:
        def fill(scratch: apsw.Connection) -> None:
            catch_up.fill(scratch, self._store, heads, progress, sync=True)

        replace(self._store, self.path, fill, broken=broken)

    def _mend(self) -> None:
        """The database broke while in use: a writer rebuilds it, a read-only user goes on in memory."""
        self._disconnect()
        try:
            if self.read_only:
                self._connection = self._in_memory({}, None)
                self.generation += 1
                return
            with Replacing(self._store, self._busy_timeout_ms):
                if file_identity(self.path) == self._state:  # else another process replaced it already
                    self._replace({}, None, broken=True)
        except (apsw.Error, OSError) as error:
            raise self._unavailable(error) from error

    def _disconnect(self) -> None:
        connection, self._connection, self._reader = self._connection, None, None
        if connection is None:
            return
        if not self.read_only and file_identity(self.path) != self._state:
            sqlite.close_without_traces(connection)
        else:
            connection.close()

    def _unavailable(self, cause: object) -> IndexUnavailable:
        unavailable = IndexUnavailable(f"the index {self.path} cannot be used: {cause}")
        unavailable.at(store=self._store)
        if isinstance(cause, _NO_REBUILD_HELPS):
            unavailable.next = ("sessionctl list",)  # it answers from memory
        return unavailable
