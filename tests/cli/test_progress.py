"""The progress line: nothing when piped or quick, erased at the end."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest

from turnlog.cli import progress as progress_module
from turnlog.cli.progress import Progress


class Screen(io.StringIO):
    """A terminal that remembers what it was sent."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that stands still until its only item is set."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Put a terminal behind stderr."""
    found = Screen()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_the_first_second_is_quiet_and_then_amounts_are_shown(screen: Screen, clock: list[float]) -> None:
    with Progress("verifying") as progress:
        progress.expect(4 << 20)
        progress.add(1 << 20)
        assert screen.getvalue() == ""
        clock[0] += 1.1
        progress.passed(1234)
        progress.add(1 << 20)
        assert "verifying  [############............]  50%  2.0 MiB of 4.0 MiB  1,234 events" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_it_is_shown_five_times_a_second_at_most(screen: Screen, clock: list[float]) -> None:
    progress = Progress("importing", unit="sessions")
    clock[0] += 2
    for _ in range(100):
        progress(1, 10)
    assert screen.getvalue().count("importing") == 1


def test_nothing_is_shown_when_piped_or_dumb(
    monkeypatch: pytest.MonkeyPatch, screen: Screen, clock: list[float]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    dumb = Progress("verifying")
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=io.StringIO()))
    piped = Progress("verifying")
    clock[0] += 10
    for progress in (dumb, piped):
        assert not progress.active
        progress.add(1)
    assert screen.getvalue() == ""
