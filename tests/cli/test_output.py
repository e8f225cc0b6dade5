"""Colour, the terminal's width, the pager, and what a terminal is never sent."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.stores import FLAKY, HOSTILE
from turnlog.cli.output import wants_color

if TYPE_CHECKING:
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def on_terminal(*words: str, **environment: str) -> tuple[int, str]:
    """Run sessionctl with stdout on a terminal; return its exit code and what the terminal was sent."""
    leader, follower = pty.openpty()
    variables = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "TERM": "xterm", **environment}
    command = [sys.executable, "-m", "turnlog", *words]
    with subprocess.Popen(command, stdout=follower, stderr=subprocess.PIPE, env=variables) as program:
        os.close(follower)
        sent = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # how Linux tells that the other end is closed
                break
            if not part:
                break
            sent += part
    os.close(leader)
    return program.returncode, sent.decode("utf-8")


@pytest.mark.parametrize(
    ("choice", "environment", "wanted"),
    [
        (None, {}, False),
        ("always", {"NO_COLOR": "1"}, True),
        ("never", {"FORCE_COLOR": "1"}, False),
        ("auto", {"FORCE_COLOR": "1"}, True),
        (None, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (None, {"FORCE_COLOR": ""}, False),
    ],
)
def test_colour_follows_the_option_then_the_variables(
    monkeypatch: pytest.MonkeyPatch, choice: str | None, environment: dict[str, str], wanted: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with open(os.devnull, "w", encoding="utf-8") as stream:
        assert wants_color(stream, choice) is wanted


@pytest.mark.timeout(60)
def test_a_terminal_gets_colour_unless_it_is_dumb(golden: Path) -> None:
    assert "\x1b[1m" in on_terminal("list")[1]
    assert "\x1b" not in on_terminal("list", TERM="dumb")[1]
    assert "\x1b" not in on_terminal("list", NO_COLOR="1")[1]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("words", [["cat", HOSTILE], ["show", HOSTILE], ["cat", HOSTILE, "--json"], ["list", "--json"]])
def test_a_terminal_is_sent_nothing_that_drives_it(golden: Path, words: list[str]) -> None:
    code, sent = on_terminal(*words, NO_COLOR="1", PAGER="cat")
    assert code == 0
    assert not set("\x1b\x07\x9b\u202e") & set(sent)
    assert "owned" in sent


@pytest.mark.timeout(60)
def test_raw_bytes_are_not_sent_to_a_terminal(golden: Path) -> None:
    assert on_terminal("cat", FLAKY, "--raw") == (2, "")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("words", [["cat", FLAKY], ["show", FLAKY]])
def test_long_answers_go_through_the_pager(golden: Path, words: list[str]) -> None:
    code, sent = on_terminal(*words, PAGER="sed s/^/PAGED:/", NO_COLOR="1")
    assert code == 0
    assert all(line.startswith("PAGED:") for line in sent.splitlines())
    assert "PAGED:" not in on_terminal(*words, "--no-pager", PAGER="sed s/^/PAGED:/")[1]
    assert "PAGED:" not in on_terminal(*words, PAGER="no-such-program")[1]


@pytest.mark.timeout(60)
def test_leaving_the_pager_early_is_no_error(golden: Path) -> None:
    assert on_terminal("cat", FLAKY, PAGER="true")[0] == 0
