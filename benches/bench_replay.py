"""Replay and verify a session of 200,000 events."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import xxhash

from turnlog import Store
from turnlog.verify import check_session

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


def _anonymous_kib() -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))


def _growth_in_child(make: Any) -> int:
    """Return by how many KiB a fresh child grows while it holds what `make` returns."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        before = _anonymous_kib()
        kept = make()
        os.write(write, str(_anonymous_kib() - before).encode())
        os._exit(0 if kept else 1)
    os.waitpid(pid, 0)
    os.close(write)
    with os.fdopen(read) as file:
        return int(file.read())


def test_memory_of_lazy_handles(benchmark: BenchmarkFixture, big_store: tuple[Path, str], jsonl: Path) -> None:
    def handles() -> list[Any]:
        store = Store.open(big_store[0], read_only=True)
        return list(store.session(big_store[1]).events())

    def measure() -> float:
        return _growth_in_child(handles) / _growth_in_child(lambda: _orjson_list(jsonl))

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
