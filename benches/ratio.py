"""Two sides measured in turns within one run, and their ratio.

Owns: how every figure of the table comes about. Invariant: the reference runs in the same process and round as what
it is compared with, and the figure is the median of the rounds' ratios, so a machine that speeds up or slows down in
between does not change it.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

ROUNDS = 7


def compare(
    benchmark: BenchmarkFixture,
    ours: Callable[[], Any],
    reference: Callable[[], Any],
    *,
    name: str,
    bar: float,
    at_most: bool,
    rounds: int = ROUNDS,
    before: Callable[[], Any] | None = None,
) -> float:
    """Time both in turns, record their ratio and the bar, return the median ratio.

    With `at_most` the ratio is ours / reference (smaller is better), else reference / ours.
    """
    times: list[float] = []

    def setup() -> None:
        gc.collect()
        start = time.perf_counter()
        reference()
        times.append(time.perf_counter() - start)
        gc.collect()
        if before is not None:
            before()

    benchmark.pedantic(ours, setup=setup, rounds=rounds, warmup_rounds=1)
    mine = seconds(benchmark)
    pairs = list(zip(mine, times[-len(mine) :], strict=True))
    ratios = [our / other if at_most else other / our for our, other in pairs]
    figure = float(statistics.median(ratios))
    record(benchmark, name, figure, bar, at_most=at_most, spread=(min(ratios), max(ratios)))
    return figure


def seconds(benchmark: BenchmarkFixture) -> list[float]:
    """Return how long each round took."""
    measured = benchmark.stats
    if measured is None:
        raise RuntimeError("the bench has not run; use --benchmark-enable")
    return list(measured.stats.data)


def record(
    benchmark: BenchmarkFixture,
    name: str,
    figure: float,
    bar: float,
    *,
    at_most: bool,
    spread: tuple[float, float] | None = None,
) -> None:
    """Put one row into the table that ends the run."""
    benchmark.extra_info.update({"name": name, "figure": figure, "bar": bar, "at_most": at_most, "spread": spread})
