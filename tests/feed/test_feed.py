"""Feeds: each event once, in order, from any process; nobody is told of what is not durable, no writer waits."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from turnlog import Damaged, InvalidInput, Session, Store, _core
from turnlog.feed.cursors import parse_store_cursor, store_cursor
from turnlog.feed.feed import FeedEvent, SeenEvents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog.feed.subscribers import EphemeralEvent

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


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture(params=["disk", "memory"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    made = Store.open(tmp_path / "store") if request.param == "disk" else Store.ephemeral()
    with made, made.create(title="flaky test") as opened:
        yield opened


def write_elsewhere(path: Path, sessions: int, each: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(path), str(sessions), str(each)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE)


def types(events: list[FeedEvent | EphemeralEvent]) -> list[str]:
    return [event.type for event in events]


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
    assert marks == [f"{session.id}:{ordinal}" for ordinal in (1, 2, 3)]
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
        assert parse_store_cursor(store.cursor()) == {session.id: 1}
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
            assert parse_store_cursor(event.cursor) == expected
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
        path = broken.visible()
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
    cursor = store_cursor({store.create().id: 300})
    assert parse_store_cursor(cursor) == {store.session_ids()[0]: 300}
    for changed in (cursor[:-1], cursor[:5] + "-" + cursor[6:], "s1.", cursor[3:], cursor + "é"):
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


# -- subscribers -------------------------------------------------------------------------------------------------------


def test_a_subscriber_hears_of_stored_and_ephemeral_events_in_order(session: Session) -> None:
    with session.subscribe() as subscriber:
        session.append("progress.updated", {"done": 1}, durability="ephemeral")
        session.append("note.written", {"n": 1})
        session.append("progress.updated", {"done": 2}, durability="ephemeral")
        session.append_many([("note.written", {"n": 2}), ("note.written", {"n": 3})], atomic=True)
        events = subscriber.read()
    assert [(event.ordinal, event.payload) for event in events] == [
        *((0, {"done": 1}), (2, {"n": 1}), (0, {"done": 2}), (3, {"n": 2}), (4, {"n": 3}))
    ]
    assert [event.type for event in session.events(after=1)] == ["note.written"] * 3


def test_what_a_subscriber_was_shown_does_not_change_with_the_object(session: Session) -> None:
    payload = {"done": 1}
    with session.subscribe() as subscriber:
        session.append("progress.updated", payload, durability="ephemeral")
        payload["done"] = 2
        assert subscriber.read()[0].payload == {"done": 1}


def test_a_slow_subscriber_is_told_once_how_much_it_missed_and_misses_nothing_stored(session: Session) -> None:
    with session.subscribe(capacity=10) as slow:
        for number in range(1000):
            session.append("progress.updated", {"done": number}, durability="ephemeral")
            if number % 100 == 0:
                session.append("note.written", {"n": number}, durability="buffered")
        events = slow.read()
        while more := slow.read():
            events += more
    lagged = [event.payload for event in events if event.type == "feed.lagged"]
    assert lagged == [{"missed": 990}]
    assert (slow.missed, types(events).count("progress.updated"), types(events).count("note.written")) == (990, 10, 10)
    assert [event.payload["done"] for event in events if event.type == "progress.updated"] == list(range(990, 1000))


def test_a_callback_that_hangs_does_not_hold_the_writer(session: Session) -> None:
    release, hanging = threading.Event(), threading.Event()
    seen: list[str] = []

    def hang(_event: FeedEvent) -> None:
        hanging.set()
        release.wait(60)

    with session.subscribe(hang), session.subscribe(lambda event: seen.append(event.type)) as other:
        session.append("note.written", {})
        assert hanging.wait(30)
        for _ in range(100):
            session.append("note.written", {}, durability="buffered")
        assert session.head()[0] == 102
        while len(seen) < 101 and not other.failures:
            threading.Event().wait(0.005)
        release.set()
    assert seen == ["note.written"] * 101


def test_a_subscriber_that_raises_is_reported_and_goes_on(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []
    done = threading.Event()

    def fail(event: FeedEvent) -> None:
        seen.append(event.ordinal)
        if event.ordinal == 6:
            done.set()
        raise RuntimeError("no screen")

    with session.subscribe(fail) as failing:
        for _ in range(5):
            assert session.append("note.written", {}).ordinal
        assert done.wait(30)
    assert seen == [2, 3, 4, 5, 6]
    assert session.head()[0] == 6
    assert len(failing.failures) >= 4
    assert "a subscriber failed" in caplog.text


def test_a_subscriber_is_told_of_nothing_that_a_power_cut_could_take_back(store: Store) -> None:
    session = store.create()
    told: list[tuple[int, int]] = []
    done = threading.Event()

    def note(event: FeedEvent) -> None:
        head = session.written_head()
        assert head is not None
        told.append((event.ordinal, head["durable_ordinal"]))
        if event.ordinal == 61:
            done.set()

    with session.subscribe(note):
        for number in range(60):
            session.append("note.written", {"n": number}, durability="durable" if number % 3 == 0 else "buffered")
        assert done.wait(30)
    durable = [pair for pair in told if pair[0] % 3 == 2]
    assert [ordinal for ordinal, _ in told] == list(range(2, 62))
    assert all(ordinal <= synced for ordinal, synced in durable)


def test_nobody_is_told_before_the_writer_has_the_event(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create()
    assert session.state.ordinal == 1
    told_early: list[list[str]] = []
    with session.subscribe() as subscriber:
        subscriber.read()
        appender = session._appender
        assert appender is not None
        original = appender.append

        def append(*given: object, **named: object) -> object:
            told_early.append(types(subscriber.read()))  # as late as can be before the bytes are handed over
            return original(*given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(appender, "append", append)
        session.append("note.written", {})
        assert told_early == [[]]
        assert types(subscriber.read()) == ["note.written"]


def test_a_failed_append_is_told_to_nobody(session: Session) -> None:
    with session.subscribe() as subscriber:
        for payload in ({"n": float("nan")}, object()):
            with pytest.raises(InvalidInput):
                session.append("note.written", payload)
            with pytest.raises(InvalidInput):
                session.append("progress.updated", payload, durability="ephemeral")
        assert subscriber.read() == []


def test_a_subscriber_of_a_store_hears_of_all_its_sessions(store: Store) -> None:
    first = store.create()
    with store.subscribe(types=["note.written", "progress.updated"]) as subscriber:
        second = store.create()
        ephemeral = store.create(ephemeral=True)
        for session in (first, second, ephemeral):
            session.append("note.written", {})
            session.append("progress.updated", {"done": 1}, durability="ephemeral")
        found = subscriber.read()
        first.close()
        again = store.session(first.id)
        again.append("note.written", {"n": 2})
        found += subscriber.read()
    expected = [(session.id, type_) for session in (first, second, ephemeral) for type_ in types(found[:2])]
    assert sorted((event.session, event.type) for event in found) == sorted([*expected, (first.id, "note.written")])


def test_a_subscriber_ends_with_what_it_follows(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = store.create()
        subscriber, of_all = session.subscribe(after=0), store.subscribe()
        session.append("note.written", {})
        session.close()
        assert types(list(subscriber)) == ["session.created", "note.written"]
    assert types(list(of_all)) == ["note.written"]
    assert subscriber.closed
    assert of_all.closed


def test_appends_of_many_threads_reach_a_subscriber_in_order(session: Session) -> None:
    seen: list[int] = []
    done = threading.Event()

    def note(event: FeedEvent) -> None:
        seen.append(event.ordinal)
        if event.ordinal == 241:
            done.set()

    def append(durability: str) -> None:
        for _ in range(40):
            session.append("note.written", {}, durability=durability)

    with session.subscribe(note):
        threads = [threading.Thread(target=append, args=(("durable", "buffered")[n % 2],)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert done.wait(30)
    assert seen == list(range(2, 242))
