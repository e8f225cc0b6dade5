"""Fixtures of the feeds: a store on disk, and a session on disk and in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turnlog import Session, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture(params=["disk", "memory"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    made = Store.open(tmp_path / "store") if request.param == "disk" else Store.ephemeral()
    with made, made.create(title="flaky test") as opened:
        yield opened
