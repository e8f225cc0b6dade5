"""Frames one after the other: what replay, scan, resync and the sparse index share.

Owns: the read window, decoding at an offset, the search for the next frame after damage, and questions about zeros.
Invariants: one buffer of about 1 MiB, which grows to at most one frame; every search is linear in the bytes it
passes. Must not know: order, groups, verdicts.
"""

from __future__ import annotations

from itertools import pairwise

from turnlog._pure.format import (
    FRAME_FIXED_BYTES,
    FRAME_HEADER_MAX_BYTES,
    FRAME_HEADER_MIN_BYTES,
    FRAME_MAGIC,
    FRAME_TRAILER_BYTES,
    HEADER_BYTES,
    KIND_EVENT,
    KIND_SEAL,
    PAYLOAD_MAX_BYTES,
    SPARSE_STEP_BYTES,
)
from turnlog._pure.frame import FrameFault, check_body, decode_frame_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog._pure.frame import FrameHeader
    from turnlog._pure.source import Hole, RawSource

CHUNK_BYTES = 1 << 20
NEAR_BYTES = 16 * 1024  # the next frame is nearly always as near
SECTOR_BYTES = 512
SEAL_FIXED_BYTES = 56  # chain, event count, successor


class Chunk:
    """Bytes read at one logical offset; event handles hold a weak link to it."""

    __slots__ = ("__weakref__", "base", "data")

    def __init__(self, base: int, data: bytes) -> None:
        self.base = base
        self.data = data


class Window:
    """The part of a source that was read last. `end` is where the source ends for this walk."""

    def __init__(self, source: RawSource, end: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.source = source
        self.end = end
        self.chunk_bytes = chunk_bytes
        self.chunk = Chunk(0, b"")
        self.holes: list[Hole] = []

    def holds(self, offset: int, length: int) -> bool:
        """Whether no read is needed for this range, cut at the end."""
        base = self.chunk.base
        return base <= offset and min(offset + length, self.end) <= base + len(self.chunk.data)

    def forget(self) -> None:
        """Read again what is asked for next."""
        self.chunk = Chunk(0, b"")
        self.holes.clear()

    def view(self, offset: int, length: int) -> int:
        """Make `chunk` hold this range, as far as the source goes; return where `offset` lies in it."""
        if not self.holds(offset, length):
            data, holes = self.source.read_filled(offset, min(max(length, self.chunk_bytes), max(0, self.end - offset)))
            self.chunk = Chunk(offset, data)
            self.holes += [hole for hole in holes if hole not in self.holes]
        return offset - self.chunk.base

    def header(self, segment_id: bytes, offset: int) -> FrameHeader | FrameFault:
        """Decode the frame header at `offset`; the answer is authentic, or says what is wrong."""
        at = self.view(offset, FRAME_HEADER_MAX_BYTES)
        return decode_frame_header(self.chunk.data[at : at + FRAME_HEADER_MAX_BYTES], segment_id, offset)

    def body_fault(self, header: FrameHeader, segment_id: bytes, offset: int) -> FrameFault | None:
        """Check payload, padding and trailer of an authentic frame."""
        if offset + header.frame_length > self.end:
            return FrameFault.SHORT
        at = self.view(offset, header.frame_length)
        return check_body(self.chunk.data[at : at + header.frame_length], header, segment_id)

    def next_authentic(self, segment_id: bytes, offset: int) -> tuple[int, FrameHeader] | None:
        """Find the first authentic frame header at or after `offset`."""
        offset = max(HEADER_BYTES, (offset + 7) // 8 * 8)
        while offset < self.end:
            at = self.view(offset, FRAME_HEADER_MIN_BYTES)
            base, data = self.chunk.base, self.chunk.data
            found = data.find(FRAME_MAGIC, at)
            while found >= 0 and (base + found) % 8:
                found = data.find(FRAME_MAGIC, found + 1)
            if found < 0:
                if base + len(data) <= offset:
                    return None  # the file became shorter
                offset = (base + len(data) + 7) // 8 * 8
                self.chunk_bytes = min(2 * self.chunk_bytes, CHUNK_BYTES)  # it is far
                continue
            header = self.header(segment_id, base + found)
            if not isinstance(header, FrameFault):
                return base + found, header
            offset = base + found + 8
        return None


def resync(source: RawSource, segment_id: bytes, offset: int) -> tuple[int, int] | None:
    """Return offset and ordinal of the first wholly valid frame after `offset`."""
    window = Window(source, source.size(), NEAR_BYTES)
    offset += 1
    while (found := window.next_authentic(segment_id, offset)) is not None:
        offset, header = found
        if window.body_fault(header, segment_id, offset) is None:
            return offset, header.ordinal
        offset += 8
    return None


def headers(source: RawSource, segment_id: bytes, offset: int = HEADER_BYTES) -> Iterator[tuple[int, FrameHeader]]:
    """Walk the authentic headers from `offset` on, over damage too; payloads are not checked."""
    window = Window(source, source.size(), SPARSE_STEP_BYTES)
    while offset < window.end:
        header = window.header(segment_id, offset)
        if isinstance(header, FrameFault):
            found = window.next_authentic(segment_id, offset + 8)
            if found is None:
                return
            offset, header = found
        if not header.is_supported() or offset + header.frame_length > window.end:
            return
        yield offset, header
        offset += header.frame_length


def sparse(source: RawSource, segment_id: bytes) -> list[tuple[int, int]]:
    """Return (ordinal, offset) of the first event at or after each 64 KiB, from a valid SEAL frame if it has one."""
    sealed = _sealed_index(source, segment_id)
    if sealed is not None:
        return sealed
    index: list[tuple[int, int]] = []
    boundary = 0
    for offset, header in headers(source, segment_id):
        if header.kind == KIND_EVENT and offset >= boundary:
            index.append((header.ordinal, offset))
            boundary = (offset // SPARSE_STEP_BYTES + 1) * SPARSE_STEP_BYTES
    return index


def _sealed_index(source: RawSource, segment_id: bytes) -> list[tuple[int, int]] | None:
    """Read the index of the SEAL frame that ends the file, or None if it does not end in a valid one."""
    size = source.size()
    if size < HEADER_BYTES + FRAME_HEADER_MIN_BYTES:
        return None
    window = Window(source, size, SPARSE_STEP_BYTES)
    at = window.view(size - FRAME_TRAILER_BYTES, FRAME_TRAILER_BYTES)
    length = int.from_bytes(window.chunk.data[at : at + 4], "little")
    start = size - length
    if start < HEADER_BYTES or length < FRAME_HEADER_MIN_BYTES:
        return None
    header = window.header(segment_id, start)
    if (
        isinstance(header, FrameFault)
        or header.kind != KIND_SEAL
        or not is_seal(header.payload_length)
        or header.frame_length != length
    ):
        return None
    if window.body_fault(header, segment_id, start) is not None:
        return None
    at = window.view(start, length) + header.header_length
    rows = window.chunk.data[at + SEAL_FIXED_BYTES : at + header.payload_length]
    index = [
        (int.from_bytes(rows[row : row + 8], "little"), int.from_bytes(rows[row + 8 : row + 16], "little"))
        for row in range(0, len(rows), 16)
    ]
    in_file = all(HEADER_BYTES <= offset < start and offset % 8 == 0 for _, offset in index)
    rising = all(low < high for low, high in pairwise(index))
    return index if in_file and rising else None


def is_seal(payload_length: int) -> bool:
    """Whether a SEAL payload has its fixed part and whole index rows."""
    return payload_length >= SEAL_FIXED_BYTES and (payload_length - SEAL_FIXED_BYTES) % 16 == 0


def zeros_from(source: RawSource, size: int) -> int:
    """First offset of the zeros that end the source, `size` if there are none; never inside the segment header."""
    stop = size
    while stop > HEADER_BYTES:
        base = max(HEADER_BYTES, (stop - 1) // CHUNK_BYTES * CHUNK_BYTES)
        data = source.read_filled(base, stop - base)[0].rstrip(b"\0")
        if data:
            return base + len(data)
        stop = base
    return min(size, HEADER_BYTES)


def has_zero_sector(source: RawSource, start: int, end: int) -> bool:
    """Whether a 512-byte sector, as far as it lies between `start` and `end`, is zero: the trace of a missing write."""
    while start < end:
        stop = min(end, (start // CHUNK_BYTES + 1) * CHUNK_BYTES)
        data = source.read_filled(start, stop - start)[0]
        at = 0
        while at < len(data):
            after = min(len(data), at + SECTOR_BYTES - (start + at) % SECTOR_BYTES)
            if not data[at:after].strip(b"\0"):
                return True
            at = after
        start = stop
    return False


def claimed_length(data: bytes) -> int | None:
    """Frame length that an unauthentic header claims, or None if it is no header at all."""
    if len(data) < FRAME_FIXED_BYTES or data[:4] != FRAME_MAGIC:
        return None
    header_length, payload_length = data[4] * 8, int.from_bytes(data[8:12], "little")
    plausible = (
        FRAME_HEADER_MIN_BYTES <= header_length <= FRAME_HEADER_MAX_BYTES and payload_length <= PAYLOAD_MAX_BYTES
    )
    return header_length + (payload_length + 7) // 8 * 8 + FRAME_TRAILER_BYTES if plausible else None
