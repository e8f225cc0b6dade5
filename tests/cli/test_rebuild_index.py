"""`sessionctl rebuild-index`: the index is only a copy, whatever became of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema

if TYPE_CHECKING:
    from pathlib import Path


def test_it_says_what_it_did(run: Runner, golden: Path) -> None:
    done = run("rebuild-index")
    assert done.code == 0
    assert re.fullmatch(rf"rebuilt  2 sessions  {re.escape(str(golden))}/index\.db  \d+\.\d s\n", done.out)


def test_json_fits_the_schema(run: Runner, damaged: Path) -> None:
    done = run("rebuild-index", "--json")
    assert (done.objects[0]["sessions"], done.objects[0]["damaged"]) == (2, 1)
    assert_fits_schema(run, "rebuild-index", done.objects)


@pytest.mark.parametrize("state", ["missing", "empty", "garbage", "truncated", "current"])
def test_the_list_is_the_same_before_and_after(run: Runner, golden: Path, state: str) -> None:
    before = run("list", "--json").out
    index = golden / "index.db"
    if state != "missing":
        assert run("rebuild-index").code == 0
        content = index.read_bytes()
        index.write_bytes({"empty": b"", "garbage": b"?" * 9000, "truncated": content[:6000]}.get(state, content))
    assert run("rebuild-index").code == 0
    assert run("list", "--json").out == before


def test_damage_is_told(run: Runner, damaged: Path) -> None:
    assert run("rebuild-index").err == "1 session with damage: sessionctl verify\n"
