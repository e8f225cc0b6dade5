"""Subscribers in the writing process: stored events at their durability, ephemeral ones bounded; no writer waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from turnlog import InvalidInput, Session, Store

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog.feed.ephemeral import EphemeralEvent
    from turnlog.feed.feed import FeedEvent


def types(events: list[FeedEvent | EphemeralEvent]) -> list[str]:
    return [event.type for event in events]


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
    assert {event.session for event in events} == {session.id}
    assert (slow.missed, types(events).count("progress.updated"), types(events).count("note.written")) == (990, 10, 10)
    assert [event.payload["done"] for event in events if event.type == "progress.updated"] == list(range(990, 1000))


def test_each_session_says_how_much_of_it_was_missed(store: Store) -> None:
    first, second = store.create(), store.create()
    with store.subscribe(capacity=2) as slow:
        for session, count in ((first, 3), (second, 4)):
            for number in range(count):
                session.append("progress.updated", {"done": number}, durability="ephemeral")
        lagged = [(event.session, event.payload) for event in slow.read() if event.type == "feed.lagged"]
    assert lagged == [(first.id, {"missed": 3}), (second.id, {"missed": 2})]


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


@pytest.mark.parametrize("failure", [RuntimeError("no screen"), SystemExit(1)])
def test_a_subscriber_that_raises_is_reported_and_goes_on(
    session: Session, caplog: pytest.LogCaptureFixture, failure: BaseException
) -> None:
    seen: list[int] = []
    done = threading.Event()

    def fail(event: FeedEvent) -> None:
        seen.append(event.ordinal)
        if event.ordinal == 6:
            done.set()
        raise failure

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
        head = session._written_head()
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


def test_what_is_more_than_a_batch_is_read_on_without_waiting(session: Session) -> None:
    with session.subscribe() as subscriber:
        session.append_many([("note.written", {})] * 1500)
        found: list[int] = []
        while batch := subscriber.read():
            found += [event.ordinal for event in batch]
    assert found == list(range(2, 1502))


def test_an_ephemeral_event_waits_for_the_stored_ones_before_it_however_many(session: Session) -> None:
    with session.subscribe() as subscriber:
        session.append_many([("note.written", {})] * 1500)
        session.append("progress.updated", {"done": 1}, durability="ephemeral")
        session.append("note.written", {})
        found: list[int] = []
        while batch := subscriber.read():
            found += [event.ordinal for event in batch]
    assert found == [*range(2, 1502), 0, 1502]
