"""`sessionctl tail`: the last events, then the new ones; it never writes."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import DAMAGED, FLAKY, fingerprint
from turnlog import Store

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path


def ordinals(done: list[dict[str, object]]) -> list[object]:
    return [item["ordinal"] for item in done if item["type"] == "event"]


def test_the_last_events_are_printed_oldest_first(run: Runner, whole: Path) -> None:
    done = run("tail", FLAKY, "-n", "3")
    assert (done.code, [line.split()[0] for line in done.lines]) == (0, ["7", "8", "9"])


def test_the_latest_session_is_the_default(run: Runner, whole: Path) -> None:
    objects = run("tail", "--json").objects
    assert ordinals(objects) == list(range(1, 10))
    assert_fits_schema(run, "tail", objects)


def test_a_type_counts_before_the_limit(run: Runner, whole: Path) -> None:
    assert ordinals(run("tail", "--type", "source.line", "-n", "2", "--json").objects) == [5, 8]


def test_following_ends_when_nothing_comes_for_the_time_given(run: Runner, whole: Path) -> None:
    assert ordinals(run("tail", FLAKY, "-n", "2", "-f", "--idle-ms", "1", "--json").objects) == [8, 9]


def test_damage_is_passed_over_and_named(run: Runner, damaged: Path) -> None:
    done = run("tail", DAMAGED)
    assert done.code == 3
    assert "lost: event 3" in done.err


def test_tail_writes_no_byte(run: Runner, damaged: Path) -> None:
    before = fingerprint(damaged)
    run("tail", FLAKY)
    run("tail", FLAKY, "-f", "--idle-ms", "1")
    assert fingerprint(damaged) == before


@pytest.mark.timeout(60)
def test_events_of_another_process_are_followed_until_ctrl_c(
    tmp_path: Path, program: Callable[..., subprocess.Popen[bytes]]
) -> None:
    with Store.open(tmp_path / "live") as store, store.create(title="live") as session:
        session.append("note.written", {"number": 0})
        words = ["tail", session.id, "-f", "--json", "--store", str(tmp_path / "live")]
        with program(*words) as follower:
            assert follower.stdout is not None
            seen = [json.loads(follower.stdout.readline())["ordinal"] for _ in range(2)]
            for number in (1, 2, 3):
                session.append("note.written", {"number": number})
                seen.append(json.loads(follower.stdout.readline())["ordinal"])
            follower.send_signal(signal.SIGINT)
            _, err = follower.communicate()
    assert seen == [1, 2, 3, 4, 5]
    assert (follower.returncode, err.strip()) == (130, b"")
