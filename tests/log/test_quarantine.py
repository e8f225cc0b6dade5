"""Quarantine keeps bytes durably, once, and never under a name that holds other bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.powercut import until_done
from turnlog import disk, names
from turnlog.log.quarantine import Quarantine

SESSION = "01890a5d-ac96-774b-bcce-b302099a8057"
CONTENT = bytes(range(256)) * 40


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Return a file of a store that may lose bytes."""
    path = tmp_path / "a.seg"
    path.write_bytes(CONTENT)
    return path


def kept(store: Path) -> list[bytes]:
    """Return what lies in quarantine under a final name."""
    files = (store / names.QUARANTINE).rglob("*")
    return [path.read_bytes() for path in files if path.is_file() and path.suffix != names.TEMP_SUFFIX]


def test_a_range_is_kept_as_it_is_and_the_source_stays(tmp_path: Path, source: Path) -> None:
    path = Quarantine(str(tmp_path), SESSION).keep_range(str(source), 100, 5000)
    assert path is not None
    assert Path(path).read_bytes() == CONTENT[100:5000]
    assert source.read_bytes() == CONTENT
    assert path.endswith("-a.seg-100")
    assert Quarantine(str(tmp_path), SESSION).shown(path).startswith(os.path.join(names.QUARANTINE, SESSION))


def test_the_same_range_again_is_kept_once_and_another_beside_it(tmp_path: Path, source: Path) -> None:
    quarantine = Quarantine(str(tmp_path), SESSION)
    first = quarantine.keep_range(str(source), 100, 5000)
    assert quarantine.keep_range(str(source), 100, 5000) == first
    assert quarantine.keep_range(str(source), 100, 5001) != first
    source.write_bytes(CONTENT[::-1])
    assert quarantine.keep_range(str(source), 100, 5000) != first
    assert sorted(map(len, kept(tmp_path))) == [4900, 4900, 4901]


def test_an_empty_range_leaves_nothing(tmp_path: Path, source: Path) -> None:
    assert Quarantine(str(tmp_path), SESSION).keep_range(str(source), 7, 7) is None
    assert not (tmp_path / names.QUARANTINE).exists()


def test_a_file_is_kept_by_a_second_name_and_once(tmp_path: Path, source: Path) -> None:
    quarantine = Quarantine(str(tmp_path), SESSION)
    path = quarantine.keep_file(str(source))
    assert os.path.samefile(path, source)
    assert quarantine.keep_file(str(source)) == path
    source.unlink()
    assert kept(tmp_path) == [CONTENT]


def test_a_file_is_copied_where_there_are_no_hard_links(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = Quarantine(str(tmp_path), SESSION).keep_file(str(source))
    assert not os.path.samefile(path, source)
    assert kept(tmp_path) == [CONTENT]


def test_what_was_kept_is_synced_before_the_call_returns(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = disk.sync_directory

    def noted(path: str) -> None:
        synced.append(path)
        real(path)

    monkeypatch.setattr(disk, "sync_directory", noted)
    quarantine = Quarantine(str(tmp_path), SESSION)
    for part in ((0, 9), None):
        path = quarantine.keep_range(str(source), *part) if part else quarantine.keep_file(str(source))
        assert path is not None
        assert synced[-1] == os.path.dirname(path)
        synced.clear()


def test_after_a_death_at_any_step_it_is_kept_once_and_whole(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarantine = Quarantine(str(tmp_path), SESSION)
    deaths = list(until_done(monkeypatch, lambda: quarantine.keep_range(str(source), 100, 5000)))
    assert len(deaths) > 3
    assert set(kept(tmp_path)) == {CONTENT[100:5000]}
    assert len(kept(tmp_path)) == 1
