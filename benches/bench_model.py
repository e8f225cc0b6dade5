"""The session model: an append with reducer and listener or subscriber, a tool call, a replayed call."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store

from . import baselines
from .ratio import ROUNDS, compare, record, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from turnlog import Session

APPEND_US_MAX = 8.0
CALLS = 100
REPLAYS = 2000
ARGUMENTS = {"cmd": "pytest -x tests/test_retry.py", "timeout_s": 120}
RESULT = {"exit_code": 1, "output": "E       assert 3 == 4\n" * 40}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Store.open(tmp_path / "store") as store:
        yield store.create()


def run_shell(cmd: str, timeout_s: int) -> dict[str, Any]:
    """Stand for a tool that costs nothing, so that the rest is what is measured."""
    _ = cmd, timeout_s
    return RESULT


def each_us(benchmark: BenchmarkFixture, ours: Callable[[], object], count: int) -> list[float]:
    """Run `ours` in rounds and return the microseconds that each of its `count` parts took, by round."""
    benchmark.pedantic(ours, rounds=ROUNDS, warmup_rounds=1)
    return [round_s / count * 1e6 for round_s in seconds(benchmark)]


def test_buffered_append_with_reducer_and_state_listener(
    benchmark: BenchmarkFixture, session: Session, events_1500: list[dict[str, Any]]
) -> None:
    seen: list[int] = []
    session.watch(lambda state: state.messages.count, lambda new, _old: seen.append(new))

    def ours() -> None:
        for event in events_1500:
            session.append("message.assistant", event, durability="buffered")

    figures = each_us(benchmark, ours, len(events_1500))
    assert seen[-1] == session.state.messages.count == len(seen)
    name = "microseconds: buffered append of 1.5 KB, reduced and seen by one state listener"
    spread = (min(figures), max(figures))
    record(benchmark, name, statistics.median(figures), APPEND_US_MAX, at_most=True, spread=spread)


def test_buffered_append_with_reducer_and_feed_subscriber(
    benchmark: BenchmarkFixture, session: Session, events_1500: list[dict[str, Any]]
) -> None:
    seen: list[int] = []
    first = session.state.ordinal
    subscriber = session.subscribe(lambda event: seen.append(event.ordinal))

    def ours() -> None:
        for event in events_1500:
            session.append("message.assistant", event, durability="buffered")

    def wait() -> None:
        while not seen or seen[-1] < session._newest():
            time.sleep(0.01)

    benchmark.pedantic(ours, rounds=ROUNDS, warmup_rounds=1, teardown=wait)
    figures = [round_s / len(events_1500) * 1e6 for round_s in seconds(benchmark)]
    assert seen == list(range(first + 1, session._newest() + 1))
    subscriber.close()
    name = "microseconds: buffered append of 1.5 KB, reduced and seen by one feed subscriber"
    spread = (min(figures), max(figures))
    record(benchmark, name, statistics.median(figures), APPEND_US_MAX, at_most=True, spread=spread)


def test_a_tool_call_against_its_syncs(benchmark: BenchmarkFixture, session: Session, tmp_path: Path) -> None:
    turn = session.turn("goal")
    line = b"x" * 900
    file = baselines.ZeroedFile(str(tmp_path / "bare"), (ROUNDS + 1) * 3 * CALLS * len(line))

    def three_syncs() -> None:
        for _ in range(3 * CALLS):
            file.append(line)

    def ours() -> None:
        for _ in range(CALLS):
            call = turn.tool_call("bash", ARGUMENTS, effect="external")
            call.request_approval().approve(by="user").run(run_shell)

    name = "a tool call, proposed to completed, durable / three writes with fdatasync"
    compare(benchmark, ours, three_syncs, name=name, bar=1.25, at_most=True)
    file.close()


def test_a_replayed_tool_call(benchmark: BenchmarkFixture, session: Session) -> None:
    turn = session.turn("goal")
    turn.tool_call("bash", ARGUMENTS, call_id="c1").approve(by="user").run(run_shell)

    def ours() -> None:
        for _ in range(REPLAYS):
            turn.tool_call("bash", ARGUMENTS, call_id="c1").approve(by="user").run(run_shell)

    figures = each_us(benchmark, ours, REPLAYS)
    name = "microseconds: a finished tool call asked for again"
    spread = (min(figures), max(figures))
    record(benchmark, name, statistics.median(figures), 20.0, at_most=True, spread=spread)
