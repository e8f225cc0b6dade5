"""Compacts finished segments: the same logical bytes as independent zstd blocks (FORMAT.md section 7).

Owns: which segments may be compacted, and the order of the steps: write beside, sync, read back from the medium and
compare, rename, sync the folder, take the raw file away. Invariants: at every moment one whole generation is there;
offsets, ordinals and chain stay the same; a damaged segment is left to repair. Must not know: frames, the index.
"""

from __future__ import annotations

import fcntl
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter

from turnlog import disk, names
from turnlog.compact.blockfile import compress, differs
from turnlog.errors import Damaged, Locked, SessionNotFound, StorageError
from turnlog.log import recovery
from turnlog.log.lock import SessionLock
from turnlog.log.segments import SegmentFile, list_segments
from turnlog.log.survey import examine, header_fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from turnlog.log.survey import SegmentReport

    Progress = Callable[[int], None]

_SEGMENTS_AT_ONCE = 2  # one waits for the disk while the other keeps the processors busy


def compact_session(store_path: str, session_id: str, *, progress: Progress | None = None) -> dict[str, Any]:
    """Compact what is finished in a session and return what was done.

    Sealed segments are always finished; under the session's lock (no live writer) so are those that a writer closed
    in order or left behind. Returns session, segments (how many there are), compacted (how many were compacted now),
    raw_bytes and compacted_bytes of those, and skipped: a list of {segment, reason}. `progress` is called with the raw
    bytes done since the last call. Raises SessionNotFound, NoSpace, ReadOnly, StorageError.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store:
    ...     with store.create() as session:
    ...         _ = session.append("note.written", {"text": "long " * 1000})
    ...     done = compact_session(store.path, session.id)
    >>> done["compacted"], done["compacted_bytes"] < done["raw_bytes"], done["skipped"]
    (1, True, [])
    """
    directory = names.session_dir(store_path, session_id)
    if not os.path.isdir(directory):
        raise SessionNotFound("there is no such session", session=session_id, store=store_path)
    lock = _try_lock(directory)
    try:
        return _Compaction(directory, session_id, alone=lock is not None).run(progress)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise disk.translate(error, f"compacting {directory}").at(session=session_id) from error
    finally:
        if lock is not None:
            lock.release()


def _try_lock(directory: str) -> SessionLock | None:
    try:
        return SessionLock(directory)
    except Locked:
        return None  # a live writer: its sealed segments can still be compacted


class _Compaction:
    """One pass over a session; `alone` says that no writer is at work."""

    def __init__(self, directory: str, session_id: str, *, alone: bool) -> None:
        self._directory = directory
        self._session_id = session_id
        self._alone = alone
        self._guard = threading.Lock()
        self._done: dict[str, Any] = {"session": session_id, "segments": 0, "compacted": 0}
        self._done |= {"raw_bytes": 0, "compacted_bytes": 0, "skipped": []}

    def run(self, progress: Progress | None) -> dict[str, Any]:
        files = list_segments(self._directory)
        self._done["segments"] = len(files)
        successors = [header_fields(file) for file in files[1:]]

        def one(index: int) -> None:
            file = files[index]
            if not file.compacted:
                newest = index + 1 == len(files)
                self._one(file, None if newest else successors[index], newest=newest, progress=progress)
            elif file.twin is not None:
                self._finish(file)

        with ThreadPoolExecutor(_SEGMENTS_AT_ONCE, "turnlog-compact") as pool:
            for pending in [pool.submit(one, index) for index in range(len(files))]:
                pending.result()
        self._done["skipped"].sort(key=itemgetter("segment"))
        return self._done

    def _one(
        self, file: SegmentFile, successor: dict[str, Any] | None, *, newest: bool, progress: Progress | None
    ) -> None:
        if newest and not self._alone:
            self._skip(file, "a writer is at work on it")
            return
        descriptor = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not _hold(descriptor, file.path):
                self._skip(file, "another program compacts it")
                return
            report = self._examine(file, successor, newest=newest)
            if report is None:
                return
            end = report.scan["valid_end"]
            size = self._compress(file, end, progress)
            with self._guard:
                self._done["compacted"] += 1
                self._done["raw_bytes"] += end
                self._done["compacted_bytes"] += size
        finally:
            os.close(descriptor)

    def _examine(self, file: SegmentFile, successor: dict[str, Any] | None, *, newest: bool) -> SegmentReport | None:
        """Return the report of a segment that may be compacted, None (and why) for another one."""
        report = examine(file, self._session_id, successor=successor, newest=newest)
        scan = report.scan
        if report.verdict != recovery.CLEAN:
            self._skip(file, f"{report.verdict}: {report.detail()}; run sessionctl repair {self._session_id}")
        elif newest and not scan["closed"]:
            self._skip(file, "its writer did not close it; the next one will")
        elif not self._alone and scan["seal"] is None:
            self._skip(file, "it is not sealed yet")
        elif not scan["events"] and not scan["notes"]:
            self._skip(file, "it holds no events")
        else:
            return report
        return None

    def _compress(self, file: SegmentFile, end: int, progress: Progress | None) -> int:
        """Write the compacted file, prove it, and take the raw one away; return its size in bytes."""
        path = file.path.removesuffix(names.RAW_SUFFIX) + names.COMPACTED_SUFFIX

        def write(descriptor: int) -> None:
            compress(file.path, end, descriptor, progress)
            disk.sync_file(descriptor)
            if differs(file.path, path + names.TEMP_SUFFIX, end):
                raise Damaged(
                    "the compacted segment does not read back as it was written",
                    session=self._session_id,
                    segment=file.name,
                )

        disk.create_file(path, write)
        self._take_away(file.path)
        return os.path.getsize(path)

    def _finish(self, file: SegmentFile) -> None:
        """Finish an interrupted compaction: the raw file goes when the compacted one proves to hold the same."""
        raw = file.twin
        if raw is None:
            return
        twin = SegmentFile(self._directory, os.path.basename(raw), file.first_ordinal, file.prefix, compacted=False)
        end = examine(twin, self._session_id, newest=False).scan["valid_end"]
        if examine(file, self._session_id, newest=False).scan["size"] != end or differs(raw, file.path, end):
            self._skip(file, f"it differs from the raw file beside it; run sessionctl repair {self._session_id}")
            return
        self._take_away(raw)

    def _take_away(self, path: str) -> None:
        disk.remove_if_present(path)
        disk.sync_directory(self._directory)

    def _skip(self, file: SegmentFile, reason: str) -> None:
        self._done["skipped"].append({"segment": file.name, "reason": reason})


def _hold(descriptor: int, path: str) -> bool:
    """Keep other compactions off a raw segment; False when one is at work or has just replaced the file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        there = os.stat(path)
    except (BlockingIOError, FileNotFoundError):
        return False
    here = os.fstat(descriptor)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)
