"""Goal: whatever fails while a segment is replaced, a log has one successor for each segment and loses nothing. Method:
each step of a roll fails once, the caller tries again, the session is opened anew. Control: a successor made twice is
found by verify.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store, disk
from turnlog.errors import StorageError, SyncFailed, TurnlogError
from turnlog.log import appender, segments
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from turnlog.session import Session

ROLL_BYTES = 8192
TEXT = {"text": "x" * 900}


def failing_once(real: Callable[..., Any], error: Exception) -> Callable[..., Any]:
    """Return `real` with a first call that does its work and then fails."""
    left = [error]

    def call(*arguments: Any, **more: Any) -> Any:
        answer = real(*arguments, **more)
        if left:
            raise left.pop()
        return answer

    return call


def append_until_told(session: Session) -> tuple[list[int], TurnlogError]:
    """Append until an append fails; return the ordinals that were acknowledged, and the failure."""
    acknowledged: list[int] = []

    def append_all() -> None:
        while len(acknowledged) < 100:
            acknowledged.append(session.append("note.written", TEXT).ordinal)

    with pytest.raises(TurnlogError) as told:
        append_all()
    return acknowledged, told.value


def assert_whole(path: Path, session_id: str, last: int) -> None:
    check = check_session(str(path), session_id, full=True)
    assert check.ok, check.findings
    with Store.open(path) as store:
        session = store.session(session_id)
        assert [event.ordinal for event in session.events()] == list(range(1, last + 1))
        assert session.append("note.written", {}).ordinal == last + 1
    assert check_session(str(path), session_id).ok


def test_a_folder_that_cannot_be_synced_in_a_roll_ends_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path / "store", roll_bytes=ROLL_BYTES)
    session = store.create()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_directory", failing_once(disk.sync_directory, OSError(errno.EIO, "broken")))
        acknowledged, error = append_until_told(session)
        assert isinstance(error, SyncFailed)
        with pytest.raises(SyncFailed):
            session.append("note.written", TEXT)
    session.close()
    session = store.session(session.id)
    last = session.append("note.written", {"text": "again"}).ordinal
    assert last == acknowledged[-1] + 1
    store.close()
    assert_whole(tmp_path / "store", session.id, last)


def test_a_successor_that_cannot_be_opened_is_entered_by_the_next_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path / "store", roll_bytes=ROLL_BYTES)
    session = store.create()
    with monkeypatch.context() as patch:
        opened = failing_once(appender.Appender._open_writer, StorageError("no descriptors", errno.EMFILE))
        patch.setattr(appender.Appender, "_open_writer", opened)
        acknowledged, error = append_until_told(session)
    assert not isinstance(error, SyncFailed)
    last = session.append("note.written", TEXT).ordinal
    assert last == acknowledged[-1] + 1
    store.close()
    folder = tmp_path / "store" / "sessions" / session.id[-2:] / session.id
    assert len(segments.list_segments(str(folder))) == 2
    assert_whole(tmp_path / "store", session.id, last)


def test_a_folder_that_cannot_be_opened_for_its_sync_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path / "store", roll_bytes=ROLL_BYTES)
    session = store.create()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_directory", failing_once(disk.sync_directory, OSError(errno.EMFILE, "too many")))
        acknowledged, error = append_until_told(session)
    assert not isinstance(error, SyncFailed)
    last = session.append("note.written", TEXT).ordinal
    assert last == acknowledged[-1] + 1
    store.close()
    assert_whole(tmp_path / "store", session.id, last)


def test_control_a_second_successor_is_found(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", roll_bytes=ROLL_BYTES) as store, store.create() as session:
        for _ in range(20):
            session.append("note.written", TEXT)
    folder = str(tmp_path / "store" / "sessions" / session.id[-2:] / session.id)
    fields = dict(segments.read_header(segments.list_segments(folder)[1].path)["fields"])
    segments.create_segment(folder, {**fields, "segment_id": bytes(range(16))})
    assert not check_session(str(tmp_path / "store"), session.id).ok


@pytest.mark.parametrize("step", ["sync_directory", "cut"])
def test_a_failure_while_opening_is_an_error_of_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "store"
    with Store.open(path) as store, store.create() as session:
        session.append("note.written", TEXT)
    newest = segments.list_segments(str(path / "sessions" / session.id[-2:] / session.id))[-1]
    os.truncate(newest.path, os.path.getsize(newest.path) - 40)  # the CLOSE frame is torn, and no witness saw it
    (path / "index.db").unlink()
    with Store.open(path) as store:
        session = store.session(session.id)
        real = disk.sync_directory if step == "sync_directory" else disk.cut
        with monkeypatch.context() as patch:
            patch.setattr(disk, step, failing_once(real, OSError(errno.EIO, "broken")))
            with pytest.raises(StorageError):
                session.append("note.written", TEXT)
        assert session.append("note.written", TEXT).ordinal == 3
