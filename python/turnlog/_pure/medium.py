"""What the operating system offers a writer: opening, syncing, and the meaning of its error numbers.

Owns: the platform choices (F_FULLFSYNC on macOS, syncfs on Linux). Invariants: a descriptor lives as long as its last
user, so a sync never reaches a number that was reused; no call here retries a sync. Must not know: frames, writers,
rounds.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
SYNCFS_FILE_SYSTEMS = frozenset({"ext4", "xfs", "btrfs"})  # their syncfs reports write-back errors
SYNCFS_KERNEL = (5, 8)  # the first whose syncfs reports them
_WRITE_LIMIT_BYTES = 1 << 30


class Descriptor:
    """An open file that closes itself with its last reference.

    A leader keeps a reference while it syncs, so that closing a poisoned writer cannot hand its number to another
    file meanwhile.
    """

    __slots__ = ("fd",)

    def __init__(self, path: str, flags: int) -> None:
        self.fd = -1
        self.fd = os.open(path, flags | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


def sync_file(fd: int) -> None:
    """Put data and length of the file on stable storage; raises OSError."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


def write_all(fd: int, data: bytes | bytearray, offset: int) -> int:
    """Write all of `data` at `offset`; return the number of write calls; raises OSError.

    After a short write the rest is tried, so that the operating system names the reason.
    """
    done = calls = 0
    with memoryview(data) as view:
        while done < len(data):
            count = os.pwrite(fd, view[done : done + _WRITE_LIMIT_BYTES], offset + done)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            done += count
            calls += 1
    return calls


def sync_file_system(fd: int) -> None:
    """Sync the whole file system that `fd` lies on; raises OSError."""
    libc = _libc()
    if libc.syncfs(fd) != 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def syncfs_is_trusted(fd: int) -> bool:
    """Whether a failed write-back on this file system is reported by `sync_file_system`."""
    if sys.platform != "linux":
        return False
    release = os.uname().release.split(".")
    if tuple(int("".join(filter(str.isdigit, part[:3])) or 0) for part in release[:2]) < SYNCFS_KERNEL:
        return False
    device = os.fstat(fd).st_dev
    place = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                if line.split(" ", 3)[2] == place:
                    return line.rpartition(" - ")[2].split(" ", 1)[0] in SYNCFS_FILE_SYSTEMS
    except OSError:
        return False  # no /proc: sync file by file, which needs no trust
    return False


def _libc() -> Any:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
