"""The file-state cache of a session: kept in its log, restored from it, never an append for each mark."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

import turnlog
from turnlog import Store
from turnlog.errors import NoSpace, NotFound
from turnlog.model import session_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog import Event, Session


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


def test_the_end_of_a_turn_saves_where_that_is_due(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        for interval_s, expected in ((3600, 0), (0, 1)):
            turn = session.turn("goal")
            if not expected:
                session.files.mark_read("notes.txt")
            monkeypatch.setattr(session_files, "SAVE_INTERVAL_S", interval_s)
            turn.complete()
            assert snapshots(session) == expected
        session.turn("nothing was marked").complete()
        assert snapshots(session) == 1


def test_a_turn_ends_although_its_files_cannot_be_saved(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> bool:
        message = "no space"
        raise NoSpace(message)

    (tmp_path / "notes.txt").write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        turn = session.turn("goal")
        session.files.mark_read("notes.txt")
        with monkeypatch.context() as patch:
            patch.setattr(session_files, "SAVE_INTERVAL_S", 0)
            patch.setattr(session.files, "save", full)
            turn.complete()
        assert (turn.outcome, snapshots(session)) == ("completed", 0)
    assert snapshots(store.session(session.id)) == 1


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


def test_every_kind_of_change_between_two_processes_is_told_apart_after_a_resume(store: Store, tmp_path: Path) -> None:
    names = ("kept", "same_time", "deleted", "replaced", "folder", "touched")
    for name in names:
        (tmp_path / name).write_text("one")
    (tmp_path / "other").write_text("one")
    (tmp_path / "link").symlink_to("kept")
    with store.create(cwd=str(tmp_path)) as session:
        for name in (*names, "link"):
            session.files.mark_read(name)
    times = (tmp_path / "same_time").stat()
    (tmp_path / "same_time").write_text("two")
    os.utime(tmp_path / "same_time", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "deleted").unlink()
    (tmp_path / "new").write_text("two")
    (tmp_path / "new").rename(tmp_path / "replaced")
    (tmp_path / "folder").unlink()
    (tmp_path / "folder").mkdir()
    os.utime(tmp_path / "touched", ns=(1, 1))
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("other")
    with store.resume(session.id) as again:
        found = {name: again.files.has_external_modification(name) for name in (*names, "link")}
    assert found == {
        "kept": None,
        "same_time": "modified",
        "deleted": "deleted",
        "replaced": "replaced",
        "folder": "type_changed",
        "touched": None,
        "link": "replaced",
    }


def test_a_large_snapshot_is_put_aside_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with Store.open(tmp_path / "store", offload_bytes=64) as store, store.create(cwd=str(folder)) as session:
        for number in range(50):
            (folder / f"{number}.txt").write_text("x")
            session.files.mark_read(f"{number}.txt")
    with Store.open(tmp_path / "store") as store, store.resume(session.id) as again:
        assert len(again.files) == 50
        assert again.files.lost is None
        assert all(again.files.has_external_modification(f"{number}.txt") is None for number in range(50))


def test_marks_and_saves_of_many_threads_lose_no_file(store: Store, tmp_path: Path) -> None:
    for number in range(64):
        (tmp_path / f"{number}.txt").write_text("x")
    with store.create(cwd=str(tmp_path)) as session:

        def mark(first: int) -> None:
            for number in range(first, 64, 4):
                session.files.mark_read(f"{number}.txt")
                session.files.save()

        threads = [threading.Thread(target=mark, args=(first,)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with store.resume(session.id) as again:
        assert len(again.files) == 64


def test_a_save_that_was_held_up_does_not_come_behind_a_newer_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second"):
        (tmp_path / name).write_text("x")
    with store.create(cwd=str(tmp_path)) as session:
        files = session.files
        made, go_on = threading.Event(), threading.Event()
        snapshot = files.to_snapshot

        def held_up() -> dict[str, Any]:
            found = snapshot()
            if not made.is_set():
                made.set()
                go_on.wait()
            return found

        monkeypatch.setattr(files, "to_snapshot", held_up)
        files.mark_read("first")
        first = threading.Thread(target=files.save)
        first.start()
        made.wait()
        files.mark_read("second")
        second = threading.Thread(target=files.save)
        second.start()
        second.join(0.1)  # where it does not wait for the first one
        go_on.set()
        first.join()
        second.join()
        *_, newest = session.events(types=["file.snapshot"])
        assert len(newest.payload["files"]) == 2


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_accesses_that_were_recorded_behind_the_snapshot_are_known_after_a_resume(store: Store, tmp_path: Path) -> None:
    for name in ("kept", "changed", "deleted", "unread"):
        (tmp_path / name).write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        session.files.mark_read("kept")
        session.files.save()
        (tmp_path / "kept").write_text("written later")
        for name in ("kept", "changed", "deleted"):
            session.record("file.written", {"path": name, "digest": digest_of(tmp_path / name)})
        session.record("file.read", {"path": "unread"})  # without a digest, which says nothing
        session.append("file.read", {"path": "kept", "digest": "?", "source": {"line": 1}})
    (tmp_path / "changed").write_text("two")
    (tmp_path / "deleted").unlink()
    with store.resume(session.id) as again:
        found = [again.files.has_external_modification(name) for name in ("kept", "changed", "deleted")]
        assert found == [None, "modified", "deleted"]
        assert "unread" not in again.files
        assert [state.written for state in again.files.recent()] == [True, True, True]


def test_the_later_one_of_a_mark_and_a_record_counts_and_a_snapshot_holds_both(store: Store, tmp_path: Path) -> None:
    for name in ("marked", "recorded", "only recorded"):
        (tmp_path / name).write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        old = digest_of(tmp_path / "marked")
        session.record("file.read", {"path": "marked", "digest": old})
        session.files.mark_read("recorded")
        for name in ("marked", "recorded"):
            (tmp_path / name).write_text("two")
        session.files.mark_written("marked")
        session.record("file.written", {"path": "recorded", "digest": digest_of(tmp_path / "recorded")})
        session.record("file.read", {"path": "only recorded", "digest": old})
        assert session.files.save()
        assert session.state.files.touched_since == 0
    with store.resume(session.id) as again:
        names = ("marked", "recorded", "only recorded")
        assert [again.files.has_external_modification(name) for name in names] == [None, None, None]
        assert len(again.files) == 3


def test_a_mark_looks_for_records_only_where_there_are_new_ones(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes.txt").write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        session.files.mark_read("notes.txt")
        reads: list[object] = []
        events = session.events

        def counted(**window: Any) -> Iterator[Event]:
            reads.append(window)
            return events(**window)

        monkeypatch.setattr(session, "events", counted)
        for _ in range(10):
            session.append("acme.note", {})
            session.files.mark_read("notes.txt")
            assert session.files.has_external_modification("notes.txt") is None
        assert reads == []
        session.record("file.read", {"path": "notes.txt", "digest": digest_of(tmp_path / "notes.txt")})
        session.files.mark_read("notes.txt")
        assert len(reads) == 1


def test_what_was_forgotten_stays_forgotten(store: Store, tmp_path: Path) -> None:
    for name in ("marked", "recorded", "again"):
        (tmp_path / name).write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        session.files.mark_read("marked")
        session.files.save()
        for name in ("recorded", "again"):
            session.record("file.read", {"path": name, "digest": digest_of(tmp_path / name)})
        for name in ("marked", "recorded", "again"):
            session.files.forget(name)
        session.record("file.read", {"path": "again", "digest": digest_of(tmp_path / "again")})
        assert session.files.has_external_modification("again") is None
    with store.resume(session.id) as again:
        assert again.files.has_external_modification("again") is None
        assert len(again.files) == 1


def test_a_record_that_came_while_a_snapshot_was_made_is_in_the_next_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("marked", "recorded"):
        (tmp_path / name).write_text("one")
    with store.create(cwd=str(tmp_path)) as session:
        files = session.files
        make = files.to_snapshot

        def interrupted() -> dict[str, Any]:
            made = make()
            session.record("file.read", {"path": "recorded", "digest": digest_of(tmp_path / "recorded")})
            return made

        with monkeypatch.context() as patch:
            patch.setattr(files, "to_snapshot", interrupted)
            files.mark_read("marked")
            assert files.save()
    assert snapshots(store.session(session.id)) == 2
    with store.resume(session.id) as again:
        assert again.files.has_external_modification("recorded") is None
