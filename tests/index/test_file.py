"""A database that is missing, truncated, garbage, locked, newer or older: the log goes on, the answers come back."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from tests.index.logs import Logs, all_rows, folder_state, session_id
from turnlog import sqlite
from turnlog.errors import IndexUnavailable
from turnlog.index import file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A = session_id(99)


def cut(share: float) -> Callable[[Path], None]:
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def garble(start: int, end: int | None = None, fill: bytes = b"\xa5") -> Callable[[Path], None]:
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        stop = len(content) if end is None else end
        content[start:stop] = fill * (stop - start)
        path.write_bytes(content)

    return change


def drop_table(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE segments")
    connection.close()


def spoil_rows(path: Path, fill: bytes) -> None:
    """Damage that opening does not see: the page of the table's rows."""
    connection = apsw.Connection(str(path))
    page = int(connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'").get)
    size = int(connection.pragma("page_size"))
    connection.close()
    garble((page - 1) * size, page * size, fill=fill)(path)


BREAKAGES: dict[str, Callable[[Path], Any]] = {
    "missing": lambda path: path.unlink(),
    "empty": cut(0),
    "cut to a header": lambda path: os.truncate(path, 100),
    "cut to a page": lambda path: os.truncate(path, 4_096),
    "cut in half": cut(0.5),
    "cut at the end": cut(0.99),
    "all garbage": garble(0),
    "garbage behind the magic": garble(16),
    "garbage in the schema": garble(100, 4_096),
    "a table is missing": drop_table,
    "rows are garbage": lambda path: spoil_rows(path, b"\xa5"),
    "rows are zeros": lambda path: spoil_rows(path, b"\0"),
}


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_writer_rebuilds_a_broken_index_and_keeps_the_old_file(indexed: Logs, breakage: str) -> None:
    index = indexed.index()
    before = all_rows(index)
    index.close()
    path = indexed.folder / "index.db"
    BREAKAGES[breakage](path)
    broken = path.read_bytes() if path.exists() else b""
    index = indexed.index()
    index.catch_up()
    assert all_rows(index) == before
    assert index.witness(before[0]["id"]) is not None
    index.close()
    kept = [file.read_bytes() for file in indexed.folder.glob("quarantine/*/index.db")]
    assert len(kept) == (1 if broken else 0)
    if breakage != "a table is missing":  # that one could still be written before it was noticed
        assert kept == ([broken] if broken else [])
    connection = sqlite.open_writer(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_a_reader_answers_from_memory_and_writes_no_byte(indexed: Logs, breakage: str) -> None:
    index = indexed.index()
    before = all_rows(index)
    index.close()
    BREAKAGES[breakage](indexed.folder / "index.db")
    state = list(folder_state(indexed.folder))
    reader = indexed.index(read_only=True)
    reader.catch_up()
    assert all_rows(reader) == before
    assert reader.witness(before[0]["id"]) is not None
    reader.close()
    assert list(folder_state(indexed.folder)) == state


@pytest.mark.parametrize("breakage", ["cut in half", "all garbage", "rows are garbage"])
def test_an_index_that_breaks_while_it_is_open_is_rebuilt(indexed: Logs, breakage: str) -> None:
    index = indexed.index()
    before = all_rows(index)
    index._database._connected().pragma("wal_checkpoint(truncate)")
    index._database._connected().pragma("shrink_memory")
    BREAKAGES[breakage](indexed.folder / "index.db")
    indexed.create(A)
    index.catch_up(indexed.heads())
    assert [row for row in all_rows(index) if row["id"] != A] == before
    assert index.get(A) is not None
    index.close()


LOCKER = """
import sys
from turnlog import sqlite
connection = sqlite.open_writer(sys.argv[1])
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""


def test_an_index_locked_by_another_process_stops_no_append(indexed: Logs) -> None:
    index = indexed.index()
    indexed.create(A, title="before")
    locker = subprocess.Popen(
        [sys.executable, "-c", LOCKER, str(indexed.folder / "index.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert locker.stdout is not None
    assert locker.stdout.readline() == "locked\n"
    indexed.append(A, "message.user", {"content": "while locked"})
    with pytest.raises(IndexUnavailable, match="locked") as caught:
        index.catch_up(indexed.heads())
    assert caught.value.retryable
    assert isinstance(caught.value.__cause__, apsw.BusyError)
    assert len(all_rows(index)) == 8  # what was projected can still be asked for
    locker.communicate("")
    assert index.catch_up(indexed.heads()) == 1
    row = index.get(A)
    assert row is not None
    assert row["messages"] == 1
    index.close()


def test_an_index_being_rebuilt_by_another_process_is_waited_for_a_while(indexed: Logs) -> None:
    (indexed.folder / "index.db").unlink()
    with file.Replacing(indexed.store, 50):
        with pytest.raises(IndexUnavailable, match="another process is rebuilding"):
            indexed.index()
        reader = indexed.index(read_only=True)
        assert len(all_rows(reader)) == 8
        reader.close()
    index = indexed.index()
    assert len(all_rows(index)) == 8
    index.close()


def test_what_a_killed_rebuild_left_behind_is_no_obstacle(indexed: Logs) -> None:
    for suffix in ("", "-wal", "-shm"):
        (indexed.folder / f"index.db.tmp{suffix}").write_bytes(b"half")
    index = indexed.index()
    index.rebuild()
    assert len(all_rows(index)) == 8
    index.close()
    assert not list(indexed.folder.glob("*.tmp*"))


def set_schema(logs: Logs, number: int) -> bytes:
    connection = apsw.Connection(str(logs.folder / "index.db"))
    connection.pragma("user_version", number)
    connection.execute("UPDATE sessions SET title = 'of another schema'")
    connection.close()
    return (logs.folder / "index.db").read_bytes()


def test_an_index_of_a_newer_schema_is_not_touched(indexed: Logs) -> None:
    content = set_schema(indexed, file.SCHEMA_NUMBER + 1)
    with pytest.raises(IndexUnavailable, match="newer turnlog"):
        indexed.index()
    assert (indexed.folder / "index.db").read_bytes() == content
    reader = indexed.index(read_only=True)
    assert {row["title"] for row in all_rows(reader)} == {f"session {number}" for number in range(8)}
    reader.close()
    assert (indexed.folder / "index.db").read_bytes() == content


def test_an_index_of_an_older_schema_is_rebuilt(indexed: Logs) -> None:
    set_schema(indexed, file.SCHEMA_NUMBER - 1)
    index = indexed.index()
    assert {row["title"] for row in all_rows(index)} == {f"session {number}" for number in range(8)}
    assert index._database._connected().pragma("user_version") == file.SCHEMA_NUMBER
    index.close()


def test_an_index_that_cannot_be_created_is_an_error_with_its_cause(indexed: Logs) -> None:
    from turnlog.index.index import Index

    for folder in ("/proc", str(indexed.folder / "missing")):
        with pytest.raises(IndexUnavailable) as caught:
            Index.open(indexed.store, path=f"{folder}/index.db")
        assert isinstance(caught.value.__cause__, OSError)
    reader = Index.open(indexed.store, path="/proc/index.db", read_only=True)
    assert len(all_rows(reader)) == 8
    reader.close()


def test_a_rebuild_that_fails_leaves_the_old_index_in_place(indexed: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (indexed.folder / "index.db").read_bytes()

    def no_room(*_arguments: Any) -> None:
        raise apsw.FullError("database or disk is full")

    index = indexed.index()
    monkeypatch.setattr(sqlite, "copy", no_room)
    with pytest.raises(IndexUnavailable, match="full"):
        index.rebuild()
    assert len(all_rows(index)) == 8
    index.close()
    assert (indexed.folder / "index.db").read_bytes() == content
    assert not list(indexed.folder.glob("*.tmp*"))


CROWD = """
import os, random, sys
from turnlog.errors import IndexUnavailable
from turnlog.index.index import Index
store, seed = sys.argv[1], int(sys.argv[2])
dice = random.Random(seed)
path = os.path.join(store, "index.db")
index = None
for _ in range(40):
    try:
        index = index or Index.open(store, read_only=seed == 0)
        index.catch_up()
        rows, _ = index.list(limit=100)
        assert len(rows) == len({row["id"] for row in rows}) >= 8, rows
        action = dice.randrange(8)
        if action == 0:
            index.rebuild()
        elif action == 1 and seed:
            os.unlink(path)
        elif action == 2 and seed:
            with open(path, "r+b") as file:
                file.truncate(dice.randrange(1, 9) * 4096 - 100)
        elif action == 3:
            fresh = Index.open(store, read_only=seed == 0)
            index.close()
            index = fresh
    except (IndexUnavailable, FileNotFoundError) as error:
        print(error)
if index is not None:
    index.close()
"""


def test_processes_that_rebuild_remove_and_break_the_same_index_stay_right(indexed: Logs) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", CROWD, indexed.store, str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for seed in range(4)
    ]
    for number in range(20):
        indexed.create(session_id(100 + number), title="new")
        indexed.append(session_id(100 + number), "message.user", {"content": "x"})
        indexed.close(session_id(100 + number))
    for process in crowd:
        _, problems = process.communicate()
        assert (process.returncode, problems) == (0, "")
    index, rebuilt = indexed.index(), indexed.index(name="rebuilt.db")
    index.catch_up()
    assert all_rows(index) == all_rows(rebuilt)
    assert len(all_rows(index)) == 28
    index.close()
    rebuilt.close()
