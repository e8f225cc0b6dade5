"""`sessionctl stats`: sums of a store, types of a session; it never writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import DAMAGED, FLAKY, HOSTILE, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

TYPES = """\
    EVENTS     PAYLOAD  TYPE
         1        74 B  session.created
         1        58 B  tool.proposed
         1        39 B  message.user
         1        36 B  tool.completed
         1        35 B  step.completed
         2        21 B  source.line
         1         2 B  turn.completed
         1         2 B  turn.started
"""


def test_a_session_is_counted_by_type(run: Runner, golden: Path) -> None:
    done = run("stats", FLAKY)
    assert done.code == 0
    assert done.out.endswith(TYPES)


def test_a_store_is_summed(run: Runner, golden: Path) -> None:
    done = run("stats", "--json")
    (answer,) = done.objects
    assert {name: answer[name] for name in ("sessions", "events", "turns", "tool_calls", "damaged")} == {
        "sessions": 2,
        "events": 12,
        "turns": 1,
        "tool_calls": 1,
        "damaged": 0,
    }
    assert answer["tokens"] == {"input": 812, "output": 64, "cache_read": 0, "cache_write": 0}
    assert [item["session"] for item in answer["largest"]] == [FLAKY, HOSTILE]
    assert answer["disk_bytes"] == sum(answer["disk"].values())
    assert_fits_schema(run, "stats", done.objects)


def test_largest_says_how_many(run: Runner, golden: Path) -> None:
    assert [item["session"] for item in run("stats", "--largest", "1", "--json").objects[0]["largest"]] == [FLAKY]
    assert "LARGEST" not in run("stats", "--largest", "0").out


def test_the_parts_of_the_disk_are_told_apart(run: Runner, golden: Path) -> None:
    (golden / "quarantine").mkdir()
    (golden / "quarantine" / "bytes").write_bytes(b"x" * 10_000)
    assert run("rebuild-index").code == 0
    disk = run("stats", "--json").objects[0]["disk"]
    assert disk["quarantine"] >= 10_000
    assert disk["index"] > 0
    assert disk["segments"] > 0
    assert disk["artifacts"] == 0


def test_a_damaged_session_is_counted_around_the_damage(run: Runner, damaged: Path) -> None:
    done = run("stats", DAMAGED, "--json")
    assert done.code == 3
    assert [item["events"] for item in done.objects if item["type"] == "session_stats"] == [3]
    assert_fits_schema(run, "stats", done.objects)


def test_stored_text_cannot_drive_the_terminal(run: Runner, golden: Path) -> None:
    assert not set("\x07\x1b\x9b\u202e") & set(run("stats").out)


def test_stats_writes_no_byte(run: Runner, damaged: Path) -> None:
    before = fingerprint(damaged)
    run("stats")
    run("stats", DAMAGED)
    assert fingerprint(damaged) == before
