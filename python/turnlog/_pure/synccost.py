"""Whether a round with many dirty files calls syncfs once or fdatasync for each.

Owns: the running estimate of both costs. Invariant: syncfs is used only while it is not dearer than the files alone
would be; a bad one is tried again after a growing number of rounds, because a neighbour's flood of dirty pages ends
some day. Must not know: files, writers.
"""

from __future__ import annotations

MANY = 4  # fewer files are synced one by one
_FIRST_FILE_NS = 100_000.0
_SAMPLE_ROUNDS = 64
_PROBE_ROUNDS_MAX = 4096
_WEIGHT = 0.25


class SyncCost:
    """Running cost estimates in nanoseconds."""

    def __init__(self) -> None:
        self._file_ns = _FIRST_FILE_NS
        self._syncfs_ns: float | None = None
        self._rounds = 0
        self._probe_rounds = _SAMPLE_ROUNDS
        self._next_probe = 0

    def prefers_syncfs(self, files: int) -> bool:
        """Decide for a round with this many files on the same file system."""
        if files < MANY:
            return False
        self._rounds += 1
        if self._syncfs_ns is None or self._syncfs_ns <= self._file_ns * files:
            return True
        if self._rounds < self._next_probe:
            return False
        self._probe_rounds = min(self._probe_rounds * 2, _PROBE_ROUNDS_MAX)
        self._next_probe = self._rounds + self._probe_rounds
        return True

    def wants_sample(self) -> bool:
        """Whether this syncfs round should sync one file alone first, to learn what that costs now."""
        return self._rounds % _SAMPLE_ROUNDS == 1

    def saw_file(self, spent_ns: int) -> None:
        """Learn from one fdatasync."""
        self._file_ns += (spent_ns - self._file_ns) * _WEIGHT

    def saw_syncfs(self, spent_ns: int, files: int) -> None:
        """Learn from one syncfs that stood for this many files."""
        before = self._syncfs_ns
        self._syncfs_ns = float(spent_ns) if before is None else before + (spent_ns - before) * _WEIGHT
        if spent_ns <= self._file_ns * files:
            self._probe_rounds = _SAMPLE_ROUNDS
            self._syncfs_ns = min(self._syncfs_ns, float(spent_ns))
