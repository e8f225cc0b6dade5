"""The file-state cache of a session: kept in its log, restored from it, never an append for each mark."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import turnlog
from turnlog import Store
from turnlog.errors import NotFound
from turnlog.model import session_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog import Session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def snapshots(session: Session) -> int:
    return len(list(session.events(types=["file.snapshot"])))


def test_an_edit_between_two_processes_is_seen_after_the_resume(store: Store, tmp_path: Path) -> None:
    (tmp_path / "read.txt").write_text("one")
    (tmp_path / "written.txt").write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        session.files.mark_read("read.txt")
        session.files.mark_written("written.txt")
    (tmp_path / "read.txt").write_text("two")
    with store.resume(session.id) as again:
        assert again.files.has_external_modification("read.txt") == "modified"
        assert again.files.has_external_modification("written.txt") is None
        assert [os.path.basename(state.path) for state in again.files.recent()] == ["written.txt", "read.txt"]
        assert again.recovery is not None
        assert again.recovery.clean


def test_marks_cost_no_append_and_a_close_writes_one_snapshot(store: Store, tmp_path: Path) -> None:
    with store.create(cwd=str(tmp_path)) as session:
        for number in range(100):
            (tmp_path / f"{number}.txt").write_text("x")
            session.files.mark_read(f"{number}.txt")
        assert session.head()[0] == 1
    assert snapshots(store.session(session.id)) == 1
    with store.session(session.id) as again:
        again.append("acme.note", {})
        assert len(again.files) == 100
    assert snapshots(store.session(session.id)) == 1  # nothing was marked since


def test_a_pause_and_the_interval_write_what_has_changed(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        session.files.mark_read("notes.txt")
        assert (session.files.save(), session.files.save(), snapshots(session)) == (True, False, 1)
        monkeypatch.setattr(session_files, "SAVE_INTERVAL_S", 0)
        session.files.mark_read("notes.txt")
        assert snapshots(session) == 2


def test_what_was_saved_outlives_a_kill_and_what_was_not_is_not_known(store: Store, tmp_path: Path) -> None:
    for name in ("saved.txt", "later.txt"):
        (tmp_path / name).write_text("one")
    code = (
        "import os, signal, sys; from turnlog import Store\n"
        "session = Store.open(sys.argv[1]).create(cwd=sys.argv[2])\n"
        "session.files.mark_read('saved.txt'); session.files.save(); session.flush()\n"
        "session.files.mark_read('later.txt'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(turnlog.__file__))}
    subprocess.run([sys.executable, "-c", code, store.path, str(tmp_path)], env=env, check=False)
    with store.resume("latest") as session:
        assert session.files.has_external_modification("saved.txt") is None
        with pytest.raises(NotFound):
            session.files.has_external_modification("later.txt")


def test_a_fork_inherits_what_its_parent_knew(store: Store, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one")
    with store.create(cwd=str(tmp_path)) as parent:
        parent.files.mark_read("notes.txt")
        parent.files.save()
        parent.flush()
        with store.fork(parent.id) as child:
            (tmp_path / "notes.txt").write_text("two")
            assert child.files.has_external_modification("notes.txt") == "modified"


def test_a_snapshot_of_another_product_is_none_of_ours(store: Store, tmp_path: Path) -> None:
    with store.create(cwd=str(tmp_path)) as session:
        session.append("file.snapshot", {"files": 3, "source": {"line": 1}})
        assert (len(session.files), session.files.lost) == (0, None)


def test_a_snapshot_that_makes_no_sense_leaves_an_empty_cache_that_says_so(store: Store, tmp_path: Path) -> None:
    with store.create(cwd=str(tmp_path)) as session:
        session.append("file.snapshot", {"files": "?"})
        assert len(session.files) == 0
        assert session.files.lost is not None
        assert session.files.lost.code == "invalid_input"


def test_a_session_in_memory_has_a_cache_too(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one")
    session = Store.ephemeral().create(cwd=str(tmp_path))
    session.files.mark_read("notes.txt")
    (tmp_path / "notes.txt").unlink()
    assert session.files.has_external_modification("notes.txt") == "deleted"
