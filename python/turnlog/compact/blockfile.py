"""The bytes of a compacted segment: writing the blocks and the seek table, and proving them against the raw bytes.

Owns: the two worker threads and their bounded window. Invariants: memory does not depend on the size of the segment;
what is compared was read from the medium, not from the pages just written. Must not know: names, locks, verdicts.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import zstandard

from turnlog import _core, disk
from turnlog.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from typing import Any

_LEVEL = 3
_WORKERS = 2
_WINDOW = 4  # pieces under way: enough to keep both workers busy while one is written
_PIECE_BYTES = 4 * _core.BLOCK_BYTES


class _Worker(threading.local):
    """What one thread reuses: compressors are not shared."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL)


def compress(raw_path: str, end: int, descriptor: int, progress: Callable[[int], None] | None = None) -> None:
    """Write logical bytes 0..end of a raw segment to an open, empty file, compacted.

    `progress` is called with the raw bytes done since the last call. Raises OSError, StorageError.
    """
    worker = _Worker()

    def piece(data: bytes) -> list[tuple[bytes, int, int]]:
        view = memoryview(data)
        blocks = [view[at : at + _core.BLOCK_BYTES] for at in range(0, len(data), _core.BLOCK_BYTES)]
        return [(worker.compressor.compress(block), len(block), _core.checksum(bytes(block))) for block in blocks]

    entries: list[tuple[int, int, int]] = []
    offset = 0
    with _core.SegmentReader(raw_path) as reader, ThreadPoolExecutor(_WORKERS, "turnlog-compact") as pool:
        for blocks in _in_order(pool, piece, ((data,) for data in _pieces(reader, end))):
            packed = b"".join(block for block, _, _ in blocks)
            disk.write_all(descriptor, packed, offset)
            offset += len(packed)
            entries += [(len(block), raw_bytes, checksum) for block, raw_bytes, checksum in blocks]
            if progress is not None:
                progress(sum(raw_bytes for _, raw_bytes, _ in blocks))
    table = _core.encode_table(entries)
    disk.write_all(descriptor, table + table, offset)


def differs(raw_path: str, compacted_path: str, end: int) -> bool:
    """Read both files from the medium and tell whether their logical bytes 0..end differ. Raises StorageError.

    A block that cannot be read makes them differ.
    """
    with _core.SegmentReader(compacted_path) as reader:
        if not reader.compacted or reader.size() != end:
            return True
        reader.drop_cache()

    def same(offset: int) -> bool:
        length = min(_PIECE_BYTES, end - offset)
        return readers.compacted.read(offset, length) == readers.raw.read(offset, length)

    readers = _Readers(raw_path, compacted_path)
    with ThreadPoolExecutor(_WORKERS, "turnlog-compact") as pool:
        try:
            return not all(_in_order(pool, same, ((at,) for at in range(0, end, _PIECE_BYTES))))
        except Damaged:
            return True
        finally:
            readers.close()


class _Readers(threading.local):
    """The two files as one thread reads them."""

    def __init__(self, raw_path: str, compacted_path: str) -> None:
        self.raw = _core.SegmentReader(raw_path)
        self.compacted = _core.SegmentReader(compacted_path)

    def close(self) -> None:
        """Close those of the calling thread; the others go with their threads."""
        self.raw.close()
        self.compacted.close()


def _pieces(reader: _core.SegmentReader, end: int) -> Iterator[bytes]:
    for offset in range(0, end, _PIECE_BYTES):
        yield reader.read(offset, min(_PIECE_BYTES, end - offset))


def _in_order(pool: ThreadPoolExecutor, work: Callable[..., Any], jobs: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the results in the order of the jobs, with a bounded number under way."""
    under_way: deque[Future[Any]] = deque()
    for job in jobs:
        under_way.append(pool.submit(work, *job))
        if len(under_way) >= _WINDOW:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()
