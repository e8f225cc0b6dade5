"""Fixtures of the benches and the table of ratios that ends a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store

from .workload import Rollout, fill

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = 200_000


@pytest.fixture(scope="session")
def small_events() -> list[tuple[str, dict[str, Any]]]:
    """Return 20,000 events."""
    return list(Rollout().session(20_000))


@pytest.fixture(scope="session")
def events_1500() -> list[dict[str, Any]]:
    """Return 2,000 payloads whose canonical form is close to 1.5 KB."""
    rollout = Rollout()
    return [
        {"call_id": f"call_{number:024x}", "output": {"exit_code": 0, "text": rollout.code(1350).ljust(1350)}}
        for number in range(2000)
    ]


@pytest.fixture(scope="session")
def big_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a store with one session of 200,000 events, and the session's id."""
    path = tmp_path_factory.mktemp("big") / "store"
    with Store.open(path) as store:
        session = store.create(title="big", durability="buffered")
        fill(session, Rollout().session(EVENTS))
        identity = session.id
    return path, identity


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table of ratios."""
    session = getattr(config, "_benchmarksession", None)
    rows = [bench.extra_info for bench in session.benchmarks if "bar" in bench.extra_info] if session else []
    if not rows:
        return
    terminalreporter.section("ratios within this run")
    for row in rows:
        sign = "<=" if row["at_most"] else ">="
        held = row["figure"] <= row["bar"] if row["at_most"] else row["figure"] >= row["bar"]
        spread = f"({row['spread'][0]:.3g}-{row['spread'][1]:.3g})" if row["spread"] else ""
        verdict = "" if held else "  BELOW THE BAR"
        terminalreporter.write_line(
            f"{row['name']:<72} {row['figure']:>8.3g} {spread:<16} bar {sign} {row['bar']:g}{verdict}"
        )
