"""Feeds: each event once, in order, from any process; nobody is told of what is not durable, no writer waits."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from turnlog import Damaged, InvalidInput, Session, Store, _core
from turnlog.feed.cursors import parse_session_cursor, parse_store_cursor, store_cursor
from turnlog.feed.feed import SeenEvents

if TYPE_CHECKING:
    from pathlib import Path


WRITER = """
import sys
from turnlog import Store
path, sessions, each = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Store.open(path, roll_bytes=65536) as store:
    for number in range(sessions):
        with store.create(title=str(number)) as session:
            for at in range(each):
                session.append("note.written", {"at": at, "text": "x" * 300}, durability="buffered")
    again = store.session(session.id)
    again.append("note.written", {"at": "last"})
print("done")
"""


def write_elsewhere(path: Path, sessions: int, each: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(path), str(sessions), str(each)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE)


def places(cursor: str) -> dict[str, int]:
    """Return the ordinals that a cursor of a store names."""
    return {session: ordinal for session, (ordinal, _) in parse_store_cursor(cursor).items()}


# -- one session -------------------------------------------------------------------------------------------------------


def test_a_session_is_followed_from_any_cursor_without_gap_or_repeat(session: Session) -> None:
    for number in range(20):
        session.append("note.written", {"n": number}, durability="buffered")
    session.flush()
    events = list(session.follow(timeout_ms=0))
    assert [event.ordinal for event in events] == list(range(1, 22))
    for event in events:
        rest = [later.ordinal for later in session.follow(after=event.cursor, timeout_ms=0)]
        assert rest == list(range(event.ordinal + 1, 22))
        assert event.payload == session.event(event.ordinal).payload


def test_the_end_of_the_log_is_announced_each_time_it_is_reached(session: Session) -> None:
    marks: list[str] = []

    def caught_up(cursor: str) -> None:
        marks.append(cursor)
        if len(marks) < 3:
            session.append("note.written", {})

    found = session.follow(types=["note.written"], timeout_ms=50, on_caught_up=caught_up)
    seen = [event.cursor for event in found]
    assert [parse_session_cursor(mark)[1] for mark in marks] == [1, 2, 3]
    assert seen == marks[1:]


def test_what_was_appended_before_the_close_is_followed_to_its_end(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = store.create()
        follower = session.follow()
        assert next(follower).ordinal == 1
        session.append("note.written", {})
        session.close()
        assert [event.ordinal for event in follower] == [2]


@pytest.mark.parametrize("cursor", ["", "x", "latest:1", "019b76da-a800-7000-8000-000000000001:-1", "s1.AAAA"])
def test_a_text_that_is_no_cursor_is_refused(session: Session, cursor: str) -> None:
    with pytest.raises(InvalidInput):
        session.follow(after=cursor)


def test_a_cursor_of_another_session_is_refused(session: Session) -> None:
    with pytest.raises(InvalidInput, match="another session"):
        session.follow(after="019b76da-a800-7000-8000-000000000001:1")


# -- a store -----------------------------------------------------------------------------------------------------------


def test_a_follower_here_waits_for_the_sync_of_a_buffered_event_and_a_subscriber_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_core, "Committer", partial(_core.Committer, interval_ms=60_000))
    with Store.open(tmp_path / "store") as store, store.create() as session:
        subscriber = session.subscribe()
        session.append("note.written", {"n": 1}, durability="buffered")
        assert [event.ordinal for event in session.follow(timeout_ms=0)] == [1]
        assert [event.ordinal for event in store.follow(timeout_ms=0)] == [1]
        assert places(store.cursor()) == {session.id: 1}
        assert [event.ordinal for event in subscriber.read()] == [2]
        session.flush()
        assert [event.ordinal for event in session.follow(timeout_ms=0)] == [1, 2]
        assert [event.ordinal for event in store.follow(timeout_ms=0)] == [1, 2]


def test_a_store_cursor_covers_what_was_handed_out_whenever_it_is_asked_for(store: Store) -> None:
    sessions = [store.create() for _ in range(4)]
    for number in range(40):
        sessions[number % 4].append("note.written", {"n": number}, durability="buffered")
    store.flush()
    events = list(store.follow(timeout_ms=0))
    assert len(events) == 44
    for at in (0, 7, 20, 43):
        rest = [event.session_cursor for event in store.follow(after=events[at].cursor, timeout_ms=0)]
        assert sorted(rest) == sorted(event.session_cursor for event in events[at + 1 :])


def test_a_long_feed_has_the_cursor_of_each_event(store: Store) -> None:
    session, other = store.create(), store.create()
    session.append_many([("note.written", {})] * 2500)
    events = list(store.follow(timeout_ms=0))
    expected: dict[str, int] = {}
    for event in events:
        expected[event.session] = event.ordinal
        if event.ordinal % 500 == 0:
            assert places(event.cursor) == expected
    assert len(events) == 2502
    assert expected == {session.id: 2501, other.id: 1}


def test_the_cursor_of_now_is_followed_by_what_comes(store: Store) -> None:
    session = store.create()
    cursor = store.cursor()
    session.append("note.written", {})
    child = store.fork(session, title="another way")
    found = [(event.session, event.type) for event in store.follow(after=cursor, timeout_ms=0)]
    assert sorted(found) == sorted([(session.id, "note.written"), (child.id, "session.forked")])


def test_a_store_is_followed_while_another_process_writes_new_sessions(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store.open(path) as store:
        marks: list[str] = []
        seen: dict[str, list[int]] = {}
        with write_elsewhere(path, sessions=5, each=400) as child:
            for event in store.follow(timeout_ms=20_000, on_caught_up=marks.append):
                seen.setdefault(event.session, []).append(event.ordinal)
                if not event.is_raw and event.payload.get("at") == "last":
                    break
            assert child.wait() == 0
        assert sorted(map(len, seen.values())) == [401, 401, 401, 401, 402]
        assert all(ordinals == list(range(1, len(ordinals) + 1)) for ordinals in seen.values())
        assert len(marks) >= 1


def test_followers_that_come_and_go_see_each_event_once(tmp_path: Path) -> None:
    pick = random.Random(5)
    path = tmp_path / "store"
    with Store.open(path) as store:
        cursor: str | None = None
        seen: list[str] = []
        with write_elsewhere(path, sessions=3, each=300) as child:
            while True:
                is_over = child.poll() is not None
                stop = pick.randrange(1, 200)
                for event in store.follow(after=cursor, timeout_ms=0):
                    seen.append(event.session_cursor)
                    cursor = event.cursor
                    stop -= 1
                    if stop == 0:
                        break
                if is_over and stop > 0:
                    break
        assert len(seen) == len(set(seen)) == 3 * 301 + 1


def test_a_session_that_is_opened_again_and_again_is_noticed(tmp_path: Path) -> None:
    with Store.open(tmp_path) as reading:
        with Store.open(tmp_path) as writing:
            session_id = writing.create().id
        feed = reading.follow(timeout_ms=10_000)
        assert next(feed).ordinal == 1
        for ordinal in range(2, 12):
            with Store.open(tmp_path) as writing:
                writing.session(session_id).append("note.written", {})
            assert next(feed).ordinal == ordinal


def test_many_sessions_are_followed_with_few_open_files(store: Store) -> None:
    for _ in range(80):
        with store.create() as session:
            session.append("note.written", {}, durability="buffered")
    feed = store.follow(timeout_ms=0)
    counts = [len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0 for _ in feed]
    assert len(counts) == 160
    assert max(counts) - counts[0] <= 60  # the index of the store is open too, and read in its own thread


def test_a_damaged_session_is_left_out_only_if_somebody_is_told(store: Store) -> None:
    with store.create() as broken:
        broken.append_many([("note.written", {"text": "x" * 200})] * 20)
        path = broken._visible()
    assert path is not None
    with store.create() as whole:
        whole.append("note.written", {})
    with open(path[0], "r+b") as file:
        file.seek(6000)
        file.write(b"\xff" * 64)
    failures: list[str] = []
    found = list(store.follow(timeout_ms=0, on_failure=lambda session, _error: failures.append(session)))
    assert failures == [broken.id]
    assert [event.ordinal for event in found if event.session == whole.id] == [1, 2]
    with pytest.raises(Damaged):
        list(store.follow(timeout_ms=0))


def test_a_store_in_memory_is_followed_too() -> None:
    with Store.ephemeral() as store:
        session = store.create()
        feed = store.follow(timeout_ms=0)
        assert next(feed).session == session.id
        other = store.create()
        assert [event.session for event in feed] == [other.id]


def test_a_store_cursor_that_was_cut_or_changed_is_refused(store: Store) -> None:
    cursor = store_cursor({store.create().id: (300, b"abcd")})
    assert places(cursor) == {store.session_ids()[0]: 300}
    for changed in (cursor[:-1], cursor[:5] + "-" + cursor[6:], "s2.", cursor[3:], cursor + "é"):
        with pytest.raises(InvalidInput):
            store.follow(after=changed)


def test_a_client_that_is_handed_events_twice_counts_them_once(store: Store) -> None:
    session, other = store.create(), store.create()
    seen = SeenEvents()
    session.append("note.written", {})
    assert sum(seen.is_new(event) for event in store.follow(timeout_ms=0)) == 3
    assert sum(seen.is_new(event) for event in session.follow(timeout_ms=0)) == 0
    other.append("note.written", {})
    after_restart = SeenEvents(seen.cursor)
    assert [event.session for event in store.follow(timeout_ms=0) if after_restart.is_new(event)] == [other.id]
