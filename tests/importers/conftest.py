"""A store to import into, and a way to import bytes and read the session back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from turnlog.importers.importer import import_path
from turnlog.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from turnlog.importers.result import Imported

CLAUDE = "projects/-p/5f0c6b1e-0000-4000-8000-000000000001.jsonl"
CODEX = "sessions/2026/01/02/rollout-2026-01-02T03-04-05-01a22d81-0000-7000-8000-000000000001.jsonl"
WRITTEN_S = 1_700_000_000


class Desk:
    """A folder for source files beside a store."""

    def __init__(self, home: Path, store: Store) -> None:
        self.home = home
        self.store = store

    def write(self, data: bytes, name: str = CLAUDE) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (WRITTEN_S, WRITTEN_S))  # what a file without times is dated by
        return path

    def bring(self, data: bytes, name: str = CLAUDE) -> Imported:
        (result,) = import_path(self.store, str(self.write(data, name)))
        return result

    def events(self, result: Imported) -> list[tuple[str, Any]]:
        assert result.session is not None
        return [(event.type, event.payload) for event in self.store.session(result.session).events()]

    def payloads(self, result: Imported, kind: str) -> list[Any]:
        return [payload for type_, payload in self.events(result) if type_ == kind]

    def stored_bytes(self, result: Imported) -> bytes:
        return b"".join(self.payloads(result, "source.line"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "store")) as opened:
        yield opened


@pytest.fixture
def desk(tmp_path: Path, store: Store) -> Desk:
    home = tmp_path / "home"
    home.mkdir()
    return Desk(home, store)
