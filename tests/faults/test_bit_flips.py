"""Every single bit of a session flipped, one after the other: none goes unseen, and no undamaged event is hidden.

The session has two segments: a sealed one and its successor with a group, control frames and an orderly close.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.segments import SegmentBuilder, compact
from tests.faults.salvage import served
from turnlog import _pure
from turnlog._pure import walk
from turnlog._pure.format import BLOCK_BYTES, FLAG_COMMIT, HEADER_BYTES, KIND_EVENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import ModuleType

RAW = FLAG_COMMIT | 2


def session() -> list[SegmentBuilder]:
    """Build two segments that follow each other."""
    first = SegmentBuilder()
    first.event(b'{"text":"question"}')
    first.group(3)
    first.sync_mark()
    first.event(b"\x00\x01\x02", type="blob", flags=RAW)
    first.event(b'{"text":"answer","n":[1,2,3]}', type="message.assistant")
    first.seal(((1, HEADER_BYTES),))
    second = SegmentBuilder(first_ordinal=7, chain=first.chain, segment_number=2, prev_length=first.end)
    second.event(b"")
    second.sync_mark()
    second.close()
    second.open()
    second.group(2)
    second.event(b'"last"')
    second.close()
    return [first, second]


def flips(data: bytes, bits: Iterable[int], file: Path) -> Iterator[int]:
    """Keep one flipped bit at a time in the file; yield its number."""
    file.write_bytes(data)
    descriptor = os.open(file, os.O_WRONLY)
    try:
        for bit in bits:
            os.pwrite(descriptor, bytes([data[bit // 8] ^ 1 << bit % 8]), bit // 8)
            yield bit
            os.pwrite(descriptor, data[bit // 8 : bit // 8 + 1], bit // 8)
    finally:
        os.close(descriptor)


def is_seen(facts: dict[str, Any]) -> bool:
    """Whether a scan says that something is not as it was written."""
    header = facts["header"]
    return bool(facts["faults"] or header["fault"] or header["degraded"] or header["read_only"])


def event_frames(builder: SegmentBuilder) -> list[tuple[int, int]]:
    """Start and end of each event frame."""
    ends = [*builder.starts[1:], builder.end]
    frames = zip(builder.starts, ends, strict=True)
    return [(start, end) for start, end in frames if builder.data[start + 5] == KIND_EVENT]


def silent_flips(core: ModuleType, builder: SegmentBuilder, bits: Iterable[int], path: Path) -> list[int]:
    """Return the bits whose flip is not seen, or hides an event whose own bytes are intact."""
    frames = event_frames(builder)
    file = path / "a.seg"
    silent = []
    for bit in flips(bytes(builder.data), bits, file):
        with core.SegmentReader(str(file)) as reader:
            facts = reader.scan()
            hit = sum(1 for start, end in frames if start <= bit // 8 < end)
            visible = facts["events"] == len(frames) - hit
            if bit % 64 == 5 and hit == 0 and not facts["faults"]:
                visible = visible and len(served(reader)) == len(frames)
        if not is_seen(facts) or not visible:
            silent.append(bit)
    return silent


def small_segment() -> SegmentBuilder:
    builder = SegmentBuilder()
    builder.event(b'{"a":1}')
    builder.sync_mark()
    builder.event(b"", type="b")
    builder.close()
    return builder


@pytest.mark.parametrize("number", [0, 1])
def test_no_flipped_bit_of_a_session_is_silent(core: ModuleType, tmp_path: Path, number: int) -> None:
    builder = session()[number]
    assert silent_flips(core, builder, range(builder.end * 8), tmp_path) == []


def test_the_flip_test_fails_when_the_body_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "check_body", lambda *_: None)
    builder = small_segment()
    payload = range((builder.starts[0] + 120) * 8, (builder.starts[0] + 127) * 8)
    assert silent_flips(_pure, builder, payload, tmp_path) == list(payload)


def test_a_flipped_bit_in_a_frame_leaves_the_others_readable(core: ModuleType, tmp_path: Path) -> None:
    builder = session()[0]
    frames = event_frames(builder)
    whole = served_from(core, bytes(builder.data), tmp_path)
    file = tmp_path / "a.seg"
    for bit in flips(bytes(builder.data), range(HEADER_BYTES * 8, builder.end * 8, 37), file):
        with core.SegmentReader(str(file)) as reader:
            left = served(reader)
        assert left <= whole
        lost = {ordinal for ordinal, _ in whole - left}
        hit = {index + 1 for index, (start, end) in enumerate(frames) if start <= bit // 8 < end}
        group = {2, 3, 4} if hit & {2, 3, 4} else set()
        assert hit <= lost <= hit | group


def served_from(core: ModuleType, data: bytes, path: Path) -> set[tuple[int, bytes]]:
    """Read all events of a file with these bytes."""
    file = path / "whole.seg"
    file.write_bytes(data)
    with core.SegmentReader(str(file)) as reader:
        return served(reader)


def test_no_flipped_bit_of_a_compacted_segment_is_silent(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for letter in b"abcdef":
        builder.event(bytes([letter]) * 60_000, flags=RAW)
    builder.seal()
    logical = bytes(builder.data)
    packed = compact(logical)
    file = tmp_path / "a.seg.zst"
    bits = range(0, len(packed) * 8, 1 if core.IMPLEMENTATION == "native" else 23)
    harmless = 0  # a few bits of a zstd frame have no meaning: unused ones, and codes that decode to the same bytes
    for _ in flips(packed, bits, file):
        with core.SegmentReader(str(file), builder.segment_id) as reader:
            facts = reader.scan()
            if not is_seen(facts):
                assert reader.read(0, len(logical)) == logical
                harmless += 1
        assert facts["events"] >= 6 - blocks_hit_at_most(builder)
    assert harmless < len(bits) / 100


def blocks_hit_at_most(builder: SegmentBuilder) -> int:
    """Events that one damaged block can touch at most."""
    frames = event_frames(builder)
    blocks = range(0, builder.end, BLOCK_BYTES)
    return max(sum(1 for start, end in frames if start < low + BLOCK_BYTES and end > low) for low in blocks)
