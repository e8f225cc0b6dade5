"""The projection of a store: lists and looks up sessions without reading their logs.

Owns: the connection and what happens when the database is locked, missing, broken, newer or replaced. Invariants:
whatever the state of the database, the log is not affected and every failure reaches the caller as IndexUnavailable;
a writer rebuilds what is broken, a read-only user does so in memory and writes nothing. Must not know: SQL
statements, frames, event types.
"""

from __future__ import annotations

import os
from _thread import RLock

import apsw

from turnlog import index_catch_up, index_query, names, sqlite
from turnlog.errors import Closed, IndexUnavailable
from turnlog.index_file import BROKEN, Replacing, create_tables, file_identity, is_current, open_current, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from turnlog.index_catch_up import Heads

    Answer = TypeVar("Answer")
    Ids = list[str]
    Rows = list[dict[str, Any]]

_ATTEMPTS = 5
_PREFIX_LIMIT = 20


class _Changed(Exception):
    """A file that was read without locks changed meanwhile; read it again."""


class Index:
    """The index of one store. Thread-safe; every method may raise IndexUnavailable, and the log does not care."""

    def __init__(self, store: str, path: str, *, read_only: bool, busy_timeout_ms: int) -> None:
        """Use `Index.open`."""
        self.path = path
        self.read_only = read_only
        self._store = store
        self._busy_timeout_ms = busy_timeout_ms
        self._guard = RLock()
        self._connection: apsw.Connection | None = None
        self._reader: sqlite.Reader | None = None  # of a read-only user that reads the file itself
        self._state: tuple[int, ...] = ()  # of the file, as it was opened or copied
        self._shards: dict[str, int] = {}
        self._projected: dict[str, tuple[str, int]] = {}  # how far the sessions open in this process are in the tables
        self._closed = False

    @classmethod
    def open(
        cls,
        store: str,
        *,
        path: str | None = None,
        read_only: bool = False,
        busy_timeout_ms: int = sqlite.BUSY_TIMEOUT_MS,
    ) -> Index:
        """Open the index of the store in folder `store`; `path` when it lives elsewhere.

        A lock held by another process is waited for `busy_timeout_ms` milliseconds. A missing or broken index is
        rebuilt (see `rebuild`).
        """
        index = cls(
            store, path or os.path.join(store, names.INDEX), read_only=read_only, busy_timeout_ms=busy_timeout_ms
        )
        index._ask(lambda _: None)
        return index

    # -- questions -------------------------------------------------------------------------------------------------

    def list(self, *, limit: int = 50, **filters: Any) -> tuple[Rows, str | None]:
        """Return one page of sessions, latest activity first, and the token of the next page (None at the end).

        Filters: cwd, state, model, tag, parent, since_us, text (in the title), after (a token). Deleted sessions are
        shown only for `state="deleted"`. Raises InvalidInput.
        """
        return self._ask(lambda connection: index_query.list_rows(connection, limit, **filters))

    def get(self, session_id: str) -> dict[str, Any] | None:
        """Return the row of a session, deleted or not, or None."""
        return self._ask(lambda connection: index_query.get_row(connection, session_id))

    def find_prefix(self, prefix: str, *, limit: int = _PREFIX_LIMIT) -> Ids:
        """Return up to `limit` ids that begin with `prefix`."""
        return self._ask(lambda connection: index_query.find_prefix(connection, prefix, limit))

    def latest(self) -> str | None:
        """Return the id of the session with the latest activity, or None when there is none."""
        rows, _ = self.list(limit=1)
        return str(rows[0]["id"]) if rows else None

    def witness(self, session_id: str) -> dict[str, Any] | None:
        """Return segment_id, segment_number, durable_off, ordinal and chain (empty: unknown) that the log must still
        hold, or None.
        """
        return self._ask(lambda connection: index_query.newest_witness(connection, session_id))

    # -- keeping up ------------------------------------------------------------------------------------------------

    def catch_up(self, heads: Heads | None = None) -> int:
        """Project what the logs hold beyond the tables; return how many sessions changed.

        `heads`: what head() of the writers open in this process says, by session id. Only those, sessions with a
        marker in `live/`, and shard folders whose time changed are looked at.
        """
        with self._guard:
            self._follow_file()
            return self._ask(lambda connection: self._catch_up(connection, heads or {}))

    def rebuild(self, heads: Heads | None = None, *, progress: Callable[[int, int], None] | None = None) -> None:
        """Build all tables anew from the logs; others see the old ones until the new ones are complete.

        `progress` is called with (sessions done, sessions in all). A read-only index is rebuilt in memory. The
        witnesses of before are forgotten: verify first where loss is suspected.
        """
        with self._guard:
            self._disconnect()
            if self.read_only:
                self._rebuild_in_memory(heads or {}, progress)
                return
            try:
                with Replacing(self._store):
                    self._replace(heads or {}, progress)
            except (apsw.Error, OSError) as error:
                raise self._unavailable(error) from error
            self._ask(lambda _: None)

    def forget(self, session_id: str) -> None:
        """Remove a session from the tables; if its folder is still there, the next catch-up reads it anew."""
        with self._guard:
            self._ask(lambda _: self._write_folders({names.shard(session_id): 0}, [session_id]))
            self._projected.pop(session_id, None)

    def release_live(self) -> None:
        """Remove the `live/` markers of sessions that nobody writes, that ended in an orderly close and whose every
        event is projected.
        """
        if self.read_only:
            return
        with self._guard:
            self._ask(lambda connection: index_catch_up.release_live(connection, self._store))

    def close(self) -> None:
        """Close the database; idempotent."""
        with self._guard:
            self._closed = True
            self._disconnect()

    def _catch_up(self, connection: apsw.Connection, heads: Heads) -> int:
        marks = {session_id: (head["path"], head["durable"]) for session_id, head in heads.items()}
        moved = [session_id for session_id, mark in marks.items() if self._projected.get(session_id) != mark]
        found = index_catch_up.plan(connection, self._store, moved, heads, self._shards)
        batches = index_catch_up.visits(connection, self._store, found, heads, sync=not self.read_only)
        changed, skipped = 0, set[str]()
        # a read-only user's connection changes with the first write, so its visits come first
        for batch in list(batches) if self.read_only else batches:
            if batch:
                skipped |= index_catch_up.write(self._writable(), batch)
                changed += len(batch)
        news = {shard: mtime_ns for shard, mtime_ns in found.shards.items() if self._shards.get(shard) != mtime_ns}
        if found.gone or (news and not self.read_only):
            self._write_folders(news, found.gone)
        self._shards.update(news)
        self._projected.update({session_id: marks[session_id] for session_id in moved if session_id not in skipped})
        return changed + len(found.gone)

    def _write_folders(self, shards: dict[str, int], gone: Ids) -> None:
        index_catch_up.write_folders(self._writable(), shards, gone)
        self._shards.update(shards)

    # -- the connection --------------------------------------------------------------------------------------------

    def _ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        """Answer from an intact database: opened, reopened or rebuilt as it takes."""
        with self._guard:
            for _ in range(_ATTEMPTS):
                try:
                    answer = question(self._connected())
                except _Changed:
                    self._disconnect()
                    continue
                except BROKEN as error:
                    self._mend(error)
                    continue
                except (apsw.Error, OSError) as error:
                    raise self._unavailable(error) from error
                if self._reader is None or self._reader.still_true():
                    return answer
                self._disconnect()
        raise IndexUnavailable(f"the index {self.path} kept changing or breaking while it was read").at(
            store=self._store
        )

    def _connected(self) -> apsw.Connection:
        if self._closed:
            raise Closed("the index is closed")
        if self._connection is None:
            self._connection = self._open_reader() if self.read_only else self._open_writer()
            self._shards = index_catch_up.shard_times(self._connection)
        return self._connection

    def _open_writer(self) -> apsw.Connection:
        connection = open_current(self.path, busy_timeout_ms=self._busy_timeout_ms)
        if connection is None:
            with Replacing(self._store):
                connection = open_current(self.path, busy_timeout_ms=self._busy_timeout_ms)  # by whoever held it before
                if connection is None:
                    self._replace({}, None)
                    connection = open_current(self.path, busy_timeout_ms=self._busy_timeout_ms)
        if connection is None:
            raise IndexUnavailable(f"the index {self.path} is unusable right after it was rebuilt").at(
                store=self._store
            )
        self._state = file_identity(self.path)
        return connection

    def _open_reader(self) -> apsw.Connection:
        self._state = sqlite.file_state(self.path)
        try:
            reader = sqlite.open_reader(self.path, busy_timeout_ms=self._busy_timeout_ms)
        except apsw.Error:
            return self._rebuild_in_memory({}, None)
        try:
            current = is_current(reader.connection, self.path)
        except (apsw.Error, IndexUnavailable):
            current = False
        if current:
            self._reader = reader
            return reader.connection
        reader.connection.close()
        return self._rebuild_in_memory({}, None)

    def _rebuild_in_memory(self, heads: Heads, progress: Callable[[int, int], None] | None) -> apsw.Connection:
        connection = sqlite.open_scratch(":memory:")
        create_tables(connection)
        index_catch_up.fill(connection, self._store, heads, progress, sync=False)
        self._connection, self._reader = connection, None
        return connection

    def _writable(self) -> apsw.Connection:
        """Return the connection to write to: for a read-only user a copy in memory, made when it is first needed."""
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

    def _replace(self, heads: Heads, progress: Callable[[int, int], None] | None, *, broken: bool = False) -> None:
        def fill(scratch: apsw.Connection) -> None:
            index_catch_up.fill(scratch, self._store, heads, progress, sync=True)

        replace(self._store, self.path, fill, broken=broken)

    def _mend(self, error: apsw.Error) -> None:
        """The database broke while in use: a writer rebuilds it, a reader does so in memory."""
        self._disconnect()
        if self.read_only:
            self._rebuild_in_memory({}, None)
            return
        try:
            with Replacing(self._store):
                self._replace({}, None, broken=True)
        except (apsw.Error, OSError) as failure:
            raise self._unavailable(failure) from error

    def _follow_file(self) -> None:
        """Let go of a database that was removed or replaced, and of a copy of one that has changed since."""
        if self._connection is None:
            return
        if not self.read_only:
            same = file_identity(self.path) == self._state
        elif self._reader is not None:
            same = file_identity(self.path) == self._state[: len(file_identity(self.path))]
        else:
            same = sqlite.file_state(self.path) == self._state
        if not same:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection, self._reader = self._connection, None, None
        self._projected.clear()
        if connection is None:
            return
        if not self.read_only and file_identity(self.path) != self._state:
            sqlite.close_without_traces(connection)
        else:
            connection.close()

    def _unavailable(self, error: Exception) -> IndexUnavailable:
        unavailable = IndexUnavailable(f"the index {self.path} cannot be used: {error}")
        unavailable.at(store=self._store)
        return unavailable
