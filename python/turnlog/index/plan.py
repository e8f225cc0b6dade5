"""Finds the sessions that may have changed since they were last looked at, without looking at the others.

Owns: what a time of a folder or file proves. Invariant: a session that changed is found, however soon after the last
look; one that could not have changed costs at most a stat. Must not know: how a log is read, what rows mean.
"""

from __future__ import annotations

import os
import time

from turnlog import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    import apsw

    Heads = Mapping[str, Mapping[str, Any]]
    Stamp = tuple[Any, ...]

SETTLED_NS = 100_000_000  # what changed this recently may change again within one tick of the file system's clock
LIST_AGAIN = 0
_REMOVED = -1


class Plan:
    """What a catch-up has to look at."""

    __slots__ = ("complete", "gone", "live", "new", "quiet", "shards", "visit")

    def __init__(self) -> None:
        """Start with nothing."""
        self.visit: list[str] = []
        self.new: set[str] = set()  # those of `visit` that the tables do not have
        self.gone: list[str] = []
        self.live: set[str] = set()
        self.quiet: dict[str, Stamp] = {}  # visited for their marker, and nothing was new
        self.complete: list[str] = []  # those of them that were closed in order
        self.shards: dict[str, int] = {}  # times of the shard folders that were listed


class Known:
    """What earlier catch-ups over the same connection found out."""

    __slots__ = ("complete", "quiet", "shards")

    def __init__(self, shards: dict[str, int] | None = None) -> None:
        """Start with the stored times of the shard folders."""
        self.shards = shards or {}
        self.quiet: dict[str, Stamp] = {}
        self.complete: set[str] = set()


def plan(connection: apsw.Connection, store: str, known: Known, moved: Iterable[str], heads: Heads) -> Plan:
    """Find the sessions that may have changed.

    These are `moved` (those of `heads` that made progress), those with a marker of other processes, and those in a
    shard folder whose time differs from the known one.
    """
    found = Plan()
    found.live = {name for name in listing(os.path.join(store, names.LIVE)) if names.is_session_id(name)}
    marked = [name for name in sorted(found.live - heads.keys()) if not _is_quiet(store, name, known)]
    wanted = dict.fromkeys([*moved, *marked])
    for shard, mtime_ns in _changed_shards(os.path.join(store, names.SESSIONS), known.shards).items():
        listed = set(listing(os.path.join(store, names.SESSIONS, shard)))
        there = {name for name in listed if names.is_session_id(name) and names.shard(name) == shard}
        stored = {row[0] for row in connection.execute("SELECT id FROM sessions WHERE substr(id, 35) = ?", (shard,))}
        found.new |= there - stored
        found.gone += stored - there
        found.shards[shard] = mtime_ns
    found.visit = [*wanted, *sorted(found.new - wanted.keys())]
    return found


def _changed_shards(sessions: str, shards: Mapping[str, int]) -> dict[str, int]:
    """Return the shard folders whose times differ from `shards`, with their times.

    0 stands for a folder that changed so recently that its time proves nothing, -1 for one that is gone.
    """
    changed: dict[str, int] = {}
    settled_ns = time.time_ns() - SETTLED_NS
    try:
        descriptor = os.open(sessions, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return {name: _REMOVED for name, mtime_ns in shards.items() if mtime_ns != _REMOVED}
    try:
        present = os.listdir(descriptor)
        for name in present:
            stored_ns = shards.get(name)
            if stored_ns is None and not names.is_shard(name):
                continue
            try:
                mtime_ns = os.stat(name, dir_fd=descriptor).st_mtime_ns
            except FileNotFoundError:
                continue  # removed since; the next catch-up will miss it
            if mtime_ns >= settled_ns:
                changed[name] = LIST_AGAIN
            elif mtime_ns != stored_ns:
                changed[name] = mtime_ns
    finally:
        os.close(descriptor)
    for name in shards.keys() - present:
        if shards[name] != _REMOVED:
            changed[name] = _REMOVED
    return changed


def stamp(directory: str, path: str) -> Stamp | None:
    """Return what stays the same while nobody writes to the session's newest segment `path`, None when it is too fresh.

    Take it before reading: then what is read is at least what the stamp stands for.
    """
    try:
        folder, file = os.stat(directory), os.stat(path)
    except FileNotFoundError:
        return None
    if max(folder.st_mtime_ns, file.st_mtime_ns) >= time.time_ns() - SETTLED_NS:
        return None
    return path, folder.st_mtime_ns, file.st_mtime_ns, file.st_size


def _is_quiet(store: str, session_id: str, known: Known) -> bool:
    before = known.quiet.get(session_id)
    return before is not None and stamp(names.session_dir(store, session_id), before[0]) == before


def listing(path: str) -> list[str]:
    """Return the names in a folder, none when it is not there."""
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
