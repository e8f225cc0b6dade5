"""Brings the tables up to the logs: the one path for live indexing, for recovery after a crash and for a rebuild.

Owns: which sessions are visited, and the writing of what the visits found. Invariants: a session's row, tags and
witness change in one transaction, and only from the state that was read; a session nobody could have touched is not
looked at. Must not know: how a log is read, how the database is opened, what callers ask.
"""

from __future__ import annotations

import os

from turnlog import disk, names, sqlite
from turnlog.errors import Locked
from turnlog.index.plan import LIST_AGAIN, Known, Plan, plan
from turnlog.index.projection import COLUMNS, SessionRow
from turnlog.index.query import require_values
from turnlog.index.read import SEGMENT_COLUMNS, Segment, Visit, read_on
from turnlog.log.lock import SessionLock, is_locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import apsw

    from turnlog.index.plan import Heads

BATCH_SESSIONS = 512
_RELEASED_AT_ONCE = 64  # locks held together

_NAMES = ", ".join(COLUMNS)
_LOAD = (
    f"SELECT {_NAMES}, s.session, {', '.join(SEGMENT_COLUMNS)} "  # noqa: S608 - column names of this package
    "FROM sessions AS s LEFT JOIN segments AS g ON g.session = s.session WHERE s.id = ? ORDER BY number DESC LIMIT 1"
)
_POSITION = (
    "SELECT number, durable_off FROM sessions AS s LEFT JOIN segments AS g ON g.session = s.session "
    "WHERE s.id = ? ORDER BY number DESC LIMIT 1"
)
_PUT_SESSION = (
    f"INSERT INTO sessions (session, {_NAMES}) VALUES ({', '.join('?' * (len(COLUMNS) + 1))}) "  # noqa: S608 - same
    f"ON CONFLICT (session) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in COLUMNS if name != 'id')}"
)
_PUT_SEGMENT = "INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_PUT_TAG = "INSERT OR REPLACE INTO tags VALUES (?, ?, ?, ?)"
_PUT_SHARD = "INSERT OR REPLACE INTO shards VALUES (?, ?)"


def visits(connection: apsw.Connection, store: str, found: Plan, heads: Heads, *, sync: bool) -> Iterator[list[Visit]]:
    """Read the planned sessions, in batches of those in which something was new. Raises StorageError, apsw.Error."""

    def read(visit: Visit) -> bool:
        session_id = visit.row.id
        directory = names.session_dir(store, session_id)
        return read_on(visit, directory, head=heads.get(session_id), live=session_id in found.live, sync=sync)

    for start in range(0, len(found.visit), BATCH_SESSIONS):
        batch = [
            Visit(SessionRow(session_id)) if session_id in found.new else load(connection, session_id)
            for session_id in found.visit[start : start + BATCH_SESSIONS]
        ]
        changed = []
        for visit, there in ((visit, read(visit)) for visit in batch):
            shard = names.shard(visit.row.id)
            if there and visit.changed:
                changed.append(visit)
            elif there and visit.stamp is not None:
                found.quiet[visit.row.id] = visit.stamp
                if visit.closed:
                    found.complete.append(visit.row.id)
            elif not there and visit.key is not None:
                found.gone.append(visit.row.id)
            elif not there and shard in found.shards:
                found.shards[shard] = LIST_AGAIN  # no segment yet: it is being made or copied
        yield changed


def shard_times(connection: apsw.Connection) -> dict[str, int]:
    """Return the stored times of the shard folders."""
    found: dict[str, int] = {}
    for values in connection.execute("SELECT shard, mtime_ns FROM shards"):
        require_values(values)
        found[str(values[0])] = values[1]
    return found


def load(connection: apsw.Connection, session_id: str) -> Visit:
    """Return what the tables hold of a session, or an empty start."""
    count = len(COLUMNS)
    for values in connection.execute(_LOAD, (session_id,)):
        require_values(values[: count + 1])
        newest = Segment(*values[count + 1 :]) if values[count + 1] is not None else None
        return Visit(SessionRow.from_values(values[:count]), newest, values[count])
    return Visit(SessionRow(session_id))


def write(connection: apsw.Connection, batch: Iterable[Visit]) -> set[str]:
    """Store what visits found, in one transaction; return the ids of sessions that another process changed meanwhile.

    Those are left for the next catch-up.
    """
    with sqlite.Immediate(connection):
        kept, skipped = [], set()
        for visit in batch:
            if _unmoved(connection, visit):
                kept.append(visit)
            else:
                skipped.add(visit.row.id)
        _put(connection, kept)
    return skipped


def _put(connection: apsw.Connection, batch: list[Visit]) -> None:
    connection.executemany("DELETE FROM tags WHERE session = ?", [(visit.key,) for visit in batch if visit.key])
    key = int(connection.execute("SELECT coalesce(max(session), 0) FROM sessions").get)
    for visit in batch:
        if visit.key is None:
            key += 1
            visit.key = key
    connection.executemany(_PUT_SESSION, [(visit.key, *visit.row.values()) for visit in batch])
    connection.executemany(
        _PUT_SEGMENT, [(visit.key, *segment.columns()) for visit in batch for segment in visit.touched]
    )
    connection.executemany(_PUT_TAG, [tag for visit in batch for tag in _tags(visit)])


def _unmoved(connection: apsw.Connection, visit: Visit) -> bool:
    for number, durable_off in connection.execute(_POSITION, (visit.row.id,)):
        stored = None if number is None else (number, durable_off)
        return visit.key is not None and stored == visit.position()
    return visit.key is None


def _tags(visit: Visit) -> Iterator[tuple[str, int, str, int | None]]:
    for tag in visit.row.tags:
        yield tag, visit.row.last_activity_us, visit.row.id, visit.key


def write_folders(connection: apsw.Connection, shards: Mapping[str, int], gone: Iterable[str]) -> None:
    """Store the times of shard folders, and drop the sessions that are gone."""
    with sqlite.Immediate(connection):
        connection.executemany(_PUT_SHARD, list(shards.items()))
        for session_id in gone:
            for table in ("tags", "segments", "snapshots", "sessions"):
                where = "session = (SELECT session FROM sessions WHERE id = ?)"
                connection.execute(f"DELETE FROM {table} WHERE {where}", (session_id,))  # noqa: S608 - as above


def fill(
    connection: apsw.Connection, store: str, heads: Heads, progress: Callable[[int, int], None] | None, *, sync: bool
) -> None:
    """Catch an empty database up over the whole store; `progress` is called with (sessions done, sessions in all)."""
    found = plan(connection, store, Known(), heads, heads)
    done = 0
    with sqlite.Immediate(connection):
        for batch in visits(connection, store, found, heads, sync=sync):
            _put(connection, batch)
            done = min(done + BATCH_SESSIONS, len(found.visit))
            if progress is not None:
                progress(done, len(found.visit))
    write_folders(connection, found.shards, ())


def release_live(connection: apsw.Connection, store: str, session_ids: Iterable[str]) -> None:
    """Remove the markers of those sessions that nobody writes, that ended in order and are whole in the tables.

    First the tables are put on stable storage: a power cut must not take back the row of a session without a marker.
    """
    pending = list(session_ids)
    for start in range(0, len(pending), _RELEASED_AT_ONCE):
        held: dict[str, SessionLock] = {}
        try:
            for session_id in pending[start : start + _RELEASED_AT_ONCE]:
                lock = _lock_if_complete(connection, store, session_id)
                if lock is not None:
                    held[session_id] = lock
            if held and sqlite.make_durable(connection):
                for session_id in held:
                    disk.remove_if_present(names.live_path(store, session_id))
        finally:
            for lock in held.values():
                lock.release()


def _lock_if_complete(connection: apsw.Connection, store: str, session_id: str) -> SessionLock | None:
    directory = names.session_dir(store, session_id)
    if not os.path.isdir(directory) or is_locked(directory):
        return None
    try:
        lock = SessionLock(directory)
    except Locked:
        return None  # opened just now
    complete = False
    try:
        visit = load(connection, session_id)
        there = visit.key is not None and read_on(visit, directory, head=None, live=True, sync=False)
        complete = there and visit.closed and not visit.changed
    finally:
        if not complete:
            lock.release()
    return lock if complete else None
