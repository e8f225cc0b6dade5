"""A cursor that the log does not hold is an error, not silence: after a restored backup, a lost end, in another store.

Controls: cursors of events that the log holds never raise, wherever they come from; an end that only waits for its sync
in another process is waited for.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from turnlog import CursorMismatch, Session, Store, names
from turnlog.aio import AsyncStore
from turnlog.feed.cursors import parse_session_cursor, session_cursor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRITER = """
import sys
from turnlog import Store
store = Store.open(sys.argv[1])
session = store.session(sys.argv[2])
session.append("note.written", {"n": 3})
for line in sys.stdin:
    session.append_many([("note.written", {})] * int(line))
    print("appended", flush=True)
store.close()
"""


class Restored:
    """A store whose session had 50 events and has 3 again, with the cursors that somebody holds since."""

    def __init__(self, path: Path) -> None:
        self.path, kept = path, path.with_suffix(".kept")
        with Store.open(path) as store:
            session = store.create()
            self.id = session.id
            session.append_many([("note.written", {})] * 2)
            session.close()
            shutil.copytree(path, kept)
            other = store.create()
            other.append("note.written", {})
            self.other = other.id
            grown = store.session(session.id)
            grown.append_many([("note.written", {})] * 47)
            self.cursor = list(grown.follow(timeout_ms=0))[-1].cursor
            self.store_cursor = store.cursor()
        folder = names.session_dir(str(path), self.id)
        shutil.rmtree(folder)
        shutil.copytree(names.session_dir(str(kept), self.id), folder)
        for name in (names.INDEX, *names.INDEX_SIDE_FILES):
            (path / name).unlink(missing_ok=True)


@pytest.fixture
def restored(tmp_path: Path) -> Restored:
    return Restored(tmp_path / "store")


@pytest.fixture
def elsewhere(restored: Restored) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that writes the session and has appended its event 4."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(restored.path), restored.id]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        append_there(child, 0)
        yield child


def append_there(child: subprocess.Popen[bytes], count: int) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"%d\n" % count)
    child.stdin.flush()
    assert child.stdout.readline() == b"appended\n"


def test_a_cursor_beyond_the_end_is_an_error_that_says_what_to_do(restored: Restored) -> None:
    with Store.open(restored.path) as store:
        session = store.session(restored.id)
        for after in (restored.cursor, session_cursor(restored.id, 50), 50):
            with pytest.raises(CursorMismatch, match="is behind event 50, and the log ends at event 3") as caught:
                next(session.follow(after=after, timeout_ms=0))
            error = caught.value.as_json()
            assert (error["code"], error["session"], error["ordinal"]) == ("cursor_mismatch", restored.id, 50)
            assert caught.value.cursor is not None
            everything = session.follow(after=caught.value.cursor, timeout_ms=0)
            assert [event.ordinal for event in everything] == [1, 2, 3]
            assert error["next"] == [f"sessionctl show {restored.id}", f"sessionctl verify {restored.id}"]
        with session.subscribe(after=restored.cursor) as subscriber, pytest.raises(CursorMismatch) as caught:
            subscriber.read()
        assert caught.value.cursor == session_cursor(restored.id, 0)


def test_a_cursor_of_another_history_is_an_error_however_far_the_log_goes(restored: Restored) -> None:
    with Store.open(restored.path) as store:
        session = store.session(restored.id)
        session.append_many([("note.written", {})] * 60)
        with pytest.raises(CursorMismatch, match="event 50 is another one"):
            next(session.follow(after=restored.cursor, timeout_ms=0))
        with session.subscribe(after=restored.cursor) as subscriber, pytest.raises(CursorMismatch):
            subscriber.read()
        bare = session.follow(after=session_cursor(restored.id, 50), timeout_ms=0)  # names no event, only a place
        assert next(bare).ordinal == 51


def test_the_other_sessions_of_a_store_go_on_behind_a_cursor_that_is_no_longer_held(restored: Restored) -> None:
    with Store.open(restored.path) as store:
        store.session(restored.other).append("note.written", {"n": 3})
        seen: list[tuple[str, int]] = []
        told: list[tuple[str, Exception]] = []
        with pytest.raises(CursorMismatch) as caught:
            seen.extend((event.session, event.ordinal) for event in store.follow(after=restored.store_cursor))
        assert caught.value.session == restored.id
        assert caught.value.cursor is not None
        again = store.follow(after=caught.value.cursor, timeout_ms=0)
        assert [(event.session, event.ordinal) for event in again] == [(restored.id, n) for n in (1, 2, 3)]
        left_out = store.follow(
            after=restored.store_cursor, timeout_ms=0, on_failure=lambda session, error: told.append((session, error))
        )
        assert [(event.session, event.ordinal) for event in left_out] == [(restored.other, 3)]
        assert [(session, type(error)) for session, error in told] == [(restored.id, CursorMismatch)]


def test_a_writer_in_this_process_has_nothing_that_cannot_be_seen(restored: Restored) -> None:
    with Store.open(restored.path) as store:
        session = store.session(restored.id)
        session.append("note.written", {}, durability="buffered")
        with pytest.raises(CursorMismatch, match="ends at event 4"):
            next(session.follow(after=restored.cursor))
        with pytest.raises(CursorMismatch):
            next(store.follow(after=restored.store_cursor))


@pytest.mark.parametrize("whole", [False, True], ids=["session", "store"])
def test_a_log_that_another_process_writes_is_waited_for_and_its_end_is_told(
    restored: Restored, elsewhere: subprocess.Popen[bytes], whole: bool
) -> None:
    marks: list[str] = []
    with Store.open(restored.path) as store:
        session = store.session(restored.id)
        cursor = restored.store_cursor if whole else restored.cursor
        feed = store._steps(after=cursor) if whole else session._steps(after=cursor, on_caught_up=marks.append)
        assert [next(feed) for _ in range(5)] == [None] * 5
        append_there(elsewhere, 20)
        assert [next(feed) for _ in range(5)] == [None] * 5
        assert marks == []  # nothing is said to be caught up with
        elsewhere.communicate()
        with pytest.raises(CursorMismatch, match="ends at event 24"):
            next(feed)


def test_a_log_that_another_process_writes_is_refused_once_it_is_there(
    restored: Restored, elsewhere: subprocess.Popen[bytes]
) -> None:
    with Store.open(restored.path) as store:
        feed = store.session(restored.id)._steps(after=restored.cursor)
        assert next(feed) is None
        append_there(elsewhere, 46)
        with pytest.raises(CursorMismatch, match="event 50 is another one"):
            next(feed)


def test_a_place_that_another_process_reaches_is_followed(
    restored: Restored, elsewhere: subprocess.Popen[bytes]
) -> None:
    with Store.open(restored.path) as store:
        feed = store.session(restored.id)._steps(after=50)
        assert next(feed) is None
        append_there(elsewhere, 48)
        found = [next(feed), next(feed)]
        assert [item.ordinal for item in found if item is not None] == [51, 52]


def test_a_cursor_of_a_session_that_the_store_does_not_have_is_passed_over(tmp_path: Path) -> None:
    with Store.open(tmp_path / "one") as one, one.create() as session:
        session.append("note.written", {})
        cursor = one.cursor()
    with Store.open(tmp_path / "other") as other, other.create() as session:
        assert [event.session for event in other.follow(after=cursor, timeout_ms=0)] == [session.id]


@pytest.mark.parametrize("durability", ["durable", "buffered"])
def test_a_cursor_of_an_event_that_the_log_holds_never_raises(session: Session, durability: str) -> None:
    with session.subscribe() as subscriber:
        for number in range(30):
            receipt = session.append("note.written", {"n": number}, durability=durability)
            (event,) = subscriber.read()
            assert list(session.follow(after=event.cursor or "", timeout_ms=0)) == []
            assert list(session.follow(after=receipt.ordinal, timeout_ms=0)) == []
    session.flush()
    for event in list(session.follow(timeout_ms=0)):
        rest = session.follow(after=event.cursor, timeout_ms=0)
        assert [later.ordinal for later in rest] == list(range(event.ordinal + 1, 32))


def test_a_session_in_memory_is_held_to_its_cursors_too() -> None:
    with Store.ephemeral() as store, Store.ephemeral() as other:
        session = store.create(id="019b76da-a800-7000-8000-000000000001")
        again = other.create(id=session.id)
        cursor = next(session.follow(timeout_ms=0)).cursor
        assert list(session.follow(after=cursor, timeout_ms=0)) == []
        for after in (cursor, 2):
            with pytest.raises(CursorMismatch):
                list(again.follow(after=after, timeout_ms=0))
        with pytest.raises(CursorMismatch):
            list(other.follow(after=store.cursor(), timeout_ms=0))


def test_a_fork_is_held_to_the_cursors_of_what_it_inherits(store: Store) -> None:
    session = store.create()
    session.append_many([("note.written", {})] * 5)
    child = store.fork(session, 4)
    cursors = [event.cursor for event in child.follow(timeout_ms=0)]
    for at, cursor in enumerate(cursors):
        assert [event.ordinal for event in child.follow(after=cursor, timeout_ms=0)] == list(range(at + 2, 6))
    _, ordinal, mark = parse_session_cursor(cursors[2])
    with pytest.raises(CursorMismatch):
        next(child.follow(after=session_cursor(child.id, ordinal - 1, mark), timeout_ms=0))


def test_the_async_feeds_raise_it_too(restored: Restored) -> None:
    async def main() -> None:
        async with await AsyncStore.open(restored.path) as store:
            session = await store.session(restored.id)
            with pytest.raises(CursorMismatch):
                async for _ in session.follow(after=restored.cursor):
                    pass
            with pytest.raises(CursorMismatch):
                async for _ in store.follow(after=restored.store_cursor):
                    pass

    asyncio.run(main())
