"""Resume of a session of a million events: without a snapshot against json.loads of the same lines, and with one."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from turnlog import Store
from turnlog.resume.resume import preview

from . import baselines
from .ratio import compare, record
from .workload import Rollout

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

EVENTS = 1_000_000
ROUNDS = 3
PIECE = 1000

PRELUDE = """
import sys, time
from turnlog import Store
from turnlog.resume import resume as module

def peak_mib():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

before, start = peak_mib(), time.perf_counter()
"""
WITHOUT = """
with Store.open(sys.argv[1], read_only=True) as store:
    _, report, _ = module.preview(store, sys.argv[2])
assert report.snapshot_ordinal == 0 and report.events >= 1_000_000
print(time.perf_counter() - start, peak_mib() - before)
"""
WITH = """
with Store.open(sys.argv[1]) as store:
    report = store.resume(sys.argv[2]).recovery
    print(time.perf_counter() - start, peak_mib() - before)
assert report.snapshot_ordinal and report.events >= 1_000_000
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    """Return a store, the id of its session, and a file of the same events as lines."""
    folder = tmp_path_factory.mktemp("resume")
    with Store.open(folder / "store") as store:
        session = store.create(durability="buffered")
        events = Rollout().turns(EVENTS)
        while piece := list(islice(events, PIECE)):
            session.append_many(piece, durability="buffered")
        identity = session.id
    baselines.write_jsonl(str(folder / "lines"), Rollout().turns(EVENTS))
    return folder / "store", identity, folder / "lines"


def measured(code: str, store: Path, session: str) -> tuple[float, float]:
    """Return the seconds and MiB that a fresh process takes beyond its imports, its byte code cached as installed."""
    command = [sys.executable, "-c", PRELUDE + code, str(store), session]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(store.parent / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    took_s, grew_mib = map(float, done.stdout.split())
    return took_s, grew_mib


def test_without_a_snapshot(benchmark: BenchmarkFixture, made: tuple[Path, str, Path]) -> None:
    store_path, identity, lines = made

    def ours() -> None:
        with Store.open(store_path, read_only=True) as store:
            assert preview(store, identity)[1].snapshot_ordinal == 0

    def reference() -> None:
        with lines.open("rb") as file:
            for line in file:
                json.loads(line)

    name = "resume of 1,000,000 events without a snapshot, times faster than json.loads"
    compare(benchmark, ours, reference, name=name, bar=10, at_most=False, rounds=ROUNDS)


def test_memory_without_a_snapshot(benchmark: BenchmarkFixture, made: tuple[Path, str, Path]) -> None:
    _, grew_mib = benchmark.pedantic(lambda: measured(WITHOUT, *made[:2]), rounds=1)
    record(benchmark, "MiB: growth by a resume of 1,000,000 events without a snapshot", grew_mib, 256, at_most=True)


def test_with_a_snapshot(benchmark: BenchmarkFixture, made: tuple[Path, str, Path]) -> None:
    with Store.open(made[0]) as store:
        store.resume(made[1])  # leaves a snapshot when it closes
    measured(WITH, *made[:2])
    rounds = benchmark.pedantic(lambda: [measured(WITH, *made[:2]) for _ in range(2 * ROUNDS + 1)], rounds=1)
    times_ms = [took_s * 1e3 for took_s, _ in rounds]
    spread = (min(times_ms), max(times_ms))
    name = "milliseconds: open the store and resume 1,000,000 events with a snapshot"
    record(benchmark, name, statistics.median(times_ms), 50, at_most=True, spread=spread)


def test_memory_with_a_snapshot(benchmark: BenchmarkFixture, made: tuple[Path, str, Path]) -> None:
    _, grew_mib = benchmark.pedantic(lambda: measured(WITH, *made[:2]), rounds=1)
    record(benchmark, "MiB: growth by a resume of 1,000,000 events with a snapshot", grew_mib, 64, at_most=True)
