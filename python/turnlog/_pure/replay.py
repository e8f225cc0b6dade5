"""Reading events in order: one batch of verified handles at a time.

Owns: where a batch may end. Invariants: every frame of a batch met all eight conditions of FORMAT.md section 3;
events of an atomic group are handed out together or not at all; damage is never taken for an end. Must not know:
recovery, other segments.
"""

from __future__ import annotations

from errno import EIO
from weakref import ref

from turnlog._pure.event import Event
from turnlog._pure.format import FLAG_COMMIT, FRAME_MAGIC, KIND_EVENT, KIND_REPAIR_NOTE
from turnlog._pure.frame import FrameFault, chain_next
from turnlog._pure.walk import CHUNK_BYTES, Chunk, Window
from turnlog.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from turnlog._pure.frame import FrameHeader
    from turnlog._pure.source import RawSource

    Batch: TypeAlias = tuple[list[Event], int, int, bytes | None, int, dict[str, Any] | None]

READ_MIN_BYTES = 16 * 1024
EVENT_GUESS_BYTES = 2048
CHAIN_BYTES = 32


class Replay:
    """One call of `SegmentReader.replay`; `chunks` is what was read, for the reader to keep until the next call."""

    def __init__(self, source: RawSource, segment_id: bytes, end: int | None, limit: int) -> None:
        size = source.size()
        self.source = source
        self.segment_id = segment_id
        self.limit = max(limit, 1)
        self.chunks: list[Chunk] = []
        chunk_bytes = min(CHUNK_BYTES, max(READ_MIN_BYTES, self.limit * EVENT_GUESS_BYTES))
        self.window = Window(source, size if end is None else min(end, size), chunk_bytes)

    def run(self, offset: int, ordinal: int, types: frozenset[str] | None, chain: bytes | None) -> Batch:
        """Return (events, next offset, next ordinal, chain, last time, fault). Raises StorageError."""
        start, window = offset, self.window
        events: list[Event] = []
        kept = (
            0,
            offset,
            ordinal,
            chain,
            0,
        )  # what to return if the group that follows stays open
        is_open = looked_again = False
        time_us = 0
        link: ref[Chunk] | None = None
        fault: dict[str, Any] | None = None
        while offset < window.end:
            header = window.header(self.segment_id, offset)
            if not is_open and offset > start and self._is_full(kept[0], start, offset, header):
                break
            fault = self._fault(offset, ordinal, header)
            if fault is not None and not looked_again:  # another process may have been writing this frame
                window.forget()
                looked_again = True
                continue
            looked_again = False
            if fault is not None or isinstance(header, FrameFault):
                break
            if link is None or link() is not window.chunk:
                link = ref(window.chunk)
                self.chunks.append(window.chunk)
            if header.kind == KIND_EVENT:
                ordinal, time_us = header.ordinal + 1, header.time_us
                is_open = not header.flags & FLAG_COMMIT
                if chain is not None:
                    chain = chain_next(chain, header.ordinal, header.event_id, time_us, header.digest, header.type)
                if types is None or header.type in types:
                    events.append(Event(self.source, self.segment_id, offset, header, link))
            elif header.kind == KIND_REPAIR_NOTE:
                ordinal = header.ordinal + 1
                chain = None if chain is None else self._stated_chain(offset, header)
            offset += header.frame_length
            if not is_open:
                kept = (len(events), offset, ordinal, chain, time_us)
        fault = self._explained(fault, kept[1] > start)
        return events[: kept[0]], kept[1], kept[2], kept[3], kept[4], fault

    def _is_full(self, count: int, start: int, offset: int, header: FrameHeader | FrameFault) -> bool:
        """Whether the batch may end here: it has enough events, or its next frame would make it read beyond 1 MiB."""
        if count >= self.limit or offset - start >= CHUNK_BYTES:
            return True
        if isinstance(header, FrameFault):
            return False
        length = header.frame_length
        return offset - start + length > CHUNK_BYTES and not self.window.holds(offset, length)

    def _stated_chain(self, offset: int, header: FrameHeader) -> bytes:
        at = self.window.view(offset, header.frame_length) + header.header_length
        return self.window.chunk.data[at : at + CHAIN_BYTES]

    def _fault(self, offset: int, ordinal: int, header: FrameHeader | FrameFault) -> dict[str, Any] | None:
        """Say why the frame at `offset` cannot be replayed; None if it can, or if only zeros follow."""
        if isinstance(header, FrameFault):
            return None if self._ends_at(offset) else {"code": "torn", "offset": offset, "detail": str(header)}
        if not header.is_supported():
            detail = f"kind {header.kind} with flags {header.flags} is not known to this version"
            return {"code": "unsupported", "offset": offset, "detail": detail}
        reason = self.window.body_fault(header, self.segment_id, offset)
        if reason is not None:
            return {
                "code": "torn" if reason == FrameFault.SHORT else "checksum",
                "offset": offset,
                "detail": str(reason),
            }
        out_of_order = ordinal and header.kind == KIND_EVENT and header.ordinal != ordinal
        if header.kind == KIND_REPAIR_NOTE and header.payload_length < CHAIN_BYTES:
            return {"code": "checksum", "offset": offset, "detail": "control frame of kind 7 is malformed"}
        if out_of_order or (ordinal and header.kind == KIND_REPAIR_NOTE and header.ordinal + 1 < ordinal):
            return {"code": "order", "offset": offset, "detail": f"ordinal {header.ordinal} instead of {ordinal}"}
        return None

    def _explained(self, fault: dict[str, Any] | None, has_progress: bool) -> dict[str, Any] | None:
        """Name the hole that made a frame invalid. Raises StorageError for a failed read, when nothing is before it."""
        hole = next((hole for hole in self.window.holes if fault is not None and hole[1] > fault["offset"]), None)
        if fault is None or hole is None:
            return fault
        if hole[2] != "io":
            return {"code": "checksum", "offset": fault["offset"], "detail": hole[3]}
        if has_progress:
            return None
        raise StorageError(hole[3], EIO, segment=self.source.name, offset=hole[0])

    def _ends_at(self, offset: int) -> bool:
        """Whether only zeros follow."""
        window = self.window
        at = window.view(offset, len(FRAME_MAGIC))
        if any(window.chunk.data[at : at + len(FRAME_MAGIC)]):
            return False
        while offset < window.end:
            data = self.source.read_filled(offset, min(CHUNK_BYTES, window.end - offset))[0]
            if data.strip(b"\0"):
                return False
            offset += max(len(data), 1)
        return True
