"""A progress line on a terminal for work that takes longer than a second; nothing at all when piped.

Owns: when and how often the line is shown, and that it is gone before anything else is written to stderr. Invariant:
it shows bytes and events reached, so that it proves progress and not life. Must not know: what the work is.
"""

from __future__ import annotations

import os
import sys
import time

from turnlog.cli.output import is_terminal
from turnlog.cli.terminal import count, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_QUIET_S = 1.0
_EVERY_S = 0.2
_CELLS = 24


class Progress:
    """Call it with (done, total[, events]); use it as a context manager, so that the line is erased at the end."""

    def __init__(self, label: str, *, unit: str = "bytes") -> None:
        """Prepare; `unit` is `bytes` or the noun of what is counted."""
        self._label = label
        self._unit = unit
        self._active = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"
        self._next_s = time.monotonic() + _QUIET_S
        self._shown = False
        self._done = self._total = self._ordinals = 0

    def __call__(self, done: int, total: int = 0, events: int = 0) -> None:
        """Show how far the work is, at most five times a second."""
        if not self._active or (now_s := time.monotonic()) < self._next_s:
            return
        self._next_s = now_s + _EVERY_S
        self._shown = True
        sys.stderr.write(f"\r\x1b[K{self._label}  {_bar(done, total)}{self._amounts(done, total, events)}")
        sys.stderr.flush()

    @property
    def active(self) -> bool:
        """Whether anything is ever shown: without it, a total need not be worked out."""
        return self._active

    def add(self, amount: int) -> None:
        """Count `amount` more, towards `expect`."""
        self._done += amount
        self(self._done, self._total, self._ordinals)

    def expect(self, total: int) -> None:
        """Say how much there will be in all."""
        self._total = total

    def passed(self, ordinals: int) -> None:
        """Say how many events are done."""
        self._ordinals += ordinals

    def _amounts(self, done: int, total: int, events: int) -> str:
        show = size if self._unit == "bytes" else count
        text = f"{show(done)} of {show(total)}" if total else show(done)
        if self._unit != "bytes":
            text += f" {self._unit}"
        return text + (f"  {count(events, 'event')}" if events else "")

    def clear(self) -> None:
        """Erase the line, so that something else can be written."""
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        """Return the progress."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Erase the line."""
        self.clear()


def _bar(done: int, total: int) -> str:
    if total <= 0:
        return ""
    part = min(1.0, done / total)
    filled = round(part * _CELLS)
    return f"[{'#' * filled}{'.' * (_CELLS - filled)}] {part:4.0%}  "
