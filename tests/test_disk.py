"""The order of durable steps, and typed errors for what the system refuses."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

import pytest

from tests.faults.powercut import until_done
from turnlog import disk
from turnlog.errors import NoSpace, ReadOnly, StorageError, Unsupported

if TYPE_CHECKING:
    from pathlib import Path


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of the durable calls in order."""
    calls: list[str] = []
    for name in ("fdatasync", "fsync", "rename", "pwrite", "ftruncate", "mkdir"):
        real = getattr(os, name)

        def call(*args: object, _name: str = name, _real: object = real) -> object:
            calls.append(_name)
            assert callable(_real)
            return _real(*args)

        monkeypatch.setattr(os, name, call)
    return calls


def test_a_file_is_synced_before_it_gets_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = recorded(monkeypatch)
    disk.create_file(str(tmp_path / "new"), lambda descriptor: disk.write_all(descriptor, b"content", 0))
    assert calls == ["pwrite", "fdatasync", "rename", "fsync"]
    assert (tmp_path / "new").read_bytes() == b"content"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600


def test_a_created_file_is_whole_or_absent_after_a_crash_at_any_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new"
    write = b"content" * 100
    for _ in until_done(
        monkeypatch, lambda: disk.create_file(str(path), lambda descriptor: disk.write_all(descriptor, write, 0))
    ):
        assert not path.exists() or path.read_bytes() == write
    assert path.read_bytes() == write
    assert os.listdir(tmp_path) == ["new"]


def test_a_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        disk.create_file(str(tmp_path / "new"), fail)
    assert os.listdir(tmp_path) == []


def test_a_directory_is_made_once_and_its_name_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch)
    assert disk.make_directory(str(tmp_path / "new")) is True
    assert disk.make_directory(str(tmp_path / "new")) is False
    assert calls == ["mkdir", "fsync"] * 2  # its maker may have died before the name was durable
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_missing_folders_are_made_from_above_and_each_name_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = recorded(monkeypatch)
    disk.make_directories(str(tmp_path / "one" / "two"))
    assert calls == ["mkdir", "fsync", "mkdir", "fsync"]
    calls.clear()
    disk.make_directories(str(tmp_path / "one" / "two"))
    assert calls == ["mkdir", "fsync"]


def test_a_write_that_takes_less_goes_on_and_one_that_takes_nothing_is_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite
    with (tmp_path / "file").open("w+b") as file:
        monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: real(fd, bytes(data)[:3], offset))
        disk.write_all(file.fileno(), b"0123456789", 0)
        assert file.read() == b"0123456789"
        monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: 0)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
            disk.write_all(file.fileno(), b"x", 0)
        assert caught.value.errno == errno.ENOSPC


def test_a_range_is_copied_exactly(tmp_path: Path) -> None:
    data = os.urandom(3 * 1024 * 1024)
    (tmp_path / "source").write_bytes(data)
    with (tmp_path / "source").open("rb") as file:
        disk.copy_range(file.fileno(), str(tmp_path / "copy"), 5, len(data) - 7)
    assert (tmp_path / "copy").read_bytes() == data[5:-7]


def test_a_cut_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    calls = recorded(monkeypatch)
    disk.cut(str(tmp_path / "file"), 40)
    assert calls == ["ftruncate", "fdatasync"]
    assert (tmp_path / "file").stat().st_size == 40


def test_removing_what_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert disk.remove_if_present(str(tmp_path / "file")) is True
    assert disk.remove_if_present(str(tmp_path / "file")) is False


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, NoSpace),
        (errno.EDQUOT, NoSpace),
        (errno.EFBIG, NoSpace),
        (errno.EROFS, ReadOnly),
        (errno.EACCES, ReadOnly),
        (errno.EIO, StorageError),
    ],
)
def test_an_error_of_the_system_becomes_a_typed_one(number: int, kind: type[Exception]) -> None:
    error = disk.translate(OSError(number, os.strerror(number)), "writing here")
    assert type(error) is kind
    assert str(error) == f"writing here: {os.strerror(number)}"


def test_another_platform_is_refused_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    disk.require_platform()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(Unsupported, match="Linux and macOS"):
        disk.require_platform()
