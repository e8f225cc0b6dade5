"""A process that dies at a chosen step: every call that changes the disk is counted, and from one on none happens.

Owns: the counting and the death. A write dies half done. Must not know: what is being written.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

CALLS = ("fdatasync", "fsync", "ftruncate", "link", "mkdir", "pwrite", "rename", "unlink")


class Died(BaseException):
    """The process is gone; nothing may catch this."""


class PowerCut:
    """Lets `allowed` changes of the disk happen, dies in the next one, and lets none happen afterwards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
        self.left = allowed
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == -1 and name == "pwrite":
                descriptor, data, offset = args
                call(descriptor, bytes(data)[: len(data) // 2], offset)
            if self.left < 0:
                raise Died(name)
            return call(*args, **kwargs)

        return counted


def until_done(monkeypatch: pytest.MonkeyPatch, attempt: Callable[[], object]) -> Iterator[int]:
    """Run `attempt` again and again, dying one step later each time, until it lives; yield after each death."""
    allowed = 0
    while True:
        with monkeypatch.context() as patch:
            PowerCut(patch, allowed)
            try:
                attempt()
            except Died:
                died = True
            else:
                died = False
        if not died:
            return
        yield allowed
        allowed += 1
