"""How a context becomes parts: runs of its base, places of known messages, new messages.

Owns: which part says most with least, and when a context is written out without a base. Invariants: a place in the
event being written has ordinal 0 until that is known; new messages are numbered in the order in which they first occur.
Must not know: events, artifacts, the form in which a part is stored.
"""

from __future__ import annotations

from itertools import groupby

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from turnlog.context.read import Place

CHAIN_MIN = 32  # contexts are read one after the other up to here, whatever they hold
NEW = object()  # the part that stands for the next new message


class SentContext:
    """One context: the digest and the place of each message; a place in this very event has ordinal 0."""

    def __init__(self, digests: list[bytes], places: list[Place], fresh_from: int = 0) -> None:
        self.ordinal = 0
        self.digests = digests
        self.places = places
        self.fresh_from = fresh_from  # the messages before are the base's
        self.depth = 0  # contexts to read before this one
        self._index: dict[bytes, int] | None = None

    def index(self) -> dict[bytes, int]:
        """Return the first position of each message."""
        if self._index is None:
            self._index = {digest: at for at, digest in reversed(list(enumerate(self.digests)))}
        return self._index

    def is_too_deep(self) -> bool:
        """Tell whether writing it out anew costs little beside the steps since that was done."""
        if self.depth < CHAIN_MIN:
            return False
        return self.depth >= sum(1 for _ in _runs(self.places)) / 2


class Draft:
    """A context on its way into parts: runs of the base, known places, new messages."""

    def __init__(self, base: SentContext | None, kept: int, known: dict[bytes, Place]) -> None:
        self.places: list[Place] = base.places[:kept] if base is not None else []
        self.parts: list[Any] = []
        self.new: list[int] = []  # positions of the messages that nothing holds yet
        self.uses_base = kept > 0
        self._base = base
        self._known = known
        self._own: dict[bytes, Place] = {}

    def add(self, at: int, digest: bytes) -> None:
        """Add the message at a position of the context."""
        place = self._known.get(digest) or self._own.get(digest)
        if place is None:
            place = self._own[digest] = (0, len(self.new))
            self.new.append(at)
            self.parts.append(NEW)
        elif not self._extend_base(digest):
            self._extend_run(place)
        self.places.append(place)

    def _extend_base(self, digest: bytes) -> bool:
        """Take the message from the base, next to the one before if that came from there; False: it is not there."""
        if self._base is None:
            return False
        last = self.parts[-1] if self.parts else None
        if isinstance(last, list) and last[0] == "base":
            end = last[2]
            if end < len(self._base.digests) and self._base.digests[end] == digest:
                last[2] = end + 1
                return True
        at = self._base.index().get(digest)
        if at is None:
            return False
        self.parts.append(["base", at, at + 1])
        self.uses_base = True
        return True

    def _extend_run(self, place: Place) -> None:
        last = self.parts[-1] if self.parts else None
        ordinal, where = place
        if isinstance(last, list) and last[0] == "at" and (last[1], last[2] + last[3]) == place:
            last[3] += 1
        elif isinstance(where, int):
            self.parts.append(["at", ordinal, where, 1])
        else:
            self.parts.append(["in", ordinal, list(where)])


def _runs(places: list[Place]) -> Iterator[list[Place]]:
    """Yield the runs of neighbours: new messages of one event in their order, a place in a payload alone."""

    def key(numbered: tuple[int, Place]) -> object:
        at, (ordinal, where) = numbered
        return (ordinal, where - at) if isinstance(where, int) else (ordinal, where, at)

    for _, run in groupby(enumerate(places), key):
        yield [place for _, place in run]


def pieces(places: list[Place]) -> Iterator[Any]:
    """Yield the parts of a context that needs no base."""
    unwritten = 0
    for run in _runs(places):
        ordinal, where = run[0]
        if not isinstance(where, int):
            yield ["in", ordinal, list(where)]
        elif ordinal > 0:
            yield ["at", ordinal, where, len(run)]
        else:
            for place in run:  # the first time a new message, later a reference to it
                if place[1] == unwritten:
                    unwritten += 1
                    yield NEW
                else:
                    yield ["at", *place, 1]


def common_prefix(one: list[bytes], other: list[bytes]) -> int:
    """Return how many first items are equal; lists that begin alike are compared by doubling, not item by item."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:  # the first `low` are equal, the first `high` + 1 are not
        middle = (low + high) // 2
        if one[low : middle + 1] == other[low : middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low
