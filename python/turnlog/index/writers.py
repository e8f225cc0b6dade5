"""Who writes now: what no table can say, because a process that is killed writes nothing about it.

Owns: telling a session that is being written from one whose writer died. Invariants: the lock is the truth, the marker
in `live/` only saves asking it; nothing is created. Must not know: rows, SQL.
"""

from __future__ import annotations

import os

from turnlog import names
from turnlog.index.plan import listing
from turnlog.log.lock import is_locked


class Writers:
    """The sessions of a store that somebody writes; make one for each question, since it keeps what it has seen."""

    __slots__ = ("_marked", "_store")

    def __init__(self, store: str) -> None:
        """Look at nothing yet."""
        self._store = store
        self._marked: frozenset[str] | None = None

    def writes(self, session_id: str) -> bool:
        """Tell whether a live process, this one or another, has the session open for writing.

        Where the lock may not be looked at (the session is another user's), a marked session counts as written.
        """
        if self._marked is None:
            self._marked = frozenset(listing(os.path.join(self._store, names.LIVE)))
        if session_id not in self._marked:
            return False
        try:
            return is_locked(names.session_dir(self._store, session_id))
        except OSError:
            return True
