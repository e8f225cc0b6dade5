"""The fold of common events, which the reference core leaves to the rules.

Owns: that answer. Invariant: it is the one no other core can differ from: the state is what the rules in
`turnlog/state/` make of every event. Must not know: states, events.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from turnlog._pure.event import Event

    Place = tuple[int, int, int, int]
    Given = tuple[bool, int, str, bool]


class Folder:
    """Folds events of the common families onto the hot part of a state; this one takes none."""

    def __init__(self, passed_by: Iterable[str]) -> None:
        """Name the types of events that change nothing but the place."""

    def load(self, hot: bytes) -> bool:
        """Take over the hot part of a state, JSON as `turnlog/state/fold.py` describes it; False if it cannot be held
        exactly.
        """
        _ = hot
        return False

    def fold(self, events: Sequence[Event], start: int, place: Place, given: Given) -> tuple[int, Place]:
        """Apply events from index `start` on; return the index of the first one that is given back, and the place.

        `place` is ordinal, time, number of events and of violations; `given` is what rules read of the other part of
        the state: whether its phase is open, the ordinal of its settings, its model, whether violations are only
        counted. Raises ValueError when nothing was loaded.
        """
        _ = events, start, place, given
        raise ValueError("the folder holds no state; load one")

    def hot(self) -> bytes:
        """Return the hot part. Raises ValueError when nothing was loaded."""
        raise ValueError("the folder holds no state; load one")
