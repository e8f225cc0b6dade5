"""Follows the growing end of a session's log, in this process or another one's.

Owns: the position between two looks, the step from a sealed segment to its successor, and the step over what is lost.
Invariants: gap-free, no repeats, nothing is delivered that a crash could take back; what cannot be served is raised or
marked, once, never passed over silently, and after an error the position is where it was. Must not know: who is told.
"""

from __future__ import annotations

import os

from turnlog import _core
from turnlog.errors import Damaged
from turnlog.log.confirm import is_confirmed
from turnlog.log.log import Window
from turnlog.log.lost import LostEvents
from turnlog.log.places import looks_sealed
from turnlog.log.segments import SegmentFile, list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from turnlog._core import Event
    from turnlog.log.log import Log

_BATCH = 512


def _nobody() -> None:
    """Stand for no writer in this process."""


class Tail:
    """A place in a log that moves forward with every `look`."""

    def __init__(
        self,
        log: Log,
        after: int,
        *,
        mark: bytes | None = None,
        newest: Callable[[], int | None] = _nobody,
        on_damage: str = "raise",
    ) -> None:
        """Start behind ordinal `after`; with `mark`, the end of that event's id, only once the log holds that event.

        `newest` gives the last ordinal of the writer in this process; `on_damage` is "raise" or "skip".
        """
        self._log = log
        self._after = after
        self._file: SegmentFile | None = None
        self._offset = _core.HEADER_BYTES
        self._ordinal = after + 1  # the next one in the segment
        self._on_damage = on_damage
        self._unconfirmed = None if mark is None or not after else (after, mark)
        self._newest = newest
        self._inherited: Iterator[Sequence[Event]] | None = None
        self._has_inherited = True
        self._open_end: tuple[int, object] | None = None  # where damage without an end was marked, in which files

    @property
    def after(self) -> int:
        """The ordinal behind which the next look goes on."""
        return self._after

    @property
    def path(self) -> str | None:
        """The segment that is read now; None before the first look, and for a session in memory."""
        return None if self._file is None else self._file.path

    @property
    def is_waiting(self) -> bool:
        """Whether the event behind which it starts has not been seen yet."""
        return self._unconfirmed is not None

    def close(self) -> None:
        """Close the files; the place stays usable and opens them again."""
        self._log.close()

    def look(self) -> list[Event | LostEvents]:
        """Return the next events, at most a batch; an empty list when there is nothing new yet.

        Raises Damaged when the next ordinal cannot be served (or returns a mark in its place), CursorMismatch,
        StorageError, NewerFormat.
        """
        if self._unconfirmed is not None and not self._confirm():
            return []
        if self._has_inherited:
            inherited = self._look_inherited()
            if inherited:
                return inherited
        try:
            while True:
                events = self._read() if self._file is not None or self._enter() else None
                if events is None:
                    break
                found: list[Event | LostEvents] = [event for event in events if event.ordinal > self._after]
                if found:
                    self._after = found[-1].ordinal
                    return found
                if not events:
                    moved = self._step()
                    if moved is None:
                        break
                    if not moved:
                        return []
        except Damaged:  # what can be served behind it, and what to say of it, the reader of whole windows knows
            self._file = None
        return self._pass()

    def _confirm(self) -> bool:
        assert self._unconfirmed is not None  # noqa: S101 - `look` asked
        if not is_confirmed(self._log, self._unconfirmed, self._newest):
            return False
        self._unconfirmed = None
        return True

    def _look_inherited(self) -> list[Event | LostEvents]:
        """Return what ancestors hold behind the place; after an error it is asked for again."""
        log = self._log
        if self._inherited is None:
            self._inherited = log.inherited(Window(self._after, on_damage=self._on_damage))
        noted = len(log.damage)
        try:
            events = next(self._inherited, None)
        except BaseException:
            self._inherited = None
            raise
        found: list[Event | LostEvents] = [*self._marks(noted), *(events or ())]
        if events is None:
            self._has_inherited, self._inherited = False, None
        if found:
            self._after = found[-1].ordinal
        return found

    def _enter(self) -> bool:
        """Open the segment that holds the next ordinal; tell whether there is one."""
        files = list_segments(self._log.directory)
        index = self._log.position(files, self._after + 1)
        if index >= len(files) or files[index].first_ordinal > self._after + 1:
            return False
        file = files[index]
        self._ordinal, self._offset = self._log.seek(file, self._log.open_reader(file), self._after + 1)
        self._file = file
        return True

    def _read(self) -> list[Event] | None:
        """Return the next events of the segment; None where there is something else."""
        assert self._file is not None  # noqa: S101 - `look` entered a segment first
        reader = self._log.open_reader(self._file)
        unsettled = self._log.written_elsewhere(self._file)
        end = self._log.shown_end(self._file, reader)
        events, self._offset, self._ordinal, _, _, fault = reader.replay(
            self._offset, self._ordinal, end=end, limit=_BATCH
        )
        if events and unsettled:
            self._log.settle(self._file, reader)
        return None if fault is not None and not events else events

    def _step(self) -> bool | None:
        """Move to the successor when there is one and this segment is read to its end; None when it is lost."""
        assert self._file is not None  # noqa: S101 - `look` entered a segment first
        files = list_segments(self._log.directory)
        prefixes = [file.prefix for file in files]
        if self._file.prefix not in prefixes:
            self._file = None
            return self._enter() or None
        position = prefixes.index(self._file.prefix)
        if files[position].path != self._file.path:  # compacted meanwhile: same logical offsets
            self._file = files[position]
            return True
        position = self._log.next_true(files, position + 1)
        if position == len(files):
            return None if looks_sealed(self._log.open_reader(self._file)) else False  # it names one
        if files[position].first_ordinal > self._ordinal:
            return None
        self._file = files[position]
        self._offset = _core.HEADER_BYTES
        return True

    # -- damage ----------------------------------------------------------------------------------------------------

    def _pass(self) -> list[Event | LostEvents]:
        """Return what the reader of windows finds from the next ordinal on, with marks for what is lost before it."""
        log, files, told = self._log, self._files(), self._open_end
        if told == (self._after, files):
            return []
        noted = len(log.damage)
        events = next(log.batches(Window(self._after, on_damage=self._on_damage)), [])
        marks = self._marks(noted)
        if marks and marks[-1].error.is_open:
            self._open_end = marks[-1].ordinal, files
            if told is not None and told[0] == marks[-1].ordinal:
                marks.pop()
        found: list[Event | LostEvents] = [*marks, *events]
        if found:
            self._after, self._file = found[-1].ordinal, None
        return found

    def _marks(self, noted: int) -> list[LostEvents]:
        """Take what was noted as lost since."""
        lost, self._log.damage[noted:] = self._log.damage[noted:], []
        return [LostEvents(error, self._after + 1) for error in lost]

    def _files(self) -> object:
        """Return what changes when the segments do, or something that equals nothing while they may be written to."""
        found = list_segments(self._log.directory)
        if not found or self._newest() is not None or self._log.written_elsewhere(found[-1]):
            return object()
        try:
            return [(file.path, os.stat(file.path).st_mtime_ns, os.path.getsize(file.path)) for file in found]
        except FileNotFoundError:  # compacted, or taken away, since they were listed
            return object()
