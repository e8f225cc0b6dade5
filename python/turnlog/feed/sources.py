"""Which sessions of a store may have something new, found out without opening their files.

Owns: the discovery of sessions, and the mark of each that changes whenever its log does. Invariants: a log that grew
after its mark was taken has another mark, also where the clock of the file system is coarse: a time that is too young
to tell is never equal to a later one; nothing is missed, only looked at once too often. Must not know: events, cursors.
"""

from __future__ import annotations

import os
import time

from turnlog import names
from turnlog.log.folders import listing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnlog.store import Store

_SETTLED_NS = 50_000_000  # far above the tick of a file system's clock
_DISCOVER_EVERY_S = 0.1
_SWEEP_EVERY_S = 5.0

Mark = tuple[object, ...]


def stamp(path: str) -> object:
    """Return when a file or folder was last changed, as something to compare; None when it is not there.

    >>> stamp("no such file") is None
    True
    """
    try:
        changed_ns = os.stat(path).st_mtime_ns
    except OSError:
        return None
    return changed_ns if time.time_ns() - changed_ns > _SETTLED_NS else object()


class Sources:
    """The sessions of a store, each with the segment that was read last and the mark it had then."""

    def __init__(self, store: Store, known: Iterable[str]) -> None:
        """Begin with sessions that a cursor knows; nothing is read yet."""
        self.marks: dict[str, Mark | None] = dict.fromkeys(known)
        self.paths: dict[str, str | None] = {}
        self._store = store
        self._root = os.path.join(store.path, names.SESSIONS)
        self._shards: dict[str, object] = {}
        self._live: set[str] = set()
        self._live_stamp: object = None
        self._discovered = self._swept = -_SWEEP_EVERY_S

    def mark(self, session_id: str) -> Mark:
        """Return what changes when the session's log does; take it before the look that it vouches for.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     before = Sources(store, []).mark(session.id)
        ...     _ = session.append("note.written", {})
        ...     before == Sources(store, []).mark(session.id)
        False
        """
        session = self._store._opened(session_id)
        shown = None if session is None else session._shown()
        if shown is not None:
            return shown
        path = self.paths.get(session_id)
        folder = names.session_dir(self._store.path, session_id)
        return stamp(folder), None if path is None else stamp(path)

    def due(self, *, everything: bool = False) -> list[str]:
        """Return the sessions to look at now, in order of id; `everything` asks again for what is looked at seldom.

        >>> from turnlog import Store
        >>> store = Store.ephemeral()
        >>> Sources(store, []).due() == [store.create().id]
        False
        """
        now = time.monotonic()
        candidates = self._own()
        if self._store.path and (everything or now - self._discovered >= _DISCOVER_EVERY_S):
            self._discovered = now
            if self._discover() or now - self._swept >= _SWEEP_EVERY_S:
                self._swept = now
                candidates |= self.marks.keys()
        candidates |= self._live
        candidates |= {session_id for session_id, mark in self.marks.items() if mark is None}
        return sorted(name for name in candidates if (mark := self.marks.get(name)) is None or mark != self.mark(name))

    def _own(self) -> set[str]:
        """Return the sessions that this process writes: their numbers are at hand, whatever the files say."""
        return {session.id for session in self._store._open_sessions() if session._shown() is not None}

    def _discover(self) -> bool:
        """Look for new sessions and for new writers; tell whether any session may have been written to."""
        for shard in listing(self._root) if len(self._shards) < 256 else list(self._shards):
            if names.is_shard(shard):
                folder = os.path.join(self._root, shard)
                changed = stamp(folder)
                if changed is not None and self._shards.get(shard) != changed:
                    self._shards[shard] = changed
                    for name in listing(folder):
                        if names.is_session_id(name):
                            self.marks.setdefault(name)
        folder = os.path.join(self._store.path, names.LIVE)
        changed = stamp(folder)
        if changed == self._live_stamp:
            return False
        self._live_stamp = changed
        self._live = {name for name in listing(folder) if names.is_session_id(name)}
        return True
