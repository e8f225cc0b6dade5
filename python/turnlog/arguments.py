"""What callers hand in, checked where they hand it in: texts, whole numbers, lists of texts, paths, levels.

Owns: the checks and their sentences. Invariant: a wrong type or range is InvalidInput, raised before anything is
written or opened. Must not know: what an argument is for.
"""

from __future__ import annotations

import os

from turnlog.errors import InvalidInput
from turnlog.ids import parse_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


EPHEMERAL = "ephemeral"
LEVELS = {"durable": True, "buffered": False}
"""The levels at which an event is stored, and whether its append waits for a sync."""

EPHEMERAL_TYPES = frozenset(
    (
        *("notification.shown", "notification.cleared", "progress.updated"),
        *("dialog.opened", "dialog.answered", "dialog.closed"),
    )
)
"""The types of EVENTS.md that are never stored, without the import of the vocabulary."""


def require_text(name: str, value: object, *, optional: bool = False) -> None:
    """Raise InvalidInput unless `value` is a text, or None where that is allowed.

    >>> require_text("title", 3)
    Traceback (most recent call last):
    turnlog.errors.InvalidInput: title is a text, not 3
    """
    if not (isinstance(value, str) or (optional and value is None)):
        raise InvalidInput(f"{name} is a text, not {_shown(value)}")


def require_name(name: str, value: object) -> None:
    """Raise InvalidInput unless `value` is a text that names something: one with at least one character.

    >>> require_name("name", "")
    Traceback (most recent call last):
    turnlog.errors.InvalidInput: name is a text that is not empty
    """
    require_text(name, value)
    if not value:
        raise InvalidInput(f"{name} is a text that is not empty")


def require_whole(name: str, value: object, *, least: int = 0, optional: bool = False) -> None:
    """Raise InvalidInput unless `value` is a whole number of at least `least`, or None where that is allowed.

    >>> require_whole("roll_bytes", -1)
    Traceback (most recent call last):
    turnlog.errors.InvalidInput: roll_bytes is a whole number, 0 or more, not -1
    """
    if optional and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"{name} is a whole number, {least} or more, not {_shown(value)}")


def require_path(name: str, value: object, *, optional: bool = False) -> None:
    """Raise InvalidInput unless `value` can name a file, or is None where that is allowed.

    >>> require_path("cwd", 3)
    Traceback (most recent call last):
    turnlog.errors.InvalidInput: cwd is a path, not 3
    """
    if not (isinstance(value, (str, bytes, os.PathLike)) or (optional and value is None)):
        raise InvalidInput(f"{name} is a path, not {_shown(value)}")
    try:
        is_path = value is None or b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        is_path = False
    if not is_path:
        raise InvalidInput(f"{name} is a path, and none can be {_shown(value)}")


def listed_texts(name: str, value: Any) -> list[str]:
    """Return a list of the texts in `value`. Raises InvalidInput for one text, and for what holds anything else.

    >>> listed_texts("tags", ("ci", "flaky"))
    ['ci', 'flaky']
    """
    if isinstance(value, str):
        raise InvalidInput(f"{name} is a list, such as [{value!r}], not one text")
    if isinstance(value, bytes) or not hasattr(value, "__iter__"):
        raise InvalidInput(f"{name} is a list of texts, not {_shown(value)}")
    found = list(value)
    for item in found:
        require_text(f"each of {name}", item)
    return found


def id_of(name: str, value: object) -> str:
    """Return the id that a caller names: a text, or the `id` of an object. Raises InvalidInput.

    >>> id_of("task", "a")
    'a'
    """
    found = value if isinstance(value, str) else getattr(value, "id", None)
    if not isinstance(found, str):
        raise InvalidInput(f"{name} is an id or what has one, not {_shown(value)}")
    return found


def ids_of(name: str, values: Any) -> list[str]:
    """Return the ids that a caller lists. Raises InvalidInput for one text: its letters are none.

    >>> ids_of("depends_on", ("a", "b"))
    ['a', 'b']
    """
    if isinstance(values, str):
        raise InvalidInput(f"{name} is a list, such as [{values!r}], not one text")
    if isinstance(values, bytes) or not hasattr(values, "__iter__"):
        raise InvalidInput(f"{name} is a list of ids, not {_shown(values)}")
    return [id_of(f"each of {name}", value) for value in values]


def require_level(durability: str) -> None:
    """Raise InvalidInput when an event cannot be stored at that level.

    >>> require_level("buffered")
    """
    if not isinstance(durability, str) or durability not in LEVELS:
        raise unknown_level(durability)


def require_damage(on_damage: object, *, optional: bool = False) -> None:
    """Raise InvalidInput unless it says what to do where events cannot be served, or is None where that is allowed.

    >>> require_damage("skip")
    """
    if on_damage not in ("raise", "skip") and not (optional and on_damage is None):
        raise InvalidInput(f"on_damage is 'raise' or 'skip', not {_shown(on_damage)}")


def require_function(name: str, value: object, *, optional: bool = True) -> None:
    """Raise InvalidInput unless `value` can be called, or is None where that is allowed.

    >>> require_function("on_caught_up", print)
    """
    if not (callable(value) or (optional and value is None)):
        raise InvalidInput(f"{name} is a function, not {_shown(value)}")


def require_event(name: str, value: object) -> None:
    """Raise InvalidInput unless `value` is an event, or something else with a payload.

    >>> from turnlog import Store
    >>> require_event("event", Store.ephemeral().create().event(1))
    """
    if not hasattr(value, "payload"):
        raise InvalidInput(f"{name} is an event, not {_shown(value)}")


def unknown_level(durability: object) -> InvalidInput:
    """Return the error for a durability that is none.

    >>> unknown_level("maybe").message
    "durability is 'durable', 'buffered' or, for one event, 'ephemeral', not 'maybe'"
    """
    return InvalidInput(
        f"durability is {', '.join(map(repr, LEVELS))} or, for one event, {EPHEMERAL!r}, not {durability!r}"
    )


def refuse_to_store(type: str) -> InvalidInput:
    """Return the error for an event that is about what is on the screen now, and not part of the history.

    >>> refuse_to_store("progress.updated").message
    "progress.updated is never stored: append it with durability='ephemeral'"
    """
    return InvalidInput(f"{type} is never stored: append it with durability={EPHEMERAL!r}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def full_items(items: Any) -> list[tuple[str, object, bytes | None, bool]]:
    """Fill in what the caller left out of each item. Raises InvalidInput, InvalidId.

    >>> full_items([("acme.note", {"n": 1})])
    [('acme.note', {'n': 1}, None, False)]
    """
    if not hasattr(items, "__iter__"):
        raise InvalidInput(f"items is a list of tuples (type, payload), not {_shown(items)}")
    return [full_item(item) for item in items]


def full_item(item: tuple[Any, ...]) -> tuple[str, object, bytes | None, bool]:
    """Fill in what the caller left out of (type, payload, id, raw). Raises InvalidInput, InvalidId.

    >>> full_item(("acme.note", {"n": 1}))
    ('acme.note', {'n': 1}, None, False)
    """
    if not isinstance(item, tuple) or not 2 <= len(item) <= 4:
        message = "an item is a tuple (type, payload[, id[, raw]])"
        raise InvalidInput(message)
    missing: tuple[Any, ...] = (None, False)[len(item) - 2 :]
    type_, payload, given, raw = item + missing
    if isinstance(type_, str) and type_ in EPHEMERAL_TYPES:
        raise refuse_to_store(type_)
    return type_, payload, None if given is None else parse_id(given), bool(raw)
