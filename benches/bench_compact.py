"""Compact: how much smaller, and how fast against zstd alone on the same blocks."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import zstandard

from turnlog import Store
from turnlog._core import BLOCK_BYTES
from turnlog.compact.compact import compact_session

from .ratio import compare, record

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture


def test_compact_against_zstd(benchmark: BenchmarkFixture, big_store: tuple[Path, str], tmp_path: Path) -> None:
    source, identity = big_store
    copy = tmp_path / "copy"
    raw = [path.read_bytes() for path in sorted(source.glob("sessions/*/*/*.seg"))]

    def zstd() -> None:
        compressor = zstandard.ZstdCompressor(level=3)
        for data in raw:
            for start in range(0, len(data), BLOCK_BYTES):
                compressor.compress(data[start : start + BLOCK_BYTES])

    def fresh() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(source, copy)

    name = "compact: share of the speed of zstd level 3 on the same blocks"
    compare(
        benchmark,
        lambda: compact_session(str(copy), identity),
        zstd,
        name=name,
        bar=0.80,
        at_most=False,
        before=fresh,
        rounds=3,
    )


def test_compact_ratio(benchmark: BenchmarkFixture, big_store: tuple[Path, str], tmp_path: Path) -> None:
    source, identity = big_store
    copy = tmp_path / "copy"
    shutil.copytree(source, copy)
    result = benchmark.pedantic(lambda: compact_session(str(copy), identity), rounds=1)
    with Store.open(copy, read_only=True) as store:
        assert sum(1 for _ in store.session(identity).events()) > 0
    record(benchmark, "compact: times smaller", result["raw_bytes"] / result["compacted_bytes"], 2.8, at_most=False)
