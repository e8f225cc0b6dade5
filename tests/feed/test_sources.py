"""Which sessions a store's feed looks into: those whose mark changed, new ones, and no others."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from turnlog import Store, names
from turnlog.feed import sources
from turnlog.feed.sources import Sources, stamp

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def looked_at(found: Sources, *, everything: bool = True) -> list[str]:
    """Return what is due, and note it as looked at with the mark of before."""
    due = found.due(everything=everything)
    for session_id in due:
        found.marks[session_id] = found.mark(session_id)
    return due


def test_a_session_is_due_when_it_has_grown_and_then_no_more(store: Store) -> None:
    first, second = store.create(), store.create()
    found = Sources(store, [])
    assert looked_at(found) == sorted([first.id, second.id])
    assert looked_at(found) == []
    second.append("note.written", {})
    assert looked_at(found, everything=False) == [second.id]
    assert looked_at(found, everything=False) == []


def test_a_buffered_event_makes_its_session_due_once_it_is_synced(store: Store) -> None:
    session = store.create()
    found = Sources(store, [])
    looked_at(found)
    session.append("note.written", {}, durability="buffered")
    session.flush()
    assert looked_at(found, everything=False) == [session.id]


def test_a_session_of_another_process_is_found_by_its_folder(store: Store, tmp_path: Path) -> None:
    found = Sources(store, [])
    assert looked_at(found) == []
    with Store.open(tmp_path / "store") as other:
        made = other.create()
        assert looked_at(found) == [made.id]


def test_a_file_that_rests_is_not_looked_at_again_and_one_that_changed_is(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "store") as other:
        made = other.create()
    found = Sources(store, [])
    folder = Path(names.session_dir(store.path, made.id))
    (segment,) = folder.glob("*.seg")
    found.paths[made.id] = str(segment)
    for path in (segment, folder):
        os.utime(path, (1, 1))
    looked_at(found)
    monkeypatch.setattr(sources, "_SWEEP_EVERY_S", 0.0)
    monkeypatch.setattr(sources, "_DISCOVER_EVERY_S", 0.0)
    assert looked_at(found) == []
    os.utime(segment, (2, 2))
    assert looked_at(found) == [made.id]
    assert looked_at(found) == []


def test_the_sessions_of_a_cursor_are_due_at_first(store: Store) -> None:
    session = store.create()
    assert Sources(store, [session.id]).due() == [session.id]


def test_a_time_too_young_to_tell_counts_as_changed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert stamp(str(path)) != stamp(str(path))
    os.utime(path, (1, 1))
    assert stamp(str(path)) == stamp(str(path)) == 1_000_000_000
    ahead_s = time.time() + 3600
    os.utime(path, (ahead_s, ahead_s))
    assert stamp(str(path)) != stamp(str(path))
    assert stamp(str(tmp_path / "none")) is None
