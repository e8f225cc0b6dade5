"""Bytes of a transcript, plain or zstd-compressed. Owns: opening. Invariant: damage of the compressed stream is an
OSError, like any other read error. Must not know: lines, products.
"""

from __future__ import annotations

import errno
import io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

BUFFER_BYTES = 1 << 20


def open_bytes(path: str) -> BinaryIO:
    """Open a file for reading; the bytes of a `.zst` file are those of the plain file. Raises OSError."""
    file = open(path, "rb", buffering=BUFFER_BYTES)  # noqa: SIM115 - the caller closes it
    return io.BufferedReader(Decompressed(file), BUFFER_BYTES) if path.endswith(".zst") else file


class Decompressed(io.RawIOBase):
    """A zstd stream as a raw file."""

    def __init__(self, file: BinaryIO) -> None:
        """Read from `file` and close it at the end."""
        import zstandard

        self._file = file
        self._damage = zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the buffer. Raises OSError for a damaged stream."""
        try:
            return self._reader.readinto(buffer)
        except self._damage as error:
            raise OSError(errno.EIO, f"the compressed stream is damaged: {error}", self._file.name) from error

    def close(self) -> None:
        """Close the file below."""
        self._file.close()
        super().close()
