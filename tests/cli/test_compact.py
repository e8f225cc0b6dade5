"""`sessionctl compact`: what was done, what was left alone, and that nothing changed for readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import DAMAGED, FLAKY
from turnlog import Store

if TYPE_CHECKING:
    from pathlib import Path


def test_it_says_what_was_compacted(run: Runner, whole: Path) -> None:
    done = run("compact")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0].startswith(f"{FLAKY}  1 segment compacted, 5.7 KiB to ")
    assert done.lines[1].startswith("compacted 1 of 1 segment in 1 session, ")
    assert [path.suffixes for path in whole.rglob("*.zst")] == [[".seg", ".zst"]]
    assert run("compact").out == "compacted 0 of 1 segment in 1 session, 0 B freed\n"


def test_readers_see_no_difference(run: Runner, golden: Path) -> None:
    asked = (["list", "--json"], ["cat", FLAKY, "--json"], ["show", FLAKY], ["cat", FLAKY, "--reverse"])
    before = [run(*words).out for words in asked]
    assert run("compact").code == 0
    assert [run(*words).out for words in asked] == before
    assert run("verify", "--full").code == 0


def test_json_fits_the_schema(run: Runner, damaged: Path) -> None:
    done = run("compact", "--json")
    assert [item["type"] for item in done.objects] == ["compacted", "compacted", "summary"]
    assert_fits_schema(run, "compact", done.objects)


def test_damage_is_left_alone_and_listed(run: Runner, damaged: Path) -> None:
    done = run("compact", DAMAGED)
    assert done.code == 3
    assert done.lines[0].startswith(f"{DAMAGED}  skipped ")
    assert "CORRUPT" in done.lines[0]
    assert run("compact").code == 3


@pytest.mark.parametrize(("words", "code"), [([], 3), (["latest"], 11)])
def test_what_a_live_writer_holds_is_left_alone(run: Runner, whole: Path, words: list[str], code: int) -> None:
    with Store.open(whole) as store, store.create(title="live") as session:
        session.append("note.written", {})
        done = run("compact", *words)
    assert done.code == code
    assert "a writer is at work on it" in done.out
