"""`sessionctl list`: table, filters, pages, widths; it never writes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import FLAKY, HOSTILE, fingerprint, make_store

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """\
ID                                    AGE  STATE  TURNS  EVENTS  TOKENS     SIZE  CWD            TITLE
0196aaaa-0000-7000-8000-00000000000a   1h  open       1       9     876  5.7 KiB  /src/app       flaky test
0196aaaa-0000-7000-8000-00000000000b   1h  open       0       3       0  4.9 KiB  /tmp/\\x1b[31m  \
nice \\x1b]0;owned\\x07\\x9b2J\\u202eevil ?
"""


def test_the_table_is_newest_first_with_ids_that_are_unique_prefixes(run: Runner, golden: Path) -> None:
    done = run("list")
    assert (done.code, done.out, done.err) == (0, TABLE, "")


def test_short_ids_are_eight_characters_where_that_is_unique(run: Runner, whole: Path) -> None:
    assert run("list").lines[1].split()[0] == FLAKY[:8]


def test_json_gives_one_session_a_line_as_the_schema_says(run: Runner, golden: Path) -> None:
    done = run("list", "--json")
    assert [row["id"] for row in done.objects] == [FLAKY, HOSTILE]
    assert {row["type"] for row in done.objects} == {"session"}
    assert done.objects[0]["tokens_input"] == 812
    assert_fits_schema(run, "list", done.objects)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--cwd", "/src/app"], [FLAKY]),
        (["--model", "provider/x"], [FLAKY]),
        (["--tag", "ci"], [FLAKY]),
        (["--parent", FLAKY[:-1]], []),
        (["--parent", FLAKY], [HOSTILE]),
        (["--state", "open"], [FLAKY, HOSTILE]),
        (["--text", "nice"], [HOSTILE]),
        (["--since", "3h"], [FLAKY, HOSTILE]),
        (["--since", "1h"], []),
        (["--since", "2026-01-01"], [FLAKY, HOSTILE]),
    ],
)
def test_a_filter_leaves_what_it_says(run: Runner, golden: Path, words: list[str], found: list[str]) -> None:
    done = run("list", "--json", *words)
    assert [row["id"] for row in done.objects] == found
    if not found:
        assert done.code in (1, 2)


def test_nothing_found_is_exit_1_with_a_sentence(run: Runner, golden: Path, tmp_path: Path) -> None:
    done = run("list", "--text", "absent")
    assert (done.code, done.out, done.err) == (1, "", "no session matches\n")
    empty = make_store(tmp_path / "none")
    done = run("list", "--store", empty)
    assert (done.code, done.err) == (1, f"the store {empty} has no sessions\n")


def test_pages_follow_each_other_by_their_tokens(run: Runner, golden: Path) -> None:
    first = run("list", "--json", "-n", "1").objects
    assert [item["type"] for item in first] == ["session", "page"]
    assert_fits_schema(run, "list", first)
    second = run("list", "--json", "-n", "1", "--after", first[1]["next"]).objects
    assert [item["id"] for item in (first[0], second[0])] == [FLAKY, HOSTILE]
    assert run("list", "-n", "1").err == f"more: add --after {first[1]['next']}\n"


@pytest.mark.parametrize("words", [["--state", "odd"], ["--since", "soon"], ["--after", "x"], ["-n", "0"]])
def test_a_wrong_value_is_wrong_usage(run: Runner, golden: Path, words: list[str]) -> None:
    assert run("list", *words).code == 2


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200])
def test_the_table_fits_the_terminal(run: Runner, golden: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run("list").lines
    assert all(FLAKY[:8] in line or "ID" in line or HOSTILE[:8] in line for line in lines)
    if columns >= 100:
        assert max(map(len, lines)) <= columns


def test_stored_text_cannot_drive_the_terminal(run: Runner, golden: Path) -> None:
    for words in (["list"], ["list", "--color", "always"]):
        text = run(*words).out
        assert "\x07" not in text
        assert "\x9b" not in text
        assert "\u202e" not in text
        assert "\x1b]" not in text


def test_colour_is_for_those_who_ask(run: Runner, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[1m" not in run("list").out
    assert "\x1b[1m" in run("list", "--color", "always").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1m" in run("list").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1m" not in run("list").out
    assert "\x1b[1m" not in run("list", "--json").out


@pytest.mark.parametrize("index", ["missing", "garbage", "truncated", "current"])
def test_list_writes_no_byte(run: Runner, golden: Path, index: str) -> None:
    if index != "missing":
        assert run("rebuild-index").code == 0
    if index == "garbage":
        (golden / "index.db").write_bytes(b"garbage" * 1000)
    if index == "truncated":
        (golden / "index.db").write_bytes((golden / "index.db").read_bytes()[:5000])
    before = fingerprint(golden)
    assert run("list").out == TABLE
    assert fingerprint(golden) == before


def test_a_session_copied_in_by_hand_is_listed(run: Runner, whole: Path, tmp_path: Path) -> None:
    assert run("rebuild-index").code == 0
    other = make_store(tmp_path / "other", HOSTILE)
    shutil.copytree(other / "sessions" / "0b", whole / "sessions" / "0b")
    assert {row["id"] for row in run("list", "--json").objects} == {FLAKY, HOSTILE}


AT_WORK = """
import sys, time
from turnlog import Store
session = Store.open(sys.argv[1]).create(title="at work")
turn = session.turn("a goal")
print("working", flush=True)
time.sleep(600)
"""


def test_a_turn_runs_while_its_process_lives_and_is_interrupted_when_it_was_killed(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_STORE", str(tmp_path / "store"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", AT_WORK, str(tmp_path / "store")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"working\n"
        assert [row["state"] for row in run("list", "--json").objects] == ["running"]
        assert run("list", "--state", "interrupted").code == 1
        writer.send_signal(signal.SIGKILL)
    (row,) = run("list", "--json", "--state", "interrupted").objects
    assert run("list", "--state", "running").code == 1
    assert " interrupted " in run("list").lines[1]
    card = run("show", "latest").out
    assert f"state     interrupted: sessionctl resume {row['id']}\n" in card
    assert run("show", "latest", "--json").objects[0]["state"] == "interrupted"
    assert run("stats", "--json").objects[0]["states"] == {"interrupted": 1}
    assert run("resume", row["id"], "--yes").code == 0
    assert [row["state"] for row in run("list", "--json").objects] == ["open"]
