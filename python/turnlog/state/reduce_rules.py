"""What the rules of all families share: a rule, a refusal, the reading of single fields.

Owns: how a violation is noted, when an event counts as observed. Invariants: a field of the wrong shape reads as if it
were absent; nothing here raises for what a payload holds. Must not know: a single event type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from turnlog.reference import KEY
from turnlog.state.records import PREVIEW_CHARACTERS_MAX, Violation
from turnlog.state.state import NAMES_MAX, VIOLATIONS_MAX, State

Payload = Mapping[str, Any]

COUNT_MAX = 2**63 - 1  # what every reader of a snapshot can hold, and what the index keeps
SHARED_FIELDS = ("v", "by", "source", "turn")


class Refusal(NamedTuple):
    """Why an event is not legal in a state: a stable code, and a sentence with ids but no content."""

    code: str
    detail: str


class Rule(NamedTuple):
    """What one event type needs and does: `judge` looks, `apply` changes; both read only `fields` of the payload
    (None: all of it).
    """

    judge: Callable[[State, str, Payload], Refusal | None]
    apply: Callable[[State, str, Payload, int, int], None]
    fields: tuple[str, ...] | None = ()


def legal(_state: State, _type: str, _payload: Payload) -> Refusal | None:
    """Judge an event that is legal everywhere."""
    return None


def is_observed(payload: Payload) -> bool:
    """Tell whether another product wrote this history: it recorded only part, so nothing missing is a violation."""
    return payload.get("source") is not None


def note(state: State, ordinal: int, refusal: Refusal) -> None:
    """Keep a violation; the first VIOLATIONS_MAX are kept, all are counted."""
    state.violation_count += 1
    if len(state.violations) < VIOLATIONS_MAX:
        state.violations = (*state.violations, Violation(refusal.code, ordinal, refusal.detail))


def text(payload: Payload, name: str) -> str:
    """Return a field that is text, else ""."""
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def preview(value: object) -> str:
    """Return text as one short line: white space joined, cut to PREVIEW_CHARACTERS_MAX; of text that became an
    artifact, the summary that stands in its place.
    """
    if isinstance(value, dict):
        reference = value.get(KEY)
        value = reference.get("summary") if isinstance(reference, dict) else None
    if not isinstance(value, str):
        return ""
    return " ".join(value[: 4 * PREVIEW_CHARACTERS_MAX].split())[:PREVIEW_CHARACTERS_MAX]


def positive(payload: Payload, name: str) -> int:
    """Return a field that is an integer above 0, at most COUNT_MAX; else 0."""
    value = payload.get(name)
    return min(value, COUNT_MAX) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def texts(payload: Payload, name: str) -> tuple[str, ...]:
    """Return the texts of a field that is a list, without twins."""
    value = payload.get(name)
    items = value if isinstance(value, list | tuple) else ()
    return tuple(dict.fromkeys(item for item in items if isinstance(item, str)))


def count(counts: dict[str, int], name: str) -> None:
    """Add one to a counter; beyond NAMES_MAX names, to a common one."""
    if name not in counts and len(counts) >= NAMES_MAX:
        name = "(other)"
    counts[name] = counts.get(name, 0) + 1


def missing(type: str, name: str) -> Refusal:
    """Return the refusal of a payload without a field it cannot do without."""
    return Refusal("field_missing", f"{type} has no {name}")
