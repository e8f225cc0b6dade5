"""Connections: a writer waits and goes through a WAL, a reader leaves the folder as it found it, byte for byte."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import apsw
import pytest

from turnlog import sqlite
from turnlog.errors import IndexUnavailable

if TYPE_CHECKING:
    from pathlib import Path

# A writer in a process of its own: inserts a row, then ends as told.
WRITER = """
import os, sys
from turnlog import sqlite
connection = sqlite.open_writer(sys.argv[1])
with sqlite.Immediate(connection):
    connection.execute("CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)")
print("written", flush=True)
if sys.argv[2] == "die":
    os._exit(9)
sys.stdin.read()
connection.close()
"""


def start_writer(path: Path, end: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "written\n"
    return process


def folder_state(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Names, sizes, times and digests of all files, and the folder's own time."""
    state = {".": (0, folder.stat().st_mtime_ns, "")}
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        state[file.name] = (len(content), file.stat().st_mtime_ns, hashlib.sha256(content).hexdigest())
    return state


def count(reader: sqlite.Reader) -> int:
    return int(reader.connection.execute("SELECT count(*) FROM t").get)


def test_a_reader_changes_nothing_when_no_writer_is_there(tmp_path: Path) -> None:
    start_writer(tmp_path / "i.db", "close").communicate("")
    before = folder_state(tmp_path)
    reader = sqlite.open_reader(str(tmp_path / "i.db"))
    assert count(reader) == 1
    assert reader.still_true()
    reader.connection.close()
    assert folder_state(tmp_path) == before
    assert set(before) == {".", "i.db"}


def test_a_reader_changes_nothing_beside_a_live_writer(tmp_path: Path) -> None:
    writer = start_writer(tmp_path / "i.db", "close")
    before = folder_state(tmp_path)
    reader = sqlite.open_reader(str(tmp_path / "i.db"))
    assert count(reader) == 1
    assert reader.still_true()
    reader.connection.close()
    assert folder_state(tmp_path) == before
    assert "i.db-wal" in before
    writer.communicate("")


def test_a_reader_changes_nothing_after_a_killed_writer(tmp_path: Path) -> None:
    start_writer(tmp_path / "i.db", "die").communicate("")
    before = folder_state(tmp_path)
    reader = sqlite.open_reader(str(tmp_path / "i.db"))
    assert count(reader) == 1
    reader.connection.close()
    assert folder_state(tmp_path) == before
    assert "i.db-wal" in before


def test_a_reader_without_locks_notices_a_writer_that_came_later(tmp_path: Path) -> None:
    start_writer(tmp_path / "i.db", "close").communicate("")
    reader = sqlite.open_reader(str(tmp_path / "i.db"))
    assert reader.still_true()
    start_writer(tmp_path / "i.db", "close").communicate("")
    assert not reader.still_true()
    reader.connection.close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    start_writer(tmp_path / "i.db", "close").communicate("")
    reader = sqlite.open_reader(str(tmp_path / "i.db"))
    with pytest.raises(apsw.ReadOnlyError):
        reader.connection.execute("INSERT INTO t VALUES (2)")
    reader.connection.close()


def test_a_reader_does_not_create_a_missing_database(tmp_path: Path) -> None:
    with pytest.raises(apsw.CantOpenError):
        sqlite.open_reader(str(tmp_path / "i.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_url_characters_is_opened_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "100%?a#b c"
    folder.mkdir()
    start_writer(folder / "i.db", "close").communicate("")
    reader = sqlite.open_reader(str(folder / "i.db"))
    assert count(reader) == 1
    reader.connection.close()


def test_a_writer_makes_a_private_file_in_wal_mode(tmp_path: Path) -> None:
    connection = sqlite.open_writer(str(tmp_path / "i.db"))
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 1
    assert connection.pragma("mmap_size") in {0, None}
    assert (tmp_path / "i.db").stat().st_mode & 0o777 == 0o600
    connection.close()


def test_a_transaction_takes_the_write_lock_at_its_start(tmp_path: Path) -> None:
    first = sqlite.open_writer(str(tmp_path / "i.db"))
    second = sqlite.open_writer(str(tmp_path / "i.db"), busy_timeout_ms=1)
    with sqlite.Immediate(first), pytest.raises(apsw.BusyError), sqlite.Immediate(second):
        pytest.fail("two writers at once")
    assert not second.in_transaction
    first.close()
    second.close()


def test_a_failed_transaction_leaves_nothing_behind(tmp_path: Path) -> None:
    connection = sqlite.open_writer(str(tmp_path / "i.db"))
    with pytest.raises(apsw.SQLError), sqlite.Immediate(connection):
        connection.execute("CREATE TABLE t (a); INSERT INTO nowhere VALUES (1)")
    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM sqlite_schema").get == 0
    connection.close()


def test_a_copy_takes_the_place_of_the_content_while_a_reader_keeps_its_own(tmp_path: Path) -> None:
    target = sqlite.open_writer(str(tmp_path / "i.db"))
    target.execute("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    reading = sqlite.open_writer(str(tmp_path / "i.db"))
    rows = reading.execute("SELECT a FROM t UNION ALL SELECT 7")
    assert next(rows) == (1,)
    source = sqlite.open_scratch(":memory:")
    source.execute("CREATE TABLE t (a); INSERT INTO t VALUES (2)")
    sqlite.copy(source, target)
    assert next(rows) == (7,)
    assert target.execute("SELECT a FROM t").get == 2
    rows.close()
    assert reading.execute("SELECT a FROM t").get == 2
    for connection in (target, reading, source):
        connection.close()


def test_a_copy_in_memory_of_a_database_with_a_wal_can_be_written(tmp_path: Path) -> None:
    writer = start_writer(tmp_path / "i.db", "close")
    reader = sqlite.open_reader(str(tmp_path / "i.db"))
    memory = sqlite.open_scratch(":memory:")
    sqlite.copy(reader.connection, memory)
    with sqlite.Immediate(memory):
        memory.execute("INSERT INTO t VALUES (2)")
    assert memory.execute("SELECT count(*) FROM t").get == 2
    reader.connection.close()
    memory.close()
    writer.communicate("")


def test_closing_a_replaced_database_leaves_the_new_ones_wal_alone(tmp_path: Path) -> None:
    path = tmp_path / "i.db"
    old = sqlite.open_writer(str(path))
    old.execute("CREATE TABLE t (a)")
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"i.db{suffix}").rename(tmp_path / f"old{suffix}")
    new = sqlite.open_writer(str(path))
    new.execute("CREATE TABLE u (a); INSERT INTO u VALUES (1)")
    sqlite.close_without_traces(old)
    assert (tmp_path / "i.db-wal").stat().st_size > 0
    other = sqlite.open_writer(str(path))
    assert other.execute("SELECT a FROM u").get == 1
    other.close()
    new.close()


@pytest.mark.parametrize(("number", "accepted"), [(3_051_002, False), (3_051_003, True), (3_054_001, True)])
def test_an_old_sqlite_is_refused_with_its_version(number: int, accepted: bool) -> None:
    if accepted:
        sqlite.require_sqlite(number)
        return
    with pytest.raises(IndexUnavailable, match=r"3\.51\.2 is linked, 3\.51\.3 or newer"):
        sqlite.require_sqlite(number)


def test_the_linked_sqlite_is_recent_enough() -> None:
    sqlite.require_sqlite(apsw.SQLITE_VERSION_NUMBER)
