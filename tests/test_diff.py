"""The difference of two sessions: by lineage first, then by content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.forks import fill, ordinals
from turnlog import Store
from turnlog.diff import diff

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


def test_the_difference_of_two_forks_begins_at_their_common_point(store: Store, parent: Session) -> None:
    a, b = store.fork(parent, 20), store.fork(parent, 12)
    fill(a, 3)
    found = diff(store, a.id, b.id)
    assert (found.ancestor, found.ordinal, found.equal) == (parent.id, 12, False)
    assert ordinals(found.only_a()) == list(range(13, 25))
    assert ordinals(found.only_b()) == [13]


def test_the_difference_of_a_fork_and_its_grandparent_is_found_through_the_lineage(
    store: Store, parent: Session
) -> None:
    child = store.fork(parent, 20)
    grandchild = store.fork(child, 8)
    cousin = store.fork(child)
    assert (diff(store, grandchild.id, parent.id).ancestor, diff(store, grandchild.id, parent.id).ordinal) == (
        parent.id,
        8,
    )
    assert (diff(store, cousin.id, grandchild.id).ancestor, diff(store, cousin.id, grandchild.id).ordinal) == (
        child.id,
        8,
    )


def test_a_session_equals_itself(store: Store, parent: Session) -> None:
    found = diff(store, parent.id, parent.id[:20])
    assert (found.ancestor, found.ordinal, found.equal) == (parent.id, 40, True)


def test_sessions_without_a_common_ancestor_are_compared_by_content(store: Store) -> None:
    a, b = store.create(), store.create()
    for session in (a, b):
        session.append_many([("note.written", {"n": number}) for number in range(5)])
    found = diff(store, a.id, b.id)
    assert (found.ancestor, found.ordinal, found.equal) == (None, 6, True)
    a.append("note.written", {"more": 1})
    found = diff(store, a.id, b.id)
    assert (found.ordinal, found.equal, ordinals(found.only_a()), ordinals(found.only_b())) == (6, False, [7], [])
