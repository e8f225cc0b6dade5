"""Reads one session's log from its witness onward and folds it into the session's row.

Owns: the walk over segments, what damage does to a row, what may become a witness. Invariants: a witness names only
bytes that are on stable storage (the writer's own numbers for a session open in this process, a sync or an orderly
close for any other); it never goes back, because what it promises and the log no longer holds is how loss is found.
Must not know: SQL, which sessions need a visit.
"""

from __future__ import annotations

import errno
import os
from functools import partial
from operator import attrgetter

from turnlog._core import FRAME_HEADER_MIN_BYTES, FRAME_MAGIC, FRAME_TRAILER_BYTES, HEADER_BYTES, KIND_CLOSE
from turnlog.errors import Damaged, StorageError
from turnlog.index.plan import stamp
from turnlog.index.projection import TYPES, SessionRow, fold, imported_until
from turnlog.log.segments import list_segments, open_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from turnlog.index.plan import Stamp
    from turnlog.log.segments import SegmentFile

BATCH_EVENTS = 4_096
_CLOSE_FRAME_BYTES = FRAME_HEADER_MIN_BYTES + 32 + FRAME_TRAILER_BYTES
_ZERO_ID = bytes(16)
_UNKNOWN_CHAIN = b""
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # says nothing about the session
_NOT_FOR_US = frozenset({"newer_major", "unknown_feature"})
_ATTEMPTS = 3
_CREATED = frozenset({"session.created"})
SEGMENT_COLUMNS = ("number", "segment_id", "first_ordinal", "name", "durable_off", "ordinal", "chain")
_columns = attrgetter(*SEGMENT_COLUMNS)


class Segment:
    """What is known of one segment: the columns of the table `segments`. The last three are a witness."""

    __slots__ = SEGMENT_COLUMNS

    number: int
    segment_id: bytes
    first_ordinal: int
    name: str
    durable_off: int
    ordinal: int
    chain: bytes

    def __init__(self, *columns: Any) -> None:
        """Keep the columns, in the order of the table."""
        for column, value in zip(SEGMENT_COLUMNS, columns, strict=True):
            setattr(self, column, value)

    def columns(self) -> tuple[Any, ...]:
        """Return the columns in the order of the table."""
        return _columns(self)

    def copy(self) -> Segment:
        """Return an equal segment that can change on its own."""
        return Segment(*self.columns())


class Visit:
    """A session's row and newest segment as the index holds them, and what reading on from there adds."""

    __slots__ = ("_stored", "changed", "closed", "key", "newest", "row", "stamp", "touched")

    def __init__(self, row: SessionRow, newest: Segment | None = None, key: int | None = None) -> None:
        """Start from a stored row (`key` is its rowid), or from a new one."""
        self.row = row
        self.newest = newest
        self.key = key
        self.touched: list[Segment] = []  # segments whose columns changed
        self.changed = False
        self.closed = False  # the log ends in an orderly close
        self.stamp: Stamp | None = None  # of a session with a marker: unchanged as long as this is
        self._stored = None if newest is None else (row.values(), newest.copy())

    def position(self) -> tuple[int, int] | None:
        """Return (segment number, offset) of the stored witness, None for a session that is not stored."""
        return None if self._stored is None else (self._stored[1].number, self._stored[1].durable_off)

    def restart(self) -> None:
        """Go back to what is stored: the walk met an error half-way."""
        self.touched = []
        self.changed = False
        if self._stored is None:
            self.row, self.newest = SessionRow(self.row.id), None
        else:
            self.row, self.newest = SessionRow.from_values(self._stored[0]), self._stored[1].copy()


def read_on(visit: Visit, directory: str, *, head: Mapping[str, Any] | None, live: bool, sync: bool) -> bool:
    """Fold what the log holds beyond the visit's witness; return False when the session has no segment (any more).

    `head` is the answer of the writer's head() when the session is open in this process; `live`: there is a marker,
    so an unfinished tail is no damage; `sync`: put what was read on stable storage, because a witness will be stored.
    Raises StorageError when the process is out of descriptors or memory, or when the sync failed; any other
    unreadable file marks the row damaged.
    """
    for attempt in range(_ATTEMPTS):
        try:
            files = list_segments(directory)
        except StorageError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR}:
                return False
            raise
        if live and files:
            visit.stamp = stamp(directory, files[-1].path)
        try:
            _walk(visit, files, head=head, live=live, sync=sync)
        except (StorageError, Damaged) as error:
            if isinstance(error, StorageError) and error.errno in _EXHAUSTED:
                raise
            visit.restart()
            if isinstance(error, StorageError) and error.errno == errno.ENOENT and attempt + 1 < _ATTEMPTS:
                continue  # compaction replaced the file between listing and opening
            _damage(visit)
        return bool(files)
    return False


def _walk(visit: Visit, files: list[SegmentFile], *, head: Mapping[str, Any] | None, live: bool, sync: bool) -> None:
    known = visit.newest
    start = _position(files, known)
    if known is not None and start is None:
        _damage(visit)  # the segment of the witness is gone: keep the witness, it is the evidence
        return
    if head is not None:  # it was asked for before the files were listed: what began since is for the next visit
        files = _up_to(files, _stem(os.path.basename(head["path"])))
    for place, file in enumerate(files[start or 0 :], start or 0):
        with open_segment(file) as reader:
            fault = reader.header["fault"]
            if fault in _NOT_FOR_US:
                return
            fields = reader.header["fields"]
            if fields is None or fields["session_id"] != bytes.fromhex(visit.row.id.replace("-", "")):
                _damage(visit)
                continue
            segment = _enter(visit, file, fields)
            end = None
            newest = place + 1 == len(files)
            if head is not None and _stem(file.name) == _stem(os.path.basename(head["path"])):
                end = head["durable"]
            before = (segment.durable_off, visit.row.damaged)
            size = reader.size()
            if end is None and size < segment.durable_off:
                _damage(visit)
            else:
                ends = (size, end, partial(_torn_from, files, place, fields, live=live))
                _read_segment(visit, reader, segment, ends)
            if before != (segment.durable_off, visit.row.damaged) or segment is not known:
                visit.changed = True
                visit.touched.append(segment)
            visit.closed = newest and size == segment.durable_off and _closed_at(reader, segment.durable_off)
            if sync and end is None and segment in visit.touched and not visit.closed:
                reader.sync()


def _stem(name: str) -> str:
    """Return a segment's name without its form."""
    return name.partition(".")[0]


def _up_to(files: list[SegmentFile], stem: str) -> list[SegmentFile]:
    """Return the files up to that segment; all when it is not there."""
    place = next((place for place, file in enumerate(files) if _stem(file.name) == stem), len(files))
    return files[: place + 1]


def _torn_from(files: list[SegmentFile], place: int, fields: Mapping[str, Any], *, live: bool) -> int | None:
    """Return the offset from which unreadable bytes are no damage: a live writer's end, or a seal that is just written
    or was never finished; None when there is no such offset.
    """
    if place + 1 == len(files):
        return 0 if live else None
    with open_segment(files[place + 1]) as reader:
        following = reader.header["fields"]
    follows = following is not None and following["prev_segment_id"] == fields["segment_id"]
    return int(following["prev_length"]) if following is not None and follows else None


def _position(files: list[SegmentFile], known: Segment | None) -> int | None:
    """Return where in `files` to read on: at the known newest segment."""
    if known is None:
        return None
    prefix = known.segment_id[:4].hex()
    return next((place for place, file in enumerate(files) if file.prefix == prefix), None)


def _enter(visit: Visit, file: SegmentFile, fields: Mapping[str, Any]) -> Segment:
    """Return the segment's record: the known one, or a new one that starts where its predecessor ended."""
    row, previous = visit.row, visit.newest
    if previous is not None and previous.segment_id == fields["segment_id"]:
        return previous
    if previous is None:
        row.created_us = row.last_activity_us = fields["created_us"]
        row.fork_ordinal = row.head_ordinal = fields["fork_ordinal"]
        if fields["parent_session_id"] != _ZERO_ID:
            digits = fields["parent_session_id"].hex()
            row.parent = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
            _inherit(row, os.path.dirname(file.path))
    if fields["segment_number"] != (previous.number + 1 if previous is not None else 1):
        row.damaged = 1
    first = fields["first_ordinal"]
    if first != row.head_ordinal + 1:
        row.damaged = 1
    if previous is not None and fields["prev_segment_id"] == previous.segment_id:
        # whether the seal was there already when the segment was read must not show
        row.bytes += fields["prev_length"] - previous.durable_off
    name = _stem(file.name)
    number = fields["segment_number"]
    segment = Segment(number, fields["segment_id"], first, name, HEADER_BYTES, first - 1, fields["prev_chain"])
    row.bytes += HEADER_BYTES
    visit.newest = segment
    return segment


def _inherit(row: SessionRow, directory: str) -> None:
    """Give a fork the title and settings that its first ancestor was created with; its own events may change them."""
    from turnlog.log.log import Log, Window  # most sessions are no forks: start-up counts

    log = Log(directory, row.id)
    try:
        fold(row, log.events(Window(0, 2, _CREATED, "skip")))
    except StorageError as error:
        if error.errno in _EXHAUSTED:
            raise  # any other failure is the ancestor's: this row only begins without a title
    finally:
        log.close()


def _read_segment(
    visit: Visit, reader: Any, segment: Segment, ends: tuple[int, int | None, Callable[[], int | None]]
) -> None:
    """Fold the rest of one segment; go on behind damage, as the session does.

    `ends` are the size of the file, the offset to stop at if there is one, and what tells from where on unreadable
    bytes are no damage.
    """
    size, end, torn_from = ends
    row = visit.row
    offset, ordinal = segment.durable_off, segment.ordinal + 1
    chain: bytes | None = segment.chain or None
    while True:
        events, reached, ordinal, chain, time_us, fault = reader.replay(
            offset, ordinal, end=end, limit=BATCH_EVENTS, types=TYPES, chain=chain
        )
        fold(row, events)
        if reached > offset:
            row.bytes += reached - segment.durable_off
            segment.durable_off = reached
            segment.ordinal = ordinal - 1
            segment.chain = row.head_chain = chain if chain is not None else _UNKNOWN_CHAIN
            row.head_ordinal = max(row.head_ordinal, ordinal - 1)
            row.last_activity_us = time_us or row.last_activity_us
            if events and events[-1].ordinal == row.head_ordinal:
                row.last_activity_us = imported_until(events[-1]) or row.last_activity_us
        if fault is None:
            if reached in {offset, end, size}:
                return
            offset = reached
            continue
        if fault["code"] == "unsupported":
            return
        if reader.replay(fault["offset"], ordinal, end=end, limit=1, types=frozenset())[1] > fault["offset"]:
            offset = reached  # it was just being written
            continue
        following = reader.resync(fault["offset"])
        if following is None or (end is not None and following[0] >= end):
            harmless = torn_from()
            if harmless is None or fault["offset"] < harmless:
                row.damaged = 1
            return
        row.damaged = 1
        chain = None
        offset, ordinal = following[0], 0


def _closed_at(reader: Any, end: int) -> bool:
    """Tell whether the bytes before `end`, already read as valid, are a CLOSE frame: then all before it is on stable
    storage.
    """
    start = reader.read(end - _CLOSE_FRAME_BYTES, 6) if end >= HEADER_BYTES + _CLOSE_FRAME_BYTES else b""
    return bool(start[:4] == FRAME_MAGIC and start[5] == KIND_CLOSE and start[4] * 8 == FRAME_HEADER_MIN_BYTES)


def _damage(visit: Visit) -> None:
    """Mark the row; the witness stays where it is."""
    visit.changed = visit.changed or not visit.row.damaged
    visit.row.damaged = 1
