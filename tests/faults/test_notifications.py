"""Goal: a notification never precedes its durable event. Method: durable.c records what each sync makes durable; at the
moment somebody is told of an event, the syncs done so far are counted; afterwards the image that just these syncs leave
is read, and must give the event. Covered: receipts, subscribers, followers of a session and of a store here and in
another process, cursors, listeners of the state, tool calls, the async facade; group commits of several threads, rolls.
Controls: writers and readers that tell too early are caught by the same check.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.durable import images, run_recorded
from turnlog import ArtifactNotFound, Damaged, Store

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from turnlog import Session

Told = tuple[str, int, str, int]  # what told it, the syncs done by then, session, ordinal

# `tell` counts first; `done` prints what was told, and what each event is.
BEGIN = """
import json, subprocess, time
from tests.faults.durable import Count
from turnlog import Store
from turnlog.feed.cursors import parse_session_cursor, parse_store_cursor
count, told = Count(), []
path = folder / "store"

def tell(how, session, ordinal):
    told.append((how, count(), session, ordinal))

def tell_of(how):
    def callback(event):
        now = count()
        if event.ordinal and event.durable:
            told.append((how, now, event.session, event.ordinal))
            tell_cursor(how + " cursor", now)(event.cursor)
    return callback

def tell_cursor(how, counted=None):
    def callback(cursor):
        now = count() if counted is None else counted
        if how.startswith("store follower") or how.startswith("async store"):
            told.extend((how, now, session, place[0]) for session, place in parse_store_cursor(cursor).items())
        else:
            told.append((how, now, *parse_session_cursor(cursor)[:2]))
    return callback

def follow(feed, how):
    callback = tell_of(how)
    def run():
        for event in feed:
            callback(event)
            if event.type == "all.done":
                return
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread

def done():
    digests = {}
    with Store.open(path, read_only=True) as store:
        for session in store.session_ids():
            digests[session] = {event.ordinal: event.digest.hex() for event in store.session(session).events()}
    print(json.dumps({"told": told, "digests": digests}))
"""

# Several threads append to a session that rolls, in single events and in groups; everybody who can be told listens.
HERE = """
def work(index):
    for step in range(6):
        receipts = [session.append("note.written", {"by": index, "step": step, "text": "x" * 1500})]
        if step % 3 == 2:
            items = [("note.written", {"by": index, "n": n}) for n in range(3)]
            receipts += session.append_many(items, atomic=True)
        now = count()
        told.extend(("receipt", now, session.id, receipt.ordinal) for receipt in receipts)

with Store.open(path, roll_bytes=8192) as store:
    session = store.create(title="watched")
    subscribers = [session.subscribe(tell_of("subscriber")), store.subscribe(tell_of("store subscriber"))]
    session.watch(lambda state: state.ordinal, lambda new, old: tell("listener", session.id, new))
    followers = [
        follow(session.follow(on_caught_up=tell_cursor("caught up")), "follower"),
        follow(session.subscribe(), "reader"),
        follow(store.follow(on_caught_up=tell_cursor("store follower caught up")), "store follower"),
    ]
    threads, _ = in_threads(3, work)
    join_all(threads)
    last = session.append("all.done", {}).ordinal
    join_all(followers)
    wait_until(lambda: sum(told_of[0] == "subscriber" and told_of[3] == last for told_of in told))
    assert not any(subscriber.failures for subscriber in subscribers), subscribers[0].failures
done()
"""

CALLS = """
with Store.open(path) as store:
    session = store.create(title="tools")
    turn = session.turn("x" * 70_000)
    tell("turn", session.id, session.state.turn.ordinal)
    for number in range(4):
        call = turn.tool_call("bash", {"n": number})
        def tool(text):
            now = count()
            running = session.state.call(turn.id, call.call_id)
            told.append(("tool runs", now, session.id, running.started_ordinal))
            return text
        call.run(tool, "x" * (70_000 if number == 3 else 10))
        now = count()
        told.append(("tool returned", now, session.id, session.state.call(turn.id, call.call_id).outcome_ordinal))
    turn.complete()
    now = count()
    told.append(("turn completed", now, session.id, session.state.recent_turns[turn.id].ended_ordinal))
done()
"""

ASYNC = """
import asyncio
from turnlog.aio import AsyncStore

async def listen(feed, how):
    callback = tell_of(how)
    async for event in feed:
        callback(event)
        if event.type == "all.done":
            return

async def work(session, index):
    for step in range(4):
        receipt = await session.append("note.written", {"by": index, "step": step})
        tell("async receipt", session.id, receipt.ordinal)

async def main():
    async with await AsyncStore.open(path, roll_bytes=8192) as store, await store.create() as session:
        feeds = {"async subscriber": await session.subscribe(), "async follower": session.follow()}
        feeds["async store"] = store.follow()
        listeners = [asyncio.ensure_future(listen(feed, how)) for how, feed in feeds.items()] if LISTENS else []
        await asyncio.gather(*(work(session, index) for index in range(4)))
        turn = await session.turn("go")
        name = (await session.state()).turn.id
        call = await turn.tool_call("bash", {}, call_id="c1")
        assert await call.run(lambda: "ran") == "ran"
        now, state = count(), await session.state()
        told.append(("async tool", now, session.id, state.call(name, "c1").outcome_ordinal))
        await turn.complete()
        await session.append("all.done", {})
        await asyncio.wait_for(asyncio.gather(*listeners), 30)  # of nobody, where nobody listens

asyncio.run(main())
done()
"""

# Another process reads what is being written: whatever it is shown, buffered events too, no crash may take back.
ELSEWHERE = """
READER = '''
import sys
from tests.faults.durable import Count
from turnlog import Store
count = Count()
EARLY
with Store.open(sys.argv[1], read_only=True) as store:
    feed = store.session(sys.argv[2]).follow() if sys.argv[2] != "-" else store.follow()
    print("ready", flush=True)
    for event in feed:
        print(count(), event.session, event.ordinal, flush=True)
        if event.type == "all.done":
            break
'''.replace("EARLY", EARLY)
with Store.open(path, roll_bytes=8192) as store:
    session = store.create()
    readers = [
        subprocess.Popen([sys.executable, "-c", READER, str(path), whose], stdout=subprocess.PIPE, text=True)
        for whose in (session.id, "-")
    ]
    assert [reader.stdout.readline() for reader in readers] == ["ready\\n"] * 2
    for step in range(30):
        level = "buffered" if step % 3 else "durable"
        session.append("note.written", {"step": step, "text": "x" * 900}, durability=level)
        time.sleep(0.01)
    session.append("all.done", {})
    for reader, how in zip(readers, ("follower elsewhere", "store follower elsewhere")):
        for line in reader.stdout:  # not communicate(), which loses what readline() has read ahead
            now, whose, ordinal = line.split()
            told.append((how, int(now), whose, int(ordinal)))
        assert reader.wait(30) == 0
done()
"""

# Followers in the writing process wait for the sync of buffered events too: their cursors outlive a crash.
BUFFERED = """
def follow_all(feed, how):
    def run():
        for event in feed:
            tell(how, event.session, event.ordinal)
            tell_cursor(how + " cursor")(event.cursor)
            if event.type == "all.done":
                return
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread

with Store.open(path, roll_bytes=8192) as store:
    session = store.create()
    followers = [follow_all(session.follow(), "follower"), follow_all(store.follow(), "store follower")]
    for step in range(20):
        session.append("note.written", {"step": step, "text": "x" * 900}, durability="buffered")
        tell_cursor("store follower place")(store.cursor())
        time.sleep(0.01)
    session.append("all.done", {}, durability="buffered")
    join_all(followers)
done()
"""

HOW = {
    "buffered": {
        *("follower", "store follower", "follower cursor", "store follower cursor", "store follower place"),
    },
    "here": {
        *("receipt", "listener", "caught up", "store follower caught up"),
        *("subscriber", "store subscriber", "follower", "reader", "store follower"),
        *("subscriber cursor", "store subscriber cursor", "follower cursor", "reader cursor", "store follower cursor"),
    },
    "calls": {"turn", "tool runs", "tool returned", "turn completed"},
    "async": {
        *("async receipt", "async tool", "async subscriber", "async follower", "async store"),
        *("async subscriber cursor", "async follower cursor", "async store cursor"),
    },
    "elsewhere": {"follower elsewhere", "store follower elsewhere"},
}
SCENES = {
    "here": HERE,
    "buffered": BUFFERED,
    "calls": CALLS,
    "async": "LISTENS = True" + ASYNC,
    "elsewhere": 'EARLY = ""' + ELSEWHERE,
}


def told_too_early(core: str, code: str, folder: Path) -> tuple[set[str], set[str]]:
    """Run a scene; return who told something, and who told it before it was durable."""
    out, image = run_recorded(core, BEGIN + code, folder)
    answer = json.loads(out)
    told: list[Told] = [(how, count, session, ordinal) for how, count, session, ordinal in answer["told"]]
    early = set()
    for count, place in images(image, {count for _, count, _, _ in told}, folder):
        found = held(place)
        for how, when, session, ordinal in told:
            expected = answer["digests"][session].get(str(ordinal), "never appended")
            if when == count and found.get((session, ordinal)) != expected:
                early.add(how)
    return {how for how, _, _, _ in told}, early


def held(place: Path) -> dict[tuple[str, int], str]:
    """Return the digests of the events that a store holds, as a reader finds them; each payload can be read."""
    if not (place / "store.json").exists():
        return {}
    with Store.open(place, read_only=True) as store:
        sessions = [store.session(session_id) for session_id in store.session_ids()]
        return {(session.id, event.ordinal): event.digest.hex() for session in sessions for event in whole(session)}


def whole(session: Session) -> list[Any]:
    """Return what a session holds undamaged, of what refers to an artifact only where that is there."""
    events = []
    for event in session.events(on_damage="skip"):
        with suppress(ArtifactNotFound, Damaged):
            session.payload(event)
            events.append(event)
    return events


@pytest.mark.parametrize("scene", SCENES)
def test_whoever_is_told_of_an_event_finds_it_after_a_power_loss(core: ModuleType, tmp_path: Path, scene: str) -> None:
    told, early = told_too_early(core.IMPLEMENTATION, SCENES[scene], tmp_path)
    assert early == set()
    assert told == HOW[scene]


# -- controls: what tells too early is caught --------------------------------------------------------------------------

# An append returns at once, and its sync comes in a thread of its own; so nobody may wait for what is told at the end.
RETURNS_EARLY = """
join_all = lambda threads: [thread.join(2) for thread in threads]
wait_until = lambda condition: None
from turnlog._pure.active import ActiveSegment
from turnlog._pure.commit import Committer
ActiveSegment.redeem = lambda self, ticket: True
Committer.commit = lambda self, segments, commit=Committer.commit: threading.Thread(
    target=commit, args=(self, list(segments)), daemon=True
).start()
"""

# Readers in the writing process are shown what is written, synced or not.
SHOWS_WRITTEN = """
from turnlog.log.appender import Appender
Appender.visible = Appender.durable_end = Appender._written
"""

# The state takes an event, and its listeners hear of it, before the event is appended.
LISTENERS_FIRST = """
from turnlog import Session
def append(self, type, payload, append=Session.append, **how):
    if self._live is not None:
        self._live.current().ordinal += 1
        self._live._tell()
        self._live.current().ordinal -= 1
    return append(self, type, payload, **how)
Session.append = append
"""

# A reader in another process shows what it finds, without a sync of its own.
NEVER_SETTLES = """
EARLY = '''
from turnlog.log.places import Places
Places.settle = lambda self, file, reader: None
'''
"""


@pytest.mark.parametrize(
    ("scene", "how"),
    [
        (HERE, {"receipt", "listener"}),
        (CALLS, {"turn", "tool runs", "tool returned", "turn completed"}),
        ("LISTENS = False" + ASYNC, {"async receipt", "async tool"}),
    ],
)
def test_control_a_writer_that_returns_before_the_sync_is_caught(tmp_path: Path, scene: str, how: set[str]) -> None:
    early: set[str] = set()
    for attempt in range(5):  # some are told only once, and the sync may come before the word after all
        folder = tmp_path / str(attempt)
        folder.mkdir()
        early |= told_too_early("pure", RETURNS_EARLY + scene, folder)[1]
        if how <= early:
            return
    assert how <= early


def test_control_a_reader_that_is_shown_what_is_not_synced_is_caught(core: ModuleType, tmp_path: Path) -> None:
    _, early = told_too_early(core.IMPLEMENTATION, SHOWS_WRITTEN + HERE, tmp_path)
    assert {"subscriber", "store subscriber", "follower", "reader", "store follower"} & early
    assert {"follower cursor", "caught up"} & early
    assert "receipt" not in early


def test_control_a_follower_that_is_shown_what_is_only_buffered_is_caught(core: ModuleType, tmp_path: Path) -> None:
    shows_buffered = "from turnlog.log.appender import Appender\nAppender.durable_end = Appender.visible\n"
    _, early = told_too_early(core.IMPLEMENTATION, shows_buffered + BUFFERED, tmp_path)
    assert early == HOW["buffered"]


def test_control_a_listener_that_hears_before_the_append_is_caught(core: ModuleType, tmp_path: Path) -> None:
    # one thread appends: the state must not change between the untimely word and its taking back
    _, early = told_too_early(
        core.IMPLEMENTATION, LISTENERS_FIRST + HERE.replace("in_threads(3,", "in_threads(1,"), tmp_path
    )
    assert early == {"listener"}


def test_control_a_reader_elsewhere_that_does_not_sync_is_caught(core: ModuleType, tmp_path: Path) -> None:
    _, early = told_too_early(core.IMPLEMENTATION, NEVER_SETTLES + ELSEWHERE, tmp_path)
    assert early == {"follower elsewhere", "store follower elsewhere"}
