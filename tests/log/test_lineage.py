"""Lineage: parents that change, vanish or are mended under their forks; who was forked from whom; rows of forks."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.faults import damage
from tests.forks import fill, folder, ordinals
from turnlog import Store, names
from turnlog.compact.compact import compact_session
from turnlog.errors import Conflict, Damaged
from turnlog.fork import children_of, fork_point
from turnlog.ids import format_id, new_id
from turnlog.log.log import Log, Window
from turnlog.log.segments import create_segment, first_fields, list_segments
from turnlog.repair.repair import plan_session
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog import Session


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


@pytest.fixture
def family(tmp_path: Path) -> tuple[damage.Victim, str]:
    """Return a closed parent of several segments and a closed fork of it at its ordinal 30."""
    victim = damage.Victim(tmp_path / "store")
    with Store.open(victim.store) as store:
        child = store.fork(victim.session, 30)
        child.append("note.written", {"own": 1})
    return victim, child.id


def open_fork(victim: damage.Victim, child: str) -> Log:
    return Log(names.session_dir(victim.store, child), child)


def test_without_its_parent_a_fork_serves_its_own_events_and_names_the_parent(
    family: tuple[damage.Victim, str],
) -> None:
    victim, child = family
    shutil.rmtree(victim.folder)
    with Store.open(victim.store, read_only=True) as store:
        session = store.session(child)
        assert ordinals(session.events(after=30)) == [31, 32]
        assert ordinals(session.events(reverse=True, limit=2)) == [32, 31]
        for read in (
            session.events(),
            session.events(after=29),
            session.events(before=3),
            session.events(reverse=True),
        ):
            with pytest.raises(Damaged, match=victim.session):
                list(read)
        log = session.log()
        assert ordinals(log.events(Window(12, None, None, "skip"))) == [31, 32]
        assert [error.lost for error in log.damage] == [(13, 30)]
        assert store.parent(child).session == victim.session  # type: ignore[union-attr]
    check = check_session(victim.store, child)
    assert (check.ok, check.verdict) == (False, "LOST_DATA")
    assert [(finding["code"], finding["lost"]) for finding in check.findings] == [("parent", [1, 30])]


def test_a_fork_without_its_parent_can_still_be_written(family: tuple[damage.Victim, str]) -> None:
    victim, child = family
    shutil.rmtree(victim.folder)
    with Store.open(victim.store) as store:
        assert store.session(child).append("note.written", {}).ordinal == 33


def test_a_parent_with_another_history_is_not_taken_for_the_one_that_was_forked(
    family: tuple[damage.Victim, str], tmp_path: Path
) -> None:
    victim, child = family
    shutil.rmtree(victim.folder)
    with Store.open(victim.store) as store:
        other = store.create(id=victim.session)
        fill(other, 50)
    with Store.open(victim.store, read_only=True) as store:
        session = store.session(child)
        assert ordinals(session.events(after=30)) == [31, 32]
        for read in (session.events(), session.events(after=12, before=14), session.events(reverse=True)):
            with pytest.raises(Damaged, match=f"{victim.session} has another history"):
                list(read)
    check = check_session(victim.store, child)
    assert [(finding["verdict"], finding["code"]) for finding in check.findings] == [("TAMPERED", "parent")]
    assert check.findings[0]["next"] == [f"sessionctl verify {victim.session}"]
    assert check_session(victim.store, victim.session).ok


def test_a_parent_that_is_cut_short_is_damage_of_the_inherited_part(family: tuple[damage.Victim, str]) -> None:
    victim, child = family
    for path in victim.segments()[1:]:
        os.unlink(path)
    last = max(victim.held_by(victim.segments()[0]))
    with Store.open(victim.store, read_only=True) as store:
        session = store.session(child)
        assert ordinals(session.events(on_damage="skip")) == [*range(1, last + 1), 31, 32]
        assert ordinals(session.events(on_damage="skip", reverse=True)) == [32, 31, *range(last, 0, -1)]
        with pytest.raises(Damaged) as caught:
            list(session.events())
        assert (caught.value.session, caught.value.lost) == (victim.session, (last + 1, 30))
    assert not check_session(victim.store, child).ok


def test_damage_of_the_parent_behind_the_fork_is_not_the_forks(family: tuple[damage.Victim, str]) -> None:
    victim, child = family
    lost = damage.flipped_in_the_newest(victim)
    assert min(lost) > 30
    with Store.open(victim.store, read_only=True) as store:
        assert ordinals(store.session(child).events()) == list(range(1, 33))
    assert check_session(victim.store, child).ok


def test_a_parent_put_back_from_an_older_copy_ends_too_early(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        parent = store.create()
        fill(parent, 9)
        parent.close()
        shutil.copytree(folder(store, parent.id), tmp_path / "copy")
        fill(store.session(parent.id), 10)
        child = store.fork(parent.id)
    shutil.rmtree(folder(store, parent.id))
    shutil.copytree(tmp_path / "copy", folder(store, parent.id))
    with Store.open(tmp_path / "store", read_only=True) as store:
        session = store.session(child.id)
        with pytest.raises(Damaged) as caught:
            list(session.events(after=4))
        assert (caught.value.session, caught.value.lost) == (parent.id, (11, 20))
        assert ordinals(session.events(after=4, before=11)) == [5, 6, 7, 8, 9, 10]
        assert ordinals(session.events(on_damage="skip", reverse=True)) == [21, *range(10, 0, -1)]
    assert [finding["code"] for finding in check_session(store.path, child.id).findings] == ["parent"]


def test_damage_right_behind_the_fork_ordinal_is_not_the_forks(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        parent = store.create()
        fill(parent, 30)
        child = store.fork(parent, 12)
        parent.close()
        (file,) = list_segments(folder(store, parent.id))
        damage.flip(file.path, parent_offset(store, parent.id, 13) + 150)
        assert ordinals(child.events()) == list(range(1, 14))
        assert ordinals(child.events(types=["note.written"])) == list(range(2, 13))
        assert ordinals(child.events(reverse=True)) == list(range(13, 0, -1))
        assert check_session(store.path, child.id).ok


def parent_offset(store: Store, session_id: str, ordinal: int) -> int:
    """Return where an event lies in its segment."""
    return store.session(session_id).event(ordinal).offset


def test_damage_of_the_parent_before_the_fork_is_named_and_passed(family: tuple[damage.Victim, str]) -> None:
    victim, child = family
    lost = damage.flipped_payload(victim)
    assert max(lost) <= 30
    with Store.open(victim.store, read_only=True) as store:
        session = store.session(child)
        with pytest.raises(Damaged) as caught:
            list(session.events())
        assert caught.value.session == victim.session
        assert ordinals(session.events(on_damage="skip")) == [n for n in range(1, 33) if n not in lost]
        assert ordinals(session.events(after=max(lost))) == list(range(max(lost) + 1, 33))


@pytest.mark.parametrize("injury", [damage.flipped_payload, damage.missing_first, damage.two_missing])
def test_a_repaired_parent_serves_its_forks_what_is_left(
    family: tuple[damage.Victim, str], injury: damage.Injury
) -> None:
    victim, child = family
    lost = injury(victim)
    assert plan_session(victim.store, victim.session, witness=victim.witness()).apply().ok
    with Store.open(victim.store, read_only=True) as store:
        left = [ordinal for ordinal in range(1, 33) if ordinal not in lost or ordinal > 30]
        assert ordinals(store.session(child).events()) == left
        assert ordinals(store.session(child).events(reverse=True)) == left[::-1]
    check = check_session(victim.store, child)
    assert check.ok, check.findings


def test_a_fork_that_lost_its_header_is_repaired_with_its_lineage(family: tuple[damage.Victim, str]) -> None:
    victim, child = family
    origin = open_fork(victim, child).origin()
    path = list_segments(names.session_dir(victim.store, child))[0].path
    for copy in (0, 2048):
        damage.flip(path, copy + 200)
    assert not check_session(victim.store, child).ok
    check = plan_session(victim.store, child).apply()
    assert check.ok, check.findings
    assert open_fork(victim, child).origin() == origin
    with Store.open(victim.store, read_only=True) as store:
        assert ordinals(store.session(child).events()) == list(range(1, 33))


def test_a_compacted_parent_is_still_the_one_that_was_forked(family: tuple[damage.Victim, str]) -> None:
    victim, child = family
    compact_session(victim.store, victim.session)
    assert any(file.compacted for file in list_segments(victim.folder))
    with Store.open(victim.store, read_only=True) as store:
        assert ordinals(store.session(child).events()) == list(range(1, 33))
        assert ordinals(store.session(child).events(reverse=True)) == list(range(32, 0, -1))
    assert check_session(victim.store, child, full=True).ok


def test_a_lineage_in_a_circle_is_damage_and_ends(store: Store, parent: Session) -> None:
    child = store.fork(parent, 5)
    parent.close()
    for path in (file.path for file in list_segments(folder(store, parent.id))):
        os.unlink(path)
    origin = fork_point(store.session(child.id), 6).origin
    create_segment(folder(store, parent.id), first_fields(parent.id, origin=origin))
    with pytest.raises(Damaged, match="circle"):
        list(store.session(child.id).events())
    assert ordinals(store.session(child.id).events(after=5)) == [6]


def test_lineage_is_visible_from_both_sides(store: Store, parent: Session) -> None:
    child, other = store.fork(parent, 5), store.fork(parent, 6)
    grandchild = store.fork(child)
    subagent = store.create(parent=parent.id)
    origin = store.parent(child.id)
    assert origin is not None
    assert (origin.session, origin.ordinal, origin.chain) == (parent.id, 5, parent.log().chain_at(5))
    assert store.parent(parent.id) is None
    assert store.parent(subagent.id) is None
    assert set(store.children(parent.id)) == {child.id, other.id}
    assert store.children(child.id) == [grandchild.id]
    assert children_of(store.path, parent.id) == sorted([child.id, other.id])
    assert children_of(store.path, grandchild.id) == []


def test_a_parent_is_not_said_to_be_childless_while_a_lineage_cannot_be_read(store: Store, parent: Session) -> None:
    child = store.fork(parent, 5)
    damage.edit(list_segments(folder(store, child.id))[0].path, 0, bytes(4096))
    with pytest.raises(Damaged, match=child.id):
        children_of(store.path, parent.id)


def test_the_row_of_a_fork_counts_its_own_events_and_begins_with_the_parents_settings(
    store: Store, parent: Session
) -> None:
    parent.append("step.completed", {"usage": {"input": 100, "output": 10}})
    plain = store.fork(parent)
    given_ = store.fork(parent, title="renamed", model="provider/y")
    index = store.index()
    row, other = index.get(plain.id), index.get(given_.id)
    assert row is not None
    assert other is not None
    shown = ("title", "cwd", "model", "parent", "fork_ordinal", "head_ordinal", "events", "tokens_input", "damaged")
    assert [row[name] for name in shown] == ["the first", "/src", "provider/x", parent.id, 41, 42, 1, 0, False]
    assert [other[name] for name in shown] == ["renamed", "/src", "provider/y", parent.id, 41, 43, 2, 0, False]


def test_a_rebuilt_index_has_the_same_rows_of_forks(store: Store, parent: Session) -> None:
    child = store.fork(parent, 12, title="one")
    fill(child, 5)
    store.fork(child, 14)
    store.flush()
    index = store.index()
    before = {row["id"]: row for row in index.list()[0]}
    parents_children = store.children(parent.id)
    index.rebuild()
    assert {row["id"]: row for row in index.list()[0]} == before
    assert store.children(parent.id) == parents_children == [child.id]


def test_the_same_id_counts_within_the_forks_own_events(store: Store, parent: Session) -> None:
    child = store.fork(parent)
    chosen = format_id(new_id())
    first = child.append("note.written", {"a": 1}, id=chosen)
    assert child.append("note.written", {"a": 1}, id=chosen).ordinal == first.ordinal
    with pytest.raises(Conflict):
        child.append("note.written", {"a": 2}, id=chosen)
