"""Fixtures: logs in a fresh folder, and a store with a few sessions whose index is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.index.logs import Logs, session_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    made = Logs(tmp_path / "store")
    yield made
    made.end()


@pytest.fixture
def indexed(logs: Logs) -> Logs:
    """Eight closed sessions in two shards, projected; no connection is open."""
    for number in range(8):
        id = session_id(number, shard=0xA0 + number % 2)
        logs.create(id, title=f"session {number}", cwd=f"/code/{number % 3}", tags=["even"] if number % 2 == 0 else [])
        logs.append(id, "message.user", {"content": "hello"})
        logs.close(id)
    index = logs.index()
    index.catch_up()
    index.release_live()
    index.close()
    return logs
