"""A log that is cut after any byte of a turn: resume always succeeds, says what is open, and gives a valid history.

Method: one turn with two tool calls is written as a buffered tail behind a durable beginning; its bytes are then cut
at each length, as a kill leaves them, and each rest is resumed twice.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.turns import STANDINGS, TURN
from turnlog import Store, names
from turnlog.history.check import problems
from turnlog.history.history import SHAPES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog.session import Session

SESSION = "0196aaaa-0000-7000-8000-00000000000a"


class Cuts:
    """The bytes of a segment with one turn, and a store for each rest of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with Store.open(folder / "whole") as store, store.create(id=SESSION, title="report") as session:
            for type, payload in TURN:
                session.append(type, payload, durability="buffered")
            path, end = session._visible() or ("", 0)
            with open(path, "rb") as file:
                self.data = file.read(end)
            self.name = path.rsplit("/", 1)[1]
            self.ends = [*[event.offset for event in session.events()][1:], end]
        self.first = self.ends[0]

    def store(self, length: int, zeros: int) -> Store:
        folder = self.folder / "cut"
        shutil.rmtree(folder, ignore_errors=True)
        store = Store.open(folder)
        path = folder / names.SESSIONS / names.shard(SESSION) / SESSION
        path.mkdir(parents=True)
        (path / self.name).write_bytes(self.data[:length] + bytes(zeros))
        return store

    def events(self, length: int) -> int:
        """How many events of the turn lie whole below a length."""
        return sum(1 for end in self.ends[1:] if end <= length)


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuts]:
    folder = tmp_path_factory.mktemp("cuts")
    yield Cuts(folder)
    shutil.rmtree(folder)


def classes(session: Session) -> dict[str, str]:
    recovery = session.recovery
    assert recovery is not None
    return {call.call_id: call.standing for call in (*recovery.reused, *recovery.retryable, *recovery.unknown)}


def check(cuts: Cuts, length: int, zeros: int = 0) -> None:
    events = cuts.events(length)
    first, second, cut_short = STANDINGS[events]
    expected = {name: found for name, found in (("c1", first), ("c2", second)) if found is not None}
    with cuts.store(length, zeros) as store:
        session = store.resume(SESSION)
        recovery = session.recovery
        assert recovery is not None
        assert (recovery.interrupted is not None) == cut_short, length
        assert classes(session) == (expected if cut_short else {}), length
        for shape in SHAPES:
            assert problems(shape, session.history(shape)) == [], (length, shape)
        head = session.head()
        session.close()
        again = store.resume(SESSION)
        assert again.head() == head, length
        assert classes(again) == (expected if cut_short else {}), length
        assert again.recovery is not None
        assert again.recovery.repaired == [], length


def lengths(cuts: Cuts, step: int) -> list[int]:
    return sorted({*range(cuts.first, len(cuts.data), step), *cuts.ends})


@pytest.mark.timeout(300)
def test_every_event_boundary_and_every_31st_byte(cuts: Cuts) -> None:
    assert [cuts.events(length) for length in cuts.ends] == list(range(len(TURN) + 1))
    for length in lengths(cuts, 31):
        check(cuts, length)


def test_a_tail_of_zeros_behind_the_cut_changes_nothing(cuts: Cuts) -> None:
    for length in lengths(cuts, 257):
        check(cuts, length, zeros=4096)


def test_a_resume_that_repairs_nothing_is_caught(cuts: Cuts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnlog.resume.dangling.repairs", lambda *_given: [])
    with pytest.raises(AssertionError):
        check(cuts, cuts.ends[7])


def test_a_resume_that_takes_a_started_call_for_a_new_one_is_caught(
    cuts: Cuts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnlog.resume.dangling.standing", lambda *_given: "not_started")
    with pytest.raises(AssertionError):
        check(cuts, cuts.ends[7])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_byte_of_the_turn(cuts: Cuts) -> None:
    for length in lengths(cuts, 1):
        check(cuts, length)
