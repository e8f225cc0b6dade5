"""The events that one session's own segments hold, as one sequence.

Owns: windows over ordinals, crossing from segment to segment, and saying where damage is. Invariants: events come in
ordinal order without gaps or repeats; what was lost is named, never skipped silently, and only where it was asked for;
nothing is shown before it has the durability it was appended with. Must not know: what a fork inherits (log.py), who
writes, what events mean.
"""

from __future__ import annotations

from turnlog.arguments import listed_texts
from turnlog.errors import Damaged, InvalidInput, NewerFormat
from turnlog.log import recovery
from turnlog.log.places import Places, looks_sealed, next_frame
from turnlog.log.segments import SegmentFile, list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from turnlog._core import Event, SegmentReader

_BATCH = 512
_LAZY_BATCH = 4096  # the core's own limit of bytes comes first


def types_wanted(types: Iterable[str] | None) -> frozenset[str] | None:
    """Return the event types that a caller names, None for all. Raises InvalidInput for one text: its letters fit none.

    >>> types_wanted(["tool.started"])
    frozenset({'tool.started'})
    """
    if isinstance(types, str):
        raise InvalidInput(f"types is a list of event types, such as [{types!r}], not one text")
    return None if types is None else frozenset(listed_texts("types", types))


class Window:
    """Which events are asked for, and what to do where some cannot be served.

    after < ordinal < before; `types` None means all; `on_damage` is "raise" or "skip"; of `lazy` batches a handle is
    made when it is asked for, which pays where few are.
    """

    __slots__ = ("after", "before", "lazy", "skip_damage", "types")

    def __init__(
        self,
        after: int = 0,
        before: int | None = None,
        types: frozenset[str] | None = None,
        on_damage: str = "raise",
        *,
        lazy: bool = False,
    ) -> None:
        """Keep the bounds."""
        self.after = after
        self.before = before
        # nothing else can be stored, and not every text can be handed to a core
        self.types = types if types is None or all(map(str.isascii, types)) else frozenset(filter(str.isascii, types))
        self.skip_damage = on_damage == "skip"
        self.lazy = lazy

    def ends_at(self, ordinal: int) -> bool:
        """Tell whether events from `ordinal` on are outside."""
        return self.before is not None and ordinal >= self.before

    def above(self, after: int) -> Window:
        """Return the part of the window above an ordinal."""
        return self._part(max(after, self.after), self.before)

    def below(self, before: int) -> Window:
        """Return the part of the window below an ordinal."""
        return self._part(self.after, before if self.before is None else min(before, self.before))

    def is_empty(self) -> bool:
        """Tell whether no ordinal lies inside."""
        return self.ends_at(self.after + 1)

    def _part(self, after: int, before: int | None) -> Window:
        return Window(after, before, self.types, "skip" if self.skip_damage else "raise", lazy=self.lazy)

    def batch(self, ordinal: int) -> int:
        """Return how many events from `ordinal` on to ask for at once: no more bytes are read than may be needed."""
        most = _LAZY_BATCH if self.lazy else _BATCH
        if self.before is None or self.types is not None:
            return most
        return max(1, min(most, self.before - ordinal))

    def trim(self, events: Sequence[Event]) -> Sequence[Event]:
        """Cut a batch to the window; batches are sorted, and nearly all lie inside."""
        after, before = self.after, self.before
        if events[0].ordinal <= after:
            events = [event for event in events if event.ordinal > after]
        if before is not None and events and events[-1].ordinal >= before:
            events = [event for event in events if event.ordinal < before]
        return events


class OwnLog(Places):
    """Reads the segments of one session folder."""

    def __init__(
        self, directory: str, session_id: str, visible: Callable[[], tuple[str, int] | None] = lambda: None
    ) -> None:
        """Remember where the session is; nothing is opened yet."""
        super().__init__(directory, session_id, visible)
        self.damage: list[Damaged] = []  # what windows with on_damage="skip" passed over
        self.promised = 0  # the last ordinal that must be there because a fork inherits it

    def own_batches(self, window: Window) -> Iterator[Sequence[Event]]:
        """Yield the events of the window, oldest first, in batches as the core hands them over.

        Raises Damaged at the first ordinal that cannot be served (or notes it in `damage` and goes on), NewerFormat,
        StorageError.
        """
        files = list_segments(self.directory)
        expected = window.after + 1
        index = self.position(files, expected)
        while index < len(files):
            file = files[index]
            if file.first_ordinal > expected:  # ahead of the first one; later holes show at the end of the one before
                self._lost(window, file, 0, (expected, file.first_ordinal - 1))
            if window.ends_at(file.first_ordinal):
                return
            index = self.next_true(files, index + 1)
            following = files[index].first_ordinal if index < len(files) else None
            for batch in self._segment_batches(file, max(expected, file.first_ordinal), following, window):
                events = window.trim(batch)
                if events:
                    yield events
            expected = max(expected, following or 0)
        if not files and self.promised >= expected:
            message = f"events {expected} to {self.promised} cannot be read: the session has no segments"
            self.note_lost(window, Damaged(message, session=self.session_id), (expected, self.promised))

    def _segment_batches(
        self, file: SegmentFile, first: int, following: int | None, window: Window
    ) -> Iterator[Sequence[Event]]:
        """Yield one segment's events from near `first` on; `following` is the first ordinal of the next segment."""
        try:
            reader = self.open_reader(file)
            unsettled = following is None and not self.promised and self.written_elsewhere(file)
            end = self.shown_end(file, reader) if following is None else None
            ordinal, offset = self.seek(file, reader, first)
            if reader.header["fault"] is not None:
                reader.resync(offset)  # refuses when no neighbour knows the segment id either
        except Damaged:  # nothing of it can be read
            self._lost(window, file, 0, (first, following - 1 if following else None))
            return
        replay = reader.replay_lazily if window.lazy else reader.replay
        while not window.ends_at(ordinal):
            start, limit = offset, window.batch(ordinal)
            events, offset, ordinal, _, _, fault = replay(start, ordinal, end=end, limit=limit, types=window.types)
            if events:
                if unsettled:
                    self.settle(file, reader)
                yield events
            if fault is not None and not window.ends_at(ordinal):
                resumed = self.pass_damage(file, reader, fault, (ordinal, following), window)
                if resumed is None:
                    return
                offset, ordinal = resumed
            elif offset == start:
                break
        if window.ends_at(ordinal):
            return
        if following is not None:
            self._lost(window, file, offset, (ordinal, following - 1))
        elif names_successor(reader) and list_segments(self.directory)[-1].prefix == file.prefix:
            self._lost(window, file, offset, (ordinal, self.promised if self.promised >= ordinal else None))
        elif self.promised >= ordinal:
            self._lost(window, file, offset, (ordinal, self.promised))

    def pass_damage(
        self,
        file: SegmentFile,
        reader: SegmentReader,
        fault: dict[str, Any],
        expected: tuple[int, int | None],
        window: Window,
    ) -> tuple[int, int] | None:
        """Decide what a fault means; return (offset, ordinal) to go on from, or None when the segment ends here.

        `expected` is the ordinal that should have come and the first ordinal of the next segment (None: newest).
        """
        ordinal, following = expected
        if fault["code"] == "unsupported":
            message = "the session holds something only a newer turnlog can read"
            raise NewerFormat(message, session=self.session_id, segment=file.name, offset=fault["offset"])
        if following is None and self.promised >= ordinal:
            following = self.promised + 1
        if following is None and fault["offset"] >= recovery.durable_mark(reader.scan(), None, None):
            return None  # above the durable mark: a write in progress, or one that a crash cut short
        if reader.replay(fault["offset"], ordinal, limit=1)[1] > fault["offset"]:  # it was just being written
            return None if following is None else (fault["offset"], ordinal)
        resumed = next_frame(reader, fault["offset"])
        if resumed is None:
            self._lost(window, file, fault["offset"], (ordinal, following - 1 if following else None))
            return None
        self._lost(window, file, fault["offset"], (ordinal, resumed[0] - 1))
        return resumed[1], resumed[0]

    def _lost(self, window: Window, file: SegmentFile, offset: int, lost: tuple[int, int | None]) -> None:
        """Raise Damaged for a range of ordinals that cannot be served, or note it."""
        first, last = lost
        if last is not None and (last < first or last <= window.after):
            return
        what = f"events {first} to {last}" if last is not None and last > first else f"event {first}"
        message = f"{what} cannot be read" if last is not None else f"events from {first} on cannot be read"
        error = Damaged(message, session=self.session_id, segment=file.name, offset=offset, ordinal=first)
        error.is_open = last is None
        self.note_lost(window, error, (first, last if last is not None else first))

    def note_lost(self, window: Window, error: Damaged, lost: tuple[int, int]) -> None:
        """Raise what says that a range of ordinals cannot be served, or note it."""
        error.lost = lost
        if not window.skip_damage:
            raise error
        self.damage.append(error)

    def own_reversed(self, window: Window) -> Iterator[Event]:
        """Yield the same events one by one, newest first; memory is bounded by a step of 64 KiB and one frame."""
        files = list_segments(self.directory)
        upper = window.before
        for file in reversed(files):
            if (upper is not None and file.first_ordinal >= upper) or not self.is_true(file):
                continue
            for stop in self.stops(file, upper):
                first = max(stop, window.after + 1)
                if upper is not None and first >= upper:
                    continue
                part = window.above(first - 1)
                part.before = upper
                for batch in reversed(list(self.own_batches(part))):
                    yield from reversed(batch)
                upper = first
                if first <= window.after + 1:
                    return


def names_successor(reader: SegmentReader) -> bool:
    """Tell whether a segment ends in a SEAL, which names a segment that must be there."""
    return looks_sealed(reader) and reader.scan()["seal"] is not None
