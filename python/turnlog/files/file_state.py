"""The state of one file: what the agent saw of it, and what the file system said then.

Owns: reading a file's digest and state so that both belong together, and when a state proves that nothing changed.
Must not know: the cache, what a difference is called.

When times prove nothing: a change within one tick of the file system's clock leaves times and size as they were
(git's index calls such a file racily clean). A state is *settled*, so that equal times prove equal content, when its
digest was read at least RACY_NS after this state was first seen, which needs no agreement between clocks, or when its
times lie a day back. Until then the digest decides.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time

from turnlog import names
from turnlog.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RACY_NS = 2_000_000_000  # the coarsest clock of a file system in use, FAT's
SKEW_MAX_NS = 86_400_000_000_000  # clocks of a file server and of this machine differ by less
_PIECE_BYTES = 1024 * 1024
_ATTEMPTS = 3
_NUMBERS = ("size", "mtime_ns", "ctime_ns", "inode", "device")


class FileState:
    """A file as the agent last saw it: `path`, `target` (symlinks resolved), `digest` of the content, `written` by the
    agent or only read, and what the file system said: size, times, inode and device.

    `certain`: digest and times belong together. `settled`: equal times prove equal content.
    """

    __slots__ = ("certain", "digest", "first_ns", "path", "settled", "target", "written", *_NUMBERS)
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    def __init__(self, path: str, target: str, digest: str) -> None:
        """`take` says the rest."""
        self.path = path
        self.target = target
        self.digest = digest
        self.written = False
        self.certain = False
        self.settled = False
        self.first_ns = 0  # monotonic: when these times were first seen
        for name in _NUMBERS:
            setattr(self, name, -1)

    def as_payload(self) -> dict[str, Any]:
        """Return the JSON form.

        >>> FileState("/notes.txt", "/notes.txt", "0" * 64).as_payload()["path"]
        '/notes.txt'
        """
        members: dict[str, Any] = {name: getattr(self, name) for name in ("path", "digest", *_NUMBERS)}
        if self.target != self.path:
            members["target"] = self.target
        if self.written:
            members["written"] = True
        members |= {name: False for name in ("certain", "settled") if not getattr(self, name)}
        return members

    @classmethod
    def from_payload(cls, members: Mapping[str, Any]) -> FileState:
        """Read the JSON form; unknown members are ignored. Raises InvalidInput.

        >>> numbers = {"size": 3, "mtime_ns": 1, "ctime_ns": 1, "inode": 1, "device": 1}
        >>> FileState.from_payload({"path": "/notes.txt", "digest": "0" * 64, **numbers}).written
        False
        """
        path = members.get("path", "")
        self = cls(path, members.get("target", path), members.get("digest", ""))
        self.first_ns = time.monotonic_ns()
        self.written = members.get("written", False) is True
        self.certain = members.get("certain", True) is True
        self.settled = self.certain and members.get("settled", True) is True
        texts = all(isinstance(text, str) for text in (self.path, self.digest, self.target))
        if not texts or not os.path.isabs(self.path) or not names.is_digest(self.digest):
            raise InvalidInput(
                f"a file's state has a path from the root and a digest, not {self.path!r} {self.digest!r}"
            )
        for name in _NUMBERS:
            number = members.get(name)
            if not isinstance(number, int) or isinstance(number, bool):
                raise InvalidInput(f"the state of {self.path} has no number {name}")
            setattr(self, name, number)
        return self


def take(state: FileState, found: os.stat_result, looked_ns: int, *, certain: bool) -> None:
    """Take over what the file system says; `looked_ns` is the monotonic time at which reading the digest began."""
    if not has_times(state, found):
        state.first_ns = time.monotonic_ns()
    state.size = found.st_size
    state.mtime_ns = found.st_mtime_ns
    state.ctime_ns = found.st_ctime_ns
    state.inode = found.st_ino
    state.device = found.st_dev
    age_ns = time.time_ns() - max(state.mtime_ns, state.ctime_ns)
    state.certain = certain
    state.settled = certain and (looked_ns - state.first_ns >= RACY_NS or age_ns >= SKEW_MAX_NS)


def is_same_file(state: FileState, found: os.stat_result) -> bool:
    """Tell whether the name still leads to the same inode."""
    return (state.inode, state.device) == (found.st_ino, found.st_dev)


def has_times(state: FileState, found: os.stat_result) -> bool:
    """Tell whether the file system says the same as when the file was last seen."""
    same = (state.size, state.mtime_ns, state.ctime_ns) == (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return same and is_same_file(state, found)


def read_file(name: str) -> tuple[str, os.stat_result, bool]:
    """Return digest and state of a file, and whether they belong together: it did not change while it was read."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe that took the file's place must not block
    descriptor = os.open(name, flags)
    try:
        for _ in range(_ATTEMPTS):
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise InvalidInput(f"{name} is no regular file, so it has no content to watch")
            digest = hashlib.sha256()
            offset = 0
            while piece := os.pread(descriptor, _PIECE_BYTES, offset):
                digest.update(piece)
                offset += len(piece)
            after = os.fstat(descriptor)
            if _times(before) == _times(after) and offset == after.st_size:
                return digest.hexdigest(), after, True
        return digest.hexdigest(), after, False
    finally:
        os.close(descriptor)


def _times(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns
