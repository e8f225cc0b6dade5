"""`sessionctl cat`: lines, JSON and bytes of any window; damage is passed over and named; it never writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import DAMAGED, FLAKY, FLAKY_EVENTS, HOSTILE, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

LINES = """\
      4  2026-09-21 14:13:20Z  tool.proposed       name=bash call_id=c1 {"cmd":"pytest -x"}
      5  2026-09-21 14:13:20Z  source.line         {"line": 1}  (12 B raw)
      6  2026-09-21 14:13:20Z  tool.completed      call_id=c1 1 failed
"""


def test_a_range_is_printed_one_event_a_line(run: Runner, golden: Path) -> None:
    done = run("cat", f"{FLAKY}:4..6")
    assert (done.code, done.out, done.err) == (0, LINES, "")


@pytest.mark.parametrize(
    ("words", "ordinals"),
    [
        ([FLAKY], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([f"{FLAKY}:3"], [3]),
        ([f"{FLAKY}:8.."], [8, 9]),
        ([f"{FLAKY}:..2"], [1, 2]),
        ([f"{FLAKY}:..1000"], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([FLAKY, "--after", "7"], [8, 9]),
        ([FLAKY, "--before", "3"], [1, 2]),
        ([FLAKY, "--after", "3", "--before", "6"], [4, 5]),
        ([f"{FLAKY}:2..6", "--after", "3"], [4, 5, 6]),
        ([FLAKY, "--limit", "2"], [1, 2]),
        ([FLAKY, "--reverse", "--limit", "3"], [9, 8, 7]),
        ([FLAKY, "--type", "source.line"], [5, 8]),
        ([FLAKY, "--type", "source.line", "--type", "turn.started"], [2, 5, 8]),
        ([FLAKY, "--type", "source.line", "--reverse", "-n", "1"], [8]),
        ([FLAKY, "--type", "absent"], []),
        ([f"{FLAKY}:50.."], []),
    ],
)
def test_a_window_holds_what_it_says(run: Runner, golden: Path, words: list[str], ordinals: list[int]) -> None:
    done = run("cat", *words, "--json")
    assert [item["ordinal"] for item in done.objects] == ordinals
    assert done.code == (0 if ordinals else 1)


def test_json_holds_the_payload_as_it_is_stored(run: Runner, golden: Path) -> None:
    objects = run("cat", FLAKY, "--json").objects
    assert [item["payload"] for item in objects if "payload" in item] == [
        payload for _, payload in FLAKY_EVENTS if not isinstance(payload, bytes)
    ]
    assert_fits_schema(run, "cat", objects)
    assert_fits_schema(run, "cat", run("cat", HOSTILE, "--json").objects)


def test_raw_gives_the_bytes_and_nothing_between_them(run: Runner, golden: Path) -> None:
    done = run("cat", FLAKY, "--type", "source.line", "--raw")
    assert done.raw == b'{"line": 1}\ncaf\xe9\x1b[2J\n'
    assert run("cat", f"{FLAKY}:2", "--raw").raw == b"{}"


def test_raw_and_json_exclude_each_other(run: Runner, golden: Path) -> None:
    assert run("cat", FLAKY, "--raw", "--json").code == 2


def test_stored_text_cannot_drive_the_terminal(run: Runner, golden: Path) -> None:
    for words in ([HOSTILE], [FLAKY], [HOSTILE, "--json"]):
        assert not set("\x07\x1b\r") & set(run("cat", *words).out)


def test_damage_is_passed_over_and_named_once(run: Runner, damaged: Path) -> None:
    done = run("cat", DAMAGED)
    assert done.code == 3
    assert [line.split()[0] for line in done.lines] == ["1", "2", "4"]
    assert done.err.count("lost: event 3 cannot be read") == 1
    assert f"next   sessionctl verify {DAMAGED}" in done.err
    assert [line.split()[0] for line in run("cat", DAMAGED, "--reverse").lines] == ["4", "2", "1"]


def test_damage_is_an_object_of_the_answer_in_json(run: Runner, damaged: Path) -> None:
    done = run("cat", DAMAGED, "--json")
    lost = [item for item in done.objects if item["type"] == "lost"]
    assert [(item["first"], item["last"]) for item in lost] == [(3, 3)]
    assert_fits_schema(run, "cat", done.objects)


def test_cat_writes_no_byte(run: Runner, damaged: Path) -> None:
    before = fingerprint(damaged)
    for words in ([FLAKY], [DAMAGED, "--json"], [FLAKY, "--raw"], ["latest", "--reverse"]):
        run("cat", *words)
    assert fingerprint(damaged) == before
