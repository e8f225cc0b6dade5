"""Replay and verify a session of 200,000 events."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import xxhash

from turnlog import Store
from turnlog.verify.verify import check_session

from . import baselines
from .conftest import EVENTS
from .ratio import compare, record
from .workload import Rollout

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

CHUNK = 1024 * 1024


@pytest.fixture(scope="module")
def jsonl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jsonl") / "big.jsonl"
    baselines.write_jsonl(str(path), Rollout().session(EVENTS))
    return path


def _orjson_list(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return [orjson.loads(line) for line in file]


def test_lazy_handles_against_orjson(benchmark: BenchmarkFixture, big_store: tuple[Path, str], jsonl: Path) -> None:
    with Store.open(big_store[0], read_only=True) as store:
        session = store.session(big_store[1])
        assert len(list(session.events())) >= EVENTS
        name = "200,000 events as verified lazy handles, times faster than orjson"
        compare(
            benchmark,
            lambda: list(session.events()),
            lambda: _orjson_list(jsonl),
            name=name,
            bar=8,
            at_most=False,
            rounds=5,
        )


def test_decoded_events_against_orjson(benchmark: BenchmarkFixture, big_store: tuple[Path, str], jsonl: Path) -> None:
    with Store.open(big_store[0], read_only=True) as store:
        session = store.session(big_store[1])
        name = "200,000 events fully decoded, times faster than orjson"

        def decoded() -> list[Any]:
            return [event.payload for event in session.events()]

        compare(benchmark, decoded, lambda: _orjson_list(jsonl), name=name, bar=1.3, at_most=False, rounds=5)


GROWTH = """
import sys

def anonymous_kib():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))

import orjson
from turnlog import Store
path, session_id, jsonl, side = sys.argv[1:]
session = Store.open(path, read_only=True).session(session_id)
next(session.events())
before = anonymous_kib()
if side == "handles":
    kept = list(session.events())
else:
    with open(jsonl, "rb") as file:
        kept = [orjson.loads(line) for line in file]
print(anonymous_kib() - before)
"""


def _growth_kib(store: tuple[Path, str], jsonl: Path, side: str) -> int:
    """Return by how much a fresh process grows while it keeps what it has read."""
    command = [sys.executable, "-c", GROWTH, str(store[0]), store[1], str(jsonl), side]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def test_memory_of_lazy_handles(benchmark: BenchmarkFixture, big_store: tuple[Path, str], jsonl: Path) -> None:
    def measure() -> float:
        return _growth_kib(big_store, jsonl, "handles") / _growth_kib(big_store, jsonl, "objects")

    figure = benchmark.pedantic(measure, rounds=1)
    record(benchmark, "memory of 200,000 lazy handles / of orjson's objects", figure, 1 / 8, at_most=True)


def iter_chunks(path: Path) -> Any:
    """Yield the file in pieces of 1 MiB."""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK):
            yield chunk


def test_verify_against_bulk_xxh3(benchmark: BenchmarkFixture, big_store: tuple[Path, str]) -> None:
    files = sorted(big_store[0].glob("sessions/*/*/*.seg"))

    def bulk() -> None:
        for path in files:
            hasher = xxhash.xxh3_64()
            for chunk in iter_chunks(path):
                hasher.update(chunk)
            hasher.intdigest()

    def verify() -> None:
        assert check_session(str(big_store[0]), big_store[1]).ok

    compare(
        benchmark, verify, bulk, name="verify: share of the speed of bulk XXH3 with reading", bar=0.50, at_most=False
    )


def test_verify_full_against_sha256(benchmark: BenchmarkFixture, big_store: tuple[Path, str]) -> None:
    files = sorted(big_store[0].glob("sessions/*/*/*.seg"))

    def bulk() -> None:
        for path in files:
            hasher = hashlib.sha256()
            for chunk in iter_chunks(path):
                hasher.update(chunk)
            hasher.digest()

    def verify() -> None:
        assert check_session(str(big_store[0]), big_store[1], full=True).ok

    compare(
        benchmark,
        verify,
        bulk,
        name="verify --full: share of the speed of SHA-256 on one core",
        bar=0.75,
        at_most=False,
    )
