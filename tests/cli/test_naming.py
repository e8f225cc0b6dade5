"""`sessionctl rename`, `tag` and `archive`: one event for a change, none where there is nothing to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import FLAKY, HOSTILE, fingerprint
from turnlog import Store

if TYPE_CHECKING:
    from pathlib import Path


def events_of(path: Path) -> list[str]:
    """Return the types of the events that the golden session got."""
    with Store.open(path, read_only=True) as store:
        return [event.type for event in store.session(FLAKY).events(after=9)]


def test_a_session_is_renamed_and_the_same_title_again_is_no_event(run: Runner, golden: Path) -> None:
    done = run("rename", FLAKY, "slow test")
    assert (done.code, done.out, done.err) == (0, f"{FLAKY}  slow test\n", "")
    again = run("rename", FLAKY, "slow test", "--json")
    assert_fits_schema(run, "rename", again.objects)
    assert (again.objects[0]["changed"], again.objects[0]["before"]) == (False, "slow test")
    assert events_of(golden) == ["session.renamed"]
    assert [row["title"] for row in run("list", "--json", "--text", "slow").objects] == ["slow test"]
    assert run("rename", FLAKY, "").out == f"{FLAKY}\n"
    assert run("show", FLAKY, "--json").objects[0]["title"] == ""


def test_tags_are_added_removed_and_shown(run: Runner, golden: Path) -> None:
    assert run("tag", FLAKY).out == "ci\n"
    done = run("tag", FLAKY, "flaky", "--add", "slow", "--remove", "ci", "--remove", "never", "--json")
    assert_fits_schema(run, "tag", done.objects)
    assert done.objects == [
        {"type": "tagged", "session": FLAKY, "tags": ["flaky", "slow"], "added": ["flaky", "slow"], "removed": ["ci"]}
    ]
    assert run("tag", FLAKY, "flaky", "--remove", "ci").out == "flaky\nslow\n"
    assert events_of(golden) == ["session.tagged"]
    assert [row["id"] for row in run("list", "--json", "--tag", "slow").objects] == [FLAKY]


def test_showing_tags_writes_nothing(run: Runner, golden: Path) -> None:
    before = fingerprint(golden)
    assert run("tag", FLAKY, "--json").objects[0]["tags"] == ["ci"]
    assert fingerprint(golden) == before


@pytest.mark.parametrize("words", [["x", "--remove", "x"], [""], ["--remove", ""]])
def test_tags_that_make_no_sense_are_wrong_usage_and_nothing_is_written(
    run: Runner, golden: Path, words: list[str]
) -> None:
    before = fingerprint(golden)
    assert run("tag", FLAKY, *words).code == 2
    assert fingerprint(golden) == before


def test_sessions_are_set_aside_and_taken_up_again(run: Runner, golden: Path) -> None:
    done = run("archive", FLAKY, HOSTILE, FLAKY, "--reason", "done with it", "--json")
    assert_fits_schema(run, "archive", done.objects)
    assert [(item["session"], item["archived"], item["changed"]) for item in done.objects] == [
        (FLAKY, True, True),
        (HOSTILE, True, True),
    ]
    assert {row["id"] for row in run("list", "--json", "--state", "archived").objects} == {FLAKY, HOSTILE}
    assert run("archive", FLAKY).out == f"{FLAKY}  nothing to do  flaky test\n"
    assert run("archive", FLAKY, "--undo").out == f"{FLAKY}  taken up again  flaky test\n"
    assert run("archive", FLAKY, "--undo").out == f"{FLAKY}  nothing to do  flaky test\n"
    assert events_of(golden) == ["session.archived", "session.unarchived"]
    assert [row["id"] for row in run("list", "--json", "--state", "archived").objects] == [HOSTILE]
    assert run("archive", FLAKY, "--undo", "--reason", "x").code == 2


@pytest.mark.parametrize("words", [["rename", FLAKY, "other"], ["tag", FLAKY, "other"], ["archive", FLAKY]])
def test_a_session_that_is_being_written_is_exit_11(run: Runner, golden: Path, words: list[str]) -> None:
    with Store.open(golden) as store, store.session(FLAKY) as session:
        session.append("note.written", {})
        done = run(*words)
        assert (done.code, done.out) == (11, "")
    assert events_of(golden) == ["note.written"]


def test_what_people_typed_cannot_drive_the_terminal(run: Runner, golden: Path) -> None:
    for words in (["rename", FLAKY, "a\x1b[31m"], ["tag", FLAKY, "a\x1b[31m"], ["archive", FLAKY]):
        assert "\x1b" not in run(*words).out
