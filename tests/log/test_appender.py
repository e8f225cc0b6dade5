"""Goal: opening a session for writing follows FORMAT.md section 6, and a roll never leaves a hole. Method: a store is
copied while its writer is at work, which is what a crash leaves; the last append is put behind it in part; the process
then also dies at each step of the opening. The judgement itself is under test in test_recovery.py.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.powercut import until_done
from turnlog import Store, _core, disk, names
from turnlog.errors import Locked, NoSpace, ReadOnly
from turnlog.log.appender import Appender
from turnlog.log.segments import list_segments
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

ROLL_BYTES = 1 << 20
TAILS = ["TORN_TAIL", "SUSPECT_TAIL", "UNCOMMITTED"]


class Crashed:
    """A session whose writer died in the middle of an append: `tail` is what reached the disk of it, at `end`."""

    def __init__(self, folder: Path, kind: str = "") -> None:
        self.store = str(folder / "store")
        with Store.open(folder / "writing") as store:
            session = store.create()
            session.append("note.written", {"n": 1})
            self.session = session.id
            shutil.copytree(store.path, self.store)
            before = session._written_head() or {}
            self.end: int = before["end"]
            session.append_many([("note.written", {"text": "x" * 2000}), ("note.written", {})], atomic=True)
            frames = Path(before["path"]).read_bytes()[self.end : session.event(4).offset]
        self.directory = names.session_dir(self.store, self.session)
        self.path = Path(list_segments(self.directory)[0].path)
        changed = bytearray(frames)
        changed[300] ^= 1
        self.tail: bytes = {"TORN_TAIL": frames[:700], "SUSPECT_TAIL": bytes(changed), "UNCOMMITTED": frames}.get(
            kind, b""
        )
        with self.path.open("r+b") as file:
            file.seek(self.end)
            file.write(self.tail)

    def open(self) -> Appender:
        return Appender.open(self.store, self.session, _core.Committer(self.store), roll_bytes=ROLL_BYTES, witness=None)

    def reopen(self) -> None:
        self.open().close()

    def kept(self) -> list[bytes]:
        """Return what lies in quarantine under its final name."""
        files = Path(self.store, names.QUARANTINE).rglob("*-*")
        return [file.read_bytes() for file in files if file.is_file() and file.suffix != names.TEMP_SUFFIX]

    def holds_tail(self) -> bool:
        return self.path.read_bytes()[self.end : self.end + len(self.tail)] == self.tail

    def ordinals(self) -> list[int]:
        with Store.open(self.store, read_only=True) as store:
            return [event.ordinal for event in store.session(self.session).events()]


class Recorder:
    """Notes the steps of an opening in order: what is asked of readers, and what is done to the disk."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        steps, real = self.steps, _core.SegmentReader

        class Reader:
            def __init__(self, *arguments: Any) -> None:
                self.real = real(*arguments)

            def __getattr__(self, name: str) -> Any:
                if name in {"sync", "drop_cache", "scan"}:
                    steps.append(name)
                return getattr(self.real, name)

            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                self.real.close()

        monkeypatch.setattr(_core, "SegmentReader", Reader)
        for name in ("create_file", "cut"):
            monkeypatch.setattr(disk, name, self._noted(name, getattr(disk, name)))

    def _noted(self, name: str, call: Any) -> Any:
        def noted(path: str, *arguments: Any) -> None:
            suffix = " segment" if path.endswith(names.RAW_SUFFIX) else ""
            call(path, *arguments)
            self.steps.append(name + suffix)

        return noted


@pytest.mark.parametrize("kind", TAILS)
def test_an_unfinished_tail_is_kept_and_cut_and_a_new_segment_begun(tmp_path: Path, kind: str) -> None:
    crashed = Crashed(tmp_path, kind)
    appender = crashed.open()
    assert appender.recovered is not None
    assert appender.recovered.verdict == kind
    assert appender.append("note.written", {}, None, durable=True).ordinal == 3
    appender.close()
    assert crashed.kept() == [crashed.tail]
    assert crashed.path.stat().st_size == crashed.end
    assert crashed.ordinals() == [1, 2, 3]
    assert check_session(crashed.store, crashed.session, full=True).verdict == "CLEAN"


@pytest.mark.parametrize("kind", TAILS)
def test_nothing_is_decided_before_a_sync_and_nothing_cut_before_its_copy_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    crashed = Crashed(tmp_path, kind)
    recorder = Recorder(monkeypatch)
    crashed.reopen()
    assert recorder.steps[:6] == ["sync", "drop_cache", "scan", "create_file", "cut segment", "create_file segment"]


@pytest.mark.parametrize("kind", ["", *TAILS])
def test_a_death_at_any_step_of_opening_loses_neither_events_nor_the_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    crashed = Crashed(tmp_path, kind)
    deaths, opened = 0, list[Appender]()
    for _ in until_done(monkeypatch, lambda: opened.append(crashed.open())):
        deaths += 1
        assert crashed.holds_tail() or crashed.kept() == [crashed.tail]
        assert crashed.ordinals() == [1, 2]
        assert check_session(crashed.store, crashed.session).verdict in {kind or "CLEAN", "CLEAN"}
    opened[0].close()
    assert deaths > 3
    assert crashed.kept() == ([crashed.tail] if crashed.tail else [])
    assert crashed.ordinals() == [1, 2]


def test_a_segment_left_by_a_dead_writer_is_never_appended_to(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path)
    appender = crashed.open()
    appender.append("note.written", {}, None, durable=True)
    appender.close()
    assert crashed.path.stat().st_size == crashed.end
    first, second = list_segments(crashed.directory)
    assert (first.path, second.first_ordinal) == (str(crashed.path), 3)


def test_every_opening_raises_the_epoch(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path)
    epochs = []
    for _ in range(3):
        crashed.reopen()
        with _core.SegmentReader(list_segments(crashed.directory)[-1].path) as reader:
            epochs.append(reader.scan()["epoch"])
    assert epochs == [2, 3, 4]


def test_after_an_orderly_close_the_same_segment_goes_on_behind_an_open_frame(tmp_path: Path) -> None:
    crashed = Crashed(tmp_path)
    crashed.reopen()
    before = [file.path for file in list_segments(crashed.directory)]
    size = os.path.getsize(before[-1])
    crashed.reopen()
    assert [file.path for file in list_segments(crashed.directory)] == before
    frame = Path(before[-1]).read_bytes()[size:]
    assert frame[5] == _core.KIND_OPEN


@pytest.fixture
def rolling(tmp_path: Path) -> Iterator[Appender]:
    """Return a new session's writer that has filled its first segment."""
    session_id = "0192f0c4-7a1b-7c3d-8e4f-0123456789ab"
    appender = Appender.create(str(tmp_path), session_id, _core.Committer(str(tmp_path)), roll_bytes=8192)
    appender.append("note.written", {"text": "x" * 5000}, None, durable=True)
    yield appender
    appender.abandon()


@pytest.fixture(autouse=True)
def _sessions(tmp_path: Path) -> None:
    (tmp_path / names.SESSIONS).mkdir()


def sealed(appender: Appender) -> list[bool]:
    """Tell of each segment whether it ends in a SEAL frame."""
    states = []
    for file in list_segments(appender.directory):
        with _core.SegmentReader(file.path) as reader:
            states.append(reader.scan()["seal"] is not None)
    return states


def test_the_successor_exists_durably_before_the_full_segment_is_sealed(
    rolling: Appender, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[list[bool]] = []
    real = disk.create_file

    def create(path: str, *arguments: Any) -> None:
        states.append(sealed(rolling))
        real(path, *arguments)
        states.append(sealed(rolling))

    monkeypatch.setattr(disk, "create_file", create)
    assert rolling.append("note.written", {}, None, durable=True).ordinal == 2
    assert [*states, sealed(rolling)] == [[False], [False, False], [True, False]]


class LateWriter:
    """The writer that an append looked up before another thread rolled: it is sealed when the append arrives."""

    def __init__(self, appender: Appender) -> None:
        self.appender = appender
        self.real: Any = appender._writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def _seal(self) -> None:
        self.appender._writer = self.real
        self.appender._roll(self.real)

    def append(self, *args: Any) -> Any:
        self._seal()
        return self.real.append(*args)

    def append_many(self, *args: Any) -> Any:
        self._seal()
        return self.real.append_many(*args)


@pytest.mark.parametrize("many", [False, True])
def test_an_append_that_arrives_after_another_threads_roll_goes_to_the_successor(rolling: Appender, many: bool) -> None:
    late: Any = LateWriter(rolling)
    before = rolling.head()["ordinal"]
    rolling._writer = late
    if many:
        items: list[Any] = [("note.written", {"n": n}, None, False) for n in range(2)]
        ordinals = [receipt.ordinal for receipt in rolling.append_many(items, durable=True, atomic=True)]
    else:
        ordinals = [rolling.append("note.written", {}, None, durable=True).ordinal]
    assert ordinals[0] == before + 1
    assert rolling._writer is not late.real


def test_a_roll_without_space_is_refused_and_tried_again(rolling: Appender, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, *arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, "create_file", full)
        for _ in range(2):
            with pytest.raises(NoSpace) as caught:
                rolling.append("note.written", {}, None, durable=True)
            assert caught.value.session == rolling.session_id
    assert rolling.append("note.written", {}, None, durable=True).ordinal == 2
    assert sealed(rolling) == [True, False]


def test_no_segment_is_begun_without_the_lock(rolling: Appender) -> None:
    Path(rolling.directory, names.LOCK).unlink()
    with pytest.raises(Locked):
        rolling.append("note.written", {}, None, durable=True)
    assert sealed(rolling) == [False]


def test_a_session_whose_last_segment_but_one_is_missing_is_read_only(rolling: Appender, tmp_path: Path) -> None:
    for _ in range(6):
        rolling.append("note.written", {"text": "x" * 5000}, None, durable=True)
    rolling.close()
    files = list_segments(rolling.directory)
    os.unlink(files[-2].path)
    with pytest.raises(ReadOnly, match="segment before the newest"):
        Appender.open(str(tmp_path), rolling.session_id, _core.Committer(str(tmp_path)), roll_bytes=8192, witness=None)
