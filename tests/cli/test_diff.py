"""`sessionctl diff`: what only one of two sessions holds; 0 when they are equal, 1 when they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import FLAKY, HOSTILE, fingerprint
from turnlog import Store

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def forks(whole: Path) -> tuple[str, str]:
    """Return two forks of FLAKY: at 4 with one event of its own more, and at 6."""
    with Store.open(whole) as store:
        first, second = store.fork(FLAKY, 4, title="one"), store.fork(FLAKY, 6, title="two")
        first.append("message.user", {"content": "another way"})
        return first.id, second.id


def test_forks_differ_from_their_common_point_on(run: Runner, whole: Path, forks: tuple[str, str]) -> None:
    done = run("diff", *forks)
    assert done.code == 1
    assert done.lines[0] == f"equal up to event 4, inherited from {FLAKY}"
    assert [line[0] for line in done.lines[1:-1]] == ["-", "-", "+", "+", "+"]
    assert "another way" in done.lines[2]
    assert done.lines[-1] == f"2 events only in {forks[0]}, 3 events only in {forks[1]}"


def test_as_json_the_events_come_first_and_the_sums_last(run: Runner, whole: Path, forks: tuple[str, str]) -> None:
    done = run("diff", *forks, "--json")
    assert_fits_schema(run, "diff", done.objects)
    *events, sums = done.objects
    assert [(event["session"], event["ordinal"]) for event in events] == [
        (forks[0], 5),
        (forks[0], 6),
        (forks[1], 5),
        (forks[1], 6),
        (forks[1], 7),
    ]
    assert sums == {
        "type": "difference",
        "a": forks[0],
        "b": forks[1],
        "ancestor": FLAKY,
        "ordinal": 4,
        "equal": False,
        "only_a": 2,
        "only_b": 3,
    }


def test_a_limit_leaves_events_out_but_counts_them(run: Runner, whole: Path, forks: tuple[str, str]) -> None:
    done = run("diff", *forks, "--limit", "1")
    assert [line[0] for line in done.lines[1:-1]] == ["-", "-", "+", "+"]
    assert done.lines[2] == "- … 1 more event"
    assert done.lines[-1].startswith("2 events only in")
    sums = run("diff", *forks, "-n", "0", "--json").objects
    assert [(item["only_a"], item["only_b"]) for item in sums] == [(2, 3)]


def test_a_session_is_equal_to_itself(run: Runner, whole: Path) -> None:
    done = run("diff", FLAKY, "latest")
    assert (done.code, done.lines[-1]) == (0, "equal")
    assert run("diff", FLAKY, FLAKY[:8], "--json").objects[0]["equal"] is True


def test_sessions_with_nothing_in_common_say_so(run: Runner, golden: Path) -> None:
    done = run("diff", FLAKY, HOSTILE)
    assert (done.code, done.lines[0]) == (1, "nothing in common")
    assert "\x1b" not in done.out


def test_diff_writes_no_byte(run: Runner, whole: Path, forks: tuple[str, str]) -> None:
    before = fingerprint(whole)
    assert run("diff", *forks).code == 1
    assert fingerprint(whole) == before


def test_an_unknown_session_is_exit_10(run: Runner, whole: Path) -> None:
    assert run("diff", FLAKY, "ffffffff").code == 10
    assert run("diff", FLAKY, f"{FLAKY}:3").code == 2
