"""The fold of many events: the common ones in the record core, where it has one for them, the rest by the rules.

Theory of operation: the part of a state that turns, steps, messages and calls change (`Hot`) is lent to a `Folder` of
the core, which applies events of these families as long as they are regular. An event it gives back is applied by its
rule: at once if that leaves the lent part alone, else after the part was given back. Lending costs as much as a few
dozen events, so it waits for LEAD_EVENTS after each return, and a history that is irregular throughout is folded about
as fast as without it. Invariant: whatever the core takes, the state is the one that `reduce.fold` comes to. Must not
know: what the rules do, where events come from.
"""

from __future__ import annotations

import sys
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from turnlog import _core, events
from turnlog.state import reduce_calls, reduce_turns
from turnlog.state.records import Call, Messages, Step, Turn, Usage  # noqa: TC001 - the decoder reads them
from turnlog.state.reduce import RULES, reduce_stored
from turnlog.state.state import VIOLATIONS_MAX, State
from turnlog.state.transitions import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LEAD_EVENTS = 64
"""So many events are folded by their rules before the core is tried, at the start and after each one it gave back."""

_REFUSED_EVENTS = 4096  # before a state that the core cannot hold is offered to it again

COMMON = frozenset((*reduce_turns.RULES, *reduce_calls.RULES)) - {"turn.input_queued", "turn.input_consumed"}
"""The types whose rules read or change the lent part; no other rule does."""

PASSED_BY = frozenset(
    name for name, known in events.TYPES.items() if name not in RULES and known.durability != events.EPHEMERAL
)
"""The types that change nothing."""


class Hot(msgspec.Struct, array_like=True):
    """The part of a state that is lent, under the names it has there; dicts of records as lists of them."""

    turn: Turn | None
    recent_turns: list[Turn]
    turn_counts: dict[str, int]
    step: Step | None
    last_step: Step | None
    step_counts: dict[str, int]
    usage: Usage
    usage_by_model: dict[str, Usage]
    open_calls: list[Call]
    recent_calls: list[Call]
    call_counts: dict[str, int]
    calls_folded: int
    messages: Messages


_NAMES = Hot.__struct_fields__
_KEYS = {"recent_turns": attrgetter("id"), "open_calls": attrgetter("key"), "recent_calls": attrgetter("key")}
_DECODE = msgspec.json.Decoder(Hot).decode


def fold_batches(batches: Iterable[Sequence[_core.Event]], state: State) -> State:
    """Apply stored events, handed over in batches, to a state; return it.

    Raises Damaged or StorageError when a payload cannot be read, and what the iterator raises; the state then is that
    of the events before.

    >>> fold_batches([], State("s")).ordinal
    0
    """
    work = _Fold(state)
    try:
        for batch in batches:
            work.batch(batch)
    finally:
        work.give_back()
    return state


class _Fold:
    """One fold."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._folder = _core.Folder(PASSED_BY)
        self._lent = False
        # a payload without `v` is of version 1: of a type that has moved on, it is for the upcasters
        self._waits = LEAD_EVENTS if all(events.VERSIONS[name] == 1 for name in COMMON) else sys.maxsize

    def batch(self, batch: Sequence[_core.Event]) -> None:
        """Apply some events."""
        at = 0
        while at < len(batch):
            if self._lent or self._lend():
                at = self._fold(batch, at)
                if at == len(batch):
                    return
            event = batch[at]
            if self._lent and event.type in COMMON:
                self.give_back()
            reduce_stored(self._state, event)
            at += 1

    def _fold(self, batch: Sequence[_core.Event], start: int) -> int:
        """Let the core take what it takes; return where it stopped."""
        state = self._state
        place = state.ordinal, state.time_us, state.events, state.violation_count
        only_counts = len(state.violations) >= VIOLATIONS_MAX
        given = state.phase == OPEN, state.configured_ordinal, state.model, only_counts
        at, place = self._folder.fold(batch, start, place, given)
        state.ordinal, state.time_us, state.events, state.violation_count = place
        return at

    def _lend(self) -> bool:
        if self._waits:
            self._waits -= 1
            return False
        state = self._state
        parts = [getattr(state, name) for name in _NAMES]
        hot = [list(part.values()) if name in _KEYS else part for name, part in zip(_NAMES, parts, strict=True)]
        try:
            self._lent = self._folder.load(msgspec.json.encode(hot))
        except (OverflowError, UnicodeEncodeError):  # lone surrogates
            self._lent = False
        if not self._lent:
            self._waits = _REFUSED_EVENTS
        return self._lent

    def give_back(self) -> None:
        """Put what was lent back into the state."""
        if not self._lent:
            return
        hot = _DECODE(self._folder.hot())
        for name in _NAMES:
            value = getattr(hot, name)
            key = _KEYS.get(name)
            setattr(self._state, name, value if key is None else {key(record): record for record in value})
        self._lent, self._waits = False, LEAD_EVENTS
