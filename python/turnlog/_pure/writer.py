"""Appending to one segment file.

Owns: what an append means at each level, batches, and the ways a segment ends (freeze, seal, close, abandon).
Invariants: a durable append returns only after a sync that began after its bytes were written returned success; a
buffered one only after its write returned; an id that is already known is reported only once its own event is as safe
as the caller asks for; in a forked child no lock is touched. Must not know: sessions, directories, who holds the
session's lock.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from turnlog._pure import format as fmt
from turnlog._pure.active import CLOSED, FROZEN, ActiveSegment, Mark
from turnlog._pure.encoded import Encoded, encode
from turnlog._pure.frame import check_payload_length
from turnlog._pure.medium import sync_file
from turnlog._pure.receipt import Receipt
from turnlog._pure.seal import seal_payload
from turnlog.errors import Closed, Conflict, InvalidId, NoSpace, TurnlogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from turnlog._pure.commit import Committer
    from turnlog._pure.idindex import IdIndex
    from turnlog._pure.medium import Descriptor


class Writer:
    """Appends to one segment file; thread-safe."""

    def __init__(
        self,
        committer: Committer,
        path: str,
        *,
        segment_id: bytes,
        end: int,
        ordinal: int,
        chain: bytes,
        epoch: int,
        roll_bytes: int,
        ids: IdIndex | None = None,
    ) -> None:
        """Open the file for appending behind `end`; all before it is valid and durable.

        Raises StorageError, Damaged, WrongProcess.
        """
        committer.check_process()
        if len(segment_id) != 16 or len(chain) != 32 or end < fmt.HEADER_BYTES or end % 8:
            raise ValueError("segment_id has 16 bytes, chain 32, and end is the end of a frame")
        self._pid = os.getpid()
        self._committer = committer
        self._opened_at = end
        mark = Mark(end, ordinal, chain)
        self._segment = ActiveSegment(
            path, segment_id=segment_id, end=mark, epoch=epoch, roll_bytes=roll_bytes, ids=ids
        )
        self._ending = threading.Lock()  # one freeze, seal or close at a time; taken before the segment's lock
        committer.register(self._segment)

    def track(self, ids: IdIndex) -> None:
        """From now on add every id to `ids` and look given ids up in it. Raises WrongProcess."""
        self._committer.check_process()
        with self._segment.lock:
            self._segment.ids = ids

    def append(
        self, type: str, payload: object, event_id: bytes | None, durable: bool, raw: bool = False
    ) -> Receipt | int | None:
        """Append one event.

        Returns a receipt; the ordinal of the event if `event_id` is known; None if the segment is full or frozen.
        Raises InvalidType, InvalidPayload, InvalidId, PayloadTooLarge, NoSpace (rolled back), SyncFailed, Closed,
        WrongProcess.
        """
        answers = self._append([encode(type, payload, event_id, raw)], durable, atomic=False)
        return None if answers is None else answers[0]

    def append_many(
        self, items: list[tuple[str, object, bytes | None, bool]], durable: bool, atomic: bool
    ) -> list[Receipt | int] | None:
        """Append (type, payload, event id, raw) tuples by one write; `atomic` makes them visible together.

        Raises as `append`, with nothing written; Conflict if some but not all ids of an atomic group are known.
        """
        events = [encode(*item) for item in items]
        return self._append(events, durable, atomic=atomic) if events else []

    def note(self, kind: int, payload: bytes) -> int:
        """Write a control frame and sync it; return its end. Raises NoSpace, SyncFailed, Closed, WrongProcess."""
        self._committer.check_process()
        if kind not in {fmt.KIND_OPEN, fmt.KIND_REPAIR_NOTE}:
            raise ValueError("only OPEN and REPAIR_NOTE are notes")
        check_payload_length(len(payload))
        segment = self._segment
        with segment.lock:
            if not segment.check_open():
                raise Closed("the segment is frozen")
            before = segment.end
            try:
                segment.push_control(kind, payload)
                ticket = segment.ticket()
            except BaseException:
                segment.interrupted(before)
                raise
        self._commit(ticket)
        return ticket[0]

    def flush(self) -> None:
        """Sync everything appended so far. Raises SyncFailed, Closed, WrongProcess."""
        self._committer.check_process()
        with self._segment.lock:
            self._segment.check_open()
        self._drain(lambda segment: segment.dirty_end)

    def freeze(self) -> dict[str, Any]:
        """Refuse further events, sync everything, return `head()`. Raises SyncFailed, Closed, WrongProcess."""
        self._committer.check_process()
        with self._ending:
            self._freeze(FROZEN)
        return self.head()

    def seal(self, successor: bytes) -> None:
        """End a frozen segment with a SEAL frame that names its successor, cut the zeros behind it, sync, release the
        file.

        Raises NoSpace (still frozen, may be repeated), SyncFailed, Closed, WrongProcess.
        """
        self._committer.check_process()
        if len(successor) != 16:
            raise InvalidId("the successor's segment id has 16 bytes")
        with self._ending:
            self._freeze(FROZEN)
            segment = self._segment
            with segment.lock:
                if segment.file is not None:
                    segment.settle_zeros(segment.roll_bytes + fmt.ZERO_STEP_MAX_BYTES)
                    self._finish(
                        segment.file, fmt.KIND_SEAL, seal_payload(segment, segment.file, self._opened_at, successor)
                    )
                    segment.mode = CLOSED
                    segment.file = None

    def close(self) -> None:
        """Sync everything, write a CLOSE frame, cut the zeros behind it, sync, release the file; idempotent.

        Raises SyncFailed (the file is released), WrongProcess. Without space for the CLOSE frame the file is left as
        after a crash: all events are durable, and the next writer starts a new segment. After a poison it only
        releases the file.
        """
        self._committer.check_process()
        with self._ending:
            segment = self._segment
            try:
                with segment.lock:
                    if segment.file is None or segment.poison is not None:
                        return
                self._freeze(CLOSED)
                with segment.lock:
                    segment.settle_zeros(segment.roll_bytes + fmt.ZERO_STEP_MAX_BYTES)
                    with suppress(NoSpace):  # what was promised is kept; only the note of an orderly end is missing
                        self._finish(segment.file, fmt.KIND_CLOSE, segment.end.chain)
            finally:
                with segment.lock:
                    segment.mode = CLOSED
                    segment.file = None

    def abandon(self) -> None:
        """Release the file and touch nothing; allowed in a forked child and after a poison."""
        if os.getpid() == self._pid:
            with self._segment.lock:  # no write may be under way on a descriptor whose number is given away
                self._segment.mode = CLOSED
                self._segment.file = None
        else:
            self._segment.mode = CLOSED
            self._segment.file = None

    def head(self) -> dict[str, Any]:
        """Return last ordinal and chain, offsets, and the witness `durable_ordinal`, `durable_chain`.

        Raises WrongProcess.
        """
        self._committer.check_process()
        segment = self._segment
        with segment.lock:
            return {
                "ordinal": segment.end.ordinal,
                "chain": segment.end.chain,
                "end": segment.end.offset,
                "written": segment.written.offset,
                "durable": segment.durable.offset,
                "visible": segment.visible(),
                "durable_ordinal": segment.durable.ordinal,
                "durable_chain": segment.durable.chain,
                "poisoned": segment.poison is not None,
                "path": segment.path,
            }

    # Appending

    def _append(self, events: list[Encoded], durable: bool, *, atomic: bool) -> list[Receipt | int] | None:
        self._committer.check_process()
        segment = self._segment
        bytes_at_most = sum(len(event.payload) for event in events) + len(events) * 2 * fmt.FRAME_HEADER_MAX_BYTES
        while True:
            with segment.lock:
                segment.settle_zeros(
                    bytes_at_most
                )  # from here on the lock is kept: nobody else can roll these frames back
                if not segment.check_open():
                    return None
                answers = self._known(events, atomic=atomic)
                fresh = any(answer is None for answer in answers)
                if fresh and segment.is_full():
                    return None
                before = segment.end
                try:
                    done, ticket = self._push(events, answers, durable=durable, atomic=atomic)
                except BaseException as error:
                    if not isinstance(error, TurnlogError):
                        segment.interrupted(before)
                    raise
            if ticket is None:
                self._committer.look_after(segment)
                return done
            try:
                self._commit(ticket)
            except NoSpace:
                if fresh:
                    raise
                continue  # the known event was rolled back before it became durable, so it is not known any more
            return done

    def _known(self, events: list[Encoded], *, atomic: bool) -> list[int | None]:
        """Return for each event the ordinal under which its id is known; raises Conflict."""
        ids = self._segment.ids
        if ids is None:
            return [None] * len(events)
        answers: list[int | None] = []
        coming: dict[bytes, int] = {}
        ordinal = self._segment.end.ordinal
        for event in events:
            known = None
            if event.given:
                known = ids.get(event.event_id) or coming.get(event.event_id)
            if known is None:
                ordinal += 1
                coming[event.event_id] = ordinal
            answers.append(known)
        if atomic and None in answers and any(answers):
            raise Conflict("an atomic group mixes event ids that are already in the session with new ones")
        return answers

    def _push(
        self, events: list[Encoded], answers: list[int | None], *, durable: bool, atomic: bool
    ) -> tuple[list[Receipt | int], tuple[int, int] | None]:
        """Frame what is new and write it if it is buffered; return the answers, and a ticket if a sync is needed.

        Called with the segment's lock held. Raises NoSpace, SyncFailed.
        """
        segment = self._segment
        level = fmt.FLAG_DURABLE if durable else 0
        left = answers.count(None)
        done: list[Receipt | int] = []
        for event, known in zip(events, answers, strict=True):
            if known is not None:
                done.append(known)
                continue
            left -= 1
            ordinal = segment.push_event(event, level | (fmt.FLAG_COMMIT if left == 0 or not atomic else 0))
            done.append(Receipt(ordinal, event.event_id, event.digest, event.time_us, durable))
        needed = max(answer if isinstance(answer, int) else answer.ordinal for answer in done)
        if needed <= (segment.durable if durable else segment.written).ordinal:
            return done, None
        if durable:
            return done, segment.ticket()
        calls, size = segment.write_pending()
        if segment.dirty_since is None:
            segment.dirty_since = time.monotonic()
        self._committer.count(write_calls=calls, written_bytes=size)
        return done, None

    def _commit(self, ticket: tuple[int, int]) -> None:
        """Wait until the ticket's bytes are durable. Raises NoSpace, SyncFailed."""
        while True:
            self._committer.commit([self._segment])
            if self._segment.redeem(ticket):
                return

    # Ending

    def _drain(self, goal: Callable[[ActiveSegment], int]) -> None:
        """Return when the bytes up to `goal` are durable."""
        segment = self._segment
        while True:
            with segment.lock:
                if segment.poison is not None:
                    raise segment.sync_failed()
                if segment.durable.offset >= goal(segment):
                    return
                ticket = segment.ticket()
            try:
                self._commit(ticket)
                return
            except NoSpace:
                continue  # others' frames; they are told, and what was acknowledged is still there

    def _freeze(self, mode: int) -> None:
        segment = self._segment
        with segment.lock:
            if segment.check_open() or mode == CLOSED:
                segment.mode = mode
        # A trailing SYNC_MARK is synced too: the successor's header promises all bytes up to `end`.
        self._drain(lambda segment: segment.end.offset)

    def _finish(self, file: Descriptor | None, kind: int, payload: bytes) -> None:
        """Write the last frame, sync, cut the file at its end, sync.

        Called with the segment's lock held, after a drain.
        """
        segment = self._segment
        if file is None:
            return
        before = segment.end
        try:
            segment.push_control(kind, payload)
            calls, size = segment.write_pending()
            if kind == fmt.KIND_CLOSE:
                sync_file(file.fd)
            os.ftruncate(file.fd, segment.end.offset)
            sync_file(file.fd)
            segment.publish(segment.written)
        except TurnlogError:
            raise
        except OSError as cause:
            raise segment.fail("cannot sync the end of the segment", cause.errno or 0) from cause
        except BaseException:
            segment.interrupted(before)
            raise
        self._committer.count(write_calls=calls, written_bytes=size, file_syncs=2 if kind == fmt.KIND_CLOSE else 1)
