"""What a session or a turn runs with: the names of the settings, and the check of what a caller hands in.

Owns: the known names, their types for a type checker, the sentence for a name that is none. Invariants: a keyword that
is not known is refused before anything is written, so a misspelt one is never stored; a setting of the caller's own
comes in `custom` and has a name that no event gives a meaning. Must not know: events, sessions.
"""

from __future__ import annotations

import os

from turnlog.arguments import require_path, require_text
from turnlog.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypedDict

    class FirstSettings(TypedDict, total=False):
        """What `Store.create` and `Store.fork` take beside the parameters they name."""

        effort: str | None
        permission_profile: Any
        permission_mode: str | None
        tools: Any
        environment: Any
        principal: str | None

    class ForkSettings(FirstSettings, total=False):
        """What `Store.fork` takes."""

        model: str | None
        cwd: str | os.PathLike[str] | None

    class Settings(TypedDict, total=False):
        """What `Session.configure` and `Session.turn` take."""

        model: str | None
        effort: str | None
        cwd: str | os.PathLike[str] | None
        permission_profile: Any
        permission_mode: str | None
        tools: Any
        environment: Any


SETTINGS = ("model", "effort", "cwd", "permission_profile", "permission_mode", "tools", "environment")
FIRST = (*SETTINGS, "principal")
"""What a session begins with: `principal`, on whose behalf it works, is part of its identity."""

OF_TURN = ("input", "id", "on_running", "timeout_ms", "custom")
OF_CREATE = ("id", "durability", "ephemeral", "custom")
OF_FORK = ("at", "turn", "id", "title", "tags", "custom")
"""The parameters beside the settings, for who means one of them and misspells it."""

_TEXTS = ("model", "effort", "permission_mode", "principal")

RESERVED = frozenset(
    (
        *("v", "by", "time", "source", "turn"),
        *("title", "tags", "tags_removed", "parent", "principal", "fork_ordinal", "parent_chain", "parent_event"),
    )
)
"""Members of the events that hold settings, which are none."""


def checked(
    given: Mapping[str, Any],
    custom: Mapping[str, Any] | None,
    known: Iterable[str] = SETTINGS,
    others: Iterable[str] = (),
) -> dict[str, Any]:
    """Return the settings that a caller names, with its own ones, and the folder as an absolute path. `others` are the
    further parameters of the method that was called, which may have been meant.

    Raises InvalidInput for a keyword that is not known, for an own name that has a meaning already, and for what is no
    path.

    >>> checked({"effort": "high"}, {"acme.theme": "dark"})
    {'effort': 'high', 'acme.theme': 'dark'}
    >>> checked({"modle": "provider/model-x"}, None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    turnlog.errors.InvalidInput: there is no keyword 'modle': did you mean 'model'? Settings of your own go into ...
    """
    known = tuple(known)
    for name, value in given.items():
        if name not in known:
            raise InvalidInput(_unknown(name, (*known, *others)))
        if name in _TEXTS:
            require_text(name, value, optional=True)
    return with_absolute_cwd({**given, **own(custom)})


def own(custom: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a caller's own settings. Raises InvalidInput for a name that has a meaning already.

    >>> own({"model": "provider/model-x"})
    Traceback (most recent call last):
    turnlog.errors.InvalidInput: 'model' cannot name a setting of your own: it has a meaning already
    """
    if custom is None:
        return {}
    found: object = custom  # whatever the annotation says
    if not hasattr(found, "keys") or not hasattr(found, "__getitem__"):
        raise InvalidInput(f"custom holds settings by name, as a dict, not {found.__class__.__name__}")
    for name in custom:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"a setting's name is a text, not {name!r}")
        if name in RESERVED or name in FIRST:
            raise InvalidInput(f"{name!r} cannot name a setting of your own: it has a meaning already")
    return dict(custom)


def with_absolute_cwd(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the folder, if there is one, as an absolute path.

    >>> with_absolute_cwd({"cwd": "/src/../tests", "effort": "high"})
    {'cwd': '/tests', 'effort': 'high'}
    """
    cwd = settings.get("cwd")
    require_path("cwd", cwd, optional=True)
    return settings if cwd is None else {**settings, "cwd": os.path.abspath(os.fsdecode(cwd))}


def _unknown(name: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    meant = f": did you mean {near[0]!r}?" if near else "."
    return f"there is no keyword {name!r}{meant} Settings of your own go into custom={{...}}"
