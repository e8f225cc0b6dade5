"""An id that a session knows: of its own events, and of those that it inherits, however they are stored."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.faults import damage
from tests.forks import fill, folder
from turnlog import Session, Store, _core
from turnlog.compact.compact import compact_session
from turnlog.errors import Conflict
from turnlog.ids import format_id, new_id
from turnlog.log.known_ids import load_ids
from turnlog.log.segments import list_segments

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", roll_bytes=8192) as opened:
        yield opened


def known(store: Store, session: Session) -> dict[str, int]:
    """Return what the index of ids holds for each event that the session shows."""
    ids = _core.IdIndex()
    load_ids(ids, folder(store, session.id), session.id)
    found = {event.id: ids.get(event.event_id) for event in session.events(on_damage="skip")}
    assert len(ids) == len(found)
    return {id: ordinal for id, ordinal in found.items() if ordinal is not None}


def shown(session: Session) -> dict[str, int]:
    return {event.id: event.ordinal for event in session.events(on_damage="skip")}


@pytest.mark.parametrize("at", [1, 12, 20, 39, 40])
def test_a_fork_knows_the_ids_that_it_inherits_and_none_behind_them(store: Store, at: int) -> None:
    parent = store.create()
    fill(parent, 39)
    assert len(list_segments(folder(store, parent.id))) > 2
    child = store.fork(parent, at)
    fill(child, 3)
    assert known(store, child) == shown(child)
    assert len(shown(child)) == at + 4


def test_at_the_border_of_two_segments_nothing_is_left_out_or_taken_in(store: Store) -> None:
    parent = store.create()
    fill(parent, 39)
    for file in list_segments(folder(store, parent.id))[1:]:
        for at in (file.first_ordinal - 1, file.first_ordinal):
            child = store.fork(parent, at)
            assert known(store, child) == shown(child)


def test_a_fork_of_forks_knows_the_ids_of_all_generations(store: Store) -> None:
    session = store.create()
    for generation in range(4):
        fill(session, 20)
        session = store.fork(session, 15 if generation == 0 else None)
    assert known(store, session) == shown(session)


def test_a_compacted_parent_gives_its_ids_too(store: Store) -> None:
    parent = store.create()
    fill(parent, 39)
    child = store.fork(parent, 30)
    parent.close()
    assert compact_session(store.path, parent.id)["compacted"]
    assert known(store, child) == shown(child)


def test_an_append_in_a_fork_with_an_inherited_id_is_answered_with_the_first_receipt(store: Store) -> None:
    parent = store.create()
    fill(parent, 30)
    id = format_id(new_id())
    first = parent.append("note.written", {"n": 1}, id=id)
    fill(parent, 5)
    child = store.fork(store.fork(parent))
    head = child.head()
    again = child.append("note.written", {"n": 1}, id=id)
    assert (again, again.time_us) == (first, first.time_us)
    assert child.append_many([("note.written", {"n": 1}, id)], atomic=True) == [first]
    assert child.head() == head
    with pytest.raises(Conflict, match=f"event {id} is already stored with other content") as caught:
        child.append("note.written", {"n": 2}, id=id)
    assert (caught.value.session, caught.value.ordinal) == (child.id, first.ordinal)
    with pytest.raises(Conflict, match="other content"):
        child.append("note.changed", {"n": 1}, id=id)


def test_an_id_that_the_parent_used_behind_the_fork_is_free_in_the_fork(store: Store) -> None:
    parent = store.create()
    child = store.fork(parent)
    id = format_id(new_id())
    parent.append("note.written", {"n": "parent"}, id=id)
    own = child.append("note.written", {"n": "child"}, id=id)
    assert child.event(own.ordinal).payload == {"n": "child"}
    assert child.append("note.written", {"n": "child"}, id=id) == own


def test_a_lost_parent_takes_its_ids_with_it_and_the_fork_goes_on(store: Store) -> None:
    parent = store.create()
    id = format_id(new_id())
    parent.append("note.written", {"n": 1}, id=id)
    child = store.fork(parent)
    parent.close()
    shutil.rmtree(folder(store, parent.id))
    receipt = child.append("note.written", {"n": 1}, id=id)
    assert receipt.ordinal == 4
    assert child.append("note.written", {"n": 1}, id=id) == receipt


def test_damage_of_a_parent_hides_the_ids_of_no_other_event(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store", roll_bytes=8192) as store:
        parent = store.create()
        fill(parent, 39)
        child = store.fork(parent, 30)
        parent.close()
        for file in list_segments(folder(store, parent.id))[:2]:
            damage.flip(file.path, 0)
            damage.flip(file.path, 2048 + 16)
        found, whole = known(store, child), shown(child)
        assert found == whole
