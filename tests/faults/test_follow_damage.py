"""Goal: a feed says of damage what a reader of the log says, never less, and no damage stops what can be served.

Method: each injury of damage.py, and random ones, are done to a session beside a whole one; both are followed with
`on_damage="skip"`, and with "raise" and the error's cursor, and compared with `Log.events`. Control: without an injury
no mark comes and nothing is raised.
"""

from __future__ import annotations

import random
import shutil
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import damage
from tests.faults.test_damage_cases import CASES
from tests.faults.test_random_damage import injure
from turnlog import Damaged, Session, Store, names
from turnlog.errors import CursorMismatch
from turnlog.feed.feed import SeenEvents
from turnlog.log.log import Window
from turnlog.repair.repair import plan_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.damage import Injury, Victim
    from turnlog.feed.feed import FeedEvent

    Lost = tuple[int, int | None]

NOTES, BESIDE = 20, "019b76da-a800-7000-8000-000000000001"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Victim:
    victim = damage.Victim(tmp_path_factory.mktemp("whole") / "store")
    with Store.open(victim.store) as store, store.create(title="beside it", id=BESIDE) as beside:
        beside.append_many([("note.written", {})] * NOTES)
    return victim


def injured(whole: Victim, folder: Path, injury: Callable[[Victim], object]) -> Victim:
    victim = copy(whole)
    victim.store = str(folder / "store")
    shutil.copytree(whole.store, victim.store)
    victim.folder = names.session_dir(victim.store, victim.session)
    injury(victim)
    return victim


def injure_at_random(seed: int, victim: Victim) -> None:
    pick = random.Random(seed)
    injure(victim, pick, pick.choice([1, 2, 3]))


def told_by_the_log(session: Session) -> tuple[list[int], list[Lost]]:
    log = session.log()
    seen = [event.ordinal for event in log.events(Window(on_damage="skip"))]
    lost = [(error.lost, error.is_open) for error in log.damage if error.lost is not None]
    return seen, [(first, None if is_open else last) for (first, last), is_open in lost]


def split(items: list[FeedEvent]) -> tuple[list[int], list[Lost]]:
    marks = [item.payload for item in items if item.type == "feed.damaged"]
    seen = [item.ordinal for item in items if item.type != "feed.damaged"]
    return seen, [(mark["first"], mark["last"]) for mark in marks]


def going_on(follow: Callable[[Any], Iterator[FeedEvent]], begin: Any) -> tuple[list[FeedEvent], list[Damaged]]:
    """Follow, and go on behind each error as it says, until there is no more or no way."""
    items: list[FeedEvent] = []
    errors: list[Damaged] = []
    cursor = begin
    while True:
        try:
            items += follow(cursor)
        except Damaged as error:
            errors.append(error)
            if error.cursor is None:
                return items, errors
            cursor = error.cursor
        else:
            return items, errors


def check(victim: Victim) -> None:
    with Store.open(victim.store, read_only=True) as store:
        session = store.session(victim.session)
        seen, lost = told_by_the_log(session)
        items = list(session.follow(timeout_ms=0, on_damage="skip"))
        assert split(items) == (seen, lost)
        ordinals = [item.payload["first"] if item.type == "feed.damaged" else item.ordinal for item in items]
        assert ordinals == sorted(ordinals)
        for at in range(0, len(items), 5):
            rest = list(session.follow(after=items[at].cursor, timeout_ms=0, on_damage="skip"))
            again = items[at].type == "feed.damaged" and items[at].payload["last"] is None  # its end is not known
            assert split(rest) == split(items[at + (not again) :])
        of_type = list(session.follow(timeout_ms=0, types=["no.such"], on_damage="skip"))
        assert split(of_type) == ([], lost)
        raising, errors = going_on(lambda after: session.follow(after=after, timeout_ms=0), 0)
        assert split(raising) == (seen, [])
        assert [error.lost for error in errors] == [(first, first if last is None else last) for first, last in lost]
        assert all(error.session == victim.session and "on_damage='skip'" in error.message for error in errors)
        check_store(store, session, seen, lost)


def check_store(store: Store, session: Session, seen: list[int], lost: list[Lost]) -> None:
    found = list(store.follow(timeout_ms=0, on_damage="skip"))
    assert split([item for item in found if item.session == session.id]) == (seen, lost)
    assert split([item for item in found if item.session == BESIDE]) == (list(range(1, NOTES + 2)), [])
    middle = found[len(found) // 2]
    rest = list(store.follow(after=middle.cursor, timeout_ms=0, on_damage="skip"))
    together = SeenEvents()
    new = sum(together.is_new(item) for item in [*found[: len(found) // 2 + 1], *rest])
    assert new == sum(item.type != "feed.damaged" or item.payload["last"] is not None for item in found)
    raising, errors = going_on(lambda after: store.follow(after=after, timeout_ms=0), None)
    assert sorted(item.ordinal for item in raising if item.session == BESIDE) == list(range(1, NOTES + 2))
    assert sorted(item.ordinal for item in raising if item.session == session.id) == seen
    assert len(errors) == len(lost)


@pytest.mark.parametrize("injury", [case[0] for case in CASES], ids=[case[0].__name__ for case in CASES])
def test_a_feed_says_of_each_damage_what_the_log_says(whole: Victim, tmp_path: Path, injury: Injury) -> None:
    check(injured(whole, tmp_path, injury))


@pytest.mark.parametrize("seed", range(30))
def test_a_feed_says_of_any_damage_what_the_log_says(whole: Victim, tmp_path: Path, seed: int) -> None:
    check(injured(whole, tmp_path, partial(injure_at_random, seed)))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_feed_says_of_much_damage_what_the_log_says(whole: Victim, tmp_path: Path) -> None:
    for seed in range(1000, 1600):
        check(injured(whole, tmp_path / str(seed), partial(injure_at_random, seed)))


def test_without_damage_no_mark_comes(whole: Victim, tmp_path: Path) -> None:
    victim = injured(whole, tmp_path, lambda _victim: None)
    check(victim)
    with Store.open(victim.store) as store:
        items = list(store.follow(timeout_ms=0, on_damage="skip"))
        assert [item.type for item in items if item.type.startswith("feed.")] == []


def test_a_subscriber_is_told_of_the_gap_too(whole: Victim, tmp_path: Path) -> None:
    victim = injured(whole, tmp_path, damage.missing_middle)
    with Store.open(victim.store) as store:
        session = store.session(victim.session)
        seen, lost = told_by_the_log(session)
        subscriber = session.subscribe(after=0, on_damage="skip")
        items: list[Any] = []
        while more := subscriber.read():
            items += more
        assert split(items) == (seen, lost)
        raising = session.subscribe(after=0)
        assert [event.ordinal for event in raising.read()] == list(range(1, lost[0][0]))
        for _ in range(2):
            with pytest.raises(Damaged):
                raising.read()


def test_a_damaged_session_takes_nothing_from_the_other_sessions_of_a_subscriber(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as broken, store.create() as other, store.subscribe() as heard:
        broken.append("note.written", {"text": "x" * 900})
        visible = broken._visible()
        assert visible is not None
        broken.append_many([("note.written", {})] * 2)
        damage.flip(visible[0], visible[1] - 500)
        seen: list[str] = []
        failures: list[str | None] = []
        for _ in range(8):
            other.append("note.written", {})
            try:
                seen += [event.session for event in heard.read()]
            except Damaged as error:
                failures.append(error.session)
        assert seen in ([other.id] * 7, [other.id] * 8)
        assert failures == [broken.id] * 4


def test_repaired_damage_is_no_damage_to_a_feed_that_waits_behind_it(whole: Victim, tmp_path: Path) -> None:
    victim = injured(whole, tmp_path, damage.missing_newest)
    with Store.open(victim.store) as reading:
        session = reading.session(victim.session)
        feed = session._steps(on_damage="skip")
        before = []
        while (item := next(feed)) is not None:
            before.append(item)
        assert before[-1].payload["last"] is None
        assert next(feed) is None  # said once
        assert plan_session(victim.store, victim.session, witness=victim.witness(), accept_tail=True).apply().ok
        with Store.open(victim.store) as writing:
            ordinal = writing.session(victim.session).append("note.written", {}).ordinal
        behind = []
        while (item := next(feed)) is not None:
            behind.append(item)
        assert behind[-1].ordinal == ordinal
        assert {item.type for item in behind[:-1]} <= {"feed.damaged"}
        with pytest.raises(CursorMismatch):
            list(session.follow(after=ordinal + 1, timeout_ms=0))
