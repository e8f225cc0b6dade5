"""What a model call cost: the counts that a provider reports, under the names that a session adds up.

Owns: the providers' names and what they mean. Invariants: no token counts under two kinds; a kind that is told under
two names has one number; what is no count stays as it is. Must not know: steps, events, prices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from turnlog.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator

KINDS = ("input", "output", "cache_read", "cache_write")
_SAME = {
    "cache_creation": "cache_write",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
    "output_tokens": "output",
    "completion_tokens": "output",
}
_WITH_DETAILS = {"input_tokens": "input_tokens_details", "prompt_tokens": "prompt_tokens_details"}
"""Counts of input, and the objects beside them that say how many of these tokens were read from a cache."""


def counted(usage: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the usage with its counts named input, output, cache_read, cache_write; see `Step.complete`.

    Raises InvalidInput for a count that is none, or when one kind is told twice with different numbers.

    >>> counted({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}})
    {'prompt_tokens_details': {'cached_tokens': 60}, 'cache_read': 60, 'input': 40, 'output': 7}
    """
    if usage is None:
        return None
    given: object = usage  # whatever the annotation says
    if not isinstance(given, Mapping):
        raise InvalidInput(f"usage counts tokens by kind, as a dict, not {given.__class__.__name__}")
    found: dict[str, tuple[str, int]] = {}
    for kind, name, count in _counts(usage):
        known = found.setdefault(kind, (name, count))
        if known[1] != count:
            message = f"usage tells {kind} twice: {known[0]} says {known[1]}, {name} says {count}"
            raise InvalidInput(message)
    rest = {name: value for name, value in usage.items() if not _is_count(name, value)}
    return {**rest, **{kind: count for kind, (_, count) in sorted(found.items())}}


def _is_count(name: str, value: object) -> bool:
    if name == "cache_creation" and isinstance(value, Mapping):  # Anthropic's: the same tokens by lifetime
        return False
    return name in KINDS or name in _SAME or name in _WITH_DETAILS


def _counts(usage: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yield kind, name and number of each count."""
    for name, value in usage.items():
        details = usage.get(_WITH_DETAILS.get(name, ""))
        cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
        if not _is_count(name, value) or (value is None and name not in KINDS):  # a provider's null: it says nothing
            continue
        count = _count(name, value)
        if cached is None:
            yield _SAME.get(name, name if name in KINDS else "input"), name, count
            continue
        of_them = _count(f"cached_tokens of {name}", cached)
        if of_them > count:
            raise InvalidInput(f"usage counts tokens: {name} is {count}, and {of_them} of them were cached")
        yield "input", f"{name} without its cached_tokens", count - of_them
        yield "cache_read", f"cached_tokens of {name}", of_them


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidInput(f"usage counts tokens: {name} is {value!r}")
    return value
