"""Which events the model's history consists of, after compactions and rollbacks.

Owns: the ranges that a summary or a rollback took out, and where a summary stands. Invariants: pure over a source of
events; the newest compaction counts, and takes older summaries with it when they lie in its range; no more is read than
is needed to know the ranges (three types of events, none when the state says that nothing was taken out). Must not
know: what a conversation is, files.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from turnlog.errors import HistoryInvalid
from turnlog.events import understood, why_not

if TYPE_CHECKING:
    from turnlog.handle import Event
    from turnlog.state.state import State

COMPACTED, ROLLED_BACK, TURN_STARTED = "context.compacted", "context.rolled_back", "turn.started"
_SHAPING = frozenset({COMPACTED, ROLLED_BACK, TURN_STARTED, "session.configured"})
_SAID = frozenset({"message.user", "message.assistant", "message.system", "turn.started", "step.completed"}) | {
    *("tool.proposed", "turn.input_consumed", COMPACTED)
}
"""What can be part of a history."""


class Source(Protocol):
    """Where events come from: `Session`, or a list in a test."""

    def events(
        self, *, after: int = 0, before: int | None = None, types: Iterable[str] | None = None, reverse: bool = False
    ) -> Iterator[Event]:
        """Yield the events with after < ordinal < before, of these types, oldest first unless `reverse`."""


class Summary(NamedTuple):
    """A compaction that counts, as if it were an event that stands where the replaced ones stood."""

    ordinal: int
    type: str
    payload: dict[str, Any]
    is_raw: bool = False


class Extent:
    """The ordinals that count. Make it with `extent_of`."""

    __slots__ = ("_ends", "_ranges", "_summaries", "sidechain")

    def __init__(self, removed: Iterable[tuple[int, int]] = (), summaries: Iterable[Summary] = ()) -> None:
        """`removed` are inclusive ranges of ordinals in any order; a summary's ordinal is where it stands."""
        self._ranges = _merged(removed)
        self._ends = [first for first, _ in self._ranges]
        self._summaries = sorted(summaries, key=lambda summary: summary.ordinal)
        self.sidechain = False  # whether the whole session is a side conversation of an imported one

    @property
    def first(self) -> int:
        """The first ordinal that may count: nothing before it has to be read."""
        return self._ranges[0][1] + 1 if self._ranges and self._ranges[0][0] <= 1 else 1

    def holds(self, ordinal: int) -> bool:
        """Tell whether an event counts.

        >>> Extent([(2, 4)]).holds(3), Extent([(2, 4)]).holds(5)
        (False, True)
        """
        index = bisect_right(self._ends, ordinal) - 1
        return index < 0 or ordinal > self._ranges[index][1]

    def replay(self, source: Source, types: frozenset[str], *, after: int = 0) -> Iterator[Event]:
        """Yield what counts, summaries in the place of what they stand for."""
        waiting = [summary for summary in self._summaries if summary.ordinal > after]
        for event in source.events(after=max(after, self.first - 1), types=types - {COMPACTED}):
            while waiting and waiting[0].ordinal <= event.ordinal:
                yield waiting.pop(0)
            if self.holds(event.ordinal):
                yield event
        yield from waiting


def extent_of(source: Source, state: State | None = None) -> Extent:
    """Return which events count. `state` saves the look at the log when nothing was taken out.

    Raises HistoryInvalid when a summary is missing, Damaged where an event cannot be served.
    """
    if state is not None and not state.context.compactions and not state.context.rolled_back_turns:
        extent = Extent()
        extent.sidechain = bool(state.settings.get("sidechain"))
        return extent
    short = None if state is None else _last_compaction(source, state)
    extent = short or _walk(source)
    if state is not None:
        extent.sidechain = bool(state.settings.get("sidechain"))
    return extent


def fields_of(event: Event, payload: object) -> Mapping[str, Any] | None:
    """Return what an event holds as today's version has it, None when that is no object.

    Raises HistoryInvalid for an event that this version does not understand: a history without it would be another one.
    """
    if not isinstance(payload, Mapping):
        return None
    fields = understood(event.type, payload)
    if fields is None:
        message = f"event {event.ordinal} is not understood: {why_not(event.type, payload)}"
        raise HistoryInvalid(message, ordinal=event.ordinal)
    return fields


def _last_compaction(source: Source, state: State) -> Extent | None:
    """Return the extent when the newest compaction alone decides, so that only what is behind it has to be read."""
    at = state.context.compacted_ordinal
    if state.context.rolled_back_turns or not at:
        return None
    event = next(source.events(after=at - 1, before=at + 1, types=[COMPACTED]), None)
    if event is None or _is_micro(event.payload):
        return None
    first, last = _range(event)
    kept = source.events(before=first, types=_SAID) if first > 1 else iter(())
    between = source.events(after=last, before=at, types=[COMPACTED])  # an earlier summary that this one left
    if first > last or next(kept, None) is not None or next(between, None) is not None:
        return None
    return Extent([(1, last)], _summaries(source, event, 1))


def _walk(source: Source) -> Extent:
    turns: list[int] = []
    removed: list[tuple[int, int]] = []
    compactions: list[tuple[Event, tuple[int, int]]] = []
    sidechain = False
    for event in source.events(types=_SHAPING):
        payload = fields_of(event, event.payload)
        if payload is None:
            continue
        if event.type == TURN_STARTED:
            turns.append(event.ordinal)
        elif event.type == ROLLED_BACK:
            removed += _rolled_back(turns, payload, event.ordinal)
        elif event.type == COMPACTED and not _is_micro(payload):
            compactions.append((event, _range(event)))
        elif payload.get("sidechain"):
            sidechain = True
    ranges = [span for _, span in compactions]
    alive = [
        (event, span)
        for index, (event, span) in enumerate(compactions)
        if not any(first <= event.ordinal <= last for first, last in ranges[index + 1 :] + removed)
    ]
    removed += [(first, last) for first, last in ranges if first <= last]
    summaries = [summary for event, (first, _) in alive for summary in _summaries(source, event, first)]
    extent = Extent(removed, summaries)
    extent.sidechain = sidechain
    return extent


def _rolled_back(turns: list[int], payload: Mapping[str, Any], at: int) -> list[tuple[int, int]]:
    count = payload.get("turns")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1 or not turns:
        return []
    start = turns[max(0, len(turns) - count)]
    del turns[max(0, len(turns) - count) :]
    return [(start, at)]


def _is_micro(payload: object) -> bool:
    """Tell whether a compaction only shortened tool results: the messages stayed."""
    return isinstance(payload, Mapping) and payload.get("kind") == "micro"


def _range(event: Event) -> tuple[int, int]:
    """Return the ordinals that a compaction replaces; without a reference, all that came before it."""
    first, last = event.payload.get("first"), event.payload.get("last")
    known = isinstance(first, int) and isinstance(last, int)
    return (first, min(last, event.ordinal - 1)) if known else (1, event.ordinal - 1)


def _summaries(source: Source, event: Event, place: int) -> list[Summary]:
    payload = event.payload
    if payload.get("summary"):
        return [Summary(place, COMPACTED, {"items": [], **_kept(payload)})]
    if payload.get("source") is None:
        message = "a compaction has no summary of what it replaces"
        raise HistoryInvalid(message, ordinal=event.ordinal)
    items = _replacement(source, event) if payload.get("items") else []
    return [Summary(place, COMPACTED, {"items": items, "summary": None})] if items else []


def _kept(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {"summary": payload["summary"]}


def _replacement(source: Source, event: Event) -> list[Any]:
    """Return the items that replace the history, out of the imported line that the event was made of."""
    pieces: list[bytes] = []
    for line in source.events(before=event.ordinal, types=["source.line"], reverse=True):
        if pieces and line.payload.endswith(b"\n"):
            break
        pieces.append(line.payload)
    try:
        record = json.loads(b"".join(reversed(pieces)))
    except ValueError:
        return []
    payload = record.get("payload", record) if isinstance(record, dict) else {}
    items = payload.get("replacement_history") if isinstance(payload, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted ranges without overlaps."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged
