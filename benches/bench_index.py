"""List and rebuild: the questions the index answers, and making it anew."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import pytest

from turnlog import Store

from . import baselines
from .ratio import compare, record
from .workload import Rollout

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

SESSIONS = 5_000
PER_SESSION = 40


def _fill(path: Path, sessions: int) -> None:
    """Make many one-event sessions in 200 working directories."""
    with Store.open(path) as store:
        for number in range(sessions):
            cwd = f"/home/dev/project{number % 200}"
            store.create(title=f"session {number}", cwd=cwd, model="model-small", durability="buffered").close()
        store.index()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    made = {count: tmp_path_factory.mktemp(f"list-{count}") / "store" for count in (5_000, 100_000)}
    for count, path in made.items():
        _fill(path, count)
    return made


def _list_seconds(path: Path, repeats: int = 50) -> float:
    with Store.open(path) as store:
        cwd = "/home/dev/project7"
        store.list(cwd=cwd)
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            rows, _ = store.list(cwd=cwd, limit=50)
            times.append(time.perf_counter() - start)
            assert rows
        return sorted(times)[repeats // 2]


@pytest.mark.slow
def test_list_50_of_100_000(benchmark: BenchmarkFixture, stores: dict[int, Path]) -> None:
    figure = benchmark.pedantic(lambda: _list_seconds(stores[100_000]), rounds=1)
    record(benchmark, "list 50 of 100,000 sessions by cwd, milliseconds", figure * 1e3, 1.0, at_most=True)


@pytest.mark.slow
def test_list_does_not_grow_with_the_store(benchmark: BenchmarkFixture, stores: dict[int, Path]) -> None:
    figure = benchmark.pedantic(lambda: _list_seconds(stores[100_000]) / _list_seconds(stores[5_000]), rounds=3)
    record(benchmark, "list time, 100,000 sessions / 5,000", figure, 1.5, at_most=True)


def test_rebuild_against_sqlite_rows(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    rollout, files, numbers = Rollout(), [], itertools.count()
    with Store.open(tmp_path / "store") as store:
        for number in range(SESSIONS):
            events = list(rollout.session(PER_SESSION, cwd=f"/home/dev/project{number % 50}"))
            files.append(str(tmp_path / f"{number}.jsonl"))
            baselines.write_jsonl(files[-1], events)
            session = store.create(durability="buffered")
            session.append_many(events, durability="buffered")
            session.close()
        store.index()

        def rows() -> None:
            baselines.rebuild_rows(str(tmp_path / f"rows-{next(numbers)}.db"), files)

        name = "rebuild-index, times the MB/s of orjson + executemany"
        compare(benchmark, lambda: store.index().rebuild(), rows, name=name, bar=2.0, at_most=False, rounds=5)
