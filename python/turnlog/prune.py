"""Prune: takes away the artifacts that nothing in a store refers to any more.

1. Check every session as `verify` does: what a damaged one refers to is not known, so then nothing goes.
2. Search the bytes of every segment, and of what lies in quarantine, for digests; whatever is named is kept. That finds
   the references of events, also of those that are not acknowledged yet, lost or another session's by mistake.
3. Sweep the rest, except what was put within the grace period before step 1.

Owns: what counts as referred to, and when nothing may go. Invariants: an artifact that any session, fork or quarantined
byte names is never removed; neither is one put after the grace period began, however long the steps take. Must not
know: how files are removed.
"""

from __future__ import annotations

import os
import re
import time
from errno import ENOENT

from turnlog import _core, names
from turnlog.artifacts.artifacts import GRACE_DAYS
from turnlog.artifacts.sweep import sweep
from turnlog.errors import Damaged, InvalidInput, StorageError
from turnlog.log.folders import session_ids
from turnlog.log.lock import is_locked
from turnlog.verify.verify import check_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnlog.artifacts.sweep import Swept
    from turnlog.log.recovery import Witness
    from turnlog.verify.verify import SessionCheck

BESIDE_WRITERS_DAYS = 1 / 24
"""The shortest grace period while sessions are written: between a put and the event that names it, nothing may go."""

_PIECE_BYTES = 1 << 20
_NAMED = re.compile(rb'"digest":"([0-9a-f]{64})"')
_NAMED_BYTES = len('"digest":""') + 64


class Prune:
    """What may go from the store at a path: `damaged` are the checks of the sessions that forbid it.

    >>> from turnlog import Store
    >>> from turnlog.artifacts.artifacts import ArtifactStore
    >>> with Store.open("runs") as store, store.create() as session:
    ...     kept = session.artifacts.put(b"referred to")
    ...     _ = session.append("report.written", {"file": {"$artifact": kept.as_payload()}})
    ...     _ = session.artifacts.put(b"left over")
    >>> swept = Prune("runs").sweep(dry_run=False)
    >>> swept.digests, swept.kept, swept.young
    ([], 1, 1)
    """

    def __init__(
        self,
        store_path: str,
        *,
        grace_days: float = GRACE_DAYS,
        witness_of: Callable[[str], Witness | None] | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Check the sessions and collect what they name; nothing is removed.

        `witness_of` gives what the index saw synced of a session, `progress` is called with the bytes read since the
        last call. Raises InvalidInput (a grace period below 0, or below an hour while a session is written),
        StorageError.
        """
        self.path = os.path.abspath(store_path)
        self.damaged: list[SessionCheck] = []
        self._grace_days = grace_days
        self._began_s = _file_clock_s()
        self._named: set[str] = set()
        self._progress = progress
        if grace_days < BESIDE_WRITERS_DAYS:
            self._require_no_writer()
        for session_id in session_ids(self.path):
            witness = witness_of(session_id) if witness_of is not None else None
            check = check_session(self.path, session_id, witness=witness)
            if not check.ok:
                self.damaged.append(check)
        if not self.damaged:
            self._collect()

    def sweep(self, *, dry_run: bool) -> Swept:
        """Return what goes; remove it unless `dry_run`. Raises Damaged when a session is damaged, and as `sweep`.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     Prune(store.path).sweep(dry_run=True).digests
        []
        """
        if self.damaged:
            session = self.damaged[0].session
            message = f"nothing was removed: {len(self.damaged)} damaged, so what they refer to is not known"
            raise Damaged(message, session=session, store=self.path)
        return sweep(self.path, self._named, grace_days=self._grace_days, dry_run=dry_run, now_s=self._began_s)

    def _require_no_writer(self) -> None:
        for session_id in session_ids(self.path):
            if is_locked(names.session_dir(self.path, session_id)):
                message = "while a session is written, the grace period is an hour at least"
                raise InvalidInput(message, session=session_id, store=self.path)

    def _collect(self) -> None:
        for top in (names.SESSIONS, names.QUARANTINE):
            for folder, _, _ in os.walk(os.path.join(self.path, top)):
                quarantined = top == names.QUARANTINE
                for path in _files(folder):
                    for piece in _pieces(path, whole=not quarantined):
                        self._named.update(digest.decode("ascii") for digest in _NAMED.findall(piece))
                        if self._progress is not None:
                            self._progress(len(piece))


def _file_clock_s() -> float:
    """Return the time as files get it: nothing that is put from now on gets an earlier one."""
    coarse = getattr(time, "CLOCK_REALTIME_COARSE", None)
    return time.time() if coarse is None else time.clock_gettime(coarse)


def _files(folder: str) -> Iterator[str]:
    """Yield the files of a folder, also those that come while it is worked on, as a compacted segment does."""
    seen: set[str] = set()
    while fresh := sorted(set(os.listdir(folder)) - seen):
        seen.update(fresh)
        for name in fresh:
            path = os.path.join(folder, name)
            if name != names.LOCK and os.path.isfile(path):
                yield path


def _pieces(path: str, *, whole: bool) -> Iterator[bytes]:
    """Yield a file's content, decompressed, in pieces that overlap by what is searched for.

    Raises StorageError, and Damaged where it must be read as a `whole`: what nobody can read refers to nothing.
    """
    offset, before = 0, b""
    try:
        with _core.SegmentReader(path) as reader:
            while piece := reader.read(offset, _PIECE_BYTES):
                yield before + piece
                offset, before = offset + len(piece), piece[1 - _NAMED_BYTES :]
    except StorageError as error:
        if error.errno != ENOENT:  # replaced by a compacted segment, which is listed next
            raise
    except Damaged:
        if whole:
            raise
