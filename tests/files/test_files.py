"""Goal: a change that somebody else made to a file is told, and no file that is unchanged is called changed.

Method: real files and every way to change one behind the cache's back; the system's refusals and clocks are faked.
"""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import _core
from turnlog.errors import InvalidInput, NotFound, StorageError
from turnlog.files import file_state, files
from turnlog.files.files import FileCache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Clock:
    """The monotonic clock, moved by hand."""

    def __init__(self) -> None:
        self.offset_ns = 0

    def __call__(self) -> int:
        return time.perf_counter_ns() + self.offset_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(time, "monotonic_ns", moved)
    return moved


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file.txt"
    path.write_text("content one")
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note every reading of content."""
    noted: list[str] = []
    original = file_state.read_file

    def read(name: str) -> tuple[str, os.stat_result, bool]:
        noted.append(name)
        return original(name)

    monkeypatch.setattr(files, "read_file", read)
    return noted


def keep_times(path: Path, change: Callable[[], object]) -> None:
    """Make a change and set the modification time back."""
    before = path.stat()
    change()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_rename(path: Path, content: str) -> None:
    other = path.with_name("other")
    other.write_text(content)
    other.rename(path)


def become(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


CHANGES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "none": (lambda path: None, None),
    "longer": (lambda path: path.write_text("longer than before"), "modified"),
    "same size": (lambda path: path.write_text("content two"), "modified"),
    "same size and time": (lambda path: keep_times(path, lambda: path.write_text("content two")), "modified"),
    "written again": (lambda path: path.write_text("content one"), None),
    "touched": (os.utime, None),
    "other mode": (lambda path: path.chmod(0o640), None),
    "unlinked": (os.unlink, "deleted"),
    "renamed over": (lambda path: replace_by_rename(path, "content two"), "replaced"),
    "renamed over, longer": (lambda path: replace_by_rename(path, "something longer"), "replaced"),
    "renamed over, same time": (
        lambda path: keep_times(path, lambda: replace_by_rename(path, "content two")),
        "replaced",
    ),
    "renamed over, same content": (lambda path: replace_by_rename(path, "content one"), None),
    "a folder": (lambda path: become(path, os.mkdir), "type_changed"),
    "a pipe": (lambda path: become(path, os.mkfifo), "type_changed"),
}


@pytest.mark.parametrize("settle", [True, False], ids=["settled", "in doubt"])
@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_told(
    file: Path, clock: Clock, change: Callable[[Path], object], reason: str | None, settle: bool
) -> None:
    cache = FileCache()
    cache.mark_read(file)
    if settle:
        clock.offset_ns += file_state.RACY_NS
        assert cache.has_external_modification(file) is None
        assert cache.recent()[0].settled
    change(file)
    assert cache.has_external_modification(file) == reason
    assert cache.has_external_modification(file) == reason  # asking changes nothing
    assert FileCache.from_snapshot(cache.to_snapshot()).has_external_modification(file) == reason


def test_an_edit_that_leaves_size_and_all_times_is_found_while_the_state_is_in_doubt(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = FileCache()
    cache.mark_read(file)
    frozen = os.stat(file)
    file.write_text("content two")  # within one tick of a coarse clock: the file system says what it said before
    original = os.stat
    monkeypatch.setattr(os, "stat", lambda path: frozen if str(path) == str(file) else original(path))
    monkeypatch.setattr(os, "fstat", lambda _: frozen)
    assert cache.has_external_modification(file) == "modified"
    state = cache.recent()[0]
    state.settled = True  # control: times alone do not show it
    assert cache.has_external_modification(file) is None


def test_a_settled_file_is_not_read_again(file: Path, clock: Clock, reads: list[str]) -> None:
    cache = FileCache()
    cache.mark_read(file)
    cache.has_external_modification(file)
    assert len(reads) == 2  # just written: in doubt
    clock.offset_ns += file_state.RACY_NS
    cache.has_external_modification(file)
    assert len(reads) == 3
    for _ in range(5):
        assert cache.has_external_modification(file) is None
    assert len(reads) == 3


def test_a_file_that_is_a_day_old_is_settled_at_once(
    file: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    later_ns = time.time_ns() + file_state.SKEW_MAX_NS + 1
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    cache = FileCache()
    cache.mark_read(file)
    assert cache.has_external_modification(file) is None
    assert len(reads) == 1


@pytest.mark.parametrize("skew_s", [-3600, -3, 3, 3600])
def test_a_file_server_with_another_clock_settles_nothing_too_early(
    file: Path, clock: Clock, skew_s: int, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda now=time.time_ns: now() - skew_s * 1_000_000_000)
    cache = FileCache()
    cache.mark_read(file)
    cache.has_external_modification(file)
    assert not cache.recent()[0].settled
    clock.offset_ns += file_state.RACY_NS
    cache.has_external_modification(file)
    assert cache.recent()[0].settled
    assert len(reads) == 3


def test_a_time_in_the_future_is_no_proof_and_no_change(file: Path) -> None:
    ahead_ns = time.time_ns() + 10 * file_state.SKEW_MAX_NS
    os.utime(file, ns=(ahead_ns, ahead_ns))
    cache = FileCache()
    cache.mark_read(file)
    assert not cache.recent()[0].settled
    assert cache.has_external_modification(file) is None
    keep_times(file, lambda: file.write_text("content two"))
    assert cache.has_external_modification(file) == "modified"


def test_a_write_of_the_agent_is_no_external_change(file: Path) -> None:
    cache = FileCache()
    cache.mark_read(file)
    file.write_text("the agent's")
    cache.mark_written(file)
    assert cache.has_external_modification(file) is None
    assert [(state.path, state.written) for state in cache.recent()] == [(str(file), True)]


def test_a_change_between_the_callers_reading_and_the_mark_is_found(file: Path, clock: Clock) -> None:
    shown = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_text("content two")
    cache = FileCache()
    cache.mark_read(file, shown)
    clock.offset_ns += file_state.RACY_NS
    assert cache.has_external_modification(file) == "modified"
    cache.mark_read(file, hashlib.sha256(b"content two").hexdigest())
    assert cache.has_external_modification(file) is None


def test_a_file_that_changes_while_it_is_read_is_in_doubt(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.pread

    def pread(descriptor: int, length: int, offset: int) -> bytes:
        data = original(descriptor, length, offset)
        with open(file, "a", encoding="utf-8") as other:
            other.write("!")
        return data if offset == 0 else b""

    monkeypatch.setattr(os, "pread", pread)
    cache = FileCache()
    cache.mark_read(file)
    assert not cache.recent()[0].certain
    monkeypatch.undo()
    assert cache.has_external_modification(file) == "modified"


def test_a_symlink_that_leads_elsewhere_is_a_replacement_whatever_is_there(tmp_path: Path, file: Path) -> None:
    link, twin = tmp_path / "link", tmp_path / "twin"
    twin.write_text("content one")
    link.symlink_to(file)
    cache = FileCache()
    cache.mark_read(link)
    assert cache.has_external_modification(link) is None
    link.unlink()
    link.symlink_to(twin)
    assert cache.has_external_modification(link) == "replaced"


def test_a_change_behind_a_symlink_is_a_change_and_a_broken_one_a_deletion(tmp_path: Path, file: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    cache = FileCache()
    cache.mark_read(link)
    file.write_text("content two")
    assert cache.has_external_modification(link) == "modified"
    file.unlink()
    assert cache.has_external_modification(link) == "deleted"


def test_a_folder_on_the_way_that_leads_elsewhere_is_a_replacement(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("same")
    (tmp_path / "current").symlink_to("one")
    cache = FileCache()
    cache.mark_read(tmp_path / "current" / "file")
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to("two")
    assert cache.has_external_modification(tmp_path / "current" / "file") == "replaced"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_regular_file_cannot_be_marked(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "x")
    with pytest.raises(InvalidInput, match="no regular file"):
        FileCache().mark_read(tmp_path / "x")


def test_a_file_that_is_not_there_cannot_be_marked_and_one_never_marked_not_compared(
    tmp_path: Path, file: Path
) -> None:
    cache = FileCache()
    with pytest.raises(NotFound, match="there is no file"):
        cache.mark_read(tmp_path / "absent")
    with pytest.raises(NotFound, match="neither read nor written"):
        cache.has_external_modification(file)
    with pytest.raises(InvalidInput):
        cache.mark_read(file, "no digest")
    assert file not in cache


@pytest.mark.parametrize("call", ["stat", "open"])
def test_a_refusal_of_the_system_is_an_error_and_never_an_answer(
    file: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = FileCache()
    cache.mark_read(file)

    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(StorageError, match=r"cannot look at .*file\.txt: Permission denied") as caught:
        cache.has_external_modification(file)
    assert caught.value.errno == errno.EACCES
    with pytest.raises(StorageError):
        cache.mark_read(file)
    monkeypatch.undo()
    assert cache.has_external_modification(file) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_any_more_is_an_error(file: Path) -> None:
    cache = FileCache()
    cache.mark_read(file)
    file.chmod(0)
    with pytest.raises(StorageError):
        cache.has_external_modification(file)


def test_the_most_recently_used_come_first_and_the_others_go_first(tmp_path: Path) -> None:
    cache = FileCache(files_max=3)
    paths = [tmp_path / name for name in "abcd"]
    for path in paths[:3]:
        path.write_text(path.name)
        cache.mark_read(path)
    cache.has_external_modification(paths[0])
    assert [os.path.basename(state.path) for state in cache.recent()] == ["a", "c", "b"]
    paths[3].write_text("d")
    cache.mark_written(paths[3])
    assert [os.path.basename(state.path) for state in cache.recent()] == ["d", "a", "c"]
    assert [os.path.basename(state.path) for state in cache.recent(2)] == ["d", "a"]
    assert cache.recent(0) == []
    assert len(cache) == 3
    cache.forget(paths[3])
    assert paths[3] not in cache
    with pytest.raises(InvalidInput):
        FileCache(0)


def test_a_relative_path_is_the_same_file_after_the_folder_changes(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = FileCache()
    monkeypatch.chdir(tmp_path)
    cache.mark_read("file.txt")
    monkeypatch.chdir("/")
    assert file in cache
    assert cache.has_external_modification(file) is None


def test_a_snapshot_gives_the_same_cache_back_and_goes_through_the_log(tmp_path: Path) -> None:
    cache = FileCache()
    names = ["plain", "sp ace", "ünï", os.fsdecode(b"not\xffutf-8")]
    for name in names:
        path = tmp_path / name
        path.write_text(name.encode("utf-8", "surrogateescape").hex())
        (cache.mark_written if name == "plain" else cache.mark_read)(path)
    import json

    snapshot = json.loads(_core.canonical(cache.to_snapshot()))
    again = FileCache.from_snapshot(snapshot)
    assert again.to_snapshot() == cache.to_snapshot()
    assert [state.path for state in again.recent()] == [str(tmp_path / name) for name in reversed(names)]
    assert all(again.has_external_modification(tmp_path / name) is None for name in names)
    assert [os.path.basename(state["path"]) for state in cache.to_snapshot(2)["files"]] == names[:1:-1]
    assert len(FileCache.from_snapshot(snapshot, files_max=2)) == 2


def test_a_changed_file_is_found_by_the_next_process(file: Path) -> None:
    cache = FileCache()
    cache.mark_read(file)
    file.write_text("content two")
    code = "import json,sys; from turnlog.files.files import FileCache as F\n"
    code += "print(F.from_snapshot(json.loads(sys.argv[1])).has_external_modification(sys.argv[2]))"
    import json

    command = [sys.executable, "-c", code, json.dumps(cache.to_snapshot()), str(file)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "modified"


STATE: dict[str, Any] = {
    "path": "/x", "digest": "0" * 64, "size": 1, "mtime_ns": 1, "ctime_ns": 1, "inode": 1, "device": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "snapshot",
    [
        {},
        {"version": 2, "files": []},
        {"version": 1, "files": {}},
        {"version": 1, "files": ["x"]},
        {"version": 1, "files": [{**STATE, "path": "relative"}]},
        {"version": 1, "files": [{**STATE, "path": 5}]},
        {"version": 1, "files": [{**STATE, "digest": "x"}]},
        {"version": 1, "files": [{**STATE, "target": 5}]},
        {"version": 1, "files": [{**STATE, "size": "1"}]},
        {"version": 1, "files": [{**STATE, "mtime_ns": True}]},
        {"version": 1, "files": [{key: value for key, value in STATE.items() if key != "inode"}]},
    ],
)
def test_what_is_no_snapshot_is_refused(snapshot: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        FileCache.from_snapshot(snapshot)


def test_members_of_a_later_version_are_ignored() -> None:
    cache = FileCache.from_snapshot({"version": 1, "files": [{**STATE, "colour": "red"}], "more": 1})
    assert cache.recent()[0].as_payload() == STATE
