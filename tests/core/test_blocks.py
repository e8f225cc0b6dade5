"""Compacted segments: the same facts as the raw one, damage bounded by a block."""

from __future__ import annotations

import random
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.segments import SegmentBuilder, compact
from turnlog._pure import blocks
from turnlog._pure.format import BLOCK_BYTES, FLAG_COMMIT, HEADER_BYTES, SKIPPABLE_MAGIC, TABLE_MAGIC
from turnlog.errors import Damaged

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

RAW = FLAG_COMMIT | 2
RANDOM = random.Random(7)


def sealed() -> SegmentBuilder:
    """Build a segment of about ten blocks, one frame longer than a block."""
    builder = SegmentBuilder()
    for index in range(40):
        builder.event(RANDOM.randbytes(96_000) + b"text " * 32_000, type=f"t{index % 3}", flags=RAW)
    builder.event(b"long" * 800_000, flags=RAW)
    builder.seal()
    return builder


BUILDER = sealed()
LOGICAL = bytes(BUILDER.data)
PACKED = compact(LOGICAL)
TABLE_BYTES = len(PACKED) - PACKED.rindex(SKIPPABLE_MAGIC)


def reader_of(core: ModuleType, path: Path, data: bytes | bytearray) -> Any:
    """Write the bytes to a compacted file and open it."""
    file = path / "a.seg.zst"
    file.write_bytes(data)
    return core.SegmentReader(str(file))


def events_of(reader: Any) -> list[tuple[int, bytes]]:
    """Replay everything up to the end or a fault."""
    offset, ordinal, events = HEADER_BYTES, 1, []
    while True:
        batch, following, ordinal, _, _, fault = reader.replay(offset, ordinal)
        events += [(event.ordinal, event.raw) for event in batch]
        if fault is not None or following == offset:
            return events
        offset = following


def test_a_compacted_segment_gives_the_same_facts_and_events(core: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.seg").write_bytes(LOGICAL)
    with core.SegmentReader(str(tmp_path / "a.seg")) as raw, reader_of(core, tmp_path, PACKED) as packed:
        assert (raw.compacted, packed.compacted) == (False, True)
        assert packed.size() == raw.size() == len(LOGICAL)
        assert packed.scan(digests=True) == raw.scan(digests=True) | {"compacted": True}
        assert events_of(packed) == events_of(raw)
        assert packed.sparse() == raw.sparse()
        assert packed.resync(HEADER_BYTES) == raw.resync(HEADER_BYTES)


def test_any_range_is_served_across_blocks(core: ModuleType, tmp_path: Path) -> None:
    with reader_of(core, tmp_path, PACKED) as reader:
        for _ in range(50):
            offset, length = RANDOM.randrange(len(LOGICAL)), RANDOM.randrange(3 * BLOCK_BYTES)
            assert reader.read(offset, length) == LOGICAL[offset : offset + length]


def test_both_cores_write_the_same_table(core: ModuleType) -> None:
    entries = [(5, BLOCK_BYTES, 2**64 - 1), (0, 1, 0)]
    table = core.encode_table(entries)
    assert table == blocks.encode_table(entries)
    assert blocks.decode_table(table, 5) == entries
    assert blocks.decode_table(table, 4) is None


@pytest.mark.parametrize("block", [1, 4, 8])
def test_a_damaged_block_hides_no_other_block(core: ModuleType, tmp_path: Path, block: int) -> None:
    starts = [0]
    for entry in blocks.decode_table(PACKED[-TABLE_BYTES:], len(PACKED)) or []:
        starts.append(starts[-1] + entry[0])
    data = bytearray(PACKED)
    data[starts[block] + 5000] ^= 0x10
    with reader_of(core, tmp_path, data) as reader:
        facts = reader.scan()
        assert {fault["code"] for fault in facts["faults"]} == {"block"}
        assert not any(fault["signature"] for fault in facts["faults"])
        low, high = block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES
        ends = [*BUILDER.starts[1:], len(LOGICAL)]
        frames = list(zip(BUILDER.starts, ends, strict=True))[:-1]
        assert facts["events"] == sum(1 for start, end in frames if end <= low or start >= high)
        with pytest.raises(Damaged, match=f"compressed block {block} is damaged") as caught:
            reader.read(low - 10, 20)
        assert caught.value.offset == low
        (start,) = [start for start, end in frames if start < low < end]
        stop = {"code": "checksum", "offset": start, "detail": f"compressed block {block} is damaged"}
        assert reader.replay(start, 0)[5] == stop
        assert reader.read(high, 100) == LOGICAL[high : high + 100]
        assert reader.read(low - 100, 100) == LOGICAL[low - 100 : low]


@pytest.mark.parametrize("copy", [1, 2])
@pytest.mark.parametrize("back", [1, 10, 17, 24, 100])
def test_one_damaged_copy_of_the_table_degrades_and_loses_nothing(
    core: ModuleType, tmp_path: Path, copy: int, back: int
) -> None:
    data = bytearray(PACKED)
    data[len(PACKED) - (0 if copy == 2 else TABLE_BYTES) - back] ^= 1
    with reader_of(core, tmp_path, data) as reader:
        assert reader.header["degraded"] is True
        assert (reader.header["fault"], reader.scan()["faults"]) == (None, [])
        assert reader.read(0, len(LOGICAL)) == LOGICAL


def test_without_a_table_the_blocks_are_found_and_the_loss_is_named(core: ModuleType, tmp_path: Path) -> None:
    data = PACKED.replace(TABLE_MAGIC, bytes(8))
    with reader_of(core, tmp_path, data) as reader:
        facts = reader.scan()
        assert [(fault["code"], fault["offset"]) for fault in facts["faults"]] == [("block", len(LOGICAL))]
        assert facts["events"] == 41
        assert reader.read(0, len(LOGICAL)) == LOGICAL


def test_a_compacted_file_without_a_readable_block_is_damaged(core: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="neither a seek table nor a block"):
        reader_of(core, tmp_path, PACKED[:4] + b"\xff" * 100)


def test_a_damaged_first_magic_is_still_a_compacted_file(core: ModuleType, tmp_path: Path) -> None:
    with reader_of(core, tmp_path, b"\x00" + PACKED[1:]) as reader:
        assert reader.compacted is True
        assert reader.header["fault"] == "damaged"
    file = str(tmp_path / "a.seg.zst")
    with core.SegmentReader(file, BUILDER.segment_id) as reader:
        assert reader.scan()["events"] == sum(1 for start in BUILDER.starts[:-1] if start >= BLOCK_BYTES)


def test_a_table_that_claims_too_much_is_not_believed(core: ModuleType, tmp_path: Path) -> None:
    entries = blocks.decode_table(PACKED[-TABLE_BYTES:], len(PACKED)) or []
    for bad in ((2**32 - 1, BLOCK_BYTES, 0), (1, 2**32 - 1, 0), (1, 0, 0)):
        table = blocks.encode_table([*((a, b, c or 0) for a, b, c in entries[:-1]), bad])
        with reader_of(core, tmp_path, PACKED[: -2 * TABLE_BYTES] + table * 2) as reader:
            assert [fault["code"] for fault in reader.scan()["faults"]] == ["block"]
            assert reader.read(0, len(LOGICAL)) == LOGICAL


@pytest.mark.skipif(shutil.which("zstd") is None, reason="no zstd program")
def test_the_zstd_program_gives_the_raw_segment_back(tmp_path: Path) -> None:
    file = tmp_path / "a.seg.zst"
    file.write_bytes(PACKED)
    assert subprocess.run(["zstd", "-dc", str(file)], check=True, capture_output=True).stdout == LOGICAL
