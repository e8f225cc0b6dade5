"""The projection of a store: lists and looks up sessions without reading their logs.

Owns: what callers may ask, and how far the sessions open in this process are projected. Invariants: whatever the state
of the database, the log is not affected and every failure reaches the caller as IndexUnavailable; a read-only user
writes nothing. Must not know: SQL statements, how the database is opened or mended, frames, event types.
"""

from __future__ import annotations

import os
from _thread import RLock

from turnlog import names, sqlite
from turnlog.errors import InvalidInput
from turnlog.index import catch_up, query, snapshots
from turnlog.index.database import Database
from turnlog.index.plan import Known, listing, plan
from turnlog.index.writers import Writers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    import apsw

    from turnlog.index.plan import Heads
    from turnlog.index.snapshots import Snapshot

    Ids = list[str]
    Rows = list[dict[str, Any]]
    Answer = TypeVar("Answer")

_PREFIX_LIMIT = 20
_RELEASE_FROM = 64  # a long-lived store does not wait for its end to remove the markers of sessions it closed
_FILTERS = dict.fromkeys(("cwd", "state", "model", "tag", "parent", "since_us", "text", "after"))


class Index:
    """The index of one store. Thread-safe; every method may raise IndexUnavailable, and the log does not care."""

    def __init__(self, store: str, database: Database) -> None:
        """Use `Index.open`."""
        self._store = store
        self._database = database
        self._guard = RLock()
        self._generation = 0  # of the connection that the two below belong to
        self._known = Known()
        self._projected: dict[str, tuple[str, int]] = {}  # how far the sessions open in this process are in the tables

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

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     Index.open(store.path, read_only=True).close()
        """
        path = path or os.path.join(store, names.INDEX)
        index = cls(store, Database(store, path, read_only=read_only, busy_timeout_ms=busy_timeout_ms))
        index._ask(lambda _: None)
        return index

    # -- questions -------------------------------------------------------------------------------------------------

    def list(self, *, limit: int = 50, **filters: Any) -> tuple[Rows, str | None]:
        """Return one page of sessions, latest activity first, and the token of the next page (None at the end).

        Filters: cwd, state, model, tag, parent, since_us, text (in the title), after (a token). Deleted sessions are
        shown only for `state="deleted"`. A session whose turn is open is `running` while somebody writes it, and else
        `interrupted`. Raises InvalidInput.

        >>> from turnlog import Store
        >>> with Store.open("listed") as store, store.create(title="flaky test"):
        ...     rows, _ = store.index().list(text="flaky")
        ...     [row["title"] for row in rows]
        ['flaky test']
        """
        unknown = sorted(filters.keys() - _FILTERS)
        if unknown:
            raise InvalidInput(f"no such filter: {', '.join(unknown)} (filters are limit, {', '.join(_FILTERS)})")
        return self._ask(lambda connection: query.list_rows(connection, limit, Writers(self._store).writes, **filters))

    def get(self, session_id: str) -> dict[str, Any] | None:
        """Return the row of a session, deleted or not, or None.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     store.index().get(session.id)["events"]
        1
        """
        return self._ask(lambda connection: query.get_row(connection, session_id, Writers(self._store).writes))

    def find_prefix(self, prefix: str, *, limit: int = _PREFIX_LIMIT) -> Ids:
        """Return up to `limit` ids that begin with `prefix`.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     store.index().find_prefix(session.id[:30]) == [session.id]
        True
        """
        return self._ask(lambda connection: query.find_prefix(connection, prefix, limit))

    def latest(self) -> str | None:
        """Return the id of the session with the latest activity, or None when there is none.

        >>> from turnlog import Store
        >>> with Store.open("latest") as store, store.create() as session:
        ...     store.index().latest() == session.id
        True
        """
        rows, _ = self.list(limit=1)
        return str(rows[0]["id"]) if rows else None

    def forks(self, session_id: str) -> Ids:
        """Return the ids of the sessions that were forked from this one, latest activity first.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     child = store.fork(session)
        ...     store.index().forks(session.id) == [child.id]
        True
        """
        return self._ask(lambda connection: query.forks(connection, session_id))

    def witness(self, session_id: str) -> dict[str, Any] | None:
        """Return segment_id, segment_number, durable_off, ordinal and chain (empty: unknown) that the log must still
        hold, or None.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     store.index().witness(session.id)["ordinal"]
        1
        """
        return self._ask(lambda connection: query.newest_witness(connection, session_id))

    def snapshot(self, session_id: str, schema: int, last: int) -> Snapshot | None:
        """Return the newest state stored of a session in this schema, up to the ordinal `last`, or None; whoever uses
        it checks its chain.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     store.index().snapshot(session.id, 1, 1) is None
        True
        """
        return self._ask(lambda connection: snapshots.newest(connection, session_id, schema, last))

    def put_snapshot(self, session_id: str, snapshot: Snapshot) -> bool:
        """Store a state; False when the session is not in the tables (yet) or the index is read-only.

        >>> from turnlog import Store
        >>> from turnlog.index.snapshots import Snapshot
        >>> with Store.open("runs") as store, store.create() as session:
        ...     index = store.index()
        ...     index.put_snapshot(session.id, Snapshot(1, 1, bytes(32), b"a state"))
        ...     index.snapshot(session.id, 1, 1).body
        True
        b'a state'
        """
        if self._database.read_only:
            return False
        with self._guard:
            return self._ask(lambda _: snapshots.put(self._database.writable(), session_id, snapshot))

    # -- keeping up ------------------------------------------------------------------------------------------------

    def catch_up(self, heads: Heads | None = None) -> int:
        """Project what the logs hold beyond the tables; return how many sessions changed.

        `heads`: what head() of the writers open in this process says, by session id. Only those, sessions with a
        marker in `live/`, and shard folders whose time changed are looked at.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     index = store.index()
        ...     index.catch_up()
        0
        """
        with self._guard:
            self._database.follow_file()
            return self._ask(lambda connection: self._catch_up(connection, heads or {}))

    def rebuild(self, heads: Heads | None = None, *, progress: Callable[[int, int], None] | None = None) -> None:
        """Build all tables anew from the logs; others see the old ones until the new ones are complete.

        `progress` is called with (sessions done, sessions in all). A read-only index is rebuilt in memory. The
        witnesses of before are forgotten: verify first where loss is suspected.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     index = store.index()
        ...     index.rebuild(progress=lambda done, total: None)
        ...     index.get(session.id) is None
        False
        """
        with self._guard:
            self._database.rebuild(heads or {}, progress)

    def forget(self, session_id: str) -> None:
        """Remove a session from the tables; if its folder is still there, the next catch-up reads it anew.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     index = store.index()
        ...     index.forget(session.id)
        ...     index.get(session.id) is None
        True
        """
        with self._guard:
            self._ask(lambda _: self._write_folders({names.shard(session_id): 0}, [session_id]))
            self._projected.pop(session_id, None)

    def release_live(self) -> None:
        """Remove the `live/` markers of sessions that nobody writes, that ended in order and are wholly projected.

        >>> from turnlog import Store
        >>> import os
        >>> with Store.open("ended") as store:
        ...     store.create().close()
        ...     store.index().release_live()
        ...     os.listdir("ended/live")
        []
        """
        if self._database.read_only:
            return
        with self._guard:
            marked = [name for name in listing(os.path.join(self._store, names.LIVE)) if names.is_session_id(name)]
            self._ask(lambda connection: catch_up.release_live(connection, self._store, marked))

    def close(self) -> None:
        """Close the database; idempotent.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     index = Index.open(store.path)
        ...     index.close()
        ...     index.close()
        """
        with self._guard:
            self._database.close()

    def _ask(self, question: Callable[[apsw.Connection], Answer]) -> Answer:
        with self._guard:
            return self._database.ask(question)

    def _catch_up(self, connection: apsw.Connection, heads: Heads) -> int:
        if self._generation != self._database.generation:
            self._known = Known(catch_up.shard_times(connection))
            self._projected.clear()
            self._generation = self._database.generation
        read_only = self._database.read_only
        marks = {session_id: (head["path"], head["durable"]) for session_id, head in heads.items()}
        moved = [session_id for session_id, mark in marks.items() if self._projected.get(session_id) != mark]
        found = plan(connection, self._store, self._known, moved, heads)
        batches = catch_up.visits(connection, self._store, found, heads, sync=not read_only)
        changed, skipped = 0, set[str]()
        # a read-only user's connection changes with the first write, so its visits come first
        for batch in list(batches) if read_only else batches:
            if batch:
                skipped |= catch_up.write(self._database.writable(), batch)
                changed += len(batch)
        shards = self._known.shards
        news = {shard: mtime_ns for shard, mtime_ns in found.shards.items() if shards.get(shard) != mtime_ns}
        if found.gone or (news and not read_only):
            self._write_folders(news, found.gone)
        shards.update(news)
        self._known.quiet.update(found.quiet)
        self._projected.update({session_id: marks[session_id] for session_id in moved if session_id not in skipped})
        self._known.complete.update(found.complete)
        if len(self._known.complete) >= _RELEASE_FROM and not read_only:
            catch_up.release_live(connection, self._store, self._known.complete)
            self._known.complete.clear()
        return changed + len(found.gone)

    def _write_folders(self, shards: dict[str, int], gone: Ids) -> None:
        catch_up.write_folders(self._database.writable(), shards, gone)
        self._known.shards.update(shards)
