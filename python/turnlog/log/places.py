"""Places inside the segments of one session: which file holds an ordinal, and where in it to start reading.

Owns: the open readers, and finding a frame near an ordinal without reading what lies before it: by the index of a
sealed segment, else by halving. Invariants: a place is the start of a valid frame at or before the ordinal asked for;
a file that is no segment of the session is passed over. Must not know: windows, damage, what events mean.
"""

from __future__ import annotations

from bisect import bisect_right

from turnlog import _core
from turnlog.errors import Damaged, NewerFormat, StorageError, TurnlogError
from turnlog.log.lock import is_locked
from turnlog.log.segments import SegmentFile, list_segments, open_segment
from turnlog.log.survey import belongs, surroundings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnlog._core import SegmentReader

_READERS_MAX = 4
_NEWER = frozenset({"newer_major", "unknown_feature"})
_KIND_AT = 5
_STEP_BYTES = _core.SPARSE_STEP_BYTES
_NO_LIMIT = 1 << 62


class Places:
    """The segments of one session folder, for reading.

    `visible` returns, for a session that this process is writing, the newest segment's path and the offset up to which
    everything was acknowledged; None lets the reader sync the newest segment itself before it shows its tail.
    """

    def __init__(
        self, directory: str, session_id: str, visible: Callable[[], tuple[str, int] | None] = lambda: None
    ) -> None:
        """Remember where the session is; nothing is opened yet."""
        self.directory = directory
        self.session_id = session_id
        self._visible = visible
        self._readers: dict[str, SegmentReader] = {}
        self._true: dict[str, bool] = {}  # by path: whether the file is a segment of this session
        self._indexes: dict[str, list[tuple[int, int]]] = {}  # by path: of the open readers whose segment is sealed
        self._stop = ("", 0, 0)  # path, ordinal and offset of the last of `stops`

    def close(self) -> None:
        """Close the readers; event handles stay usable."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._indexes.clear()

    # -- files -----------------------------------------------------------------------------------------------------

    def position(self, files: list[SegmentFile], ordinal: int) -> int:
        """Return the index of the segment that holds `ordinal`, or of the first one."""
        index = bisect_right([file.first_ordinal for file in files], ordinal) - 1
        while index > 0 and not self.is_true(files[index]):
            index -= 1
        return self.next_true(files, max(0, index))

    def next_true(self, files: list[SegmentFile], index: int) -> int:
        """Return the index of the first file from `index` on that is a segment of this session under its own name."""
        while index < len(files) and not self.is_true(files[index]):
            index += 1
        return index

    def newest_true(self) -> SegmentFile | None:
        """Return the newest file that is a segment of this session; None when there is none."""
        return next((file for file in reversed(list_segments(self.directory)) if self.is_true(file)), None)

    def is_true(self, file: SegmentFile) -> bool:
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

    # -- readers ---------------------------------------------------------------------------------------------------

    def open_reader(self, file: SegmentFile) -> SegmentReader:
        """Return a reader for the segment, one of a few kept open."""
        reader = self._readers.pop(file.path, None)
        if reader is None:
            try:
                reader = self._open(file)
            except TurnlogError as error:
                raise error.at(session=self.session_id, segment=file.name) from error
            while len(self._readers) >= _READERS_MAX:
                oldest = next(iter(self._readers))
                self._readers.pop(oldest).close()
                self._indexes.pop(oldest, None)
        self._readers[file.path] = reader
        if reader.header["fault"] in _NEWER:
            message = "the segment was written by a newer turnlog"
            raise NewerFormat(message, session=self.session_id, segment=file.name, offset=0)
        return reader

    def _open(self, file: SegmentFile) -> SegmentReader:
        """Open a segment; where its header is lost, with the segment id that its neighbours state."""
        reader = open_segment(file)
        if reader.header["fault"] is None or reader.header["fault"] in _NEWER:
            return reader
        files, key = list_segments(self.directory), (file.prefix, file.first_ordinal)
        places = [place for place, other in enumerate(files) if (other.prefix, other.first_ordinal) == key]
        known_id = surroundings(files, places[0], self.session_id, None)["known_id"] if places else None
        return reader if known_id is None else open_segment(file, known_id)

    def shown_end(self, file: SegmentFile, reader: SegmentReader) -> int | None:
        """Return up to where the newest segment may be shown: what was acknowledged at its own level."""
        writing = self._visible()
        if writing is not None and writing[0] == file.path:
            return writing[1]
        size = reader.size()
        self.settle(file, reader)  # another process may have written these bytes without a sync so far
        return size

    def written_elsewhere(self, file: SegmentFile) -> bool:
        """Tell whether another process may be writing to the newest segment; ask before `shown_end`."""
        writing = self._visible()
        return (writing is None or writing[0] != file.path) and is_locked(self.directory)

    def settle(self, file: SegmentFile, reader: SegmentReader) -> None:
        """Put a segment on stable storage. What is read of one that is `written_elsewhere` is shown only after that:
        zeros that `shown_end` counted may have become frames since.
        """
        try:
            reader.sync()
        except StorageError as error:
            raise error.at(session=self.session_id, segment=file.name) from error

    # -- inside a segment ------------------------------------------------------------------------------------------

    def seek(self, file: SegmentFile, reader: SegmentReader, ordinal: int) -> tuple[int, int]:
        """Return (ordinal of the next event, offset) of a frame at or before `ordinal`."""
        start = (file.first_ordinal, _core.HEADER_BYTES)
        if ordinal <= file.first_ordinal:
            return start
        if (file.path, ordinal) == self._stop[:2]:
            return ordinal, self._stop[2]
        rows = self._index(file, reader)
        if rows is None:
            return _halve(reader, start, ordinal)
        index = bisect_right(rows, (ordinal, _NO_LIMIT)) - 1
        return rows[index] if index >= 0 else start

    def _index(self, file: SegmentFile, reader: SegmentReader) -> list[tuple[int, int]] | None:
        """Return (ordinal, offset) about every 64 KiB of a sealed segment, None for one without a SEAL."""
        rows = self._indexes.get(file.path)
        if rows is None and looks_sealed(reader):
            rows = self._indexes[file.path] = reader.sparse()
        return rows

    def stops(self, file: SegmentFile, before: int | None) -> Iterator[int]:
        """Yield ordinals below `before`, falling, about 64 KiB of frames apart, down to the segment's first one."""
        try:
            reader = self.open_reader(file)
            last, offset = self.seek(file, reader, before - 1 if before is not None else _NO_LIMIT)
            rows = self._index(file, reader)
            for ordinal, place in _steps_back(reader, last, offset) if rows is None else reversed(rows):
                if file.first_ordinal < ordinal <= last:
                    self._stop = file.path, ordinal, place
                    yield ordinal
        except Damaged:
            pass  # reading from the segment's first ordinal says what is lost
        yield file.first_ordinal


def next_frame(reader: SegmentReader, offset: int) -> tuple[int, int] | None:
    """Return (ordinal of the next event, offset) of the first valid frame after `offset`, None when there is none.

    Raises StorageError.
    """
    found = reader.resync(offset)
    if found is None:
        return None
    is_event = reader.read(found[0] + _KIND_AT, 1)[0] == _core.KIND_EVENT
    return found[1] + (not is_event), found[0]  # other frames repeat the ordinal before them


def _halve(reader: SegmentReader, start: tuple[int, int], ordinal: int) -> tuple[int, int]:
    """Find a place at or before `ordinal` by halving the bytes that may hold it: ordinals rise within a segment."""
    low, high = start, reader.size()
    while high - low[1] > _STEP_BYTES:
        middle = (low[1] + high) // 2
        found = next_frame(reader, middle)
        if found is None or found[1] >= high or found[0] > ordinal:
            high = middle
        else:
            low = found
    return low


def _steps_back(reader: SegmentReader, last: int, offset: int) -> Iterator[tuple[int, int]]:
    """Yield places from (`last`, `offset`) backward, a step of bytes apart."""
    yield last, offset
    while offset > _core.HEADER_BYTES + _STEP_BYTES:
        offset -= _STEP_BYTES
        found = next_frame(reader, offset)
        if found is not None and found[0] < last:
            last = found[0]
            yield found


def looks_sealed(reader: SegmentReader) -> bool:
    """Tell whether the bytes at a segment's end have the shape of a SEAL frame; its checksums are not looked at."""
    size, trailer = reader.size(), _core.FRAME_TRAILER_BYTES
    length = int.from_bytes(reader.read(size - trailer, trailer)[:4], "little") if size > trailer else 0
    start = reader.read(size - length, 8) if _core.HEADER_BYTES <= size - length < size else b""
    return start[:4] == _core.FRAME_MAGIC and start[_KIND_AT] == _core.KIND_SEAL
