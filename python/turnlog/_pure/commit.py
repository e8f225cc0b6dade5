"""Commit rounds: one sync for all who wait, across the writers of one store.

Owns: rounds and who leads them, and the choice between fdatasync and syncfs. Invariants: one round syncs at a time; a
round is closed before its first write, so whoever joined it has its bytes in it; every member is woken, whatever
happens to the leader; no sync is retried. Locks: the gate is never held together with a segment's lock. Must not
know: events, types, how a frame looks.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import weakref
from queue import SimpleQueue

from turnlog._pure import background, medium, zerofill
from turnlog._pure.synccost import SyncCost
from turnlog.errors import StorageError, WrongProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnlog._pure.active import ActiveSegment, Mark

COUNTERS = ("rounds", "file_syncs", "syncfs_calls", "zero_bytes", "zero_syncs", "written_bytes", "write_calls")


class _Round:
    __slots__ = ("done", "number", "segments", "start")

    def __init__(self) -> None:
        self.number = 0
        self.segments: list[ActiveSegment] = []
        self.start = threading.Event()  # the round before is over: the leader's sign
        self.done = threading.Event()


class Committer:
    """One per store and process: syncs for all its writers, and a background thread for what nobody waits for."""

    def __init__(self, directory: str, *, interval_ms: int = 100, syncfs: bool = True) -> None:
        """Raise StorageError if the directory cannot be opened.

        `interval_ms` bounds how long buffered bytes stay unsynced; `syncfs` allows one call for many files.
        """
        self._pid = os.getpid()
        try:
            self._directory = medium.Descriptor(directory, os.O_RDONLY | os.O_DIRECTORY)
            self._device = os.fstat(self._directory.fd).st_dev
        except OSError as cause:
            message = f"cannot open the store's directory: {os.strerror(cause.errno or 0)}"
            raise StorageError(message, cause.errno) from cause
        self._syncfs = syncfs and medium.syncfs_is_trusted(self._directory.fd)
        self._cost = SyncCost()
        self._gate = threading.Lock()
        self._open: _Round | None = None  # who may still be joined
        self._leading: _Round | None = None  # whose leader syncs now, or was told to
        self._rounds = 0
        self._segments: list[weakref.ref[ActiveSegment]] = []
        self._counters = dict.fromkeys(COUNTERS, 0)
        self._alarm: SimpleQueue[bool] = SimpleQueue()  # safe to use from __del__, which a lock is not
        self._thread: threading.Thread | None = None
        self.interval_s = interval_ms / 1000
        self.alarm_at = float("inf")  # when the background thread wakes by itself (monotonic seconds)

    def flush(self) -> None:
        """Sync everything that all writers of this committer have written. Raises SyncFailed, WrongProcess."""
        self.check_process()
        dirty = [segment for segment in self.segments() if segment.needs_sync()]
        if dirty:
            self.commit(dirty)
        for segment in dirty:
            with segment.lock:
                if segment.poison is not None:
                    raise segment.sync_failed()

    def counters(self) -> dict[str, int]:
        """Return how often what was done since the start."""
        with self._gate:
            return dict(self._counters)

    def close(self) -> None:
        """Stop the background thread; idempotent. Raises WrongProcess."""
        self.check_process()
        with self._gate:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._alarm.put(False)
            thread.join()

    def __del__(self) -> None:
        if getattr(self, "_thread", None) is not None and self._pid == os.getpid():
            self._alarm.put(False)

    # For writers and the background thread

    def check_process(self) -> None:
        """Raise WrongProcess in a child of the process that made this."""
        if os.getpid() != self._pid:
            raise WrongProcess("the writer belongs to the parent process; open the session again in this one")

    def register(self, segment: ActiveSegment) -> None:
        """Look after this segment until it is dropped."""
        with self._gate:
            self._segments = [known for known in self._segments if known() is not None]
            self._segments.append(weakref.ref(segment))
            if self._thread is None:
                arguments = (weakref.ref(self), self._alarm)
                self._thread = threading.Thread(
                    target=background.run, args=arguments, name="turnlog-commit", daemon=True
                )
                self._thread.start()

    def segments(self) -> list[ActiveSegment]:
        """Return the segments that are still in use."""
        with self._gate:
            return [segment for known in self._segments if (segment := known()) is not None]

    def count(self, **more: int) -> None:
        """Add to the counters."""
        with self._gate:
            for name, value in more.items():
                self._counters[name] += value

    def wake(self, due: float = 0.0) -> None:
        """Make sure that the background thread wakes at `due` (monotonic seconds) or earlier."""
        if due < self.alarm_at:
            self.alarm_at = due
            self._alarm.put(True)

    def commit(self, segments: Iterable[ActiveSegment]) -> None:
        """Take part in one round with these segments; each segment knows the outcome afterwards."""
        turn = _Round()
        try:  # a KeyboardInterrupt may come between any two lines: `_end` undoes whatever this call has begun
            with self._gate:
                joined = self._open
                must_wait = joined is None and self._leading is not None
                if joined is None:
                    self._rounds += 1
                    turn.number = self._rounds
                    if must_wait:
                        self._open = turn
                    else:
                        self._leading = turn
                self._join(turn if joined is None else joined, segments)
            if joined is not None:
                joined.done.wait()
                return
            if must_wait:
                turn.start.wait()
                with self._gate:
                    self._open = None
            self._run(turn.segments)
        finally:
            try:
                self._end(turn)
            except BaseException:  # interrupted on its first steps: it may be done again
                self._end(turn)
                raise

    @staticmethod
    def _join(turn: _Round, segments: Iterable[ActiveSegment]) -> None:
        for segment in segments:
            if segment.round != turn.number:
                turn.segments.append(segment)
                segment.round = turn.number

    def _end(self, turn: _Round) -> None:
        """Take a round of this call's own out of the way: first the next leader is told, whose sync everybody waits
        for, then the members. They look for themselves what came of it.
        """
        with self._gate:
            if self._open is turn:
                self._open = None
            if self._leading is turn:
                following = self._open
                if following is not None:
                    following.start.set()
                self._leading = following
        turn.done.set()

    def _run(self, segments: list[ActiveSegment]) -> None:
        jobs: list[tuple[ActiveSegment, medium.Descriptor, Mark]] = []
        calls = size = 0
        for segment in segments:
            work = segment.write_for_sync()
            if work is not None:
                jobs.append((segment, *work[:2]))
                calls += work[2]
                size += work[3]
        settled = 0
        try:
            causes = self._sync([(segment, file) for segment, file, _ in jobs])
            for (segment, _, mark), cause in zip(jobs, causes, strict=True):
                segment.settle_sync(mark, cause)
                settled += 1
        finally:  # an interrupt may have swallowed the answer of a sync: its bytes may not be acknowledged
            for segment, _, mark in jobs[settled:]:
                segment.settle_sync(mark, OSError(errno.EINTR, os.strerror(errno.EINTR)))
        self.count(rounds=1, write_calls=calls, written_bytes=size)
        for segment, _, _ in jobs:
            self.look_after(segment)

    def look_after(self, segment: ActiveSegment) -> None:
        """Have the background thread do what is due for this segment: zeros, a sync, a mark."""
        with segment.lock:
            due = 0.0 if zerofill.ask(segment) else segment.deadline(self.interval_s)
        self.wake(due)

    def _sync(self, files: list[tuple[ActiveSegment, medium.Descriptor]]) -> list[OSError | None]:
        """Sync the files; return for each None or why it failed."""
        shared = [file for segment, file in files if segment.device == self._device] if self._syncfs else []
        causes: dict[int, OSError | None] = {}
        if len(shared) > 1 and self._cost.prefers_syncfs(len(shared)):
            if self._cost.wants_sample():
                causes[shared[0].fd] = self._sync_one(shared.pop(0))
            if self._sync_file_system(len(shared)):
                causes |= dict.fromkeys((file.fd for file in shared), None)
        for _, file in files:
            if file.fd not in causes:  # after a failed syncfs this tells which file is hurt
                causes[file.fd] = self._sync_one(file)
        return [causes[file.fd] for _, file in files]

    def _sync_one(self, file: medium.Descriptor) -> OSError | None:
        start = time.perf_counter_ns()
        try:
            medium.sync_file(file.fd)
        except OSError as cause:
            return cause
        finally:
            self.count(file_syncs=1)
        self._cost.saw_file(time.perf_counter_ns() - start)
        return None

    def _sync_file_system(self, files: int) -> bool:
        start = time.perf_counter_ns()
        try:
            medium.sync_file_system(self._directory.fd)
        except OSError:
            return False  # not the last word: each file is asked next
        finally:
            self.count(syncfs_calls=1)
        self._cost.saw_syncfs(time.perf_counter_ns() - start, files)
        return True
