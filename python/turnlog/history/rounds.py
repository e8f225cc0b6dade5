"""What a conversation consists of: what was said, and rounds of calls with their results.

Owns: how the events of a call lead to its one result, and the results that are made up where the log holds none.
Invariants: pure; a settled call has a result that is not empty; the first outcome stands. Must not know: how calls are
found in the log, what any provider's messages look like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from turnlog.history.content import Part, parts_of

if TYPE_CHECKING:
    from collections.abc import Mapping

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
ANSWERED, NOT_RUN, UNKNOWN = "answered", "not_run", "unknown"
NOT_RUN_TEXT = "This call was not run: the session was interrupted before it started."
UNKNOWN_TEXT = (
    "The outcome of this call is unknown: it was or may have been started, and no result was recorded. It may have had "
    "its effect."
)

ENDS = frozenset({"tool.completed", "tool.failed", "tool.cancelled", "tool.denied", "tool.resolved"})
_REASONS = {"tool.denied": "The call was denied", "tool.cancelled": "The call was cancelled", "tool.failed": "Failed"}

Key = tuple[str, str]


class Said(NamedTuple):
    """A message of the user or of the program."""

    role: str
    parts: list[Part]


class Asked:
    """A tool call of a round: `parts` is its result; `status` says where that comes from."""

    __slots__ = ("arguments", "call_id", "failed", "key", "kind", "name", "observed", "ordinal", "parts", "status")

    def __init__(self, key: Key, name: str, arguments: Any, kind: str, ordinal: int, *, observed: bool) -> None:
        """Begin without a result; `ordinal` is that of the call's latest event."""
        self.key = key
        self.call_id = key[1]
        self.name = name
        self.arguments = arguments
        self.kind = kind
        self.ordinal = ordinal
        self.observed = observed
        self.status = UNKNOWN if observed else NOT_RUN  # other products do not record that a call was started
        self.parts: list[Part] = []
        self.failed = False

    def take(self, type: str, payload: Mapping[str, Any], ordinal: int) -> None:
        """Follow one event of the call."""
        if self.status == ANSWERED:
            return
        self.ordinal = ordinal
        outcome = payload.get("outcome") if type == "tool.resolved" else None
        if outcome == "not_executed":
            self.status = NOT_RUN
        elif type in ("tool.started", "tool.outcome_unknown"):
            self.status = UNKNOWN
        elif type in ENDS:
            self.status = ANSWERED
            self.failed = type != "tool.completed" and outcome != "completed"
            self.parts = parts_of(payload.get("content")) or _instead(type, payload)

    def settle(self) -> None:
        """Give the call a result that says why there is none."""
        if self.status != ANSWERED:
            self.failed = True
            self.parts = parts_of(NOT_RUN_TEXT if self.status == NOT_RUN else UNKNOWN_TEXT)


class Round:
    """What the assistant said and asked for in one go, and the results."""

    __slots__ = ("calls", "parts", "role")

    def __init__(self) -> None:
        """Begin empty."""
        self.role = ASSISTANT
        self.parts: list[Part] = []
        self.calls: dict[Key, Asked] = {}

    @property
    def is_answered(self) -> bool:
        """Whether a result has come: what is asked for after it belongs to another round."""
        return any(call.status == ANSWERED for call in self.calls.values())


Item = Said | Round


def _instead(type: str, payload: Mapping[str, Any]) -> list[Part]:
    """Return what stands for a result without content."""
    why = payload.get("error") or payload.get("reason")
    if type in _REASONS:
        return parts_of(f"{_REASONS[type]}{f': {why}' if why else '.'}")
    return parts_of(str(why)) if why else parts_of("(no output)")
