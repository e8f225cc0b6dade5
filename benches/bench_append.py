"""Append: durable one at a time, buffered, from many threads, into many sessions, over a million events."""

from __future__ import annotations

import itertools
import statistics
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store

from . import baselines
from .ratio import ROUNDS, compare, record, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from turnlog import Session

EACH = 1000
THREADS = 64
TYPE = "tool.completed"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def session(store: Store) -> Session:
    return store.create()


def test_durable_append_against_a_zeroed_file(
    benchmark: BenchmarkFixture, session: Session, tmp_path: Path, events_1500: list[dict[str, Any]]
) -> None:
    lines = [baselines.row(1, TYPE, event)[-1] for event in events_1500[:EACH]]
    file = baselines.ZeroedFile(str(tmp_path / "bare"), (ROUNDS + 1) * sum(map(len, lines)))

    def bare() -> None:
        for line in lines:
            file.append(line)

    def ours() -> None:
        for event in events_1500[:EACH]:
            session.append(TYPE, event)

    compare(benchmark, ours, bare, name="durable append / write+fdatasync on a zeroed file", bar=1.20, at_most=True)
    file.close()


def test_durable_append_against_sqlite(
    benchmark: BenchmarkFixture, session: Session, tmp_path: Path, events_1500: list[dict[str, Any]]
) -> None:
    connection = baselines.connect(str(tmp_path / "rows.db"), "FULL")
    ordinals = itertools.count(1)

    def rows() -> None:
        for event in events_1500[:EACH]:
            connection.execute(baselines.INSERT, baselines.row(next(ordinals), TYPE, event))

    def ours() -> None:
        for event in events_1500[:EACH]:
            session.append(TYPE, event)

    compare(
        benchmark,
        ours,
        rows,
        name="durable append, times faster than a SQLite row (WAL, FULL)",
        bar=1.15,
        at_most=False,
    )


def test_buffered_append_against_sqlite(
    benchmark: BenchmarkFixture, session: Session, tmp_path: Path, events_1500: list[dict[str, Any]]
) -> None:
    connection = baselines.connect(str(tmp_path / "rows.db"), "NORMAL")
    ordinals = itertools.count(1)

    def rows() -> None:
        for start in range(0, 10_000, 1000):
            with connection:
                for event in events_1500[start % 1000 : start % 1000 + 1000]:
                    connection.execute(baselines.INSERT, baselines.row(next(ordinals), TYPE, event))

    def ours() -> None:
        append = session.append
        for start in range(0, 10_000, 1000):
            for event in events_1500[start % 1000 : start % 1000 + 1000]:
                append(TYPE, event, durability="buffered")

    compare(
        benchmark,
        ours,
        rows,
        name="buffered append, times faster than SQLite rows, 1,000 a transaction",
        bar=3.5,
        at_most=False,
    )


def test_buffered_append_in_microseconds(
    benchmark: BenchmarkFixture, session: Session, events_1500: list[dict[str, Any]]
) -> None:
    def ours() -> None:
        append = session.append
        for event in events_1500:
            append(TYPE, event, durability="buffered")

    benchmark.pedantic(ours, rounds=15, warmup_rounds=2)
    record(
        benchmark,
        "buffered append of a 1.5 KB dict, microseconds",
        statistics.median(seconds(benchmark)) / len(events_1500) * 1e6,
        4.0,
        at_most=True,
    )


def _sqlite_side(tmp_path: Path, events: list[dict[str, Any]]) -> Iterator[None]:
    """Run the reference of the concurrent benches once for each value asked for."""
    for number in itertools.count():
        writer = baselines.BatchingWriter(str(tmp_path / f"batched-{number}.db"))
        ordinals = itertools.count(1)

        def work(thread: int, writer: baselines.BatchingWriter = writer, ordinals: Iterator[int] = ordinals) -> None:
            done = threading.Lock()
            done.acquire()
            for event in events[thread::THREADS]:
                writer.append(baselines.row(next(ordinals), TYPE, event), done)

        baselines.in_threads(THREADS, work)
        writer.close()
        yield


def test_64_appenders_on_one_session(
    benchmark: BenchmarkFixture, session: Session, tmp_path: Path, events_1500: list[dict[str, Any]]
) -> None:
    events = events_1500 * 8
    reference = _sqlite_side(tmp_path, events)

    def work(thread: int) -> None:
        for event in events[thread::THREADS]:
            session.append(TYPE, event)

    name = "64 durable appenders, one session, times a batching SQLite writer"
    compare(
        benchmark,
        lambda: baselines.in_threads(THREADS, work),
        lambda: next(reference),
        name=name,
        bar=2.3,
        at_most=False,
    )


def test_64_sessions_with_an_appender_each(
    benchmark: BenchmarkFixture, store: Store, tmp_path: Path, events_1500: list[dict[str, Any]]
) -> None:
    events = events_1500 * 8
    reference = _sqlite_side(tmp_path, events)
    sessions = [store.create() for _ in range(THREADS)]

    def work(thread: int) -> None:
        for event in events[thread::THREADS]:
            sessions[thread].append(TYPE, event)

    name = "64 sessions, one durable appender each, times a batching SQLite writer"
    compare(
        benchmark,
        lambda: baselines.in_threads(THREADS, work),
        lambda: next(reference),
        name=name,
        bar=2.3,
        at_most=False,
    )


@pytest.mark.slow
def test_a_million_events_stay_flat(
    benchmark: BenchmarkFixture, session: Session, events_1500: list[dict[str, Any]]
) -> None:
    tenths: list[float] = []

    def million() -> None:
        append, now = session.append, time.perf_counter
        for _ in range(10):
            latencies = []
            for _ in range(50):
                for event in events_1500:
                    start = now()
                    append(TYPE, event)
                    latencies.append(now() - start)
            tenths.append(statistics.median(latencies))

    benchmark.pedantic(million, rounds=1)
    name = "1,000,000 durable appends: median of the last tenth / of the first"
    record(benchmark, name, tenths[-1] / tenths[0], 1.1, at_most=True)


def test_syncs_per_durable_append(
    benchmark: BenchmarkFixture, store: Store, session: Session, events_1500: list[dict[str, Any]]
) -> None:
    committer = store._committer  # noqa: SLF001 - the counters are not part of the public API
    assert committer is not None
    before = committer.counters()
    count = 5 * len(events_1500)

    def ours() -> None:
        for _ in range(5):
            for event in events_1500:
                session.append(TYPE, event)

    benchmark.pedantic(ours, rounds=1)
    after = committer.counters()
    syncs = after["file_syncs"] + after["syncfs_calls"] - before["file_syncs"] - before["syncfs_calls"]
    record(benchmark, "syncs per durable append", syncs / count, 1.01, at_most=True)


def test_bytes_written_per_payload_byte(
    benchmark: BenchmarkFixture, store: Store, session: Session, events_1500: list[dict[str, Any]]
) -> None:
    committer = store._committer  # noqa: SLF001 - the counters are not part of the public API
    assert committer is not None
    before = committer.counters()["written_bytes"]

    def ours() -> None:
        for event in events_1500:
            session.append(TYPE, event)

    benchmark.pedantic(ours, rounds=1)
    payload = sum(len(baselines.row(1, TYPE, event)[-1]) for event in events_1500)
    written = committer.counters()["written_bytes"] - before
    record(benchmark, "bytes written per payload byte, zero-filling left out", written / payload, 1.15, at_most=True)
