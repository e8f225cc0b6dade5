"""The growing end of one segment file: frames not yet written, written and synced, and the way back when a write fails.

Owns: three marks (end >= written >= durable, each offset + ordinal + chain), the pending bytes between `end` and
`written`, and the verdict on every waiter. Invariants: `written` moves only after a write returned, `durable` only
after a sync returned success, neither after a poison; a roll-back goes to `written` and leaves no byte behind it; ids
of rolled-back events are forgotten with them. Every method but `redeem`, `write_for_sync` and `settle_sync` is called
with `lock` held. Must not know: rounds, other writers.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque

from turnlog._pure import format as fmt
from turnlog._pure.chain import chain_next
from turnlog._pure.frame import encode_frame
from turnlog._pure.identity import now_us
from turnlog._pure.medium import NO_SPACE, Descriptor, sync_file, write_all
from turnlog.errors import Closed, Damaged, NoSpace, StorageError, SyncFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog._pure.encoded import Encoded
    from turnlog._pure.idindex import IdIndex

OPEN, FROZEN, CLOSED = range(3)


class Mark:
    """A frame end: its offset and the last ordinal and chain before it."""

    __slots__ = ("chain", "offset", "ordinal")

    def __init__(self, offset: int, ordinal: int, chain: bytes) -> None:
        self.offset = offset
        self.ordinal = ordinal
        self.chain = chain


class ActiveSegment:
    """One segment file being appended to; shared by its writer and the committer."""

    def __init__(
        self, path: str, *, segment_id: bytes, end: Mark, epoch: int, roll_bytes: int, ids: IdIndex | None
    ) -> None:
        """Open the file. Raises StorageError; Damaged if the file is shorter than `end`."""
        self.path = path
        self.name = os.path.basename(path)
        try:
            self.file: Descriptor | None = Descriptor(path, os.O_RDWR)
            status = os.fstat(self.file.fd)
        except OSError as cause:
            message = f"cannot open the segment for writing: {os.strerror(cause.errno or 0)}"
            raise StorageError(message, cause.errno, segment=self.name) from cause
        if status.st_size < end.offset:
            raise Damaged("the segment ends before its last durable byte", segment=self.name, offset=status.st_size)
        self.device = status.st_dev
        self.segment_id = segment_id
        self.epoch = epoch
        self.roll_bytes = max(roll_bytes, fmt.HEADER_BYTES + 1)
        self.ids = ids
        self.lock = threading.Lock()
        self.mode = OPEN
        self.poison: tuple[str, int] | None = None
        self.end = self.written = self.durable = end
        self.pending = bytearray()
        self.pending_ids: list[bytes] = []
        self.durable_starts: deque[int] = deque()  # first bytes of durable frames that no sync covers yet
        self.rollbacks: list[tuple[int, int]] = []  # (offset, errno) of those that a waiter may ask about
        self.waiting = 0
        self.round = 0  # number of the last round joined; under the committer's lock
        self.events = 0
        self.sparse: list[tuple[int, int]] = []  # (ordinal, offset)
        self.dirty_end = end.offset  # end of the last frame that is worth a sync
        self.dirty_since: float | None = None
        self.mark_due: float | None = None
        self.zero_done = threading.Condition(self.lock)
        self.zeroed = max(status.st_size, end.offset)
        self.zero_claim: tuple[int, int] | None = None
        self.zero_asked = False
        self.waited = False  # whether somebody waited for a sync since zeros were asked for; else they are wasted work

    # Adding frames

    def check_open(self) -> bool:
        """Whether events are accepted; False once frozen. Raises SyncFailed, Closed."""
        if self.poison is not None:
            raise self.sync_failed()
        if self.mode == CLOSED:
            raise Closed("the writer is closed")
        return self.mode == OPEN

    def is_full(self) -> bool:
        """Whether the segment has reached the size at which it rolls."""
        return self.end.offset >= self.roll_bytes

    def push_event(self, event: Encoded, flags: int) -> int:
        """Frame the event behind the last one, and before it a CHAIN_MARK where one is due; return its ordinal."""
        if self._chain_mark_is_due():
            self.push_control(fmt.KIND_CHAIN_MARK, self.end.chain)
        before = self.end
        ordinal = before.ordinal + 1
        frame = self._frame(
            kind=fmt.KIND_EVENT,
            flags=event.flags | flags,
            ordinal=ordinal,
            event_id=event.event_id,
            time_us=event.time_us,
            type=event.type,
            payload=event.payload,
        )
        chain = chain_next(before.chain, ordinal, event.event_id, event.time_us, event.digest, event.type)
        self._push(frame, Mark(before.offset + len(frame), ordinal, chain), durable=bool(flags & fmt.FLAG_DURABLE))
        self.events += 1
        if not self.sparse or before.offset // fmt.SPARSE_STEP_BYTES > self.sparse[-1][1] // fmt.SPARSE_STEP_BYTES:
            self.sparse.append((ordinal, before.offset))
        self.dirty_end = self.end.offset
        if self.ids is not None:
            self.ids.add(event.event_id, ordinal)
            self.pending_ids.append(event.event_id)
        return ordinal

    def _chain_mark_is_due(self) -> bool:
        """Whether the next event's ordinal is a whole number of steps plus one; a segment's header is a mark itself."""
        end = self.end
        return end.ordinal > 0 and end.ordinal % fmt.CHAIN_STEP_EVENTS == 0 and end.offset > fmt.HEADER_BYTES

    def push_control(self, kind: int, payload: bytes) -> None:
        """Frame a control frame behind the last frame."""
        before = self.end
        frame = self._frame(
            kind=kind,
            flags=fmt.FLAG_COMMIT,
            ordinal=before.ordinal,
            event_id=bytes(16),
            time_us=now_us(),
            type="",
            payload=payload,
        )
        worth = kind not in {fmt.KIND_SYNC_MARK, fmt.KIND_CHAIN_MARK}
        self._push(frame, Mark(before.offset + len(frame), before.ordinal, before.chain), durable=worth)
        if worth:
            self.dirty_end = self.end.offset

    def _frame(self, **fields: Any) -> bytes:
        return encode_frame(
            segment_id=self.segment_id,
            offset=self.end.offset,
            epoch=self.epoch,
            durable_off=self.durable.offset,
            **fields,
        )

    def _push(self, frame: bytes, end: Mark, *, durable: bool) -> None:
        if durable:
            self.durable_starts.append(self.end.offset)
        self.pending += frame
        self.end = end

    # Writing, and the way back

    def settle_zeros(self, more_bytes: int = 0) -> None:
        """Wait until no range is being zeroed that pending bytes and `more_bytes` after them would reach."""
        while self.zero_claim is not None and self.end.offset + more_bytes > self.zero_claim[0]:
            self.zero_done.wait()

    def write_pending(self) -> tuple[int, int]:
        """Write all pending bytes; return (write calls, bytes). Raises NoSpace (rolled back), SyncFailed (poisoned)."""
        if self.poison is not None:
            raise self.sync_failed()
        file = self.file
        if not self.pending or file is None:
            return 0, 0
        try:
            calls = write_all(file.fd, self.pending, self.written.offset)
        except OSError as cause:
            number = cause.errno or 0
            if number not in NO_SPACE:
                raise self.fail("cannot write the segment", number) from cause
            self._roll_back(file, number)
            raise self._no_space(number) from cause
        size = len(self.pending)
        self.written = self.end
        self.pending = bytearray()
        self.pending_ids.clear()
        return calls, size

    def _roll_back(self, file: Descriptor, number: int) -> None:
        """Return to `written`. Raises SyncFailed if the leftover cannot be cut."""
        back = self.written
        try:
            os.ftruncate(file.fd, back.offset)
            # Without a sync a crash could bring frames back whose callers were told that they do not exist.
            sync_file(file.fd)
        except OSError as cause:
            raise self.fail("cannot cut a failed write", cause.errno or 0) from cause
        self.pending = bytearray()
        if self.ids is not None:
            self.ids.remove(self.pending_ids)
        self.pending_ids.clear()
        while self.durable_starts and self.durable_starts[-1] >= back.offset:
            self.durable_starts.pop()
        while self.sparse and self.sparse[-1][1] >= back.offset:
            self.sparse.pop()
        self.events -= self.end.ordinal - back.ordinal
        self.dirty_end = min(self.dirty_end, back.offset)
        self.zeroed = back.offset
        if self.waiting:
            self.rollbacks.append((back.offset, number))
        self.end = back  # last: until then `interrupted` sees that something is torn

    def fail(self, action: str, number: int) -> SyncFailed:
        """Poison the writer, unless it is already; return the error for everyone."""
        if self.poison is None:
            self.poison = (f"{action}: {os.strerror(number)}; this writer is closed, reopen the session", number)
        return self.sync_failed()

    def interrupted(self, before: Mark) -> None:
        """End the writer if an exception that nobody raised on purpose (KeyboardInterrupt) tore what belongs together:
        the marks and pending bytes, when the last frame was `before`.
        """
        if self.end is not before or len(self.pending) != self.end.offset - self.written.offset:
            self.fail("an append was interrupted", errno.EINTR)

    def sync_failed(self) -> SyncFailed:
        """Return a new error with the cause of the poison."""
        message, number = self.poison or ("", 0)
        return SyncFailed(message, number, segment=self.name)

    def _no_space(self, number: int) -> NoSpace:
        return NoSpace(
            f"cannot write the segment: {os.strerror(number)}; the append was rolled back", number, segment=self.name
        )

    # Syncing and verdicts

    def needs_sync(self) -> bool:
        """Whether written bytes that are worth it are not synced."""
        return self.poison is None and self.durable.offset < min(self.dirty_end, self.written.offset)

    def write_for_sync(self) -> tuple[Descriptor, Mark, int, int] | None:
        """Write what is pending; return what a sync would make durable, and write calls and bytes; None if nothing."""
        with self.lock:
            self.settle_zeros()
            calls, size, before = 0, 0, self.end
            try:
                calls, size = self.write_pending()
            except (NoSpace, SyncFailed):  # kept in `rollbacks`, `poison`: each waiter finds its own verdict
                pass
            except BaseException:
                self.interrupted(before)
                raise
            if self.poison is not None or self.file is None or self.durable.offset >= self.written.offset:
                return None
            return self.file, self.written, calls, size

    def settle_sync(self, mark: Mark, cause: OSError | None) -> None:
        """Publish the outcome of a sync that began after `mark` was written."""
        with self.lock:
            if cause is not None:
                self.fail("cannot sync the segment", cause.errno or 0)
            # A poison that came in during the sync wins: a failed sync elsewhere may have taken the error report with
            # it.
            if self.poison is None and mark.offset > self.durable.offset:
                self.publish(mark)

    def publish(self, mark: Mark) -> None:
        """Move `durable` after a successful sync."""
        self.durable = mark
        while self.durable_starts and self.durable_starts[0] < mark.offset:
            self.durable_starts.popleft()
        if mark.offset >= self.dirty_end:
            self.dirty_since = None
            self.mark_due = time.monotonic() + 1.0

    def deadline(self, interval_s: float) -> float:
        """Return when the background thread has to do something here (monotonic seconds); infinity if never."""
        due = float("inf")
        if self.poison is None and self.mode != CLOSED:
            if self.dirty_since is not None:
                due = self.dirty_since + interval_s
            if self.mark_due is not None and self.mode == OPEN:
                due = min(due, self.mark_due)
        return due

    def ticket(self) -> tuple[int, int]:
        """Register a waiter for all bytes up to `end`."""
        self.waiting += 1
        self.waited = True
        return self.end.offset, len(self.rollbacks)

    def redeem(self, ticket: tuple[int, int]) -> bool:
        """Whether the bytes are durable; False: no round decided. Raises NoSpace, SyncFailed, Closed (abandoned)."""
        end, seen = ticket
        with self.lock:
            rollback = self.rollbacks[seen] if seen < len(self.rollbacks) else None
            lost = rollback is not None and rollback[0] < end
            safe = self.durable.offset >= end
            if not (lost or safe or self.poison is not None or self.file is None):
                return False
            self.waiting -= 1
            if self.waiting == 0:
                self.rollbacks.clear()
            if rollback is not None and lost:
                raise self._no_space(rollback[1])
            if not safe and self.poison is None:
                raise Closed("the writer was abandoned before the event was durable")
            if not safe:
                raise self.sync_failed()
            return True

    def visible(self) -> int:
        """Offset up to which every frame has been acknowledged at its own level."""
        return min(self.durable_starts[0], self.written.offset) if self.durable_starts else self.written.offset
