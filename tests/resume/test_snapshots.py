"""A snapshot is the state at its ordinal, exactly; what does not belong to the log, or is damaged, gives no state.

When a resume uses one, and that the newest are kept, is in test_resume.py.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.histories import history, stored
from turnlog import Store
from turnlog.errors import Damaged
from turnlog.index.snapshots import Snapshot
from turnlog.resume.snapshots import frozen, keep, link, pack, state_after, unpack
from turnlog.state.reduce import fold, reduce
from turnlog.state.state import SNAPSHOT_SCHEMA, State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog import Session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    """Return a session of 61 events."""
    made = store.create(title="flaky test")
    made.append_many([("message.user", {"content": f"message {number}"}) for number in range(60)])
    return made


def snapshot_at(session: Session, ordinal: int) -> Snapshot:
    state = fold(session.events(before=ordinal + 1), State(session.id))
    chain = session.log().chain_at(ordinal)
    assert chain is not None
    return pack(state, chain)


def after(session: Session, snapshot: Snapshot, *, head: tuple[int, bytes] | None = None) -> State | None:
    log = session.log()
    return state_after(snapshot, session.id, log, head or log.head())


@pytest.mark.parametrize("seed", range(5))
def test_a_state_is_unpacked_as_it_was_packed(seed: int) -> None:
    state = fold(stored(history(Random(seed), 400)), State("s"))
    snapshot = pack(state, bytes(32))
    assert (snapshot.ordinal, snapshot.schema) == (state.ordinal, SNAPSHOT_SCHEMA)
    assert unpack(snapshot) == state


def test_text_that_only_the_slow_decoder_reads_is_unpacked_too() -> None:
    state = fold(stored([("session.renamed", {"title": "\ud800"})]), State("s"))
    assert unpack(pack(state, bytes(32))) == state


@pytest.mark.parametrize("body", [b"", b"no zstd", b"\x28\xb5\x2f\xfd\x00\x00"])
def test_a_damaged_body_gives_no_state(body: bytes) -> None:
    assert unpack(Snapshot(1, SNAPSHOT_SCHEMA, bytes(32), body)) is None


def test_a_frozen_state_stays_while_the_other_goes_on() -> None:
    items = history(Random(9), 300)
    state = fold(stored(items[:150]), State("s"))
    copy, same = frozen(state), fold(stored(items[:150]), State("s"))
    for ordinal, (type, payload) in enumerate(items[150:], 151):
        reduce(state, type, ordinal, ordinal, payload)
    assert copy == same
    assert copy != state


@pytest.mark.parametrize("ordinal", [1, 30, 60, 61])
def test_a_snapshot_and_what_came_after_are_the_whole(session: Session, ordinal: int) -> None:
    assert after(session, snapshot_at(session, ordinal)) == fold(session.events(), State(session.id))


def test_a_snapshot_of_another_chain_session_or_ordinal_is_not_used(session: Session, store: Store) -> None:
    sound = snapshot_at(session, 30)
    wrong_chain = Snapshot(30, sound.schema, bytes(32), sound.body)
    wrong_ordinal = Snapshot(29, sound.schema, sound.chain, sound.body)
    assert [after(session, each) for each in (wrong_chain, wrong_ordinal)] == [None, None]
    other = store.create()
    assert after(other, sound) is None
    assert after(session, sound, head=(61, bytes(32))) is None


def test_a_snapshot_ahead_of_the_log_is_not_used(session: Session) -> None:
    head = (40, session.log().chain_at(40) or b"")
    assert after(session, snapshot_at(session, 61), head=head) is None
    assert after(session, snapshot_at(session, 40), head=head) is not None


def test_a_chain_is_not_carried_over_a_missing_event(session: Session) -> None:
    events = list(session.events(after=10, before=20))
    chain = session.log().chain_at(10) or b""
    assert link(events, 10, chain) == (19, session.log().chain_at(19))
    assert link(events[:3] + events[4:], 10, chain) is None
    assert link(events, 9, chain) is None


def test_a_snapshot_is_kept_only_where_enough_came_since_the_last(session: Session, store: Store) -> None:
    def newest() -> Any:
        return store.index().snapshot(session.id, SNAPSHOT_SCHEMA, 1 << 62)

    keep(store, session, every=1)
    assert newest() is None, "nobody asked for the state, so there is none to keep"
    assert session.state.ordinal == 61
    keep(store, session, every=62)
    assert newest() is None
    keep(store, session, every=61)
    assert (newest().ordinal, newest().chain, session._snapshot_ordinal) == (61, session.log().head()[1], 61)
    session.append("message.user", {"content": "one more"})
    keep(store, session, every=2)
    assert newest().ordinal == 61
    keep(store, session, every=1)
    assert newest().ordinal == 62


def test_a_log_that_cannot_be_read_is_told(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, log = snapshot_at(session, 30), session.log()
    head = log.head()

    def lose(window: object) -> Iterator[list[object]]:
        raise Damaged("event 31 cannot be read")

    monkeypatch.setattr(log, "batches", lose)
    with pytest.raises(Damaged):
        state_after(snapshot, session.id, log, head)
