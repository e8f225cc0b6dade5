"""Follows the growing end of a session's log, in this process or another one's.

Owns: the position between two looks and the step from a sealed segment to its successor. Invariants: gap-free, no
repeats, nothing is delivered that a crash could take back. Must not know: who is told.
"""

from __future__ import annotations

from turnlog import _core
from turnlog.log.log import Window
from turnlog.log.segments import SegmentFile, list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog._core import Event
    from turnlog.log.log import Log

_BATCH = 512


class Tail:
    """A place in a log that moves forward with every `look`."""

    def __init__(self, log: Log, after: int) -> None:
        """Start behind ordinal `after`."""
        self._log = log
        self._after = after
        self._file: SegmentFile | None = None
        self._offset = _core.HEADER_BYTES
        self._ordinal = after + 1
        self._inherited = log.inherited(Window(after))

    @property
    def after(self) -> int:
        """The ordinal behind which the place began, or the last inherited one that was returned."""
        return self._after

    @property
    def path(self) -> str | None:
        """The segment that is read now; None before the first look, and for a session in memory."""
        return None if self._file is None else self._file.path

    def close(self) -> None:
        """Close the files; the place stays usable and opens them again."""
        self._log.close()

    def look(self) -> list[Event]:
        """Return the next events, at most a batch; an empty list when there is nothing new yet.

        Raises Damaged when the next ordinal cannot be served, StorageError, NewerFormat.
        """
        for events in self._inherited:
            self._after = events[-1].ordinal
            return events
        if self._file is None and not self._enter():
            return []
        while True:
            events = self._read()
            found = [event for event in events if event.ordinal > self._after]
            if found or not (events or self._step()):
                return found

    def _enter(self) -> bool:
        files = list_segments(self._log.directory)
        if not files:
            return False
        index = self._log.position(files, self._ordinal)
        self._file = files[index]
        self._ordinal, self._offset = self._log.seek(self._file, self._log.open_reader(self._file), self._ordinal)
        return True

    def _read(self) -> list[Event]:
        assert self._file is not None  # noqa: S101 - `look` entered a segment first
        reader = self._log.open_reader(self._file)
        unsettled = self._log.written_elsewhere(self._file)
        end = self._log.shown_end(self._file, reader)
        events, self._offset, self._ordinal, _, _, fault = reader.replay(
            self._offset, self._ordinal, end=end, limit=_BATCH
        )
        if events and unsettled:
            self._log.settle(self._file, reader)
        if fault is not None and not events:
            others = [file for file in list_segments(self._log.directory) if file.prefix != self._file.prefix]
            following = next((file.first_ordinal for file in others if file.first_ordinal >= self._ordinal), None)
            self._log.pass_damage(self._file, reader, fault, (self._ordinal, following), Window())
        return events

    def _step(self) -> bool:
        """Move to the successor when there is one and this segment is read to its end."""
        assert self._file is not None  # noqa: S101 - `look` entered a segment first
        files = list_segments(self._log.directory)
        prefixes = [file.prefix for file in files]
        if self._file.prefix not in prefixes:
            self._file = None
            return self._enter()
        position = prefixes.index(self._file.prefix)
        if files[position].path != self._file.path:  # compacted meanwhile: same logical offsets
            self._file = files[position]
            return True
        if position + 1 == len(files) or files[position + 1].first_ordinal > self._ordinal:
            return False
        self._file = files[position + 1]
        self._offset = _core.HEADER_BYTES
        return True
