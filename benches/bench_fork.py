"""Forks of a session of 100,000 events: at its head, and at turns anywhere in it; open for writing and closed.

Owns: these figures, and beside each of them the cost of the syncs alone that make a fork durable, measured in turns
with the forks. Must not know: how a fork is made.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from typing import TYPE_CHECKING

import pytest

from turnlog import Store, names

from .ratio import record, seconds
from .workload import SEED, Rollout, fill

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

    from turnlog import Session

EVENTS = 100_000
FORKS = 100
FORK_MS_MAX = 1.0
FORK_BYTES_MAX = 8 * 1024
PAYLOAD = bytes(4584)  # as large as the file of a fork


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Session]]:
    """Yield a store and its session, open for writing."""
    with Store.open(tmp_path_factory.mktemp("forks") / "store") as store:
        session = store.create(title="parent", durability="buffered")
        fill(session, Rollout().session(EVENTS))
        session.flush()
        for number in range(256):  # a store that has been used has the folders that sessions lie in
            os.makedirs(os.path.dirname(names.session_dir(store.path, f"{number:036x}")), exist_ok=True)
        yield store, session


def bare_syncs(folder: Path, number: int) -> None:
    """Do what makes a fork durable and nothing else: file, folder, name of the folder, folder above."""
    made = folder / f"{number}"
    (folder / f"{number}.tmp").mkdir()
    descriptor = os.open(folder / f"{number}.tmp" / "file", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.pwrite(descriptor, PAYLOAD, 0)
    os.fdatasync(descriptor)
    os.close(descriptor)
    sync(folder / f"{number}.tmp")
    os.rename(folder / f"{number}.tmp", made)
    sync(folder)
    sync(folder.parent)


def sync(folder: Path) -> None:
    """Put the names in a folder on stable storage."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


@pytest.mark.parametrize("state", ["open", "closed"])
@pytest.mark.parametrize("place", ["its head", "a turn"])
def test_a_fork_of_100_000_events(
    benchmark: BenchmarkFixture, parent: tuple[Store, Session], tmp_path: Path, state: str, place: str
) -> None:
    store, session = parent
    if state == "closed":
        session.close()
    reader = store.session(session.id)
    turns = [event.ordinal - 1 for event in reader.events(types=["message.user"]) if event.ordinal > 2]
    pick = random.Random(SEED)
    syncs_ms: list[float] = []
    made: list[str] = []

    def setup() -> None:
        start = time.perf_counter()
        bare_syncs(tmp_path, len(syncs_ms))
        syncs_ms.append((time.perf_counter() - start) * 1e3)

    def fork() -> None:
        at = None if place == "its head" else pick.choice(turns)
        made.append(store.fork(session.id, at).id)

    benchmark.pedantic(fork, setup=setup, rounds=FORKS, warmup_rounds=5)
    assert max(map(stored_bytes, map(store.session, made))) < FORK_BYTES_MAX
    times_ms = sorted(took_s * 1e3 for took_s in seconds(benchmark))
    name = f"ms: fork of 100,000 events at {place}, {state} (its syncs alone: {statistics.median(syncs_ms):.2f})"
    spread = (times_ms[FORKS // 20], times_ms[-FORKS // 20])
    record(benchmark, name, statistics.median(times_ms), FORK_MS_MAX, at_most=True, spread=spread)


def stored_bytes(session: Session) -> int:
    """Return the bytes of the files of a session."""
    folder = session.log().directory
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
