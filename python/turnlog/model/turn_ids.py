"""The ids of the turns a session has had: one that a caller gives is never given to a second turn.

A turn and a call id name a call, and a call that is asked for again gives back its first outcome; so a turn under the
id of an earlier one could meet the results of that one. Ids that turnlog makes cannot recur. Of the last
RECENT_TURNS_MAX turns the state knows the ids; those before them are read from the log, once for each process, and
only where callers give ids.

Owns: what is known of used ids. Invariant: an id that the readable log holds is known. Must not know: how a turn runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlog import _core
from turnlog.errors import InvalidTransition
from turnlog.events import TYPES, understood

if TYPE_CHECKING:
    from turnlog.session import Session
    from turnlog.state.state import State

_NAMING = frozenset(name for name in TYPES if name.partition(".")[0] in ("turn", "step", "tool", "message"))
"""Types whose events name the turn they belong to."""

_MARK_BYTES = 8  # of the digest of an id: with a million turns, the chance of taking a new id for a used one is 1e-13


class TurnIds:
    """What is known of the ids that a session's turns have had; the caller holds `Live.order`."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._marks: set[int] = set()
        self._read_to = 0

    def refuse_used(self, name: str, session: Session, state: State) -> None:
        """Raise InvalidTransition when an earlier turn had the id.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> TurnIds().refuse_used("t1", session, session.state)
        """
        if self.is_used(name, session, state):
            message = f"turn.started: the session has had a turn {name!r}; give this one another id, or none"
            raise InvalidTransition(message, "turn_order", session=session.id)

    def is_used(self, name: str, session: Session, state: State) -> bool:
        """Tell whether an earlier turn had the id; costs a look into the log once in RECENT_TURNS_MAX turns. Raises
        StorageError.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session.turn("hello", id="t1").complete()
        >>> TurnIds().is_used("t1", session, session.state), TurnIds().is_used("t2", session, session.state)
        (True, False)
        """
        recent = state.recent_turns
        if name in recent or (state.turn is not None and state.turn.id == name):
            return True
        needed = state.lost_ordinal
        if recent and sum(state.turn_counts.values()) > len(recent):  # the state has let go of some
            needed = max(needed, next(iter(recent.values())).ordinal - 1)
        if self._read_to < needed:
            self._read(session, state)
        return _mark(name) in self._marks

    def _read(self, session: Session, state: State) -> None:
        end, types = state.ordinal, _NAMING if state.lost_ordinal else frozenset({"turn.started"})
        for event in session.events(after=self._read_to, before=end + 1, types=types, on_damage="skip"):
            fields = None if event.is_raw else understood(event.type, event.payload)
            name = None if fields is None else fields.get("turn")
            if isinstance(name, str):
                self._marks.add(_mark(name))
        self._read_to = end


def _mark(name: str) -> int:
    return int.from_bytes(_core.digest(_core.canonical(name))[:_MARK_BYTES], "big")
