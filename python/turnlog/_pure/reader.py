"""`SegmentReader`: one segment file, raw or compacted, opened for reading.

Owns: the open file and its header; hands the work to replay, scan and walk. Invariants: nothing is ever written;
handles given out stay usable after `close`. Must not know: sessions, other segments, verdicts.
"""

from __future__ import annotations

import os

from turnlog._pure.blocks import open_source
from turnlog._pure.format import HEADER_BYTES, HEADER_COPY_OFFSET
from turnlog._pure.frame import FrameHeader, decode_frame_header
from turnlog._pure.header import decode_header
from turnlog._pure.replay import Replay
from turnlog._pure.scan import Scan
from turnlog._pure.source import storage_error
from turnlog._pure.walk import resync, sparse
from turnlog.errors import Closed, NotASegment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

    from turnlog._pure.replay import Batch
    from turnlog._pure.source import RawSource
    from turnlog._pure.walk import Chunk

SEGMENT_ID_AT = 40
SEGMENT_ID_BYTES = 16


class SegmentReader:
    """A segment opened for reading.

    Raises StorageError, also for a missing file; Damaged if nothing of a compacted file is readable.

    `segment_id`: the id known from a neighbour; with it the frames behind a damaged header can be served.
    """

    def __init__(self, path: str, segment_id: bytes | None = None) -> None:
        self.path = path
        self._source: RawSource | None = open_source(path)
        self.compacted = self._source.compacted
        self.header, self._segment_id = self._read_header(segment_id)
        self._chunks: list[Chunk] = []  # of the last batch, for its handles

    def _read_header(self, known_id: bytes | None) -> tuple[dict[str, Any], bytes | None]:
        """Return the decoded header and the id that salts the checksums, if it can be had."""
        block, holes = self._open().read_filled(0, HEADER_BYTES)
        header: dict[str, Any] = decode_header(block)
        if holes:
            header |= {"fault": "damaged", "fields": None}
        header["degraded"] = header["degraded"] or self._open().table_degraded
        if header["fault"] is None:
            return header, header["fields"]["segment_id"]
        if header["fault"] in {"newer_major", "unknown_feature"}:
            return header, None
        first = self._open().read_filled(HEADER_BYTES, HEADER_BYTES)[0]
        for at in (
            SEGMENT_ID_AT,
            HEADER_COPY_OFFSET + SEGMENT_ID_AT,
        ):  # a frame proves the id, whatever else is damaged
            candidate = block[at : at + SEGMENT_ID_BYTES]
            if isinstance(decode_frame_header(first, candidate, HEADER_BYTES), FrameHeader):
                return header, candidate
        return header, known_id

    def _open(self) -> RawSource:
        if self._source is None:
            raise Closed("the segment reader was closed", segment=os.path.basename(self.path))
        return self._source

    def _id(self) -> bytes:
        if self._segment_id is None:
            raise NotASegment(
                f"the segment header cannot be used: {self.header['fault']}", segment=os.path.basename(self.path)
            )
        return self._segment_id

    def size(self) -> int:
        """Logical bytes available now. Raises StorageError."""
        return self._open().size()

    def read(self, offset: int, length: int) -> bytes:
        """Logical bytes; fewer at the end. Raises Damaged at a damaged block, StorageError."""
        return self._open().read(offset, length)

    def replay(
        self,
        offset: int,
        ordinal: int,
        *,
        end: int | None = None,
        limit: int = 1024,
        types: frozenset[str] | None = None,
        chain: bytes | None = None,
    ) -> Batch:
        """Return (verified events, next offset, next ordinal, chain, last time, fault). Raises StorageError."""
        replay = Replay(self._open(), self._id(), end, limit)
        batch = replay.run(offset, ordinal, types, chain)
        self._chunks = replay.chunks
        return batch

    def replay_lazily(
        self,
        offset: int,
        ordinal: int,
        *,
        end: int | None = None,
        limit: int = 1024,
        types: frozenset[str] | None = None,
    ) -> Batch:
        """Return the same, the events as a sequence of which a core may make each handle when it is asked for; this one
        has made them all. Raises StorageError.
        """
        return self.replay(offset, ordinal, end=end, limit=limit, types=types)

    def resync(self, offset: int) -> tuple[int, int] | None:
        """Offset and ordinal of the first wholly valid frame after `offset`. Raises StorageError."""
        return resync(self._open(), self._id(), offset)

    def sparse(self) -> list[tuple[int, int]]:
        """(ordinal, offset) of the first event at or after each 64 KiB. Raises StorageError."""
        return sparse(self._open(), self._id())

    def scan(self, *, end: int | None = None, digests: bool = False, helper: bool = True) -> dict[str, Any]:
        """All facts about the segment; `digests` also computes SHA-256 of every payload. Raises StorageError.

        `helper` lets a core use a second thread, which helps unless other segments are scanned at the same time.
        """
        del helper  # this core has no use for one
        return Scan(self._open(), self.header, self._segment_id, end, digests).run()

    def sync(self) -> None:
        """Make what other processes wrote durable before it is shown. Raises StorageError."""
        try:
            os.fdatasync(self._open().fd)
        except OSError as cause:
            raise storage_error("cannot sync", cause, self.path, None) from cause

    def drop_cache(self) -> None:
        """Let the kernel forget its pages of the file, so that the next read asks the medium. Raises StorageError."""
        try:
            os.posix_fadvise(self._open().fd, 0, 0, os.POSIX_FADV_DONTNEED)
        except OSError as cause:
            raise storage_error("cannot drop cached pages", cause, self.path, None) from cause

    def close(self) -> None:
        """Let go of the file; it is closed when the last event handle is gone. May be repeated."""
        self._source = None
        self._chunks = []

    def __enter__(self) -> Self:
        """Return the reader itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
