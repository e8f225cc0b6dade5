"""One report for each model message of Claude Code, whose lines repeat its usage and may come back later.

Owns: which usage counts. Invariant: the `usage` values reported for a message add up to those of its line with the most
output tokens, the last one of several. Must not know: records, events.
"""

from __future__ import annotations

from turnlog.importers.claude_records import usage_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Payload = dict[str, Any]


class Steps:
    """Give it the lines of messages in order; `end` says what to report when a message is over."""

    __slots__ = ("_fields", "_reported", "_tokens", "_usage", "identity")

    def __init__(self) -> None:
        """Start without an open message."""
        self.identity: str | None = None
        self._tokens = -1
        self._usage: dict[str, int] = {}
        self._fields: Payload = {}
        self._reported: dict[str, dict[str, int]] = {}

    def grow(self, identity: str, usage: object, fields: Payload) -> None:
        """Take one more line of the open message, or the first one of the next; `fields` are reported with it."""
        if self.identity is None:
            self.identity, self._tokens, self._usage, self._fields = identity, -1, {}, {}
        tokens, kinds = usage_of(usage)
        if tokens >= self._tokens:
            self._tokens, self._usage = tokens, kinds
        stop = fields.get("stop_reason") or self._fields.get("stop_reason")
        self._fields = {**fields, "stop_reason": stop, "step": identity}

    def end(self) -> Payload | None:
        """Return the report of the open message, or of what was added to it since; None when nothing is new."""
        identity, self.identity = self.identity, None
        if identity is None:
            return None
        before = self._reported.get(identity)
        if before is not None and (self._usage == before or self._tokens < before.get("output", 0)):
            return None
        self._reported[identity] = self._usage
        known = before or {}
        added = {name: count - known.get(name, 0) for name, count in self._usage.items()}
        return {**self._fields, "usage": added, "again": before is not None or None}
