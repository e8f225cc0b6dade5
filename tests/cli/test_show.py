"""`sessionctl show`: the card, the last turns, one event whole; it never writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import DAMAGED, FLAKY, HOSTILE, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

CARD = """\
session   0196aaaa-0000-7000-8000-00000000000a
title     flaky test
state     open
created   2026-09-21 14:13:20Z
last      2026-09-21 14:13:20Z
cwd       /src/app
model     provider/x
tags      ci
turns     1 turn, 1 step, 1 message, 1 tool call
events    9: 2 source.line, 1 message.user, 1 session.created, 1 step.completed, 1 tool.completed, 1 tool.proposed, \
1 turn.completed, 1 turn.started
tokens    812 input, 64 output
size      5.7 KiB
head      0196aaaa-0000-7000-8000-00000000000a:9:HEAD

      1  2026-09-21 14:13:20Z  session.created     model=provider/x cwd=/src/app flaky test
      2  2026-09-21 14:13:20Z  turn.started
      3  2026-09-21 14:13:20Z  message.user        Why does test_retry fail?
      4  2026-09-21 14:13:20Z  tool.proposed       name=bash call_id=c1 {"cmd":"pytest -x"}
      6  2026-09-21 14:13:20Z  tool.completed      call_id=c1 1 failed
      7  2026-09-21 14:13:20Z  step.completed      input=812 output=64
      9  2026-09-21 14:13:20Z  turn.completed
"""

EVENT = """\
event     0196aaaa-0000-7000-8000-00000000000a:3
id        00000000-0000-0000-0000-000000000003
type      message.user
time      2026-09-21 14:13:20Z
payload   39 B
digest    DIGEST

{
  "content": "Why does test_retry fail?"
}
"""


def test_a_session_is_shown_with_its_last_turns(run: Runner, golden: Path) -> None:
    head = run("show", FLAKY, "--json").objects[0]["head_chain"]
    done = run("show", FLAKY)
    assert (done.code, done.out, done.err) == (0, CARD.replace("HEAD", head), "")


def test_an_event_is_shown_whole(run: Runner, golden: Path) -> None:
    digest = run("show", f"{FLAKY}:3", "--json").objects[0]["digest"]
    assert run("show", f"{FLAKY}:3").out == EVENT.replace("DIGEST", digest)


@pytest.mark.parametrize("turns", [0, 1])
def test_turns_says_how_many_turns_are_shown(run: Runner, golden: Path, turns: int) -> None:
    objects = run("show", FLAKY, "--json", "--turns", str(turns)).objects
    assert [item["event_type"] for item in objects[1:]][:1] == ["turn.started"][:turns]


@pytest.mark.parametrize("words", [[FLAKY], [HOSTILE], [f"{FLAKY}:3"], [f"{FLAKY}:5"], [f"{FLAKY}:8"]])
def test_json_fits_the_schema(run: Runner, golden: Path, words: list[str]) -> None:
    assert_fits_schema(run, "show", run("show", *words, "--json").objects)


def test_bytes_are_text_where_they_are_and_base64_where_they_are_not(run: Runner, golden: Path) -> None:
    text, other = (run("show", f"{FLAKY}:{ordinal}", "--json").objects[0] for ordinal in (5, 8))
    assert text["text"] == '{"line": 1}\n'
    assert other["base64"] == "Y2Fm6RtbMkoK"


@pytest.mark.parametrize("reference", [HOSTILE, f"{HOSTILE}:1", f"{HOSTILE}:2", f"{HOSTILE}:3", f"{FLAKY}:8"])
def test_stored_text_cannot_drive_the_terminal(run: Runner, golden: Path, reference: str) -> None:
    text = run("show", reference).out
    assert not set("\x07\x1b\x9b\u202e\r") & set(text)


def test_a_prefix_and_latest_name_a_session(run: Runner, whole: Path) -> None:
    assert run("show", FLAKY[:4]).lines[0] == run("show", "latest").lines[0] == f"session   {FLAKY}"
    assert run("show", FLAKY[:8].upper()).code == 0


@pytest.mark.parametrize(
    ("reference", "code"),
    [(f"{FLAKY}:1..3", 2), (f"{FLAKY}:", 2), (f"{FLAKY}:x", 2), (f"{FLAKY}:0", 2), (":3", 2), (f"{FLAKY}:10", 10)],
)
def test_what_is_no_event_is_refused(run: Runner, golden: Path, reference: str, code: int) -> None:
    done = run("show", reference)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("error[")


def test_a_damaged_session_is_shown_and_the_loss_named(run: Runner, damaged: Path) -> None:
    done = run("show", DAMAGED)
    assert done.code == 3
    assert "state     open, damaged: sessionctl verify" in done.out
    assert "after" in done.lines[-1]
    assert "lost: event 3 cannot be read" in done.err
    assert run("show", f"{DAMAGED}:3").code == 1


def test_show_writes_no_byte(run: Runner, damaged: Path) -> None:
    before = fingerprint(damaged)
    for words in (["latest"], [FLAKY, "--json"], [DAMAGED], [f"{FLAKY}:2"]):
        run("show", *words)
    assert fingerprint(damaged) == before
