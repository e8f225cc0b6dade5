"""Start-up: what importing turnlog and one `sessionctl list` cost over a bare interpreter."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from turnlog import Store

from .ratio import record

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

ROUNDS = 15


def _over_bare(command: list[str]) -> float:
    """Return the median of (command - `python -c pass`) in milliseconds, measured in turns."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    differences = []
    for _ in range(ROUNDS):
        took = []
        for run in ([sys.executable, "-c", "pass"], command):
            start = time.perf_counter()
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL, env=environment)
            took.append(time.perf_counter() - start)
        differences.append(took[1] - took[0])
    return statistics.median(differences) * 1e3


def test_import(benchmark: BenchmarkFixture) -> None:
    figure = benchmark.pedantic(lambda: _over_bare([sys.executable, "-c", "import turnlog"]), rounds=1)
    record(benchmark, "import turnlog, milliseconds over `python -c pass`", figure, 15, at_most=True)


def test_list(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        for number in range(50):
            store.create(title=f"session {number}", cwd="/home/dev/project").close()
    script = "import sys; from turnlog.__main__ import main; sys.exit(main())"  # what the installed command runs
    command = [sys.executable, "-c", script, "--store", str(tmp_path / "store"), "list"]
    figure = benchmark.pedantic(lambda: _over_bare(command), rounds=1)
    record(benchmark, "sessionctl list, milliseconds over `python -c pass`", figure, 35, at_most=True)
