"""Catching up: who is visited, and when a marker may go."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.index.logs import Logs, session_id
from turnlog import sqlite
from turnlog.index import plan, read

A, B = session_id(1), session_id(2)


@pytest.fixture
def visited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions whose logs were looked at."""
    seen: list[str] = []

    def read_on(visit: Any, directory: str, **rest: Any) -> bool:
        seen.append(os.path.basename(directory))
        return read.read_on(visit, directory, **rest)

    monkeypatch.setattr("turnlog.index.catch_up.read_on", read_on)
    return seen


def test_only_sessions_that_made_progress_are_visited(indexed: Logs, visited: list[str]) -> None:
    index = indexed.index()
    index.catch_up()
    assert visited == []
    indexed.create(A)
    indexed.create(B)
    index.catch_up(indexed.heads())
    assert sorted(visited) == [A, B]
    indexed.append(B, "custom.thing", {})
    index.catch_up(indexed.heads())
    index.catch_up(indexed.heads())
    assert visited[2:] == [B]
    index.close()


def test_a_session_whose_writer_died_is_visited_by_its_marker(indexed: Logs, visited: list[str]) -> None:
    indexed.create(A)
    indexed.kill(A)
    index = indexed.index()
    index.catch_up()
    assert set(visited) == {A}
    index.close()


def test_a_marked_session_that_rests_is_looked_at_once(
    logs: Logs, visited: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.create(A)
    logs.kill(A)
    index = logs.index()
    index.catch_up()
    monkeypatch.setattr(plan, "SETTLED_NS", -(10**18))  # its files have rested long enough
    index.catch_up()
    before = len(visited)
    index.catch_up()
    assert len(visited) == before
    logs.resume(A)
    logs.append(A, "message.user", {"content": "again"})
    index.catch_up()
    assert len(visited) == before + 1
    row = index.get(A)
    assert row is not None
    assert row["messages"] == 1
    index.close()


def test_a_folder_that_did_not_change_is_not_listed_again(indexed: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SETTLED_NS", -(10**18))  # every folder counts as settled
    index = indexed.index()
    index.catch_up()
    listed: list[str] = []
    real = plan.listing

    def listing(path: str) -> list[str]:
        listed.append(os.path.basename(path))
        return real(path)

    monkeypatch.setattr(plan, "listing", listing)
    index.catch_up()
    assert listed == ["live"]
    indexed.create(session_id(50, shard=0xA1))
    index.catch_up(indexed.heads())
    assert listed == ["live", "live", "a1"]
    index.close()


def test_a_folder_that_changed_just_now_is_listed_again(indexed: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SETTLED_NS", 10**18)  # no folder counts as settled
    index = indexed.index()
    known = plan.Known(dict.fromkeys(("a0", "a1"), 0))
    found = plan.plan(index._database._connected(), indexed.store, known, [], {})
    assert found.shards == {"a0": 0, "a1": 0}
    assert found.visit == []
    index.close()


def test_a_marker_goes_when_its_session_is_closed_and_projected(logs: Logs) -> None:
    index = logs.index()
    logs.create(A)
    logs.create(B)
    index.catch_up(logs.heads())
    index.release_live()
    assert logs.marker(A).exists()  # still open
    logs.close(A)
    index.release_live()
    assert logs.marker(A).exists()  # its last bytes are not projected
    index.catch_up(logs.heads())
    index.release_live()
    assert not logs.marker(A).exists()
    assert logs.marker(B).exists()
    index.close()


def test_markers_stay_while_the_tables_are_not_on_stable_storage(logs: Logs) -> None:
    index = logs.index()
    logs.create(A)
    logs.close(A)
    reading = sqlite.open_writer(str(logs.folder / "index.db"))
    rows = reading.execute("SELECT 1 FROM shards UNION ALL SELECT 2 UNION ALL SELECT 3")
    next(rows)  # holds on to the state before A
    index.catch_up()
    index.release_live()
    assert logs.marker(A).exists()
    rows.close()
    reading.close()
    index.release_live()
    assert not logs.marker(A).exists()
    index.close()


def test_a_long_lived_store_sheds_the_markers_of_closed_sessions(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SETTLED_NS", -(10**18))
    index = logs.index()
    for number in range(70):
        logs.create(session_id(number))
        logs.close(session_id(number))
    logs.create(session_id(99))
    index.catch_up(logs.heads())
    index.catch_up(logs.heads())
    assert [path.name for path in (logs.folder / "live").iterdir()] == [session_id(99)]
    index.close()


def test_a_marker_of_a_killed_session_stays(logs: Logs) -> None:
    logs.create(A)
    logs.kill(A)
    index = logs.index()
    index.catch_up()
    index.release_live()
    assert logs.marker(A).exists()
    index.close()


def test_a_reader_removes_no_marker(logs: Logs) -> None:
    logs.create(A)
    logs.close(A)
    index = logs.index(read_only=True)
    index.release_live()
    assert logs.marker(A).exists()
    index.close()


def test_a_witness_never_goes_back(logs: Logs) -> None:
    index = logs.index()
    logs.create(A)
    last = 0
    for number in range(10):
        logs.append(A, "custom.big", {"text": "x" * 20_000}, durable=number % 2 == 0)
        index.catch_up(logs.heads() if number % 3 else {})
        witness = index.witness(A)
        assert witness is not None
        assert witness["ordinal"] >= last
        last = witness["ordinal"]
    assert last == 11
    index.close()
