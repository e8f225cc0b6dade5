"""The bytes of a raw segment file, read with `pread`.

Owns: the read descriptor of one segment, shared by its reader and all event handles and closed when the last of them
is gone; the rule for unreadable places. Invariants: no mapping, so a file that another process cuts short never kills
this one; a length is limited by the bytes left before anything is allocated; a failed read is an error or a hole,
never an end. Must not know: headers, frames, compression.

A `Hole` is a range that could not be read: (offset, end, fault code, detail). `read_filled` stands 0xFF bytes in its
place: no frame, padding or trailer with such bytes is valid, so nothing can be mistaken for content.
"""

from __future__ import annotations

import errno
import os

from turnlog.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Hole: TypeAlias = tuple[int, int, str, str]

PAGE_BYTES = 4096
FILL = b"\xff"


def open_descriptor(path: str) -> int:
    """Open for reading; the descriptor is not inherited by programs that are started later. Raises StorageError."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as cause:
        raise storage_error("cannot open", cause, path, None) from cause


def storage_error(action: str, cause: OSError, path: str, offset: int | None) -> StorageError:
    """Turn an error of the operating system into the package's own, with its place."""
    reason = os.strerror(cause.errno) if cause.errno else str(cause)
    return StorageError(f"{action}: {reason}", cause.errno, segment=os.path.basename(path), offset=offset)


class RawSource:
    """A segment file whose bytes are the logical bytes."""

    compacted = False
    table_degraded = False
    tail_fault: str | None = None

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        self.name = os.path.basename(path)

    def __del__(self) -> None:
        """Release the descriptor."""
        os.close(self.fd)

    def file_size(self) -> int:
        """Bytes of the file now. Raises StorageError."""
        try:
            return os.fstat(self.fd).st_size
        except OSError as cause:
            raise storage_error("cannot read the size", cause, self.path, None) from cause

    def size(self) -> int:
        """Logical bytes available now. Raises StorageError."""
        return self.file_size()

    def pread(self, offset: int, length: int) -> bytes:
        """Read bytes of the file; fewer only at its end. Raises OSError."""
        length = min(length, os.fstat(self.fd).st_size - offset)
        if length <= 0:
            return b""
        data = os.pread(self.fd, length, offset)
        while len(data) < length:
            more = os.pread(self.fd, length - len(data), offset + len(data))
            if not more:
                break
            data += more
        return data

    def read(self, offset: int, length: int) -> bytes:
        """Read logical bytes; fewer only at the end. Raises StorageError."""
        try:
            return self.pread(offset, length)
        except OSError as cause:
            raise storage_error("cannot read", cause, self.path, offset) from cause

    def read_filled(self, offset: int, length: int) -> tuple[bytes, list[Hole]]:
        """Read logical bytes, with holes where the medium fails. Raises StorageError for other errors."""
        try:
            return self.pread(offset, length), []
        except OSError as cause:
            if cause.errno != errno.EIO:
                raise storage_error("cannot read", cause, self.path, offset) from cause
        return self._read_pages(offset, min(length, self.file_size() - offset))

    def _read_pages(self, offset: int, length: int) -> tuple[bytes, list[Hole]]:
        """Read page by page around the places where the medium fails."""
        parts, holes, end = [], [], offset + length
        while offset < end:
            stop = min(end, (offset // PAGE_BYTES + 1) * PAGE_BYTES)
            try:
                part = self.pread(offset, stop - offset)
            except OSError as cause:
                if cause.errno != errno.EIO:
                    raise storage_error("cannot read", cause, self.path, offset) from cause
                part = FILL * (stop - offset)
                holes.append((offset, stop, "io", f"cannot read: {os.strerror(errno.EIO)}"))
            parts.append(part)
            if len(part) < stop - offset:
                break
            offset = stop
        return b"".join(parts), holes
