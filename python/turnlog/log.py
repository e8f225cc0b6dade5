"""The log of one session, for reading: its segments as one sequence of events.

Owns: windows over ordinals, crossing from segment to segment, and saying where damage is. Invariants: events come in ordinal order without
gaps or repeats; what was lost is named, never skipped silently; nothing is shown before it has the durability it was appended with.
Must not know: who writes, what events mean, the index.
"""

from __future__ import annotations

from bisect import bisect_right

from turnlog import _core, recovery
from turnlog.errors import Damaged, NewerFormat, StorageError, TurnlogError
from turnlog.segments import SegmentFile, list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from turnlog._core import Event, SegmentReader

_BATCH = 512
_READERS_MAX = 4
_HEADER_FAULTS_NEWER = frozenset({"newer_major", "unknown_feature"})


class Log:
    """Reads the segments of one session folder.

    `visible` returns, for a session that this process is writing, the newest segment's path and the offset up to which everything was
    acknowledged; None lets the reader sync the newest segment itself before it shows its tail.
    """

    def __init__(self, directory: str, session_id: str, visible: Callable[[], tuple[str, int] | None] = lambda: None) -> None:
        """Remember where the session is; nothing is opened yet."""
        self.directory = directory
        self.session_id = session_id
        self.damage: list[Damaged] = []  # what iterations with on_damage="skip" passed over
        self._visible = visible
        self._readers: dict[str, SegmentReader] = {}

    def events(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        types: frozenset[str] | None = None,
        on_damage: str = "raise",
    ) -> Iterator[Event]:
        """Yield the events with after < ordinal < before, oldest first.

        Raises Damaged at the first ordinal that cannot be served (`on_damage="skip"` notes it in `damage` and goes on), NewerFormat,
        StorageError.
        """
        for batch in self.batches(after=after, before=before, types=types, on_damage=on_damage):
            yield from batch

    def batches(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        types: frozenset[str] | None = None,
        on_damage: str = "raise",
    ) -> Iterator[list[Event]]:
        """Yield the same events in lists, as the core hands them over."""
        files = list_segments(self.directory)
        expected = after + 1
        for index in range(self.position(files, expected), len(files)):
            file = files[index]
            if before is not None and file.first_ordinal >= before:
                return
            if file.first_ordinal > expected:  # only ahead of the first segment: later holes are met at the end of the one before
                self._lost(on_damage, file, 0, expected, file.first_ordinal - 1)
            following = files[index + 1].first_ordinal if index + 1 < len(files) else None
            for batch in self._segment_batches(file, max(expected, file.first_ordinal), before, types, on_damage, following):
                events = _trim(batch, expected, before)
                if events:
                    yield events
            expected = max(expected, following or 0)

    def _segment_batches(
        self,
        file: SegmentFile,
        first: int,
        before: int | None,
        types: frozenset[str] | None,
        on_damage: str,
        following: int | None,
    ) -> Iterator[list[Event]]:
        """Yield one segment's events from near `first` on; `following` is the first ordinal of the next segment."""
        reader = self.open_reader(file)
        end = self.shown_end(file, reader) if following is None else None
        ordinal, offset = self.seek(file, reader, first)
        while before is None or ordinal < before:
            start = offset
            events, offset, ordinal, _, _, fault = reader.replay(start, ordinal, end=end, limit=_BATCH, types=types)
            if events:
                yield events
            if fault is not None:
                resumed = self.pass_damage(file, reader, fault, ordinal, following, on_damage)
                if resumed is None:
                    return
                offset, ordinal = resumed
            elif offset == start:
                break
        if following is not None and ordinal < following and (before is None or ordinal < before):
            self._lost(on_damage, file, offset, ordinal, following - 1)

    def pass_damage(
        self,
        file: SegmentFile,
        reader: SegmentReader,
        fault: dict[str, Any],
        ordinal: int,
        following: int | None,
        on_damage: str,
    ) -> tuple[int, int] | None:
        """Decide what a fault means; return (offset, ordinal) to go on from, or None when the segment ends here."""
        if fault["code"] == "unsupported":
            message = "the session holds something only a newer turnlog can read"
            raise NewerFormat(message, session=self.session_id, segment=file.name, offset=fault["offset"])
        if following is None:
            mark = recovery.durable_mark(reader.scan(), None, None)
            if fault["offset"] >= mark:
                return None  # above the durable mark: a write in progress or one that a crash cut short
        resumed = reader.resync(fault["offset"])
        if resumed is None:
            self._lost(on_damage, file, fault["offset"], ordinal, following - 1 if following else None)
            return None
        self._lost(on_damage, file, fault["offset"], ordinal, resumed[1] - 1)
        return resumed

    def _lost(self, on_damage: str, file: SegmentFile, offset: int, first: int, last: int | None) -> None:
        """Raise Damaged for a lost range, or note it."""
        if last is not None and last < first:
            return
        name = f"event {first}" if last == first else f"events {first} to {last}" if last is not None else f"events from {first} on"
        error = Damaged(f"{name} cannot be read", session=self.session_id, segment=file.name, offset=offset, ordinal=first)
        error.lost = (first, last if last is not None else first)
        if on_damage != "skip":
            raise error
        self.damage.append(error)

    def events_reversed(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        types: frozenset[str] | None = None,
        on_damage: str = "raise",
    ) -> Iterator[Event]:
        """Yield the same events as `events`, newest first; memory is bounded by the sparse step of a segment."""
        files = list_segments(self.directory)
        upper = before
        for index in range(len(files) - 1, -1, -1):
            file = files[index]
            if upper is not None and file.first_ordinal >= upper:
                continue
            reader = self.open_reader(file)
            stops = [ordinal for ordinal, _ in reader.sparse()]
            for stop in reversed([file.first_ordinal, *stops]):
                first = max(stop, after + 1)
                if upper is not None and first >= upper:
                    continue
                yield from reversed(list(self.events(after=first - 1, before=upper, types=types, on_damage=on_damage)))
                upper = first
                if first <= after + 1:
                    return

    def head(self) -> tuple[int, bytes]:
        """Return (last ordinal, chain) of what is readable; (0, chain 0) for a session without events.

        Raises Damaged when the chain cannot be followed to the end of the newest segment.
        """
        files = list_segments(self.directory)
        if not files:
            message = "the session has no segments"
            raise Damaged(message, session=self.session_id)
        file = files[-1]
        reader = self.open_reader(file)
        fields = reader.header["fields"]
        if fields is None:
            message = "the newest segment's header cannot be read"
            raise Damaged(message, session=self.session_id, segment=file.name, offset=0)
        end = self.shown_end(file, reader)
        offset, ordinal, chain = _core.HEADER_BYTES, fields["first_ordinal"], fields["prev_chain"]
        while True:
            before = offset
            _, offset, ordinal, chain, _, fault = reader.replay(offset, ordinal, end=end, limit=65536, types=frozenset(), chain=chain)
            if fault is not None or offset == before:
                return ordinal - 1, chain

    def close(self) -> None:
        """Close the readers; event handles stay usable."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def open_reader(self, file: SegmentFile) -> SegmentReader:
        reader = self._readers.pop(file.path, None)
        if reader is None:
            try:
                reader = _core.SegmentReader(file.path)
            except TurnlogError as error:
                raise error.at(session=self.session_id, segment=file.name) from error
            while len(self._readers) >= _READERS_MAX:
                self._readers.pop(next(iter(self._readers))).close()
        self._readers[file.path] = reader
        if reader.header["fault"] in _HEADER_FAULTS_NEWER:
            message = "the segment was written by a newer turnlog"
            raise NewerFormat(message, session=self.session_id, segment=file.name, offset=0)
        return reader

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
        """Return the index of the segment that holds `ordinal`, or the first one."""
        firsts = [file.first_ordinal for file in files]
        return max(0, bisect_right(firsts, ordinal) - 1)

    def seek(self, file: SegmentFile, reader: SegmentReader, ordinal: int) -> tuple[int, int]:
        """Return (ordinal, offset) of a frame at or before `ordinal`."""
        start = (file.first_ordinal, _core.HEADER_BYTES)
        if ordinal <= file.first_ordinal:
            return start
        sparse = reader.sparse()
        index = bisect_right(sparse, (ordinal, 1 << 62)) - 1
        return sparse[index] if index >= 0 else start


def _trim(events: list[Event], first: int, before: int | None) -> list[Event]:
    """Cut a batch to first <= ordinal < before; batches are sorted, and nearly all lie inside."""
    if events[0].ordinal < first:
        events = [event for event in events if event.ordinal >= first]
    if before is not None and events and events[-1].ordinal >= before:
        events = [event for event in events if event.ordinal < before]
    return events
