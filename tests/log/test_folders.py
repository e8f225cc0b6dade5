"""Sessions are found by their folders alone; a marker in `live/` is durable before its session is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog import Store, disk, names
from turnlog.errors import StorageError
from turnlog.ids import format_id, new_id
from turnlog.log import folders


def test_all_sessions_are_found_in_order_and_nothing_else(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        made = sorted(store.create().id for _ in range(5))
    root = tmp_path / "store" / names.SESSIONS
    (root / "README").write_text("not a shard")
    (root / "zz").mkdir()
    (root / "zz" / format_id(new_id())).mkdir()
    (root / names.shard(made[0]) / "notes").mkdir()
    (root / names.shard(made[0]) / f"{made[0]}.abcd{names.TEMP_SUFFIX}").mkdir()
    assert folders.session_ids(str(tmp_path / "store")) == made
    assert folders.session_ids(str(tmp_path / "no store")) == []


def test_a_folder_without_a_segment_is_no_session(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        id = store.create().id
        path = store.path
    other = format_id(new_id())
    Path(names.session_dir(path, other)).mkdir(parents=True)
    assert (folders.has_session(path, id), folders.has_session(path, other)) == (True, False)
    assert not folders.has_session(path, id[:8])


def test_a_marker_is_made_once_and_its_name_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / names.LIVE).mkdir()
    synced: list[str] = []
    monkeypatch.setattr(disk, "sync_directory", synced.append)
    id = format_id(new_id())
    for _ in range(2):
        folders.mark_live(str(tmp_path), id)
    assert [path.name for path in (tmp_path / names.LIVE).iterdir()] == [id]
    assert synced == [str(tmp_path / names.LIVE)]


def test_a_marker_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    id = format_id(new_id())
    with pytest.raises(StorageError, match="marking the session live") as caught:
        folders.mark_live(str(tmp_path), id)
    assert caught.value.session == id


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert folders.listing(str(tmp_path / "none")) == folders.listing(str(tmp_path / "file")) == []
    assert folders.listing(str(tmp_path)) == ["file"]
