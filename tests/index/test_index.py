"""The index as a whole: it says what the logs say, however it came to know it."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from tests.index.logs import Logs, all_rows, folder_state, ids, session_id, tables
from turnlog.errors import Closed, IndexUnavailable

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog.index.index import Index

A, B, C = session_id(1), session_id(2), session_id(3, shard=0x01)


def test_a_new_session_is_listed_after_a_catch_up(logs: Logs) -> None:
    index = logs.index()
    assert index.list() == ([], None)
    assert index.latest() is None
    logs.create(A, title="first", cwd="/a", model="m", tags=["x"])
    assert index.catch_up(logs.heads()) == 1
    row = index.get(A)
    assert row is not None
    assert (row["title"], row["cwd"], row["model"], row["tags"], row["events"]) == ("first", "/a", "m", ["x"], 1)
    assert (index.latest(), index.find_prefix(A[:6]), index.find_prefix("ffff")) == (A, [A], [])
    assert index.catch_up(logs.heads()) == 0
    index.close()


HISTORY = [
    ("turn.started", {}),
    ("message.user", {"content": "why?"}),
    ("step.completed", {"usage": {"input": 3, "output": 4}, "model": "m"}),
    ("tool.proposed", {"args": "x" * 9_000}),
    ("tool.completed", {"output": "y" * 30_000}),
    ("turn.completed", {}),
    ("session.tagged", {"tags": ["a", "b"]}),
    ("session.tagged", {"tags_removed": ["a"]}),
    ("session.renamed", {"title": "other"}),
    ("session.closed", {}),
    ("session.archived", {}),
    ("session.deleted", {}),
    ("custom.thing", {"n": 1}),
]


def live_a_little(logs: Logs, index: Index, dice: random.Random) -> None:
    """Do one random thing that happens in the life of a store."""
    known = [folder.name for folder in logs.folder.glob("sessions/*/*")]
    idle = sorted(id for id in known if id not in logs.open)
    action = dice.choice(
        ["create", "append", "append", "append", "group", "close", "kill", "resume", "catch up", "catch up"]
    )
    if action == "create" or not known:
        logs.create(session_id(len(known), shard=dice.choice([1, 2, 3])), cwd=dice.choice(["/a", "/b"]))
    elif action == "resume" and idle:
        logs.resume(dice.choice(idle), index)
    elif action == "catch up":
        index.catch_up(logs.heads())
    elif logs.open:
        id = dice.choice(sorted(logs.open))
        if action == "append":
            type, payload = dice.choice(HISTORY)
            logs.append(id, type, payload, durable=dice.random() < 0.5)
        elif action == "group":
            logs.append_group(id, [dice.choice(HISTORY) for _ in range(3)])
        elif action == "close":
            logs.close(id)
        elif action == "kill":
            logs.kill(id)


@pytest.mark.parametrize("seed", range(20))
def test_a_live_index_equals_a_rebuilt_one_row_by_row(logs: Logs, seed: int) -> None:
    dice = random.Random(seed)
    live = logs.index()
    for _ in range(120):
        live_a_little(logs, live, dice)
    live.catch_up(logs.heads())
    rebuilt = logs.index(name="rebuilt.db")
    rebuilt.rebuild(logs.heads())
    reader = logs.index(name="missing.db", read_only=True)
    reader.rebuild(logs.heads())
    assert tables(live)["sessions"]
    assert tables(live) == tables(rebuilt) == tables(reader)
    for index in (live, rebuilt, reader):
        index.close()


def answers(index: Index) -> list[Any]:
    filters: list[dict[str, Any]] = [{}, {"cwd": "/code/1"}, {"state": "open"}, {"tag": "even"}, {"text": "SESSION 3"}]
    return [all_rows(index, **given) for given in filters] + [index.witness(session_id(3, 0xA1)), index.latest()]


def test_a_deleted_index_gives_the_same_answers_again(indexed: Logs) -> None:
    index = indexed.index()
    before = answers(index)
    index.close()
    (indexed.folder / "index.db").unlink()
    index = indexed.index()
    assert answers(index) == before
    assert len(before[0]) == 8
    index.close()


def test_an_index_deleted_or_replaced_while_open_is_noticed(indexed: Logs) -> None:
    first = indexed.index()
    before = answers(first)
    for name in indexed.folder.glob("index.db*"):
        name.unlink()
    second = indexed.index()
    first.catch_up()
    indexed.create(A)
    second.catch_up(indexed.heads())
    assert A in ids(first)
    second.forget(A)
    assert answers(first) == answers(second) == before
    first.close()
    assert answers(second) == before
    second.close()


def test_sessions_copied_in_or_removed_by_hand_are_noticed(indexed: Logs, tmp_path: Path) -> None:
    other = Logs(tmp_path / "other")
    other.create(C, title="from elsewhere")
    other.create(B, title="from elsewhere")
    other.end()
    index = indexed.index()
    assert index.catch_up() == 0
    for id in (B, C):
        shutil.copytree(other.session_folder(id), indexed.session_folder(id))
    assert index.catch_up() == 2
    assert index.list(text="from elsewhere")[0][0]["events"] == 1
    gone = session_id(0, shard=0xA0)
    shutil.rmtree(indexed.session_folder(gone))
    shutil.rmtree(indexed.session_folder(C).parent)
    assert index.catch_up() == 2
    assert gone not in ids(index)
    assert C not in ids(index)
    assert B in ids(index)
    shutil.copytree(other.session_folder(C), indexed.session_folder(C))
    index.catch_up()
    assert C in ids(index)
    index.close()


def test_a_forgotten_session_is_read_anew_if_it_is_still_there(indexed: Logs) -> None:
    index = indexed.index()
    id = session_id(3, shard=0xA1)
    before = index.get(id)
    index.forget(id)
    assert index.get(id) is None
    assert index.catch_up() == 1
    assert index.get(id) == before
    index.close()


def test_a_rebuild_shows_the_old_rows_until_the_new_ones_are_complete(indexed: Logs) -> None:
    index, other, reader = indexed.index(), indexed.index(), indexed.index(read_only=True)
    index._database._connected().execute("UPDATE sessions SET title = 'stale'")
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        assert {row["title"] for row in all_rows(other)} == {"stale"}

    index.rebuild(progress=progress)
    assert seen == [(8, 8)]
    for one in (index, other, reader):
        one.catch_up()
        assert {row["title"] for row in all_rows(one)} == {f"session {number}" for number in range(8)}
        one.close()
    assert not list(indexed.folder.glob("*.tmp*"))
    assert not (indexed.folder / "quarantine").exists()


def test_two_indexes_catching_up_in_turn_agree(logs: Logs) -> None:
    first, second = logs.index(), logs.index()
    logs.create(A)
    for number in range(12):
        logs.append(A, "message.user", {"content": f"{number}"})
        one = (first, second)[number % 2]
        one.catch_up(logs.heads() if number % 3 else {})
    first.catch_up(logs.heads())
    assert first.get(A) == second.get(A)
    row = second.get(A)
    assert row is not None
    assert (row["messages"], row["head_ordinal"]) == (12, 13)
    first.close()
    second.close()


def test_a_row_that_another_process_moved_is_left_alone(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnlog.index import catch_up

    first, second = logs.index(), logs.index()
    logs.create(A)
    first.catch_up(logs.heads())
    real = catch_up.write

    def write_late(connection: apsw.Connection, batch: Any) -> set[str]:
        monkeypatch.setattr(catch_up, "write", real)
        logs.append(A, "message.user", {"content": "newer"})
        second.catch_up(logs.heads())
        return real(connection, batch)

    logs.append(A, "message.user", {"content": "new"})
    monkeypatch.setattr(catch_up, "write", write_late)
    first.catch_up(logs.heads())
    row = first.get(A)
    assert row is not None
    assert row["messages"] == 2
    assert first.catch_up(logs.heads()) == 0
    first.close()
    second.close()


def test_a_reader_sees_what_live_sessions_wrote_and_writes_no_byte(indexed: Logs) -> None:
    indexed.create(A, title="live")
    indexed.append(A, "message.user", {"content": "x"})
    before = list(folder_state(indexed.folder))
    reader = indexed.index(read_only=True)
    assert reader.catch_up() == 1
    row = reader.get(A)
    assert row is not None
    assert (row["title"], row["messages"]) == ("live", 1)
    assert len(all_rows(reader)) == 9
    assert list(folder_state(indexed.folder)) == before
    writer = indexed.index()
    writer.catch_up()
    writer.close()
    indexed.append(A, "message.user", {"content": "y"})
    before = list(folder_state(indexed.folder))
    reader.catch_up()
    row = reader.get(A)
    assert row is not None
    assert row["messages"] == 2
    reader.close()
    assert list(folder_state(indexed.folder)) == before


def test_a_reader_follows_a_writer_in_the_same_file(indexed: Logs) -> None:
    reader = indexed.index(read_only=True)
    assert len(all_rows(reader)) == 8
    writer = indexed.index()
    indexed.create(A)
    indexed.close(A)
    writer.catch_up()
    writer.release_live()
    assert len(all_rows(reader)) == 9
    writer.close()
    assert len(all_rows(reader)) == 9
    reader.close()


def test_a_closed_index_says_so(indexed: Logs) -> None:
    index = indexed.index()
    index.close()
    index.close()
    with pytest.raises(Closed):
        index.list()


def test_a_full_disk_is_reported_and_over_when_there_is_room(indexed: Logs) -> None:
    index = indexed.index()
    connection = index._database._connected()
    pages = connection.pragma("page_count")
    connection.pragma("max_page_count", pages)
    for number in range(100, 160):
        indexed.create(session_id(number), title="t" * 199, cwd="/c" * 400)
        indexed.close(session_id(number))
    with pytest.raises(IndexUnavailable, match="full") as caught:
        index.catch_up()
    assert isinstance(caught.value.__cause__, apsw.FullError)
    assert len(all_rows(index)) == 8
    connection.pragma("max_page_count", 100_000)
    assert index.catch_up() == 60
    index.close()
