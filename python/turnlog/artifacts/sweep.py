"""Sweeping: taking away artifacts that no event refers to, by explicit command only.

Owns: which files go. Invariants: nothing referenced and nothing put within the grace period is removed, even when a put
in another process finds it at this moment; files that are no artifacts are left alone; a dry run writes nothing.
Must not know: how references are found.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager

from turnlog import disk, names
from turnlog.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_DAY_S = 86_400


class Swept:
    """What a sweep removed, or would remove: `digests` in order, `bytes` on disk, `unfinished` temporary files
    older than the grace period and a day.

    `kept` counts the referenced artifacts, `young` those that only the grace period keeps.
    """

    __slots__ = ("bytes", "digests", "dry_run", "kept", "unfinished", "young")

    def __init__(self, *, dry_run: bool) -> None:
        """Begin with nothing."""
        self.dry_run = dry_run
        self.digests: list[str] = []
        self.unfinished = 0
        self.bytes = 0
        self.kept = 0
        self.young = 0


def sweep(
    store_path: str, referenced: Iterable[str], *, grace_days: float, dry_run: bool, now_s: float | None = None
) -> Swept:
    """Remove the artifacts that `referenced` does not name and that were last put more than `grace_days` ago.

    An artifact put after `referenced` was collected is safe as long as collecting took less than the grace period, or
    always where `now_s` is the time (seconds since 1970) at which collecting began; without it the clock is asked.
    Raises InvalidInput (negative grace, or something among `referenced` that is no digest), ReadOnly, StorageError.
    """
    if not isinstance(grace_days, int | float) or not grace_days >= 0:  # NaN too
        raise InvalidInput(f"a grace period is a number of days from 0 on, not {grace_days!r}")
    if isinstance(referenced, str | bytes) or not hasattr(referenced, "__iter__"):
        raise InvalidInput("what is referenced is a list of digests")
    wanted: set[bytes] = set()
    for digest in referenced:
        if not names.is_digest(digest):
            raise InvalidInput(f"nothing was removed: {digest!r} is no digest, so the list of references is not sound")
        wanted.add(bytes.fromhex(digest))
    swept = Swept(dry_run=dry_run)
    root = os.path.join(os.path.abspath(store_path), names.ARTIFACTS)
    oldest_kept_s = (time.time() if now_s is None else now_s) - grace_days * _DAY_S
    try:
        if os.path.isdir(root):
            _Sweep(root, wanted, oldest_kept_s, swept).run()
    except OSError as error:
        raise disk.translate(error, f"sweeping {root}").at(store=store_path) from error
    return swept


@contextmanager
def locked(root: str) -> Iterator[None]:
    """Hold the lock of the folder of artifacts; raises OSError."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class _Sweep:
    """One walk over the folder of artifacts."""

    def __init__(self, root: str, wanted: set[bytes], oldest_kept_s: float, swept: Swept) -> None:
        self.root = root
        self.wanted = wanted
        self.oldest_kept_s = oldest_kept_s
        self.swept = swept

    def run(self) -> None:
        for name in sorted(os.listdir(self.root)):
            path = os.path.join(self.root, name)
            if name.endswith(names.TEMP_SUFFIX):
                self.swept.unfinished += bool(self._remove(path, min(self.oldest_kept_s, time.time() - _DAY_S)))
            elif names.is_shard(name) and os.path.isdir(path):
                self._shard(path)

    def _shard(self, folder: str) -> None:
        removed = False
        for name in sorted(os.listdir(folder)):
            parsed = names.parse_artifact_name(name)
            if parsed is None:
                continue
            if bytes.fromhex(parsed[0]) in self.wanted:
                self.swept.kept += 1
                continue
            goes = self._remove(os.path.join(folder, name), self.oldest_kept_s)
            if goes:
                self.swept.digests.append(parsed[0])
                removed = True
            elif goes is not None:
                self.swept.young += 1
        if removed and not self.swept.dry_run:
            disk.sync_directory(folder)

    def _remove(self, path: str, oldest_kept_s: float) -> bool | None:
        """Remove a file unless it is young; tell whether it goes, None when it is gone already."""
        with locked(self.root):  # a put that finds this artifact makes it young, before or after, never between
            try:
                found = os.stat(path, follow_symlinks=False)
            except FileNotFoundError:  # a put finished, or another sweep was here
                return None
            if found.st_mtime >= oldest_kept_s:
                return False
            if not self.swept.dry_run:
                os.unlink(path)
        self.swept.bytes += found.st_blocks * 512
        return True
