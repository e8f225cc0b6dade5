"""The log of one session, for reading: its segments as one sequence of events.

Owns: windows over ordinals, crossing from segment to segment, and saying where damage is. Invariants: events come in
ordinal order without gaps or repeats; what was lost is named, never skipped silently; nothing is shown before it has
the durability it was appended with. Must not know: who writes, what events mean, the index.
"""

from __future__ import annotations

import errno
from bisect import bisect_right

from turnlog import _core, recovery
from turnlog.errors import Damaged, NewerFormat, StorageError, TurnlogError
from turnlog.segments import SegmentFile, list_segments
from turnlog.survey import belongs, surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from turnlog._core import Event, SegmentReader

_BATCH = 512
_READERS_MAX = 4
_NEWER = frozenset({"newer_major", "unknown_feature"})


class Window:
    """Which events are asked for, and what to do where some cannot be served.

    after < ordinal < before; `types` None means all; `on_damage` is "raise" or "skip".
    """

    __slots__ = ("after", "before", "skip_damage", "types")

    def __init__(
        self, after: int = 0, before: int | None = None, types: frozenset[str] | None = None, on_damage: str = "raise"
    ) -> None:
        """Keep the bounds."""
        self.after = after
        self.before = before
        self.types = types
        self.skip_damage = on_damage == "skip"

    def ends_at(self, ordinal: int) -> bool:
        """Tell whether events from `ordinal` on are outside."""
        return self.before is not None and ordinal >= self.before

    def trim(self, events: list[Event]) -> list[Event]:
        """Cut a batch to the window; batches are sorted, and nearly all lie inside."""
        after, before = self.after, self.before
        if events[0].ordinal <= after:
            events = [event for event in events if event.ordinal > after]
        if before is not None and events and events[-1].ordinal >= before:
            events = [event for event in events if event.ordinal < before]
        return events


class Log:
    """Reads the segments of one session folder.

    `visible` returns, for a session that this process is writing, the newest segment's path and the offset up to which
    everything was acknowledged; None lets the reader sync the newest segment itself before it shows its tail.
    """

    def __init__(
        self, directory: str, session_id: str, visible: Callable[[], tuple[str, int] | None] = lambda: None
    ) -> None:
        """Remember where the session is; nothing is opened yet."""
        self.directory = directory
        self.session_id = session_id
        self.damage: list[Damaged] = []  # what windows with on_damage="skip" passed over
        self._visible = visible
        self._readers: dict[str, SegmentReader] = {}
        self._true: dict[str, bool] = {}  # by path: whether the file is a segment of this session

    def events(self, window: Window) -> Iterator[Event]:
        """Yield the events of the window, oldest first.

        Raises Damaged at the first ordinal that cannot be served (or notes it in `damage` and goes on), NewerFormat,
        StorageError.
        """
        for batch in self.batches(window):
            yield from batch

    def batches(self, window: Window) -> Iterator[list[Event]]:
        """Yield the same events in lists, as the core hands them over."""
        files = list_segments(self.directory)
        expected = window.after + 1
        index = self.position(files, expected)
        while index < len(files):
            file = files[index]
            if window.ends_at(file.first_ordinal):
                return
            if file.first_ordinal > expected:  # ahead of the first one; later holes show at the end of the one before
                self._lost(window, file, 0, (expected, file.first_ordinal - 1))
            index = self._next_true(files, index + 1)
            following = files[index].first_ordinal if index < len(files) else None
            for batch in self._segment_batches(file, max(expected, file.first_ordinal), following, window):
                events = window.trim(batch)
                if events:
                    yield events
            expected = max(expected, following or 0)

    def _next_true(self, files: list[SegmentFile], index: int) -> int:
        """Return the index of the first file from `index` on that is a segment of this session under its own name."""
        while index < len(files) and not self._is_true(files[index]):
            index += 1
        return index

    def _is_true(self, file: SegmentFile) -> bool:
        """Tell whether a file is what its name says; one with an unreadable header is damage, not a stranger."""
        known = self._true.get(file.path)
        if known is None:
            try:
                header = self.open_reader(file).header
            except Damaged:
                return True
            known = header["fault"] is not None or belongs(header["fields"], file, self.session_id)
            self._true[file.path] = known
        return known

    def _segment_batches(
        self, file: SegmentFile, first: int, following: int | None, window: Window
    ) -> Iterator[list[Event]]:
        """Yield one segment's events from near `first` on; `following` is the first ordinal of the next segment."""
        try:
            reader = self.open_reader(file)
            end = self.shown_end(file, reader) if following is None else None
            ordinal, offset = self.seek(file, reader, first)
        except Damaged:  # nothing of it can be read
            self._lost(window, file, 0, (first, following - 1 if following else None))
            return
        while not window.ends_at(ordinal):
            start = offset
            events, offset, ordinal, _, _, fault = reader.replay(
                start, ordinal, end=end, limit=_BATCH, types=window.types
            )
            if events:
                yield events
            if fault is not None:
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
        elif _names_successor(reader) and list_segments(self.directory)[-1].prefix == file.prefix:
            self._lost(window, file, offset, (ordinal, None))

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
        if following is None and fault["offset"] >= recovery.durable_mark(reader.scan(), None, None):
            return None  # above the durable mark: a write in progress, or one that a crash cut short
        resumed = reader.resync(fault["offset"])
        if resumed is None:
            self._lost(window, file, fault["offset"], (ordinal, following - 1 if following else None))
            return None
        self._lost(window, file, fault["offset"], (ordinal, resumed[1] - 1))
        return resumed

    def _lost(self, window: Window, file: SegmentFile, offset: int, lost: tuple[int, int | None]) -> None:
        """Raise Damaged for a range of ordinals that cannot be served, or note it."""
        first, last = lost
        if last is not None and last < first:
            return
        what = f"events {first} to {last}" if last is not None and last > first else f"event {first}"
        message = f"{what} cannot be read" if last is not None else f"events from {first} on cannot be read"
        error = Damaged(message, session=self.session_id, segment=file.name, offset=offset, ordinal=first)
        error.lost = (first, last if last is not None else first)
        if not window.skip_damage:
            raise error
        self.damage.append(error)

    def events_reversed(self, window: Window) -> Iterator[Event]:
        """Yield the same events as `events`, newest first; memory is bounded by the sparse step of a segment."""
        files = list_segments(self.directory)
        upper = window.before
        for file in reversed(files):
            if (upper is not None and file.first_ordinal >= upper) or not self._is_true(file):
                continue
            stops = [file.first_ordinal, *self._stops(file)]
            for stop in reversed(stops):
                first = max(stop, window.after + 1)
                if upper is not None and first >= upper:
                    continue
                part = Window(first - 1, upper, window.types, "skip" if window.skip_damage else "raise")
                yield from reversed(list(self.events(part)))
                upper = first
                if first <= window.after + 1:
                    return

    def _stops(self, file: SegmentFile) -> list[int]:
        try:
            return [ordinal for ordinal, _ in self.open_reader(file).sparse()]
        except Damaged:
            return []  # `events` says what is lost

    def head(self) -> tuple[int, bytes]:
        """Return (last ordinal, chain) of what is readable; ordinal 0 for a session without events.

        Raises Damaged when the newest segment's header cannot be read.
        """
        files = [file for file in list_segments(self.directory) if self._is_true(file)]
        fields = self.open_reader(files[-1]).header["fields"] if files else None
        if fields is None:
            message = "the newest segment's header cannot be read" if files else "the session has no segments"
            raise Damaged(message, session=self.session_id, segment=files[-1].name if files else None)
        reader = self.open_reader(files[-1])
        end = self.shown_end(files[-1], reader)
        offset, ordinal, chain = _core.HEADER_BYTES, fields["first_ordinal"], fields["prev_chain"]
        while True:
            start = offset
            _, offset, ordinal, chain, _, fault = reader.replay(
                start, ordinal, end=end, limit=1 << 16, types=frozenset(), chain=chain
            )
            if fault is not None or offset == start:
                return ordinal - 1, chain or bytes(fields["prev_chain"])

    def close(self) -> None:
        """Close the readers; event handles stay usable."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    # -- places inside segments, shared with `Tail` ----------------------------------------------------------------

    def open_reader(self, file: SegmentFile) -> SegmentReader:
        """Return a reader for the segment, one of a few kept open."""
        reader = self._readers.pop(file.path, None)
        if reader is None:
            try:
                reader = self._open(file)
            except TurnlogError as error:
                raise error.at(session=self.session_id, segment=file.name) from error
            while len(self._readers) >= _READERS_MAX:
                self._readers.pop(next(iter(self._readers))).close()
        self._readers[file.path] = reader
        if reader.header["fault"] in _NEWER:
            message = "the segment was written by a newer turnlog"
            raise NewerFormat(message, session=self.session_id, segment=file.name, offset=0)
        return reader

    def _open(self, file: SegmentFile) -> SegmentReader:
        """Open a segment; where its header is lost, with the segment id that its neighbours state."""
        try:
            reader = _core.SegmentReader(file.path)
        except StorageError as error:
            if error.errno != errno.ENOENT:
                raise
            reader = _core.SegmentReader(self._elsewhere(file) or file.path)  # compacted since it was listed
        if reader.header["fault"] is None or reader.header["fault"] in _NEWER:
            return reader
        files = list_segments(self.directory)
        index = [other.path for other in files].index(file.path)
        known_id = surroundings(files, index, self.session_id, None)["known_id"]
        return reader if known_id is None else _core.SegmentReader(file.path, known_id)

    def _elsewhere(self, file: SegmentFile) -> str | None:
        """Return the path of a segment's other generation."""
        others = [other for other in list_segments(self.directory) if other.prefix == file.prefix]
        return next((other.path for other in others if other.first_ordinal == file.first_ordinal), None)

    def shown_end(self, file: SegmentFile, reader: SegmentReader) -> int | None:
        """Return up to where the newest segment may be shown: what was acknowledged at its own level."""
        writing = self._visible()
        if writing is not None and writing[0] == file.path:
            return writing[1]
        size = reader.size()
        try:
            reader.sync()  # another process may have written these bytes without a sync so far
        except StorageError as error:
            raise error.at(session=self.session_id, segment=file.name) from error
        return size

    def position(self, files: list[SegmentFile], ordinal: int) -> int:
        """Return the index of the segment that holds `ordinal`, or of the first one."""
        index = bisect_right([file.first_ordinal for file in files], ordinal) - 1
        while index > 0 and not self._is_true(files[index]):
            index -= 1
        return self._next_true(files, max(0, index))

    def seek(self, file: SegmentFile, reader: SegmentReader, ordinal: int) -> tuple[int, int]:
        """Return (ordinal, offset) of a frame at or before `ordinal`."""
        start = (file.first_ordinal, _core.HEADER_BYTES)
        if ordinal <= file.first_ordinal:
            return start
        sparse = reader.sparse()
        index = bisect_right(sparse, (ordinal, 1 << 62)) - 1
        return sparse[index] if index >= 0 else start


def _names_successor(reader: SegmentReader) -> bool:
    """Tell whether a segment ends in a SEAL, which names a segment that must be there."""
    size, trailer = reader.size(), _core.FRAME_TRAILER_BYTES
    length = int.from_bytes(reader.read(size - trailer, trailer)[:4], "little")
    start = reader.read(size - length, 8) if _core.HEADER_BYTES <= size - length < size else b""
    looks_sealed = start[:4] == _core.FRAME_MAGIC and start[5] == _core.KIND_SEAL
    return looks_sealed and reader.scan()["seal"] is not None
