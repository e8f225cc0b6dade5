"""The two forms of an artifact on disk: its plain bytes, or zstd blocks with the seek table of FORMAT.md section 7.

Owns: when compressing pays, writing either form in bounded memory, reading a range of either. Invariants: the digest is
that of the plain bytes; a block is served only if its checksum holds; the file's name says which form it has.
Must not know: where artifacts lie, when they may be removed.
"""

from __future__ import annotations

import hashlib
import io
import os
from contextlib import contextmanager

from turnlog import _core, disk, names
from turnlog.errors import Damaged, InvalidInput, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any, BinaryIO, Protocol, Self

    class Stream(Protocol):
        """What gives bytes by `read`, such as an open file or a pipe."""

        def read(self, size: int, /) -> bytes:
            """Return at most `size` bytes, none at the end."""


NEXT = ("sessionctl verify --full --store {store}",)
PIECE_BYTES = _core.BLOCK_BYTES
_SAMPLE_BYTES = 131_072
_LEVEL = 3
_WORTH_BYTES = 4096  # a file takes a block of the file system anyway
_WORTH_SHARE = 0.8  # of the sample; less saved is not worth decompressing for


def pieces_of(stream: Stream) -> Iterator[bytes]:
    """Yield what a binary stream gives, in pieces.

    Raises InvalidInput for a stream of text, and for one that gives None: nothing says that it has ended.
    """
    while (piece := stream.read(PIECE_BYTES)) != b"":
        if not isinstance(piece, bytes | bytearray):
            raise InvalidInput(f"an artifact is made of a binary stream; this one gives {type(piece).__name__}")
        yield bytes(piece)


def pays_throughout(file: BinaryIO | io.RawIOBase, size: int) -> bool:
    """Tell whether compressing pays, judged by samples from the beginning, the middle and the end."""
    places = range(0, 3 * _SAMPLE_BYTES, _SAMPLE_BYTES)
    sample = b""
    for at in places if size <= 3 * _SAMPLE_BYTES else (0, size // 2, size - _SAMPLE_BYTES):
        file.seek(at)
        sample += file.read(_SAMPLE_BYTES) or b""
    return pays(sample)


def pays(beginning: bytes) -> bool:
    """Tell whether compressing pays, judged by the beginning alone, as it must be for a stream."""
    return _pays(beginning[:_SAMPLE_BYTES])


def _pays(sample: bytes) -> bool:
    if len(sample) < _WORTH_BYTES:
        return False
    import zstandard  # only here: start-up counts

    return len(zstandard.ZstdCompressor(level=1).compress(sample)) < len(sample) * _WORTH_SHARE


class Recorder:
    """Writes content piece by piece to an open, empty file and digests it; a piece is at most PIECE_BYTES."""

    def __init__(self, descriptor: int, *, packed: bool) -> None:
        """`packed` chooses the form."""
        self.size = 0
        self._descriptor = descriptor
        self._digest = hashlib.sha256()
        self._offset = 0
        self._entries: list[tuple[int, int, int]] = []
        self._rest = b""
        self._packed = packed
        if packed:
            import zstandard

            self._compressor = zstandard.ZstdCompressor(level=_LEVEL)

    def write(self, piece: bytes) -> None:
        """Write the next piece. Raises OSError."""
        self._digest.update(piece)
        self.size += len(piece)
        if not self._packed:
            self._put(piece)
            return
        data = self._rest + piece
        whole = len(data) // _core.BLOCK_BYTES * _core.BLOCK_BYTES
        for at in range(0, whole, _core.BLOCK_BYTES):
            self._block(data[at : at + _core.BLOCK_BYTES])
        self._rest = data[whole:]

    def finish(self) -> str:
        """Write what is left and return the digest. Raises OSError."""
        if self._packed:
            if self._rest:
                self._block(self._rest)
            table = _core.encode_table(self._entries)
            self._put(table + table)
        return self._digest.hexdigest()

    def _block(self, raw: bytes) -> None:
        compressed = self._compressor.compress(raw)
        self._entries.append((len(compressed), len(raw), _core.checksum(raw)))
        self._put(compressed)

    def _put(self, data: bytes) -> None:
        disk.write_all(self._descriptor, data, self._offset)
        self._offset += len(data)


class Content:
    """The plain bytes of an artifact's file, by range. Its errors name the artifact: StorageError, Damaged."""

    def __init__(self, path: str) -> None:
        """Open the file, in the form that its name says."""
        self.digest, packed = names.parse_artifact_name(os.path.basename(path)) or ("", False)
        self._store = os.path.dirname(os.path.dirname(os.path.dirname(path)))
        self._descriptor = -1
        self._reader: _core.SegmentReader | None = None
        with self._serving():
            if packed:
                self._reader = _core.SegmentReader(path)
            else:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if self._reader is not None and not self._reader.compacted:
            self.close()
            raise self.damaged("the file does not hold zstd blocks, as its name says")

    def size(self) -> int:
        """Return the number of plain bytes."""
        with self._serving():
            return os.fstat(self._descriptor).st_size if self._reader is None else self._reader.size()

    def read(self, offset: int, length: int) -> bytes:
        """Return plain bytes; fewer only at the end."""
        with self._serving():
            if self._reader is not None:
                return self._reader.read(offset, length)
            end = min(offset + length, os.fstat(self._descriptor).st_size)
            parts: list[bytes] = []
            while offset < end and (part := os.pread(self._descriptor, end - offset, offset)):
                parts.append(part)
                offset += len(part)
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def whole(self) -> bytes:
        """Return the whole content, compared with the digest."""
        data = self.read(0, self.size())
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise self.damaged("the content does not have the digest that names it")
        return data

    def check(self) -> None:
        """Compare the whole content with the digest, in bounded memory."""
        digest = hashlib.sha256()
        offset = 0
        while piece := self.read(offset, PIECE_BYTES):
            digest.update(piece)
            offset += len(piece)
        if digest.hexdigest() != self.digest:
            raise self.damaged("the content does not have the digest that names it")

    def damaged(self, why: str, offset: int | None = None) -> Damaged:
        """Return the error that says what is wrong with this artifact."""
        error = Damaged(f"artifact {self.digest}: {why}", store=self._store, offset=offset)
        error.next = NEXT
        return error

    @contextmanager
    def _serving(self) -> Iterator[None]:
        try:
            yield
        except Damaged as error:
            raise self.damaged(error.message, error.offset) from error
        except OSError as error:
            reason = error.message if isinstance(error, StorageError) else error.strerror or str(error)
            raise StorageError(f"artifact {self.digest}: {reason}", error.errno, store=self._store) from error

    def close(self) -> None:
        """Release the file; idempotent."""
        if self._reader is not None:
            self._reader.close()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        """Return the content."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the file."""
        self.close()


class ContentStream(io.RawIOBase):
    """A range of a content as a seekable stream; closing it closes the content."""

    def __init__(self, content: Content, start: int, end: int) -> None:
        """Serve the bytes from `start` to `end`."""
        super().__init__()
        self._content = content
        self._start = start
        self._end = max(start, end)
        self._at = start

    def readable(self) -> bool:
        """Say yes."""
        return True

    def seekable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer as far as the range goes. Raises StorageError, Damaged."""
        data = self._content.read(self._at, min(len(buffer), self._end - self._at)) if self._at < self._end else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move within the range."""
        origin = {os.SEEK_SET: self._start, os.SEEK_CUR: self._at, os.SEEK_END: self._end}[whence]
        self._at = max(self._start, origin + offset)
        return self._at - self._start

    def close(self) -> None:
        """Release the file; idempotent."""
        self._content.close()
        super().close()
