"""The file-state cache: was a file that the agent read or wrote changed by somebody else since?

Owns: what each file was when the agent last saw it, the most recently used last, at most FILES_MAX of them. Invariants:
None is answered only when the content is proved the same - by its digest, or by a state that no change can leave as it
was; nothing is read at import. Must not know: sessions, events, who asks.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time

from turnlog import names
from turnlog.arguments import require_path, require_whole
from turnlog.errors import InvalidInput, NotFound, StorageError
from turnlog.files.file_state import FileState, has_times, is_same_file, read_file, take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FILES_MAX = 10_000
SNAPSHOT_MAX = 1_000
_VERSION = 1
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class FileCache:
    """What the agent knows of files. Thread-safe; paths may be relative to the current folder.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "notes.txt")
    >>> with open(path, "w") as file:
    ...     _ = file.write("one")
    >>> cache = FileCache()
    >>> cache.mark_read(path)
    >>> cache.has_external_modification(path) is None
    True
    >>> with open(path, "w") as file:
    ...     _ = file.write("two")
    >>> cache.has_external_modification(path)
    'modified'
    >>> cache.mark_written(path)
    >>> cache.has_external_modification(path) is None
    True
    """

    def __init__(self, files_max: int = FILES_MAX) -> None:
        """Keep at most `files_max` states; the least recently used goes first. Raises InvalidInput."""
        if files_max < 1:
            raise InvalidInput(f"the cache keeps at least one file, not {files_max}")
        self._files_max = files_max
        self._guard = threading.Lock()
        self._states: dict[str, FileState] = {}

    def mark_read(self, path: str | os.PathLike[str], digest: str | None = None) -> None:
        """Remember the file as the agent sees it now. `digest`: the SHA-256 of the content it was shown, in hex; left
        out, the file is read.

        Raises NotFound, InvalidInput (a folder or device, or no digest), StorageError (the system forbids reading).

        >>> with open("notes.txt", "w") as file:
        ...     _ = file.write("one")
        >>> cache = FileCache()
        >>> cache.mark_read("notes.txt")
        >>> "notes.txt" in cache
        True
        """
        self._mark(path, digest, written=False)

    def mark_written(self, path: str | os.PathLike[str], digest: str | None = None) -> None:
        """Remember the file as the agent has just written it; otherwise as `mark_read`.

        >>> cache = FileCache()
        >>> with open("notes.txt", "w") as file:
        ...     _ = file.write("one")
        >>> cache.mark_written("notes.txt")
        >>> cache.recent()[0].written
        True
        """
        self._mark(path, digest, written=True)

    def has_external_modification(self, path: str | os.PathLike[str]) -> str | None:
        """Return what happened to a file since it was marked, None when its content is as the agent knows it.

        `"modified"`: other content. `"replaced"`: another file stands there with other content, or a symlink on the
        way leads elsewhere. `"deleted"`: nothing is there. `"type_changed"`: a folder, device or pipe is there.
        Raises NotFound when the file was never marked, StorageError when the system does not let us look.

        >>> import os
        >>> with open("notes.txt", "w") as file:
        ...     _ = file.write("one")
        >>> cache = FileCache()
        >>> cache.mark_read("notes.txt")
        >>> os.remove("notes.txt")
        >>> cache.has_external_modification("notes.txt")
        'deleted'
        """
        name = self._full(path)
        with self._guard:
            state = self._states.get(name)
        if state is None:
            raise NotFound(f"{name} was neither read nor written, so nothing is known about changes to it")
        reason = self._compare(state)
        with self._guard:
            if self._states.get(name) is state:  # used, so behind all others; marked anew meanwhile: leave that
                self._states[name] = self._states.pop(name)
        return reason

    def forget(self, path: str | os.PathLike[str]) -> None:
        """Drop what is known of a file, if anything.

        >>> FileCache().forget("never seen")
        """
        with self._guard:
            self._states.pop(self._full(path), None)

    def recent(self, limit: int = 10) -> list[FileState]:
        """Return the states of the most recently used files, the newest first.

        >>> FileCache().recent()
        []
        """
        require_whole("limit", limit)
        with self._guard:
            states = list(self._states.values())
        return states[: -limit - 1 : -1] if limit > 0 else []

    def to_snapshot(self, limit: int = SNAPSHOT_MAX) -> dict[str, Any]:
        """Return the most recently used files in the form of a `file.snapshot` payload.

        >>> FileCache().to_snapshot()
        {'version': 1, 'files': []}
        """
        return {"version": _VERSION, "files": [state.as_payload() for state in self.recent(limit)]}

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any], files_max: int = FILES_MAX) -> FileCache:
        """Return the cache of a snapshot. Raises InvalidInput when it is none, or of a newer version.

        >>> FileCache.from_snapshot({"version": 1, "files": []}).recent()
        []
        """
        cache = FileCache(files_max)
        cache._load(snapshot)
        return cache

    def __len__(self) -> int:
        """Count the files."""
        return len(self._states)

    def __contains__(self, path: str | os.PathLike[str]) -> bool:
        """Tell whether the file was marked."""
        return self._full(path) in self._states

    # -- inside ----------------------------------------------------------------------------------------------------

    def _load(self, snapshot: Mapping[str, Any]) -> None:
        files = snapshot.get("files") if hasattr(snapshot, "get") else None
        if not isinstance(files, list) or snapshot.get("version") != _VERSION:
            raise InvalidInput(f"this is no snapshot of files of version {_VERSION}")
        states: dict[str, FileState] = {}
        for members in reversed(files[: self._files_max]):
            if not isinstance(members, dict):
                raise InvalidInput("a snapshot of files lists objects")
            state = FileState.from_payload(members)
            states[state.path] = state
        self._states = states

    def _folder(self) -> str:
        """Return where relative paths begin; "" is the current folder."""
        return ""

    def _full(self, path: str | os.PathLike[str]) -> str:
        """Return the path from the root, without resolving symlinks."""
        require_path("path", path)
        name = os.fsdecode(path)
        if not name or "\0" in name:
            raise InvalidInput("a path is not empty and holds no zero byte")
        return os.path.abspath(os.path.join(self._folder(), name))

    def _mark(self, path: str | os.PathLike[str], digest: str | None, *, written: bool) -> None:
        name = self._full(path)
        if digest is not None and not names.is_digest(digest):
            raise InvalidInput(f"a digest is 64 lower-case hex digits, not {digest!r}")
        looked_ns = time.monotonic_ns()
        try:
            target = os.path.realpath(name)
            found = os.stat(name)
            if not stat.S_ISREG(found.st_mode):
                raise InvalidInput(f"{name} is no regular file, so it has no content to watch")
            certain = False  # what the caller was shown may be older than what is there now
            if digest is None:
                digest, found, certain = read_file(name)
        except OSError as error:
            raise _typed(error, name) from error
        state = FileState(name, target, digest)
        take(state, found, looked_ns, certain=certain)
        state.written = written
        self._keep(state)

    def _keep(self, state: FileState) -> None:
        """Put a state behind all others."""
        with self._guard:
            self._states.pop(state.path, None)
            self._states[state.path] = state
            if len(self._states) > self._files_max:
                del self._states[next(iter(self._states))]

    def _compare(self, state: FileState) -> str | None:
        try:
            found = os.stat(state.path)
            if not stat.S_ISREG(found.st_mode):
                return "type_changed"
            if os.path.realpath(state.path) != state.target:
                return "replaced"
            if state.settled and has_times(state, found):
                return None
            changed = "modified" if is_same_file(state, found) else "replaced"
            if found.st_size != state.size and state.certain:
                return changed
            looked_ns = time.monotonic_ns()
            digest, found, certain = read_file(state.path)
        except OSError as error:
            if error.errno in _ABSENT and not isinstance(error, StorageError):
                return "deleted"
            raise _typed(error, state.path) from error
        if digest != state.digest:
            return changed
        take(state, found, looked_ns, certain=certain)  # perhaps touched, or put back: the same content
        return None


def _typed(error: OSError, name: str) -> NotFound | StorageError:
    if isinstance(error, StorageError):
        return error
    if error.errno in _ABSENT:
        return NotFound(f"there is no file {name}")
    return StorageError(f"cannot look at {name}: {error.strerror or error}", error.errno)
