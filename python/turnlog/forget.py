"""Forget: takes a session out of a store.

1. Take the session's lock: nobody writes it.
2. Ask every log whether it inherits from the session: then it stays.
3. Rename its folder, whole, into the quarantine, and sync both sides; then drop its marker and its index row.

Owns: these steps. Invariants: a crash leaves the session in its place or in quarantine, never in pieces; a session that
is being written, or that has forks, is not touched. Must not know: what the session holds.
"""

from __future__ import annotations

import os

from turnlog import disk, names
from turnlog.errors import Conflict, SessionNotFound
from turnlog.fork import children_of
from turnlog.ids import now_us
from turnlog.log.lock import SessionLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog.store import Store

_REFUSED = 4  # the exit code of what would be unsafe


def forget(store: Store, session_id: str) -> str:
    """Move a session into the quarantine; return the path of its folder there. Raises as `Store.forget`.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store:
    ...     session = store.create()
    ...     session.close()
    ...     kept = forget(store, session.id)
    ...     os.listdir(os.path.dirname(kept)) == [os.path.basename(kept)], kept.endswith("-forgotten")
    (True, True)
    """
    folder = names.session_dir(store.path, session_id)
    if not os.path.isdir(folder):
        raise SessionNotFound(f"there is no session {session_id}", session=session_id, store=store.path)
    index = store.index()  # what it remembers of the session must not be held against a later one with the same id
    lock = SessionLock(folder)
    try:
        forks = children_of(store.path, session_id)
        if forks:
            error = Conflict(f"{forks[0]} inherits from it and would lose that; forks in all: {len(forks)}")
            error.next, error.exit_code = (f"sessionctl list --parent {session_id}",), _REFUSED
            raise error.at(session=session_id, store=store.path)
        kept = _place(store.path, session_id)
        try:
            for made in (os.path.dirname(os.path.dirname(kept)), os.path.dirname(kept)):
                disk.make_directory(made)
            os.rename(folder, kept)
            for changed in (kept, folder):
                disk.sync_directory(os.path.dirname(changed))
            disk.remove_if_present(names.live_path(store.path, session_id))
        except OSError as error:
            raise disk.translate(error, f"moving {folder} to the quarantine").at(session=session_id) from error
    finally:
        lock.release()
    index.forget(session_id)
    if (reading := store._opened(session_id)) is not None:
        reading.close()
    return kept


def _place(store: str, session_id: str) -> str:
    """Return a name in the quarantine that is free: clocks repeat themselves."""
    time_us = now_us()
    while os.path.exists(kept := names.quarantined_session(store, session_id, time_us)):
        time_us += 1
    return kept
