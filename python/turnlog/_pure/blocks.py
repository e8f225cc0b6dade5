"""Compacted segments: zstd blocks and the seek table, FORMAT.md section 7.

Owns: the bytes of the seek table, finding it in a file, and serving logical bytes by decompressing only the blocks
they lie in. Invariants: no number of the file is believed before it is checked against the file's size and the block
size; what a block decompresses to is served only if its length and checksum hold; a damaged block hides no other
block. Must not know: headers and frames.
"""

from __future__ import annotations

import struct

import xxhash

from turnlog._pure.format import BLOCK_BYTES, SEGMENT_MAGIC, SKIPPABLE_MAGIC, TABLE_MAGIC
from turnlog._pure.source import FILL, RawSource, open_descriptor, storage_error
from turnlog.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from turnlog._pure.source import Hole

    Entry: TypeAlias = tuple[int, int, int | None]  # compressed bytes, raw bytes, checksum of the raw bytes

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
COMPRESSED_MAX_BYTES = BLOCK_BYTES + BLOCK_BYTES // 128 + 1024  # above what zstd makes of an incompressible block
SEARCH_BYTES = 1 << 20

_ENTRY = struct.Struct("<IIQ")
_FOOT = struct.Struct("<II8sQ")  # block_count, reserved, table_magic, table_checksum
_HEAD_BYTES = 8
_ENVELOPE_BYTES = _HEAD_BYTES + _FOOT.size


def encode_table(entries: list[tuple[int, int, int]]) -> bytes:
    """Return one copy of the seek table; an entry is (compressed bytes, raw bytes, XXH3-64 of the raw block)."""
    rows = [_ENTRY.pack(*entry) for entry in entries]
    body = b"".join(rows) + struct.pack("<II8s", len(rows), 0, TABLE_MAGIC)
    body += struct.pack("<Q", xxhash.xxh3_64_intdigest(body))
    return SKIPPABLE_MAGIC + struct.pack("<I", len(body)) + body


def decode_table(table: bytes, start: int) -> list[Entry] | None:
    """Return the entries of the copy that begins at file offset `start`, or None if anything about it is wrong."""
    if len(table) < _ENVELOPE_BYTES or table[:4] != SKIPPABLE_MAGIC:
        return None
    count, reserved, magic, check = _FOOT.unpack_from(table, len(table) - _FOOT.size)
    sound = (
        magic == TABLE_MAGIC
        and reserved == 0
        and len(table) == _ENVELOPE_BYTES + _ENTRY.size * count
        and int.from_bytes(table[4:8], "little") == len(table) - _HEAD_BYTES
        and check == xxhash.xxh3_64_intdigest(table[_HEAD_BYTES:-8])
    )
    if not sound:
        return None
    entries: list[Entry] = list(_ENTRY.iter_unpack(table[_HEAD_BYTES : _HEAD_BYTES + _ENTRY.size * count]))
    if not entries:
        return None
    full = all(raw == BLOCK_BYTES for _, raw, _ in entries[:-1]) and all(
        0 < raw <= BLOCK_BYTES for _, raw, _ in entries[-1:]
    )
    fits = sum(size for size, _, _ in entries) <= start and all(size <= COMPRESSED_MAX_BYTES for size, _, _ in entries)
    return entries if full and fits else None


def zstd_frame_length(data: bytes) -> int | None:
    """Length in bytes of the zstd frame that begins `data`, or None if it is none or is cut (RFC 8878, 3.1.1)."""
    if data[:4] != ZSTD_MAGIC or len(data) < 6:
        return None
    descriptor = data[4]
    single = descriptor >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + ((1 if single else 0), 2, 4, 8)[descriptor >> 6]
    last = False
    while not last:
        if at + 3 > len(data):
            return None
        block = int.from_bytes(data[at : at + 3], "little")
        last = bool(block & 1)
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
    at += 4 if descriptor & 4 else 0
    return at if at <= len(data) else None


def decompress(data: bytes, raw_bytes: int) -> bytes | None:
    """Decompress one block, or None if it is damaged. Never makes more than BLOCK_BYTES, whatever the data claim."""
    import zstandard

    try:
        if zstandard.frame_content_size(data) > BLOCK_BYTES:
            return None
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=max(raw_bytes, 1))
    except zstandard.ZstdError:
        return None


class BlockSource(RawSource):
    """A compacted segment: `size`, `read` and `read_filled` speak of logical bytes.

    `table_degraded`: one copy of the seek table is damaged. `tail_fault`: both are; blocks were found one after
    the other, and bytes at the end may be missing.
    """

    compacted = True

    def __init__(self, fd: int, path: str) -> None:
        super().__init__(fd, path)
        self.tail_fault = None
        self.cached: tuple[int, bytes] = (-1, b"")
        try:
            entries = self._find_table()
        except OSError as cause:
            raise storage_error("cannot read the seek table", cause, path, None) from cause
        if entries is None:
            entries = self._walk_blocks()
            self.tail_fault = "both copies of the seek table are damaged"
        self.entries = entries
        self.starts = [0]
        for compressed, _, _ in entries:
            self.starts.append(self.starts[-1] + compressed)
        self.logical = (len(entries) - 1) * BLOCK_BYTES + entries[-1][1] if entries else 0

    def size(self) -> int:
        """Logical bytes; a compacted segment does not grow."""
        return self.logical

    def _find_table(self) -> list[Entry] | None:
        """Find a sound copy of the table from the end of the file."""
        size = self.file_size()
        start, entries = self._copy_before(size)
        if entries is not None:
            first = start - (size - start)
            self.table_degraded = first != sum(e[0] for e in entries) or self.pread(first, size - start) != self.pread(
                start, size - start
            )
            return entries
        self.table_degraded = True
        stop = size
        while stop > 0:  # the last copy is damaged: look for the magic of another one
            base = max(0, stop - SEARCH_BYTES)
            data = self.pread(base, stop - base + len(TABLE_MAGIC) - 1)
            at = data.rfind(TABLE_MAGIC)
            while at >= 0:
                entries = self._copy_before(base + at + len(TABLE_MAGIC) + 8)[1]
                if entries is not None:
                    return entries
                at = data.rfind(TABLE_MAGIC, 0, at + len(TABLE_MAGIC) - 1)
            stop = base
        return None

    def _copy_before(self, end: int) -> tuple[int, list[Entry] | None]:
        """Decode the copy that ends at file offset `end`; return where it starts, and its entries."""
        foot = self.pread(end - _FOOT.size, _FOOT.size) if end >= _ENVELOPE_BYTES else b""
        if len(foot) < _FOOT.size or foot[8:16] != TABLE_MAGIC:
            return 0, None
        start = end - _ENVELOPE_BYTES - _ENTRY.size * int.from_bytes(foot[:4], "little")
        if start < 0:
            return 0, None
        entries = decode_table(self.pread(start, end - start), start)
        return start, entries

    def _walk_blocks(self) -> list[Entry]:
        """Find the blocks without a table: frame after frame from the start. Raises Damaged if there is none."""
        entries: list[Entry] = []
        at = 0
        while not entries or entries[-1][1] == BLOCK_BYTES:
            data = self.read_file(at, COMPRESSED_MAX_BYTES)
            length = zstd_frame_length(data)
            raw = decompress(data[:length], BLOCK_BYTES) if length else None
            if length is None or not raw:
                break
            entries.append((length, len(raw), None))
            at += length
        if not entries:
            raise Damaged("neither a seek table nor a block can be read", segment=self.name, offset=0)
        return entries

    def read_file(self, offset: int, length: int) -> bytes:
        """Read bytes of the file itself. Raises StorageError."""
        return super().read(offset, length)

    def _block(self, index: int, data: bytes) -> bytes | None:
        """Decompress and check block `index`, or None if it is damaged."""
        _, raw_bytes, check = self.entries[index]
        raw = decompress(data, raw_bytes)
        if raw is None or len(raw) != raw_bytes or (check is not None and xxhash.xxh3_64_intdigest(raw) != check):
            return None
        self.cached = (index, raw)
        return raw

    def read(self, offset: int, length: int) -> bytes:
        """Read logical bytes; fewer only at the end. Raises Damaged at a damaged block, StorageError."""
        data, holes = self.read_filled(offset, length)
        if holes:
            raise Damaged(holes[0][3], segment=self.name, offset=holes[0][0])
        return data

    def read_filled(self, offset: int, length: int) -> tuple[bytes, list[Hole]]:
        """Read logical bytes, with holes where blocks are damaged. Raises StorageError."""
        end = min(offset + length, self.logical)
        if end <= offset:
            return b"", []
        first, last = offset // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        cached_index, cached = self.cached
        start = first + (1 if cached_index == first else 0)
        base = self.starts[start]
        file_bytes = self.starts[last + 1] - base if start <= last else 0
        packed, file_holes = super().read_filled(base, file_bytes) if file_bytes else (b"", [])
        parts, holes = ([cached] if cached_index == first else []), []
        for index in range(start, last + 1):
            low, high = self.starts[index] - base, self.starts[index + 1] - base
            raw = self._block(index, packed[low:high])
            if raw is None:
                failed = next((hole for hole in file_holes if hole[0] < base + high and hole[1] > base + low), None)
                code, detail = (failed[2], failed[3]) if failed else ("block", f"compressed block {index} is damaged")
                at = index * BLOCK_BYTES
                raw = FILL * self.entries[index][1]
                holes.append((at, at + len(raw), code, detail))
            parts.append(raw)
        skip = offset - first * BLOCK_BYTES
        return b"".join(parts)[skip : skip + end - offset], holes


def open_source(path: str) -> RawSource:
    """Open a segment, raw or compacted, which its content tells. Raises StorageError, Damaged."""
    raw = RawSource(open_descriptor(path), path)
    begin = raw.read(0, len(SEGMENT_MAGIC))
    if begin[:4] == ZSTD_MAGIC:
        return BlockSource(open_descriptor(path), path)
    if begin != SEGMENT_MAGIC and raw.read(max(0, raw.size() - 16), 8) == TABLE_MAGIC:  # its first bytes may be damaged
        packed = BlockSource(open_descriptor(path), path)
        return raw if packed.tail_fault else packed
    return raw
