"""What a sweep takes and leaves: by reference, by age to the second, by name; the order with puts beside it.

Sweeps through `ArtifactStore`, and beside puts of other threads, are in test_artifacts.py.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

import pytest

from turnlog import disk, names
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.artifacts.sweep import locked, sweep
from turnlog.errors import ReadOnly

if TYPE_CHECKING:
    from pathlib import Path

NOW_S = 1_700_000_000.0
DAY_S = 86_400


def put(folder: Path, content: bytes, age_s: float) -> str:
    """Put an artifact so many seconds before NOW_S; return its digest."""
    digest = ArtifactStore(folder).put(content).digest
    os.utime(names.artifact_path(str(folder), digest), (NOW_S - age_s, NOW_S - age_s))
    return digest


def there(folder: Path) -> set[str]:
    return {path.name for path in (folder / names.ARTIFACTS).rglob("*") if path.is_file()}


@pytest.mark.parametrize(("age_s", "goes"), [(7 * DAY_S + 1, True), (7 * DAY_S, False), (7 * DAY_S - 1, False)])
def test_the_grace_period_ends_where_it_says(tmp_path: Path, age_s: float, goes: bool) -> None:
    digest = put(tmp_path, b"left", age_s)
    swept = sweep(str(tmp_path), [], grace_days=7, dry_run=False, now_s=NOW_S)
    assert (swept.digests, swept.young) == (([digest], 0) if goes else ([], 1))
    assert (digest in there(tmp_path)) is not goes


def test_the_grace_period_counts_from_when_collecting_began(tmp_path: Path) -> None:
    digest = put(tmp_path, b"put while references were collected", -5)
    assert sweep(str(tmp_path), [], grace_days=0, dry_run=False, now_s=NOW_S).digests == []
    assert sweep(str(tmp_path), [], grace_days=0, dry_run=True).digests == [digest]


def test_what_is_referred_to_stays_however_old(tmp_path: Path) -> None:
    kept, left = put(tmp_path, b"kept", 1000 * DAY_S), put(tmp_path, b"left", 1000 * DAY_S)
    swept = sweep(str(tmp_path), [kept], grace_days=0, dry_run=False)
    assert (swept.digests, swept.kept, there(tmp_path)) == ([left], 1, {kept})


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    digests = sorted(put(tmp_path, b"%d" % number, DAY_S) for number in range(20))
    planned = sweep(str(tmp_path), [], grace_days=0, dry_run=True)
    assert (planned.digests, planned.dry_run, there(tmp_path)) == (digests, True, set(digests))
    done = sweep(str(tmp_path), [], grace_days=0, dry_run=False)
    assert (done.digests, done.bytes, there(tmp_path)) == (digests, planned.bytes, set())


def test_an_unfinished_file_is_left_for_a_day_whatever_the_grace_period(tmp_path: Path) -> None:
    root = tmp_path / names.ARTIFACTS
    root.mkdir()
    for name, age_s in (("young.tmp", DAY_S / 2), ("old.tmp", 2 * DAY_S)):
        (root / name).write_bytes(b"half")
        then_s = time.time() - age_s
        os.utime(root / name, (then_s, then_s))
    swept = sweep(str(tmp_path), [], grace_days=0, dry_run=False)
    assert (swept.unfinished, there(tmp_path)) == (1, {"young.tmp"})


def test_each_removal_holds_the_lock_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, b"left", DAY_S)
    root, real = tmp_path / names.ARTIFACTS, os.unlink
    seen: list[bool] = []

    def unlink(path: str) -> None:
        other = os.open(root, os.O_RDONLY)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            seen.append(True)
        finally:
            os.close(other)
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    assert len(sweep(str(tmp_path), [], grace_days=0, dry_run=False).digests) == 1
    assert seen == [True]
    with locked(str(root)):
        pass


def test_the_names_of_a_folder_are_synced_after_a_removal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, left = put(tmp_path, b"kept", DAY_S), put(tmp_path, b"left", DAY_S)
    assert kept[:2] != left[:2]
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_directory", synced.append)
    sweep(str(tmp_path), [kept], grace_days=0, dry_run=False)
    assert synced == [names.artifact_dir(str(tmp_path), left)]


def test_what_cannot_be_removed_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, b"left", DAY_S)

    def refuse(path: str) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(ReadOnly) as caught:
        sweep(str(tmp_path), [], grace_days=0, dry_run=False)
    assert caught.value.store == str(tmp_path)
