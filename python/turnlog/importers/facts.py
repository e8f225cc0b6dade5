"""What a mapper has seen: counts, times and findings.

Owns: the numbers that end up in `source.imported` and in the report of an import. Invariant: every finding is counted,
the first FINDINGS_MAX are kept. Must not know: records, events, products.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.importers.lines import Line

FINDINGS_MAX = 1000
"""Findings kept per file; all are counted, and damage is an event too."""

NOTES = {
    "bom": "byte order mark in front of the record",
    "crlf": "lines end in carriage return and line feed (first one)",
    "not_a_number": "a number JSON cannot hold was kept as text",
}


class Facts:
    """What a mapper has seen so far: counts, times and findings."""

    __slots__ = ("damage", "findings", "first_time", "last_time", "lines", "max_time", "min_time", "records", "unknown")

    def __init__(self) -> None:
        """Start at nothing."""
        self.lines = 0
        self.records = 0
        self.unknown: dict[str, int] = {}
        self.damage: dict[str, int] = {}
        self.findings: list[dict[str, Any]] = []
        self.first_time: str | None = None
        self.last_time: str | None = None
        self.min_time: str | None = None
        self.max_time: str | None = None

    def saw_time(self, time: str) -> None:
        """Widen the range of times; they compare as text because one product writes one form."""
        if self.first_time is None or self.min_time is None or self.max_time is None:
            self.first_time = self.min_time = self.max_time = time
        self.last_time = time
        self.min_time = min(self.min_time, time)
        self.max_time = max(self.max_time, time)

    def found(self, code: str, line: Line, length: int, detail: str) -> None:
        """Count a finding, and keep it for the report; `length` is in bytes."""
        self.damage[code] = self.damage.get(code, 0) + 1
        if len(self.findings) < FINDINGS_MAX:
            place = {"line": line.number, "offset": line.offset, "length": length}
            self.findings.append({"code": code, "detail": detail, **place})

    def summary(self) -> dict[str, Any]:
        """Return the counts and times as they are stored at the end of an import."""
        return {
            "lines": self.lines,
            "records": self.records,
            "unknown": dict(self.unknown),
            "damage": dict(self.damage),
            "first_time": self.first_time,
            "last_time": self.last_time,
            "min_time": self.min_time,
            "max_time": self.max_time,
        }
