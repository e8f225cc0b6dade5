"""Plain stores to compare with: the same work on SQLite rows, on JSONL and on a bare file.

Owns: the reference side of every ratio. Each is made as well as its kind allows: prepared statements, WAL, one open
connection, zero-filled space. Must not know: turnlog.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any

import apsw
import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

SCHEMA = (
    "CREATE TABLE event(id INTEGER PRIMARY KEY, session TEXT, ordinal INTEGER, event_id TEXT UNIQUE, type TEXT,"
    " time_us INTEGER, digest BLOB, payload BLOB, UNIQUE(session, ordinal))"
)
INSERT = "INSERT INTO event(session, ordinal, event_id, type, time_us, digest, payload) VALUES(?,?,?,?,?,?,?)"
_BATCH_MAX = 256


def connect(path: str, synchronous: str) -> apsw.Connection:
    """Open a WAL database with the realistic schema."""
    connection = apsw.Connection(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute(SCHEMA)
    return connection


def row(ordinal: int, type_: str, payload: dict[str, Any]) -> tuple[Any, ...]:
    """Encode one event as a row: sorted JSON, SHA-256, id and time, as turnlog does."""
    data = orjson.dumps(payload, option=orjson.OPT_SORT_KEYS)
    return "session", ordinal, str(uuid.uuid4()), type_, time.time_ns() // 1000, hashlib.sha256(data).digest(), data


class ZeroedFile:
    """A bare file, zero-filled ahead: pwrite and fdatasync, nothing else."""

    def __init__(self, path: str, size_bytes: int) -> None:
        """Make the file and sync its zeros."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.pwrite(self._descriptor, bytes(size_bytes), 0)
        os.fsync(self._descriptor)
        self._offset = 0

    def append(self, data: bytes) -> None:
        """Write and sync."""
        os.pwrite(self._descriptor, data, self._offset)
        os.fdatasync(self._descriptor)
        self._offset += len(data)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class BatchingWriter:
    """One SQLite thread that commits whatever many threads have queued in one transaction."""

    def __init__(self, path: str) -> None:
        """Start the thread."""
        self._path = path
        self._queue: queue.SimpleQueue[tuple[tuple[Any, ...], threading.Lock] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        connection = connect(self._path, "FULL")
        ended = False
        while not ended:
            batch = [self._queue.get()]
            while len(batch) < _BATCH_MAX and batch[-1] is not None:
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            items = [item for item in batch if item is not None]
            ended = len(items) < len(batch)
            with connection:
                connection.executemany(INSERT, [values for values, _ in items])
            for _, done in items:
                done.release()
        connection.close()

    def append(self, values: tuple[Any, ...], done: threading.Lock) -> None:
        """Queue a row and wait until it is committed; `done` is the caller's own, held lock."""
        self._queue.put((values, done))
        done.acquire()

    def close(self) -> None:
        """Stop the thread."""
        self._queue.put(None)
        self._thread.join()


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run `work(number)` in `count` threads at once and wait for all."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_jsonl(path: str, events: Iterable[tuple[str, dict[str, Any]]]) -> int:
    """Write events as JSON lines with the usual envelope; return the bytes written."""
    with open(path, "wb") as file:
        for ordinal, (type_, payload) in enumerate(events, 1):
            envelope = {
                "seq": ordinal,
                "id": str(uuid.UUID(int=ordinal)),
                "session": "s",
                "ts": 1.77e9 + ordinal,
                "type": type_,
                "payload": payload,
            }
            file.write(orjson.dumps(envelope) + b"\n")
        return file.tell()


def rebuild_rows(path: str, files: Sequence[str]) -> None:
    """Build a per-event SQLite index from JSON lines: orjson and executemany, no journal."""
    connection = apsw.Connection(path)
    connection.execute("PRAGMA journal_mode=OFF")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute(
        "CREATE TABLE event(session INTEGER, ordinal INTEGER, event_id TEXT, type TEXT, time REAL, offset INTEGER,"
        " length INTEGER, PRIMARY KEY(session, ordinal)) WITHOUT ROWID"
    )
    with connection:
        for number, name in enumerate(files):
            with open(name, "rb") as file:
                offset, rows = 0, []
                for line in file:
                    event = orjson.loads(line)
                    rows.append((number, event["seq"], event["id"], event["type"], event["ts"], offset, len(line)))
                    offset += len(line)
            connection.executemany("INSERT INTO event VALUES(?,?,?,?,?,?,?)", rows)
    connection.close()
