"""Brings the tables up to the logs: the one path for live indexing, for recovery after a crash and for a rebuild.

Owns: which sessions are visited, and the writing of what the visits found. Invariants: a session's row, tags and
witness change in one transaction, and only from the state that was read; a session nobody could have touched is not
looked at. Must not know: how a log is read, how the database is opened, what callers ask.
"""

from __future__ import annotations

import os
import time

from turnlog import names, sqlite
from turnlog.errors import Locked
from turnlog.index_query import require_values
from turnlog.index_read import SEGMENT_COLUMNS, Segment, Visit, read_on
from turnlog.lock import SessionLock, is_locked
from turnlog.projection import COLUMNS, SessionRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    import apsw

    Heads = Mapping[str, Mapping[str, Any]]

BATCH_SESSIONS = 512
_THREAD_SESSIONS = 32  # fewer are read before a thread has started
_SETTLED_NS = 100_000_000  # a folder changed this recently may change again within one tick of its clock
_LIST_AGAIN = 0
_REMOVED = -1

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


class Plan:
    """What a catch-up has to look at."""

    __slots__ = ("gone", "live", "new", "shards", "visit")

    def __init__(self) -> None:
        """Start with nothing."""
        self.visit: list[str] = []
        self.new: set[str] = set()  # those of `visit` that the tables do not have
        self.gone: list[str] = []
        self.live: set[str] = set()
        self.shards: dict[str, int] = {}  # times of the shard folders that were listed


def plan(
    connection: apsw.Connection, store: str, moved: Iterable[str], heads: Heads, shards: Mapping[str, int]
) -> Plan:
    """Find the sessions that may have changed.

    These are `moved` (those of `heads` that made progress), those with a marker of other processes, and those in a
    shard folder whose time differs from `shards`.
    """
    found = Plan()
    found.live = {name for name in _listing(os.path.join(store, names.LIVE)) if names.is_session_id(name)}
    wanted = dict.fromkeys([*moved, *sorted(found.live - heads.keys())])
    for shard, mtime_ns in _changed_shards(os.path.join(store, names.SESSIONS), shards).items():
        listed = set(_listing(os.path.join(store, names.SESSIONS, shard)))
        there = {name for name in listed if names.is_session_id(name) and names.shard(name) == shard}
        known = {row[0] for row in connection.execute("SELECT id FROM sessions WHERE substr(id, 35) = ?", (shard,))}
        found.new |= there - known
        found.gone += known - there
        found.shards[shard] = mtime_ns
    found.visit = [*wanted, *sorted(found.new - wanted.keys())]
    return found


def _changed_shards(sessions: str, shards: Mapping[str, int]) -> dict[str, int]:
    """Return the shard folders whose times differ from `shards`, with their times.

    0 stands for a folder that changed so recently that its time proves nothing, -1 for one that is gone.
    """
    changed: dict[str, int] = {}
    settled_ns = time.time_ns() - _SETTLED_NS
    try:
        descriptor = os.open(sessions, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {name: _REMOVED for name, mtime_ns in shards.items() if mtime_ns != _REMOVED}
    try:
        present = os.listdir(descriptor)
        for name in present:
            stored_ns = shards.get(name)
            if stored_ns is None and not names.is_shard(name):
                continue
            try:
                mtime_ns = os.stat(name, dir_fd=descriptor).st_mtime_ns
            except FileNotFoundError:
                continue  # removed since; the next catch-up will miss it
            if mtime_ns >= settled_ns:
                changed[name] = _LIST_AGAIN
            elif mtime_ns != stored_ns:
                changed[name] = mtime_ns
    finally:
        os.close(descriptor)
    for name in shards.keys() - present:
        if shards[name] != _REMOVED:
            changed[name] = _REMOVED
    return changed


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
        for visit, there in zip(batch, _in_two_threads(read, batch), strict=True):
            shard = names.shard(visit.row.id)
            if there and visit.changed:
                changed.append(visit)
            elif not there and visit.key is not None:
                found.gone.append(visit.row.id)
            elif not there and shard in found.shards:
                found.shards[shard] = _LIST_AGAIN  # no segment yet: it is being made or copied
        yield changed


def _in_two_threads(read: Callable[[Visit], bool], batch: list[Visit]) -> list[bool]:
    """Read half of a large batch in a second thread: the core reads and verifies without the interpreter's lock."""
    half = len(batch) // 2
    if half < _THREAD_SESSIONS:
        return [read(visit) for visit in batch]
    import threading

    answers: list[bool] = []
    failures: list[Exception] = []

    def read_second_half() -> None:
        try:
            answers.extend([read(visit) for visit in batch[half:]])
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            failures.append(error)

    thread = threading.Thread(target=read_second_half, name="turnlog-index")
    thread.start()
    try:
        first = [read(visit) for visit in batch[:half]]
    finally:
        thread.join()
    if failures:
        raise failures[0]
    return first + answers


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
            for table in ("tags", "segments", "sessions"):
                where = "session = (SELECT session FROM sessions WHERE id = ?)"
                connection.execute(f"DELETE FROM {table} WHERE {where}", (session_id,))  # noqa: S608 - as above


def fill(
    connection: apsw.Connection, store: str, heads: Heads, progress: Callable[[int, int], None] | None, *, sync: bool
) -> None:
    """Catch an empty database up over the whole store; `progress` is called with (sessions done, sessions in all)."""
    found = plan(connection, store, heads, heads, {})
    done = 0
    with sqlite.Immediate(connection):
        for batch in visits(connection, store, found, heads, sync=sync):
            _put(connection, batch)
            done = min(done + BATCH_SESSIONS, len(found.visit))
            if progress is not None:
                progress(done, len(found.visit))
    write_folders(connection, found.shards, ())


def release_live(connection: apsw.Connection, store: str) -> None:
    """Remove the markers of sessions that nobody writes, that ended in an orderly close and whose every event is in
    the tables.
    """
    for session_id in _listing(os.path.join(store, names.LIVE)):
        directory = names.session_dir(store, session_id)
        if not names.is_session_id(session_id) or not os.path.isdir(directory) or is_locked(directory):
            continue
        try:
            lock = SessionLock(directory)
        except Locked:
            continue  # opened just now
        try:
            visit = load(connection, session_id)
            there = visit.key is not None and read_on(visit, directory, head=None, live=True, sync=False)
            if there and visit.closed and not visit.changed:
                os.unlink(names.live_path(store, session_id))
        finally:
            lock.release()


def _listing(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
