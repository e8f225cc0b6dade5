"""Goal: a reader beside a live writer takes no frame that is just being written for damage. Method: a frame in the
middle is zeroed until a reader has met it, as when its bytes arrive after a reader looked and others behind it came.
Control: a frame that stays away is damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store, _core
from turnlog.errors import Damaged
from turnlog.log.segments import list_segments
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from turnlog import Session

EVENTS = 20
LATE = 12


class Late:
    """A frame of a session that is open for writing: away, and back once a reader has met its place."""

    def __init__(self, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
        late, real = self, _core.SegmentReader
        self.path = list_segments(session.log().directory)[-1].path
        with real(self.path) as reader:
            at = [_core.HEADER_BYTES]
            while len(at) <= LATE:
                at.append(reader.replay(at[-1], len(at), limit=1)[1])
        self.start, self.stop = at[LATE - 1], at[LATE]
        self.arrives = True
        self.met = 0
        with open(self.path, "r+b") as file:
            file.seek(self.start)
            self.frame = file.read(self.stop - self.start)
        self._write(bytes(len(self.frame)))

        class Reader:
            def __init__(self, path: str, known_id: bytes | None = None) -> None:
                self.real = real(path, known_id)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.real, name)

            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                self.real.close()

            def replay(self, *arguments: Any, **more: Any) -> Any:
                answer = self.real.replay(*arguments, **more)
                late.note(answer[5])
                return answer

            def scan(self, **more: Any) -> Any:
                found = self.real.scan(**more)
                late.note(*found["faults"])
                return found

        monkeypatch.setattr(_core, "SegmentReader", Reader)

    def note(self, *faults: Any) -> None:
        """The frame comes back behind a reader that met its place."""
        if any(fault is not None for fault in faults):
            self.met += 1
            if self.arrives:
                self._write(self.frame)

    def _write(self, data: bytes) -> None:
        with open(self.path, "r+b") as file:
            file.seek(self.start)
            file.write(data)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as store:
        yield store


@pytest.fixture
def late(store: Store, monkeypatch: pytest.MonkeyPatch) -> Late:
    session = store.create()
    for number in range(2, EVENTS + 1):
        session.append("message.user", {"content": f"{number}"})
    return Late(session, monkeypatch)


def ordinals(store: Store, *, follow: bool = False) -> list[int]:
    """Return what a reader in another process would see."""
    with Store.open(store.path, read_only=True) as other:
        session = other.session(store.session_ids()[0])
        events = session.follow(timeout_ms=100) if follow else session.events()
        return [event.ordinal for event in events]


def test_reading_stops_before_a_frame_that_is_being_written(store: Store, late: Late) -> None:
    assert ordinals(store) == list(range(1, LATE))
    assert late.met
    assert ordinals(store) == list(range(1, EVENTS + 1))


def test_following_goes_on_with_a_frame_that_was_being_written(store: Store, late: Late) -> None:
    assert ordinals(store, follow=True) == list(range(1, EVENTS + 1))
    assert late.met


def test_the_index_is_not_told_of_damage_that_was_a_write(store: Store, late: Late) -> None:
    with Store.open(store.path) as other:
        row = other.list()[0][0]
    assert late.met
    assert (row["damaged"], row["head_ordinal"], row["messages"]) == (False, EVENTS, EVENTS - 1)


def test_a_check_looks_again_at_what_a_live_writer_writes(store: Store, late: Late) -> None:
    check = check_session(store.path, store.session_ids()[0])
    assert late.met
    assert (check.ok, check.events) == (True, EVENTS)


def test_control_a_frame_that_stays_away_is_damage(store: Store, late: Late) -> None:
    late.arrives = False
    with pytest.raises(Damaged):
        ordinals(store)
    assert not check_session(store.path, store.session_ids()[0]).ok
    with Store.open(store.path) as other:
        assert other.list()[0][0]["damaged"]


def test_what_another_process_writes_is_synced_after_it_was_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.create().append("message.user", {"content": "x"})
    calls: list[str] = []
    real = _core.SegmentReader

    class Reader:
        def __init__(self, path: str, known_id: bytes | None = None) -> None:
            self.real = real(path, known_id)

        def __getattr__(self, name: str) -> Any:
            if name in {"replay", "sync"}:
                calls.append(name)
            return getattr(self.real, name)

    monkeypatch.setattr(_core, "SegmentReader", Reader)
    for follow in (False, True):
        calls.clear()
        assert ordinals(store, follow=follow) == [1, 2]
        assert "sync" in calls[calls.index("replay") :]
