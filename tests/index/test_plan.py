"""What a catch-up looks at: each session that may have changed, however soon after the last look, and few others."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from tests.index.logs import Logs, session_id
from turnlog import names
from turnlog.index import plan as module
from turnlog.index.plan import LIST_AGAIN, Known, Plan, listing, plan, stamp

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SHARDS = {"a0", "a1"}


def planned(logs: Logs, known: Known, moved: tuple[str, ...] = (), heads: dict[str, Any] | None = None) -> Plan:
    index = logs.index()
    try:
        return plan(index._database._connected(), logs.store, known, moved, heads or {})
    finally:
        index.close()


def settle(logs: Logs) -> dict[str, int]:
    """Let the shard folders have changed long ago; return their times."""
    times = {}
    for shard in SHARDS:
        folder = logs.folder / names.SESSIONS / shard
        os.utime(folder, (1, 1))
        times[shard] = folder.stat().st_mtime_ns
    return times


def test_where_nothing_changed_nothing_is_looked_at(indexed: Logs) -> None:
    found = planned(indexed, Known(settle(indexed)))
    assert (found.visit, found.gone, found.live, found.shards) == ([], [], set(), {})


def test_a_folder_of_another_time_is_listed_and_its_new_sessions_are_visited(indexed: Logs) -> None:
    known = Known(settle(indexed))
    made = session_id(99, shard=0xA0)
    indexed.create(made)
    indexed.close(made)
    indexed.marker(made).unlink()
    os.utime(indexed.folder / names.SESSIONS / "a0", (2, 2))
    found = planned(indexed, known)
    assert (found.visit, found.new, found.shards) == ([made], {made}, {"a0": 2_000_000_000})


def test_a_folder_that_changed_just_now_is_listed_and_will_be_again(indexed: Logs) -> None:
    known = Known(settle(indexed))
    os.utime(indexed.folder / names.SESSIONS / "a1")
    assert planned(indexed, known).shards == {"a1": LIST_AGAIN}


def test_a_session_that_is_gone_is_told(indexed: Logs, tmp_path: Path) -> None:
    known = Known(settle(indexed))
    taken = session_id(3, shard=0xA1)
    indexed.session_folder(taken).rename(tmp_path / "elsewhere")
    assert planned(indexed, known).gone == [taken]


def test_a_shard_that_is_gone_takes_its_sessions_with_it_once(indexed: Logs, tmp_path: Path) -> None:
    known = Known(settle(indexed))
    (indexed.folder / names.SESSIONS / "a1").rename(tmp_path / "elsewhere")
    found = planned(indexed, known)
    assert set(found.gone) == {session_id(number, shard=0xA1) for number in (1, 3, 5, 7)}
    known.shards.update(found.shards)
    assert planned(indexed, known).shards == {}


def test_what_moved_comes_first_and_a_marker_of_another_process_is_followed(indexed: Logs) -> None:
    known = Known(settle(indexed))
    moved, marked, own = session_id(4, shard=0xA0), session_id(2, shard=0xA0), session_id(6, shard=0xA0)
    for id in (marked, own):
        indexed.marker(id).touch()
    (indexed.folder / names.LIVE / "notes").touch()
    found = planned(indexed, known, (moved,), {own: {}})
    assert (found.visit, found.live) == ([moved, marked], {marked, own})


def test_a_marked_session_that_rests_is_left_until_its_file_changes(indexed: Logs) -> None:
    known, marked = Known(settle(indexed)), session_id(2, shard=0xA0)
    indexed.marker(marked).touch()
    segment, folder = indexed.segment(marked), indexed.session_folder(marked)
    for path in (segment, folder):
        os.utime(path, (5, 5))
    rested = stamp(str(folder), str(segment))
    assert rested is not None
    known.quiet[marked] = rested
    assert planned(indexed, known).visit == []
    os.utime(segment, (6, 6))
    assert planned(indexed, known).visit == [marked]


def test_a_stamp_of_a_fresh_or_missing_file_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    assert stamp(str(tmp_path), str(file)) is None
    file.write_bytes(b"x")
    assert stamp(str(tmp_path), str(file)) is None
    for path in (file, tmp_path):
        os.utime(path, (5, 5))
    assert stamp(str(tmp_path), str(file)) == (str(file), 5_000_000_000, 5_000_000_000, 1)
    monkeypatch.setattr(time, "time_ns", lambda: 5_000_000_000 + module.SETTLED_NS)
    assert stamp(str(tmp_path), str(file)) is None


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert listing(str(tmp_path / "none")) == []
