"""Ids, names and arguments of tool calls in the form that providers accept.

Owns: which characters an id or name may have, ids that repeat, arguments that are no object. Invariant: the ids that
one `CallIds` gives out are all different, and a call id keeps its own wherever that is possible. Must not know: events,
messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from turnlog.history.content import as_json

ID_CHARACTERS_MAX = 64
NAME_CHARACTERS_MAX = 64
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")


class CallIds:
    """Gives out the ids of one history: providers repeat theirs in later turns, and refuse that in a request."""

    def __init__(self) -> None:
        """Start with none given out."""
        self._given: set[str] = set()
        self._repeats: dict[str, int] = {}  # of an id that came again: the number that was tried last

    def give(self, call_id: str) -> str:
        """Return an id that was not given out before.

        >>> ids = CallIds()
        >>> ids.give("c1"), ids.give("c1"), ids.give("a b")
        ('c1', 'c1_2', 'a_b')
        """
        plain = _FORBIDDEN.sub("_", call_id)[:ID_CHARACTERS_MAX] or "call"
        found = plain
        while found in self._given:
            number = self._repeats[plain] = self._repeats.get(plain, 1) + 1
            tail = f"_{number}"
            found = plain[: ID_CHARACTERS_MAX - len(tail)] + tail
        self._given.add(found)
        return found


def tool_name(name: str) -> str:
    """Return a name of a tool that providers accept.

    >>> tool_name("files.read"), tool_name("")
    ('files_read', 'tool')
    """
    return _FORBIDDEN.sub("_", name)[:NAME_CHARACTERS_MAX] or "tool"


def arguments_object(arguments: Any) -> dict[str, Any]:
    """Return arguments as an object.

    >>> arguments_object('{"cmd": "ls"}'), arguments_object("ls"), arguments_object(None)
    ({'cmd': 'ls'}, {'input': 'ls'}, {})
    """
    if isinstance(arguments, str):
        try:
            decoded = json.loads(arguments)
        except ValueError:
            decoded = None
        return decoded if isinstance(decoded, dict) else {"input": arguments}
    if isinstance(arguments, Mapping):
        return dict(arguments)
    return {} if arguments is None else {"input": arguments}


def arguments_text(arguments: Any) -> str:
    """Return arguments as the JSON text of an object, as it was given where it is one.

    >>> arguments_text('{"cmd":  "ls"}'), arguments_text({"cmd": "ls"})
    ('{"cmd":  "ls"}', '{"cmd":"ls"}')
    """
    found = arguments_object(arguments)
    if isinstance(arguments, str) and found != {"input": arguments}:
        return arguments
    return as_json(found)
