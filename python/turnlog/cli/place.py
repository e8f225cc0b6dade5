"""Which store a command speaks of, and which session and ordinals an argument names.

Owns: the order in which stores are looked for, and the forms ID, ID:ORDINAL and ID:FROM..TO. Invariant: looking
creates nothing. Must not know: what is done with the store.
"""

from __future__ import annotations

import os
import sys

import click

from turnlog import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = ".turnlog"
VARIABLE = "TURNLOG_STORE"
_ORDINAL_DIGITS_MAX = 18


class Place:
    """A store's folder, and why it is this one."""

    def __init__(self, path: str, chosen_by: str, why: str) -> None:
        """Keep the absolute path; `chosen_by` is option, environment, folder or user."""
        self.path = os.path.abspath(path)
        self.chosen_by = chosen_by
        self.why = why

    def exists(self) -> bool:
        """Tell whether a store is there."""
        return os.path.exists(os.path.join(self.path, names.STORE_FILE))


def find(option: str | None, *, environment: Mapping[str, str] | None = None, cwd: str | None = None) -> Place:
    """Return the store that is meant: `--store`, TURNLOG_STORE, the nearest .turnlog upward, the user's data folder."""
    environment = os.environ if environment is None else environment
    if option:
        return Place(option, "option", "--store names it")
    if given := environment.get(VARIABLE):
        return Place(given, "environment", f"{VARIABLE} names it")
    folder = os.path.abspath(cwd or os.getcwd())
    while True:
        candidate = os.path.join(folder, FOLDER)
        if os.path.isdir(candidate):
            return Place(candidate, "folder", f"the nearest {FOLDER} folder, from the working directory upward")
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    why = f"the user's data folder: no --store, no {VARIABLE}, no {FOLDER} folder here or above"
    return Place(os.path.join(_data_folder(environment), "turnlog"), "user", why)


def _data_folder(environment: Mapping[str, str]) -> str:
    if given := environment.get("XDG_DATA_HOME"):
        return given
    parts = ("Library", "Application Support") if sys.platform == "darwin" else (".local", "share")
    return os.path.join(os.path.expanduser("~"), *parts)


class Reference:
    """A session, and perhaps a range of its ordinals, both ends included."""

    def __init__(self, session: str, first: int | None = None, last: int | None = None) -> None:
        """Keep the parts; None is an open end."""
        self.session = session
        self.first = first
        self.last = last

    @property
    def is_event(self) -> bool:
        """Whether exactly one event is named."""
        return self.first is not None and self.first == self.last


def parse_reference(text: str) -> Reference:
    """Read ID, ID:ORDINAL, ID:FROM..TO, ID:FROM.. or ID:..TO. Raises click.UsageError."""
    session, colon, ordinals = text.partition(":")
    if not session:
        raise click.UsageError(f"{text!r} names no session: use an id, a prefix of one, or latest")
    if not colon:
        return Reference(session)
    start, dots, end = ordinals.partition("..")
    first = _ordinal(start, text) if start else None
    last = _ordinal(end, text) if end else None
    if not dots:
        if first is None:
            raise click.UsageError(f"{text!r} ends in a colon: an ordinal, or FROM..TO, comes behind it")
        last = first
    if first is not None and last is not None and last < first:
        raise click.UsageError(f"{text!r} ends before it begins")
    return Reference(session, first, last)


def session_of(text: str) -> str:
    """Return the session of an argument that may name no ordinals. Raises click.UsageError."""
    reference = parse_reference(text)
    if reference.first is not None or reference.last is not None:
        raise click.UsageError(f"{text!r}: this verb takes a whole session")
    return reference.session


def _ordinal(digits: str, text: str) -> int:
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _ORDINAL_DIGITS_MAX and int(digits) > 0):
        raise click.UsageError(f"{text!r}: {digits!r} is no ordinal (1, 2, 3, ...)")
    return int(digits)
