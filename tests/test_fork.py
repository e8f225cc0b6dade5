"""Forks: what they inherit, across generations; how they are made, whatever crashes.

Parents that change, and lineage in the index, are in tests/log/test_lineage.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults import damage
from tests.faults.powercut import until_done
from tests.forks import fill, folder, ordinals
from turnlog import Store, _core, names
from turnlog.errors import Conflict, InvalidInput, InvalidPayload, NotFound, PayloadTooLarge, ReadOnly
from turnlog.fork import end_of_turn, fork_point
from turnlog.ids import format_id, new_id
from turnlog.log.log import Log
from turnlog.verify.verify import check_session, check_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from turnlog import Session

FORK_BYTES_MAX = 8 * 1024
BIG_EVENTS = 100_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", roll_bytes=8192) as opened:
        yield opened


@pytest.fixture
def parent(store: Store) -> Session:
    """Return an open session of some segments: one `session.created` and 39 notes."""
    session = store.create(title="the first", cwd="/src", model="provider/x")
    fill(session, 39)
    return session


def stored_bytes(path: str) -> int:
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


# -- reading ---------------------------------------------------------------------------------------------------------


def test_a_fork_holds_the_parents_events_up_to_the_ordinal_and_its_own(store: Store, parent: Session) -> None:
    child = store.fork(parent, 20, title="the second")
    receipt = child.append("note.written", {"own": True})
    assert receipt.ordinal == 22
    inherited = [(event.ordinal, event.id, event.digest) for event in parent.events(before=21)]
    found = [(event.ordinal, event.id, event.digest) for event in child.events()]
    assert found[:20] == inherited
    assert [event.type for event in child.events(after=20)] == ["session.forked", "note.written"]
    assert child.event(7).payload == parent.event(7).payload


def test_the_first_own_event_names_the_parent_and_the_second_the_settings(store: Store, parent: Session) -> None:
    child = store.fork(parent, 5, title="other", tags=["try"], model="provider/y", effort="high", cwd=".")
    forked, configured = child.events(after=5)
    assert forked.payload == {
        "parent": parent.id,
        "fork_ordinal": 5,
        "parent_chain": parent.log().chain_at(5).hex(),  # type: ignore[union-attr]
        "parent_event": parent.event(5).id,
        "title": "other",
        "tags": ["try"],
    }
    assert configured.payload == {"model": "provider/y", "effort": "high", "cwd": os.getcwd()}


def test_the_first_own_events_are_one_atomic_group(store: Store, parent: Session) -> None:
    child = store.fork(parent, 5, model="provider/y")
    assert [event.flags & _core.FLAG_COMMIT for event in child.events(after=5)] == [0, _core.FLAG_COMMIT]
    assert all(event.durable for event in child.events(after=5))


def test_a_parent_that_goes_on_is_not_seen_by_its_fork(store: Store, parent: Session) -> None:
    child = store.fork(parent)
    fill(parent, 30)
    assert ordinals(child.events()) == list(range(1, 42))
    assert child.event(41).type == "session.forked"
    assert parent.event(41).type == "note.written"


def test_windows_cross_the_border_in_both_directions(store: Store, parent: Session) -> None:
    child = store.fork(parent, 25)
    fill(child, 30)
    everything = list(range(1, 57))
    for after, before in [(0, None), (20, 30), (24, 27), (25, None), (26, 40), (3, 9), (24, 26), (25, 26), (55, None)]:
        expected = [ordinal for ordinal in everything if ordinal > after and (before is None or ordinal < before)]
        assert ordinals(child.events(after=after, before=before)) == expected
        assert ordinals(child.events(after=after, before=before, reverse=True)) == expected[::-1]
        assert ordinals(child.events(after=after, before=before, limit=3)) == expected[:3]
    assert ordinals(child.events(types=["session.created", "session.forked"])) == [1, 26]
    assert ordinals(child.events(types=["session.created"], reverse=True)) == [1]


def test_forks_of_forks_are_read_through_every_generation(store: Store, parent: Session) -> None:
    child = store.fork(parent, 10)
    fill(child, 9)  # 11..20
    below = store.fork(child, 7)  # of what the child itself inherits
    beside = store.fork(child, 10)  # at the border
    grandchild = store.fork(child, 15)
    fill(grandchild, 4)
    last = store.fork(grandchild)
    assert [event.id for event in below.events(before=8)] == [event.id for event in parent.events(before=8)]
    assert [event.id for event in beside.events(before=11)] == [event.id for event in parent.events(before=11)]
    assert ordinals(last.events()) == list(range(1, 22))
    expected = [event.id for event in (*parent.events(before=11), *child.events(after=10, before=16))]
    assert [event.id for event in last.events(before=16)] == expected
    assert [event.id for event in last.events(before=16, reverse=True)] == expected[::-1]
    store.flush()
    assert check_store(store.path, full=True).ok


def test_a_long_line_of_forks_needs_no_recursion(store: Store) -> None:
    session = store.create()
    for _ in range(60):
        session = store.fork(session)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len_of_stack() + 60)
        assert ordinals(session.events()) == list(range(1, 62))
        assert ordinals(session.events(reverse=True)) == list(range(61, 0, -1))
    finally:
        sys.setrecursionlimit(limit)


def len_of_stack() -> int:
    """Return the depth of the stack."""
    frame, depth = sys._getframe(), 0
    while frame.f_back is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def test_following_a_fork_begins_in_the_inherited_part(store: Store, parent: Session) -> None:
    child = store.fork(parent, 30)
    seen: list[int] = []

    def follow() -> None:
        for event in child.follow(after=25, timeout_ms=5_000):
            seen.append(event.ordinal)
            if event.ordinal == 34:
                return

    follower = threading.Thread(target=follow)
    follower.start()
    fill(child, 3)
    store.flush()
    follower.join(10)
    assert seen == [26, 27, 28, 29, 30, 31, 32, 33, 34]


def test_following_a_fork_from_its_own_part_shows_nothing_inherited(store: Store, parent: Session) -> None:
    child = store.fork(parent, 30)
    assert [event.ordinal for event in child.follow(after=30, timeout_ms=0)] == [31]
    assert [event.ordinal for event in child.follow(after=31, timeout_ms=0)] == []


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["append", "fork", "close"]), st.integers(0, 5), st.integers(1, 12)), max_size=14
    ),
    windows=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 32)), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_any_tree_of_forks_is_what_lists_of_lists_would_hold(
    steps: list[tuple[str, int, int]], windows: list[tuple[int, int]]
) -> None:
    with tempfile.TemporaryDirectory() as path, Store.open(path, roll_bytes=6000) as store:
        sessions = [store.create()]
        model = [[sessions[0].event(1).id]]
        for action, which, number in steps:
            index = which % len(sessions)
            if action == "append":
                for _ in range(number):
                    receipt = sessions[index].append("note.written", {"text": "y" * 300}, durability="buffered")
                    model[index].append(receipt.id)
            elif action == "fork":
                at = min(number, len(model[index]))
                child = store.fork(sessions[index].id, at)
                sessions.append(child)
                model.append([*model[index][:at], child.event(at + 1).id])
            else:
                sessions[index].close()
                sessions[index] = store.session(sessions[index].id)
        for session, events in zip(sessions, model, strict=True):
            assert [event.id for event in session.events()] == events
            assert [event.id for event in session.events(reverse=True)] == events[::-1]
            for after, before in windows:
                expected = events[after : before - 1]
                assert [event.id for event in session.events(after=after, before=before)] == expected
                found = session.events(after=after, before=before, reverse=True)
                assert [event.id for event in found] == expected[::-1]
            assert check_session(store.path, session.id).ok


# -- making ----------------------------------------------------------------------------------------------------------


def test_a_fork_of_a_hundred_thousand_events_costs_less_than_8_kib(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        parent = store.create(title="big")
        for _ in range(BIG_EVENTS // 1000):
            parent.append_many([("note.written", {"text": "a line of some length"})] * 1000, durability="buffered")
        for at in (None, 50_000):
            child = store.fork(parent, at, title="small", model="provider/z")
            assert stored_bytes(folder(store, child.id)) < FORK_BYTES_MAX
            assert not os.path.exists(names.live_path(store.path, child.id))
        parent.close()
        assert stored_bytes(folder(store, store.fork(parent.id).id)) < FORK_BYTES_MAX
        assert child.event(50_000).id == store.session(parent.id).event(50_000).id


def test_forking_a_closed_session_at_its_head_reads_a_few_frames(
    store: Store, parent: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent.close()

    def refuse(*_: Any) -> None:
        message = "the whole segment would be walked"
        raise AssertionError(message)

    monkeypatch.setattr(Log, "head", refuse)
    monkeypatch.setattr(Log, "chain_at", refuse)
    point = fork_point(store.session(parent.id), None)
    monkeypatch.undo()
    log = store.session(parent.id).log()
    assert (point.origin.ordinal, point.origin.chain) == log.head()
    assert point.event == store.session(parent.id).event(40).id


def test_the_chain_in_the_middle_is_the_one_that_the_head_had_there(store: Store) -> None:
    session = store.create()
    heads = {1: session.head()}
    for number in range(2, 30):
        session.append("note.written", {"text": "x" * 700})
        heads[number] = session.head()
    for ordinal, head in heads.items():
        origin = fork_point(session, ordinal).origin
        assert (origin.ordinal, origin.chain.hex()) == head


def test_the_end_of_a_turn_that_the_state_knows_is_not_searched_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.create()
    for number in range(3):
        with session.turn("again", id=f"t{number}") as turn:
            turn.complete()
    searched = end_of_turn(store.session(session.id), "t1")

    def refuse(**_: Any) -> None:
        message = "the log would be searched"
        raise AssertionError(message)

    with monkeypatch.context() as patched:
        patched.setattr(session, "events", refuse)
        assert end_of_turn(session, "t1") == searched == 5
    session.close()
    assert end_of_turn(store.session(session.id), "t1") == searched


def test_a_fork_inside_an_atomic_group_ends_there(store: Store) -> None:
    session = store.create()
    session.append_many([("note.written", {"n": number}) for number in range(8)], atomic=True)
    child = store.fork(session, 5)
    assert [event.payload.get("n") for event in child.events(after=1, before=6)] == [0, 1, 2, 3]
    assert check_session(store.path, child.id).ok


def test_what_was_only_buffered_is_synced_before_it_is_inherited(store: Store) -> None:
    session = store.create()
    session.append("note.written", {}, durability="buffered")
    child = store.fork(session)
    head = session._written_head()
    assert head is not None
    assert head["durable_ordinal"] == 2
    assert ordinals(child.events()) == [1, 2, 3]


@pytest.mark.parametrize("at", [41, 400])
def test_an_event_that_does_not_exist_cannot_be_forked_after(store: Store, parent: Session, at: int) -> None:
    for _ in range(2):
        with pytest.raises(NotFound) as caught:
            store.fork(parent.id, at)
        assert (caught.value.session, caught.value.ordinal) == (parent.id, at)
        parent.close()  # the second time it is read from disk


@pytest.mark.parametrize("at", [0, -1])
def test_a_fork_inherits_at_least_one_event(store: Store, parent: Session, at: int) -> None:
    with pytest.raises(InvalidInput):
        store.fork(parent, at)


def test_settings_that_cannot_be_stored_make_no_fork(store: Store, parent: Session) -> None:
    before = store.session_ids()
    with pytest.raises(InvalidPayload):
        store.fork(parent, tools={1, 2})
    with pytest.raises(PayloadTooLarge):
        store.fork(parent, tools="x" * (16 * 1024 * 1024))
    assert store.session_ids() == before


def test_a_taken_id_is_a_conflict_and_its_session_is_untouched(store: Store, parent: Session) -> None:
    taken = store.create()
    with pytest.raises(Conflict):
        store.fork(parent, id=taken.id)
    assert ordinals(taken.events()) == [1]
    assert not [name for name in os.listdir(os.path.dirname(folder(store, taken.id))) if name.endswith(".tmp")]


def test_an_ephemeral_session_cannot_be_forked_to_disk(store: Store) -> None:
    session = store.create(ephemeral=True)
    with pytest.raises(InvalidInput, match="ephemeral"):
        store.fork(session)


def test_a_fork_starts_in_the_state_that_its_parent_had(store: Store, parent: Session) -> None:
    parent.configure(effort="high")
    child = store.fork(parent, model="provider/y")
    parent.configure(effort="low")
    assert child.state.settings == {"model": "provider/y", "effort": "high", "cwd": "/src"}
    assert child.state.title == "the first"
    assert [(origin.parent, origin.fork_ordinal) for origin in child.state.lineage] == [(parent.id, 41)]


def test_a_read_only_store_makes_no_fork(store: Store, parent: Session) -> None:
    store.flush()
    with Store.open(store.path, read_only=True) as reader, pytest.raises(ReadOnly):
        reader.fork(parent.id)


def test_a_crash_at_any_step_leaves_no_fork_or_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = damage.Victim(tmp_path / "store")
    whole = 0
    steps = 0
    for _ in until_done(monkeypatch, lambda: fork_once(victim.store, victim.session)):
        steps += 1
        with Store.open(victim.store, create=False) as store:
            made = [session_id for session_id in store.session_ids() if session_id != victim.session]
            for session_id in made:
                assert ordinals(store.session(session_id).events()) == list(range(1, 48))
                assert check_session(victim.store, session_id).ok
                shutil.rmtree(folder(store, session_id))
            whole += len(made)
            assert check_store(victim.store).ok
            assert store.session(victim.session).head()[0] == 46
    assert steps >= 6
    assert whole == 2  # after the rename, and again after the sync of the folder it went into


def fork_once(store: str, session_id: str) -> None:
    """Fork without a thread of the store at work beside, into the parent's shard folder: always the same steps."""
    chosen = format_id(new_id())[:-2] + names.shard(session_id)
    Store(store).fork(session_id, id=chosen, title="cut short")


def test_a_fork_can_be_made_beside_a_writer_in_another_process(tmp_path: Path) -> None:
    code = """
import sys
from turnlog import Store
with Store.open(sys.argv[1]) as store:
    session = store.create(title="elsewhere")
    for number in range(20):
        session.append("note.written", {"number": number})
    print(session.id, flush=True)
    sys.stdin.readline()
    session.append("note.written", {"late": True})
"""
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root / "python")}
    command = [sys.executable, "-c", code, str(tmp_path / "store")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as writer:
        assert writer.stdout is not None
        session_id = writer.stdout.readline().strip()
        with Store.open(tmp_path / "store") as store:
            whole, part = store.fork(session_id), store.fork(session_id, 9)
            writer.communicate("\n", timeout=30)
            assert ordinals(whole.events()) == list(range(1, 23))
            assert ordinals(part.events()) == list(range(1, 11))
            assert ordinals(store.session(session_id).events()) == list(range(1, 23))
    assert check_store(str(tmp_path / "store"), full=True).ok


def test_both_cores_verify_what_either_forked(tmp_path: Path, core: ModuleType) -> None:
    core_name = core.__name__.rpartition("_")[2]
    code = """
import sys
from turnlog import Store
from turnlog.verify.verify import check_store
with Store.open(sys.argv[1], roll_bytes=8192) as store:
    parent = store.session(sys.argv[2]) if len(sys.argv) > 2 else store.create()
    parent.append_many([("note.written", {"text": "x" * 400})] * 30)
    child = store.fork(parent, 17)
    child.append("note.written", {})
    store.fork(child)
    print(child.id)
print(check_store(sys.argv[1], full=True).ok)
"""
    root = Path(__file__).resolve().parents[1]
    words: list[str] = []
    for name in (core_name, "pure", core_name):
        environment = {**os.environ, "PYTHONPATH": str(root / "python"), "TURNLOG_CORE": name}
        command = [sys.executable, "-c", code, str(tmp_path / "store"), *words]
        done = subprocess.run(command, capture_output=True, env=environment, text=True, check=False)
        assert done.stdout.endswith("True\n"), done.stderr
        words = done.stdout.split()[:1]


def test_a_fork_after_a_turn_inherits_that_turn_and_nothing_later(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as parent:
        for name in ("t1", "t2"):
            with parent.turn("hello", id=name) as turn:
                turn.complete()
        running = parent.turn("hello", id="t3")
        child = store.fork(parent, turn="t1")
        assert [event.payload.get("turn") for event in child.events()] == [None, "t1", "t1", None]
        with child.turn("another way") as turn:
            turn.complete()
        with pytest.raises(NotFound, match="t3"):
            store.fork(parent, turn=running.id)
        with pytest.raises(InvalidInput, match="both"):
            store.fork(parent, 2, turn="t1")
