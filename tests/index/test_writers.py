"""A row says `running` only while somebody writes the session; a turn whose process died is `interrupted`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.index.logs import all_rows, ids, session_id
from turnlog.index.writers import Writers
from turnlog.log.lock import SessionLock

if TYPE_CHECKING:
    from tests.index.logs import Logs
    from turnlog.index.index import Index

DEAD, LIVE, ENDED, IDLE = (session_id(number) for number in range(4))


def states(index: Index) -> dict[str, str]:
    return {row["id"]: row["state"] for row in all_rows(index)}


@pytest.fixture
def index(logs: Logs) -> Index:
    """An index over one session of each kind: its writer killed, at work, closed within a turn; no turn at all."""
    for id in (DEAD, LIVE, ENDED, IDLE):
        logs.create(id)
        if id != IDLE:
            logs.append(id, "turn.started", {"turn": "t1"})
    logs.kill(DEAD)
    logs.close(ENDED)
    index = logs.index()
    index.catch_up(logs.heads())
    return index


def test_an_open_turn_runs_only_while_somebody_writes_the_session(logs: Logs, index: Index) -> None:
    expected = {DEAD: "interrupted", LIVE: "running", ENDED: "interrupted", IDLE: "open"}
    assert states(index) == expected
    rows = {id: index.get(id) for id in expected}
    assert {id: row["state"] for id, row in rows.items() if row is not None} == expected
    logs.kill(LIVE)
    assert states(index)[LIVE] == "interrupted", "the tables have not changed, the lock has"


def test_what_the_writer_did_last_counts_as_soon_as_it_is_gone(logs: Logs, index: Index) -> None:
    logs.append(LIVE, "turn.completed", {"turn": "t1"})
    logs.kill(LIVE)
    index.catch_up()
    assert states(index)[LIVE] == "open"


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_the_filter_means_the_state_that_is_shown(index: Index, limit: int) -> None:
    assert ids(index, state="running") == [LIVE]
    assert sorted(ids(index, state="interrupted")) == sorted([DEAD, ENDED])
    first, token = index.list(limit=limit, state="interrupted")
    assert (len(first), token is None) == (min(limit, 2), limit >= 2)


def test_a_lock_without_a_marker_is_no_writer_at_work(logs: Logs) -> None:
    writers = Writers(logs.store)
    logs.create(DEAD)
    logs.close(DEAD)
    logs.marker(DEAD).unlink()
    lock = SessionLock(str(logs.session_folder(DEAD)))  # as a compaction holds it
    assert not writers.writes(DEAD)
    lock.release()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open every file")
def test_a_session_whose_lock_may_not_be_looked_at_counts_as_written(logs: Logs) -> None:
    logs.create(DEAD)
    logs.kill(DEAD)
    lock = logs.session_folder(DEAD) / "LOCK"
    lock.chmod(0)
    assert Writers(logs.store).writes(DEAD)
    lock.chmod(0o600)


def test_asking_creates_nothing(logs: Logs) -> None:
    assert not Writers(logs.store).writes(DEAD)
    logs.marker(DEAD).touch()
    assert not Writers(logs.store).writes(DEAD)
    assert not logs.session_folder(DEAD).exists()
