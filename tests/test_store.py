"""The store: made, found, refused, shared by handles, closed in order."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from turnlog import Session, Store, disk
from turnlog.errors import (
    AmbiguousId,
    Closed,
    Conflict,
    Damaged,
    IndexUnavailable,
    InvalidInput,
    NewerFormat,
    NoSpace,
    ReadOnly,
    SessionNotFound,
    StoreNotFound,
)
from turnlog.log.lock import is_locked
from turnlog.names import session_dir

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST = "0192f0c4-7a1b-7c3d-8e4f-0123456789ab"
SECOND = "0192f0c4-7a1b-7c3d-8e4f-0123456789ac"


def test_opening_makes_the_store_once(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store"):
        identity = (tmp_path / "store" / "store.json").read_bytes()
    with Store.open(tmp_path / "store"):
        assert (tmp_path / "store" / "store.json").read_bytes() == identity
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


def test_a_new_store_is_durable_with_every_folder_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = disk.sync_directory

    def sync(path: str) -> None:
        synced.append(path)
        real(path)

    monkeypatch.setattr(disk, "sync_directory", sync)
    Store.open(tmp_path / "above" / "store").close()
    assert synced == [str(tmp_path), str(tmp_path / "above"), *[str(tmp_path / "above" / "store")] * 3]


def test_a_missing_store_is_not_made_when_that_was_not_asked(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFound):
        Store.open(tmp_path / "store", create=False)
    with pytest.raises(StoreNotFound):
        Store.open(tmp_path / "store", read_only=True)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"format":"one"}', b'{"format":0}', b"\xff\xfe"])
def test_an_unreadable_identity_is_damage_with_a_next_command(tmp_path: Path, content: bytes) -> None:
    Store.open(tmp_path / "store").close()
    (tmp_path / "store" / "store.json").write_bytes(content)
    with pytest.raises(Damaged) as caught:
        Store.open(tmp_path / "store")
    assert caught.value.next_commands() == [f"sessionctl repair --store {tmp_path / 'store'}"]


def test_sessions_without_an_identity_are_not_taken_for_a_new_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.create()
    (tmp_path / "store" / "store.json").unlink()
    with pytest.raises(Damaged):
        Store.open(tmp_path / "store")


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    Store.open(tmp_path / "store").close()
    (tmp_path / "store" / "store.json").write_text('{"format":2}')
    before = sorted(os.listdir(tmp_path / "store"))
    with pytest.raises(NewerFormat):
        Store.open(tmp_path / "store")
    assert sorted(os.listdir(tmp_path / "store")) == before


def test_a_session_is_found_by_id_prefix_and_latest(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.create(id=FIRST).close()
        assert store.session(FIRST.upper()).id == FIRST
        assert store.session(FIRST[:8]).id == FIRST
        assert store.session("latest").id == FIRST
        store.create(id=SECOND).close()
        assert store.session("latest").id == SECOND
        with pytest.raises(AmbiguousId):
            store.session(FIRST[:8])
        with pytest.raises(SessionNotFound):
            store.session("ffff")
        with pytest.raises(SessionNotFound):
            store.session("ab")


def test_prefixes_work_without_an_index(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.create(id=FIRST).close()
    (tmp_path / "store" / "index.db").unlink()
    with Store.open(tmp_path / "store", read_only=True) as store:
        assert store.session(FIRST[:8]).id == FIRST
    assert not (tmp_path / "store" / "index.db").exists()


def _of_a_newer_schema(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 99)
    connection.close()


def _lock(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN EXCLUSIVE")
    return connection


def _by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


INDEX_FAULTS: list[tuple[Callable[[Path], object], list[str]]] = [
    (Path.unlink, []),
    (lambda path: os.truncate(path, 5000), []),
    (lambda path: path.write_bytes(b"garbage" * 3000), []),
    (_of_a_newer_schema, ["sessionctl --version", "sessionctl list"]),
    (_by_a_folder, ["sessionctl list"]),
    (_lock, ["sessionctl list"]),
]


@pytest.mark.parametrize(
    ("fault", "steps"), INDEX_FAULTS, ids=["missing", "truncated", "garbage", "newer", "folder", "locked"]
)
def test_whatever_happens_to_the_index_events_are_appended_and_read(
    tmp_path: Path, fault: Callable[[Path], object], steps: list[str]
) -> None:
    with Store.open(tmp_path / "store") as store:
        store.create(id=FIRST).append("note.written", {})
    held = fault(tmp_path / "store" / "index.db")
    with Store.open(tmp_path / "store") as store:
        session = store.session(FIRST)
        assert session.append("note.written", {}).ordinal == 3
        assert [event.ordinal for event in session.events()] == [1, 2, 3]
        if steps:
            with pytest.raises(IndexUnavailable) as caught:
                store.list()
            assert caught.value.next_commands() == steps
        else:
            assert [row["events"] for row in store.list()[0]] == [3]
    if isinstance(held, apsw.Connection):
        held.close()
    with Store.open(tmp_path / "store", read_only=True) as store:
        assert [row["events"] for row in store.list()[0]] == [3]


def test_an_existing_session_is_not_created_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.create(id=FIRST)
        with pytest.raises(Conflict):
            store.create(id=FIRST)


def test_two_handles_of_one_store_are_one_session(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        assert store.session(session.id) is session


def test_a_read_only_store_writes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        store.create(id=FIRST, title="kept")
    with Store.open(tmp_path / "store", read_only=True) as store:
        assert [row["title"] for row in store.list()[0]] == ["kept"]
        with pytest.raises(ReadOnly):
            store.session(FIRST).append("note.written", {})
        with pytest.raises(ReadOnly):
            store.create()


def test_closing_closes_the_sessions_and_removes_their_markers(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    session = store.create()
    assert os.listdir(tmp_path / "store" / "live") == [session.id]
    store.close()
    store.close()
    assert os.listdir(tmp_path / "store" / "live") == []
    with pytest.raises(Closed):
        session.append("note.written", {})
    with pytest.raises(Closed):
        store.create()


def test_a_list_row_shows_what_the_events_say(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create(title="first", cwd=tmp_path, model="model-a", tags=["x"])
        session.append("session.renamed", {"title": "second"})
        session.append("step.completed", {"usage": {"input": 10, "output": 3}})
        rows, token = store.list(cwd=str(tmp_path), model="model-a", tag="x", text="secon")
        assert token is None
        assert [(row["id"], row["title"], row["events"]) for row in rows] == [(session.id, "second", 3)]
        assert store.list(text="first")[0] == []


def test_reopening_continues_the_same_segment_after_an_orderly_close(tmp_path: Path) -> None:
    for _ in range(3):
        with Store.open(tmp_path / "store") as store:
            session = store.session(FIRST) if store.session_exists(FIRST) else store.create(id=FIRST)
            session.append("note.written", {})
    with Store.open(tmp_path / "store", read_only=True) as store:
        assert [event.ordinal for event in store.session(FIRST).events()] == [1, 2, 3, 4]
    assert len(list((tmp_path / "store").glob("sessions/*/*/*.seg"))) == 1


def test_an_imported_history_is_listed_by_its_own_times_until_work_goes_on(tmp_path: Path) -> None:
    times = {"first_time": "2024-12-30T17:33:47.760Z", "last_time": "2024-12-31T02:00:00+01:00"}
    with Store.open(tmp_path / "store") as store:
        session = store.create(title="old")
        session.append("source.imported", times)
        imported = store.list()[0][0]
        assert (imported["created_us"], imported["last_activity_us"]) == (1_735_580_027_760_000, 1_735_606_800_000_000)
        session.append("source.imported", {"first_time": "long ago", "last_time": 7})
        session.append("message.user", {"content": "go on"})
        store.index().rebuild()
        resumed = store.list()[0][0]
        assert resumed["created_us"] == imported["created_us"]
        assert resumed["last_activity_us"] > 1_750_000_000_000_000


def test_a_session_that_appeared_since_one_looked_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(tmp_path / "store") as first, first.create(id=FIRST, title="first") as session:
        session.append("note.written", {})
    with Store.open(tmp_path / "store") as second:
        with monkeypatch.context() as patch:
            patch.setattr(second, "session_exists", lambda _: False)
            with pytest.raises(Conflict):
                second.create(id=FIRST, title="second")
        assert [event.ordinal for event in second.session(FIRST).events()] == [1, 2]


@pytest.mark.parametrize("wrong", [{"title": float("nan")}, {"tags": [b"x"]}, {"durability": "maybe"}])
def test_a_session_that_cannot_be_described_is_not_made(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with Store.open(tmp_path / "store") as store:
        with pytest.raises(InvalidInput):
            store.create(id=FIRST, **wrong)
        assert store.session_ids() == []
        store.create(id=FIRST)


def test_a_session_whose_first_event_failed_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        message = "no space"
        raise NoSpace(message)

    with Store.open(tmp_path / "store") as store:
        with monkeypatch.context() as patch:
            patch.setattr(Session, "append", full)
            with pytest.raises(NoSpace):
                store.create(id=FIRST)
        with Store.open(tmp_path / "store") as other:
            assert other.session(FIRST).append("note.written", {}).ordinal == 1


def test_closing_in_two_threads_while_sessions_are_made_leaves_none_open(tmp_path: Path) -> None:
    for attempt in range(5):
        path = tmp_path / f"store{attempt}"
        store = Store.open(path)
        store.create()
        failures: list[BaseException] = []

        def make(store: Store = store, failures: list[BaseException] = failures) -> None:
            try:
                while True:
                    store.create()
            except Closed:
                return
            except BaseException as error:  # noqa: BLE001 - told by the main thread
                failures.append(error)

        def close(store: Store = store, failures: list[BaseException] = failures) -> None:
            try:
                store.close()
            except BaseException as error:  # noqa: BLE001 - told by the main thread
                failures.append(error)

        threads = [threading.Thread(target=work) for work in (make, make, close, close)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        locked = [id for id in store.session_ids() if is_locked(session_dir(str(path), id))]
        assert locked == []


def test_a_store_whose_path_sqlite_cannot_open_still_keeps_sessions(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff"
    try:
        os.mkdir(path)
    except OSError:
        pytest.skip("the file system refuses names that are no UTF-8")
    with Store.open(os.fsdecode(path)) as store:
        session = store.create()
        session.append("note.written", {})
        with pytest.raises(IndexUnavailable):
            store.list()
        assert [event.ordinal for event in session.events()] == [1, 2]
    with Store.open(os.fsdecode(path)) as store:
        assert store.session(session.id).append("note.written", {}).ordinal == 3


def test_a_clock_before_1970_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: -(10**18))
    with Store.open(tmp_path / "store") as store, store.create() as session:
        session.append("note.written", {})
        assert [event.ordinal for event in session.events()] == [1, 2]


def test_a_list_takes_a_folder_as_create_does_and_refuses_a_filter_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open("store") as store, store.create(cwd=".") as session:
        assert [row["id"] for row in store.list(cwd=".")[0]] == [session.id]
        with pytest.raises(InvalidInput, match="no such filter: sort"):
            store.list(sort="title")
