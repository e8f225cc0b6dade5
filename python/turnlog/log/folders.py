"""The session folders of a store: which there are, and which are marked as being written.

Owns: finding sessions on disk, and the marker in `live/`. Invariant: needs no index and reads no log. Must not know:
what the folders hold.
"""

from __future__ import annotations

import os

from turnlog import disk, names
from turnlog.log.segments import list_segments


def session_ids(store: str) -> list[str]:
    """Return the ids of all sessions, in order of id."""
    root = os.path.join(store, names.SESSIONS)
    shards = [name for name in listing(root) if names.is_shard(name)]
    return sorted(name for part in shards for name in listing(os.path.join(root, part)) if names.is_session_id(name))


def has_session(store: str, session_id: str) -> bool:
    """Tell whether the store holds a session with exactly this id. Raises StorageError."""
    folder = names.session_dir(store, session_id)
    return os.path.isdir(folder) and bool(list_segments(folder))


def mark_live(store: str, session_id: str) -> None:
    """Put the marker of a session in `live/`, durably. Raises NoSpace, ReadOnly, StorageError."""
    path = names.live_path(store, session_id)
    if not os.path.exists(path):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            disk.sync_directory(os.path.dirname(path))
        except OSError as error:
            raise disk.translate(error, f"marking the session live at {path}").at(session=session_id) from error


def listing(path: str) -> list[str]:
    """Return the names in a folder; none when it is not there."""
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
