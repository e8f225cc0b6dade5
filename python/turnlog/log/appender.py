"""Writes one session: opens its log for writing, rolls segments, answers repeated ids, closes.

Owns: the lock, the writer epoch, the order of the steps of FORMAT.md section 6 and the roll to a new segment.
Invariants: nothing is cut before a copy of it is durable in quarantine; damage below the durable mark makes the
session read-only; a segment left by a dead writer is never appended to. Must not know: the store's other sessions,
the index, what events mean.
"""

from __future__ import annotations

import os
import threading

from turnlog import _core, disk, names
from turnlog.errors import Closed, Conflict, Damaged, NewerFormat, ReadOnly, StorageError, SyncFailed, TurnlogError
from turnlog.log import recovery
from turnlog.log.known_ids import load_ids
from turnlog.log.lock import SessionLock
from turnlog.log.log import Log, Window
from turnlog.log.quarantine import Quarantine
from turnlog.log.segments import create_segment, first_fields, list_segments, successor_fields
from turnlog.log.survey import SegmentReport, examine, header_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog._core import Committer, Receipt
    from turnlog.log.recovery import Witness


class Appender:
    """The one writer of a session. Thread-safe."""

    def __init__(self, store: str, session_id: str, committer: Committer, roll_bytes: int) -> None:
        """Take the session's lock; use `create` or `open` instead. Raises Locked."""
        self.session_id = session_id
        self.directory = names.session_dir(store, session_id)
        self.recovered: SegmentReport | None = None  # what the newest segment was found to be, when that was not CLEAN
        self.opened_ordinal = 0  # the last one when this writer took over
        self._store = store
        self._committer = committer
        self._roll_bytes = roll_bytes
        self._rolling = threading.Lock()
        self._next: tuple[dict[str, Any], str] | None = None  # a successor that was made and not entered yet
        self._broken: SyncFailed | None = None  # why no successor may be made any more
        self._ids: _core.IdIndex | None = None
        self._epoch = 1
        self._fields: dict[str, Any]
        self._writer: _core.Writer
        self._lock = SessionLock(self.directory)

    @classmethod
    def create(cls, store: str, session_id: str, committer: Committer, *, roll_bytes: int) -> Appender:
        """Make a new session's folder and first segment, durably, and open it."""
        for path in (os.path.dirname(names.session_dir(store, session_id)), names.session_dir(store, session_id)):
            try:
                disk.make_directory(path)
            except OSError as error:
                raise disk.translate(error, f"creating {path}").at(session=session_id) from error
        self = cls(store, session_id, committer, roll_bytes)
        try:
            if list_segments(self.directory):  # made since the caller looked, and its writer is gone again
                message = "a session with this id exists already"
                raise Conflict(message, session=session_id)
            fields = first_fields(session_id)
            self._start(fields, ordinal=0, chain=fields["prev_chain"])
        except BaseException:
            self._lock.release()
            raise
        return self

    @classmethod
    def open(
        cls, store: str, session_id: str, committer: Committer, *, roll_bytes: int, witness: Witness | None
    ) -> Appender:
        """Open an existing session for writing: recover, then continue.

        Raises Locked, ReadOnly (damage), NewerFormat, NoSpace, StorageError.
        """
        self = cls(store, session_id, committer, roll_bytes)
        try:
            self._recover(witness)
        except TurnlogError as error:
            self._lock.release()
            raise error.at(session=session_id) from None
        except OSError as error:
            self._lock.release()
            raise disk.translate(error, f"opening {self.directory} for writing").at(session=session_id) from error
        except BaseException:
            self._lock.release()
            raise
        return self

    # -- opening ---------------------------------------------------------------------------------------------------

    def _recover(self, witness: Witness | None) -> None:
        files = list_segments(self.directory)
        if not files:  # a crash came between the folder and the first segment: nothing was ever acknowledged
            fields = first_fields(self.session_id)
            self._start(fields, ordinal=0, chain=fields["prev_chain"])
            return
        newest = files[-1]
        with _core.SegmentReader(newest.path) as reader:
            reader.sync()  # no decision may rest on bytes that a dead process left only in the page cache
            disk.sync_directory(self.directory)
            reader.drop_cache()
        report = examine(newest, self.session_id, witness=witness)
        self._refuse_unless_writable(report)
        if len(files) > 1:
            self._check_link(header_fields(files[-2]), report)
        scan = report.scan
        self.opened_ordinal = scan["last_ordinal"]
        closed = scan["closed"] and scan["valid_end"] == scan["size"] and not newest.compacted
        if report.verdict in recovery.CUTTABLE:
            self.recovered = report
            self._quarantine(report)
        if not newest.compacted and scan["size"] > scan["commit_end"]:
            disk.cut(newest.path, scan["commit_end"])
        assert report.fields is not None  # noqa: S101 - a writable verdict implies a readable header
        epoch = max(scan["epoch"], report.fields["writer_epoch"]) + 1
        if closed:
            self._fields, self._epoch = report.fields, epoch
            self._continue(report)
            return
        fields = successor_fields(
            report.fields, length=scan["commit_end"], ordinal=scan["last_ordinal"], chain=scan["chain"], epoch=epoch
        )
        self._start(fields, ordinal=scan["last_ordinal"], chain=scan["chain"])

    def _refuse_unless_writable(self, report: SegmentReport) -> None:
        name = report.file.name
        if report.verdict == recovery.UNSUPPORTED:
            raise NewerFormat(report.detail(), segment=name)
        if report.verdict == recovery.IO_ERROR:
            raise StorageError(report.detail(), segment=name)
        if report.scan["header"]["read_only"]:
            message = "a newer turnlog wrote this session and asks older ones not to write to it"
            raise ReadOnly(message, segment=name)
        if report.verdict not in recovery.WRITABLE:
            offset = report.scan["faults"][0]["offset"] if report.scan["faults"] else report.scan["commit_end"]
            error = ReadOnly(
                f"{report.verdict}: {report.detail()}; the session can be read, not written",
                segment=name,
                offset=offset,
            )
            error.lost = report.lost[0] if report.lost else None
            raise error

    def _check_link(self, previous: dict[str, Any] | None, report: SegmentReport) -> None:
        fields = report.fields
        if previous is None or fields is None or fields["prev_segment_id"] != previous["segment_id"]:
            what = "the segment before the newest one is missing or unreadable"
            message = f"{recovery.LOST_DATA}: {what}; the session can be read, not written"
            raise ReadOnly(message, segment=report.file.name, offset=0)

    def _quarantine(self, report: SegmentReport) -> None:
        """Copy what will be cut to quarantine/, durably."""
        start, end = report.scan["commit_end"], min(report.scan["size"], report.scan["zero_from"])
        Quarantine(self._store, self.session_id).keep_range(report.file.path, start, end)

    def _continue(self, report: SegmentReport) -> None:
        """Go on in the newest segment: its writer closed it in order."""
        scan = report.scan
        self._writer = self._open_writer(
            report.file.path, scan["valid_end"], scan["last_ordinal"], scan["chain"], self._fields
        )
        self._writer.note(_core.KIND_OPEN, scan["chain"])

    def _start(self, fields: dict[str, Any], *, ordinal: int, chain: bytes) -> None:
        """Go on in a new segment."""
        path = create_segment(self.directory, fields)
        self._fields = fields
        self._epoch = fields["writer_epoch"]
        self._writer = self._open_writer(path, _core.HEADER_BYTES, ordinal, chain, fields)

    def _open_writer(self, path: str, end: int, ordinal: int, chain: bytes, fields: dict[str, Any]) -> _core.Writer:
        return _core.Writer(
            self._committer,
            path,
            segment_id=fields["segment_id"],
            end=end,
            ordinal=ordinal,
            chain=chain,
            epoch=self._epoch,
            roll_bytes=self._roll_bytes,
            ids=self._ids,
        )

    # -- appending -------------------------------------------------------------------------------------------------

    def append(
        self, type: str, payload: object, event_id: bytes | None, *, durable: bool, raw: bool = False
    ) -> Receipt:
        """Append one event; return when it has the durability asked for. See `Session.append` for the errors."""
        if event_id is not None and self._ids is None:
            self._track_ids()
        while True:
            writer = self._writer
            try:
                result = writer.append(type, payload, event_id, durable, raw)
            except TurnlogError as error:
                self._raise_unless_sealed(error, writer)
                continue
            if result is None:
                self._roll(writer)
            elif isinstance(result, int):
                return self._repeated(result, (type, payload, event_id, raw), durable=durable)
            else:
                return result

    def append_many(
        self, items: list[tuple[str, object, bytes | None, bool]], *, durable: bool, atomic: bool
    ) -> list[Receipt]:
        """Append several events with one write and one sync; `atomic` makes them visible together or not at all."""
        if self._ids is None and any(item[2] is not None for item in items):
            self._track_ids()
        while True:
            writer = self._writer
            try:
                results = writer.append_many(items, durable, atomic)
            except TurnlogError as error:
                self._raise_unless_sealed(error, writer)
                continue
            if results is None:
                self._roll(writer)
                continue
            return [
                self._repeated(result, item, durable=durable) if isinstance(result, int) else result
                for result, item in zip(results, items, strict=True)
            ]

    def _raise_unless_sealed(self, error: TurnlogError, writer: _core.Writer) -> None:
        """Raise the error, unless a roll sealed the writer after it was looked up: it wrote nothing then."""
        if self._writer is writer or not isinstance(error, Closed):
            raise error.at(session=self.session_id) from None

    def _repeated(self, ordinal: int, item: tuple[str, object, bytes | None, bool], *, durable: bool) -> Receipt:
        """Answer an append whose id is already there: the first receipt for equal content, Conflict for other
        content.
        """
        type_, payload, event_id, raw = item
        if durable:
            self.flush()
        log = Log(self.directory, self.session_id, self._written)
        try:
            event = next(log.events(Window(ordinal - 1, ordinal + 1)), None)
        finally:
            log.close()
        if event is None:
            message = "the event that was stored with this id cannot be read"
            raise Damaged(message, session=self.session_id, ordinal=ordinal)
        data = payload if raw and isinstance(payload, bytes) else _core.canonical(payload)
        if event.digest != _core.digest(data) or event.type != type_:
            message = f"event {event.id} is already stored with other content"
            raise Conflict(message, session=self.session_id, ordinal=ordinal)
        assert event_id is not None  # noqa: S101 - only given ids are looked up
        return _core.Receipt(ordinal, event_id, event.digest, event.time_us, event.durable or durable)

    def _track_ids(self) -> None:
        """Start to look up ids: first new ones are recorded, then those in the log are loaded, inherited ones too."""
        with self._rolling:
            if self._ids is not None:
                return
            ids = _core.IdIndex()
            self._writer.track(ids)
            self._writer.flush()  # every event appended before `track` is in the file now
            load_ids(ids, self.directory, self.session_id)
            self._ids = ids

    def _roll(self, full: _core.Writer) -> None:
        """Replace a full segment: the successor exists durably before the old one is sealed.

        There is never more than one successor: an attempt that failed half-way is gone on with, or ends the writer.
        """
        with self._rolling:
            if self._writer is not full:
                return
            if self._broken is not None:
                raise SyncFailed(self._broken.message, self._broken.errno, **self._broken.place())
            try:
                self._lock.check()
                head = full.freeze()
                if self._next is None:
                    self._next = self._successor(head)
                fields, path = self._next
                writer = self._open_writer(path, _core.HEADER_BYTES, head["ordinal"], head["chain"], fields)
                self._fields, self._writer, self._next = fields, writer, None
                full.seal(fields["segment_id"])
            except TurnlogError as error:
                raise error.at(session=self.session_id) from None

    def _successor(self, head: dict[str, Any]) -> tuple[dict[str, Any], str]:
        """Make the segment that follows the frozen one; return its header fields and path."""
        fields = successor_fields(
            self._fields, length=head["end"], ordinal=head["ordinal"], chain=head["chain"], epoch=self._epoch
        )
        try:
            return fields, create_segment(self.directory, fields)
        except SyncFailed as error:
            self._broken = error
            raise

    # -- state and end ---------------------------------------------------------------------------------------------

    def visible(self) -> tuple[str, int] | None:
        """Return the newest segment's path and the offset up to which every event has been acknowledged."""
        head = self._writer.head()
        return head["path"], head["visible"]

    def durable_end(self) -> tuple[str, int] | None:
        """Return the same with the offset up to which no crash can take anything back."""
        head = self._writer.head()
        return head["path"], min(head["durable"], head["visible"])

    def _written(self) -> tuple[str, int]:
        """Return the same with the offset up to which events are in the file, among them some that wait for a sync."""
        head = self._writer.head()
        return head["path"], head["written"]

    def head(self) -> dict[str, Any]:
        """Return the writer's numbers (`Writer.head`) and the segment's id."""
        return {**self._writer.head(), "segment_id": self._fields["segment_id"]}

    def check(self) -> None:
        """Raise Locked when the lock file was replaced behind our back, WrongProcess in a forked child."""
        self._lock.check()

    def flush(self) -> None:
        """Return when everything appended so far is durable."""
        writer = self._writer
        try:
            writer.flush()
        except TurnlogError as error:
            self._raise_unless_sealed(error, writer)
            self.flush()

    def close(self) -> None:
        """Flush, mark the orderly end, cut the segment to its exact length, release the lock; idempotent."""
        try:
            self._writer.close()
        except TurnlogError as error:
            raise error.at(session=self.session_id) from None
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Release descriptor and lock without touching the log: after a fork, or after a failed sync."""
        self._writer.abandon()
        self._lock.release()
