"""A window of 100 events anywhere in a session of 337,000: in sealed, compacted and newest segments, cold.

Owns: these figures. Invariant: each window is read through a store and a session that were opened for it, so nothing
but the operating system's cache is warm. Must not know: how a place is found.
"""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING

import pytest

from turnlog import Store
from turnlog.compact.compact import compact_session
from turnlog.log.segments import list_segments

from .ratio import record, seconds
from .workload import SEED, Rollout, fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from turnlog import Session

EVENTS = 337_000
WINDOW = 100
PLACES = 200
WINDOW_MS_MAX = 5.0


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Session]]:
    """Yield the path of a store and its session, open for writing."""
    path = tmp_path_factory.mktemp("windows") / "store"
    with Store.open(path) as store:
        session = store.create(title="big", durability="buffered")
        fill(session, Rollout().session(EVENTS))
        session.flush()
        yield path, session


@pytest.mark.parametrize("kind", ["sealed", "being written", "closed", "compacted"])
def test_a_window_of_100_events(benchmark: BenchmarkFixture, big: tuple[Path, Session], kind: str) -> None:
    path, session = big
    files = list_segments(session.log().directory) if kind != "compacted" else []
    first, last = 0, EVENTS - WINDOW
    if kind == "sealed":
        last = files[-1].first_ordinal - WINDOW
    elif kind == "compacted":
        compact_session(str(path), session.id)
    else:
        first = files[-1].first_ordinal - 1
    if kind == "closed":
        session.close()
    pick = random.Random(SEED)

    def window() -> None:
        after = pick.randint(first, last)
        with Store.open(path, read_only=True) as store:
            events = list(store.session(session.id).events(after=after, before=after + WINDOW + 1))
        assert [event.ordinal for event in events] == list(range(after + 1, after + WINDOW + 1))

    benchmark.pedantic(window, rounds=PLACES, warmup_rounds=3)
    times_ms = [took_s * 1e3 for took_s in seconds(benchmark)]
    name = f"ms: window of 100 of 337,000 events, {kind}, worst of 200 (median {statistics.median(times_ms):.2f})"
    record(benchmark, name, max(times_ms), WINDOW_MS_MAX, at_most=True, spread=(min(times_ms), max(times_ms)))
