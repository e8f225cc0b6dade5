"""Bursts, zeroed sectors, misplaced copies, duplicates, cuts and absurd lengths: named, bounded, never wrong data.

The segment ends in a CLOSE frame whose end is known, as an index or a successor would know it, so that any loss of its
last bytes shows too.
"""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.segments import SegmentBuilder, compact
from tests.faults.salvage import served
from turnlog import _pure
from turnlog._pure.format import BLOCK_BYTES, FLAG_COMMIT, HEADER_BYTES
from turnlog.errors import TurnlogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType

RAW = FLAG_COMMIT | 2
SECTOR_BYTES = 512
ALIGNMENTS = (1, 8, SECTOR_BYTES)


def closed_segment(seed: int) -> SegmentBuilder:
    """Build a segment of events, groups and marks that ends in a CLOSE frame."""
    source = random.Random(seed)
    builder = SegmentBuilder()
    for _ in range(12):
        step = source.randrange(6)
        if step == 0:
            builder.group(source.randrange(1, 4))
        elif step == 1:
            builder.sync_mark()
        else:
            builder.event(source.randbytes(source.choice((0, 5, 40, 300, 1500))), flags=RAW)
    builder.event(b"x", flags=RAW)
    builder.close()
    return builder


def burst(data: bytearray, source: random.Random) -> None:
    """Overwrite a range with other bytes."""
    at, length = source.randrange(len(data)), source.randrange(1, 4097)
    data[at : at + length] = source.randbytes(len(data[at : at + length]))


def zeroed(data: bytearray, source: random.Random) -> None:
    """Lose some sectors."""
    at = source.randrange(len(data) // SECTOR_BYTES + 1) * SECTOR_BYTES
    length = source.randrange(1, 4) * SECTOR_BYTES
    data[at : at + length] = bytes(len(data[at : at + length]))


def misplaced(data: bytearray, source: random.Random) -> None:
    """Write a range to another place."""
    step = source.choice(ALIGNMENTS)
    length = source.randrange(1, 4097)
    origin, target = (source.randrange(len(data)) // step * step for _ in range(2))
    copy = data[origin : origin + length][: len(data) - target]
    data[target : target + len(copy)] = copy


def duplicated(data: bytearray, source: random.Random) -> None:
    """Insert a copy of a range behind it."""
    at = source.randrange(len(data)) // 8 * 8
    data[at:at] = data[max(0, at - source.randrange(1, 200) * 8) : at]


def removed(data: bytearray, source: random.Random) -> None:
    """Take a range out."""
    at = source.randrange(len(data))
    del data[at : at + source.randrange(1, 2000)]


def cut(data: bytearray, source: random.Random) -> None:
    """Lose the end."""
    del data[source.randrange(len(data)) :]


MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    burst,
    zeroed,
    misplaced,
    duplicated,
    removed,
    cut,
)


def mutated(data: bytes, seed: int) -> bytes:
    """Return the bytes after a mutation chosen by the seed."""
    source = random.Random(seed)
    changed = bytearray(data)
    source.choice(MUTATIONS)(changed, source)
    return bytes(changed)


def is_seen(facts: dict[str, Any], end: int) -> bool:
    """Whether the facts, with the known end, show that something is wrong."""
    header = facts["header"]
    return bool(facts["faults"] or header["fault"] or header["degraded"] or facts["commit_end"] != end)


@pytest.mark.parametrize("seed", range(4))
def test_no_mutation_is_silent_or_gives_wrong_data(core: ModuleType, tmp_path: Path, seed: int) -> None:
    builder = closed_segment(seed)
    data = bytes(builder.data)
    file = tmp_path / "a.seg"
    file.write_bytes(data)
    with core.SegmentReader(str(file)) as reader:
        whole = served(reader)
    silent = []
    for number in range(1500 if core.IMPLEMENTATION == "native" else 150):
        changed = mutated(data, seed * 100_000 + number)
        if changed == data:
            continue
        file.write_bytes(changed)
        with core.SegmentReader(str(file), builder.segment_id) as reader:
            facts = reader.scan()
            if not is_seen(facts, builder.end):
                silent.append(number)
            if facts["header"]["fault"] is None:
                assert served(reader) <= whole
    assert silent == []


def facts_of(core: ModuleType, file: str) -> list[Any]:
    """Everything a core says about a file, exceptions too."""
    said: list[Any] = []
    try:
        reader = core.SegmentReader(file)
    except TurnlogError as error:
        return [type(error).__name__, error.message]
    with reader:
        said += [reader.header, reader.size(), reader.scan(), reader.scan(digests=True)]
        chain = bytes(32)
        calls: tuple[Callable[[], Any], ...] = (
            lambda: reader.replay(HEADER_BYTES, 1, chain=chain),
            lambda: reader.replay(HEADER_BYTES, 0, limit=2, types=frozenset({"message.user"}), chain=chain),
            lambda: reader.resync(HEADER_BYTES),
            lambda: reader.resync(HEADER_BYTES + 700),
            reader.sparse,
            lambda: sorted(served(reader)),
        )
        for call in calls:
            try:
                answer = call()
            except TurnlogError as error:
                answer = (type(error).__name__, error.message, error.place())
            if isinstance(answer, tuple) and isinstance(answer[0], list):
                answer = ([(event.id, event.digest, event.raw, repr(event)) for event in answer[0]], *answer[1:])
            said.append(answer)
    return said


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    mutations=st.lists(st.integers(0, 2**32), max_size=3),
    tail=st.sampled_from((0, 0, 8, 600, 5000)),
    packed=st.booleans(),
)
def test_both_cores_say_the_same(
    native: ModuleType, tmp_path: Path, *, seed: int, mutations: list[int], tail: int, packed: bool
) -> None:
    data = bytes(closed_segment(seed).data) + bytes(tail)
    if packed:
        data = compact(data)
    for mutation in mutations:
        data = mutated(data, mutation) if data else data
    file = tmp_path / "a.seg"
    file.write_bytes(data)
    assert facts_of(native, str(file)) == facts_of(_pure, str(file))


LENGTHS = sorted({*(2**power for power in range(32)), 2**32 - 1, 2**24 - 8, 2**24 + 1})
FIELDS = ((4, 1), (8, 4), (104, 1), (128, 4))  # header words, payload length, type length, frame length in the trailer


def absurd_segments() -> Iterator[bytes]:
    """Yield segments whose length fields hold absurd numbers, with and without a header checksum that matches."""
    builder = SegmentBuilder()
    builder.event(b"payload")
    builder.event(b"another")
    at = builder.starts[0]
    for length in LENGTHS:
        for field, size in FIELDS:
            data = bytearray(builder.data)
            data[at + field : at + field + size] = (length % 2 ** (8 * size)).to_bytes(size, "little")
            yield bytes(data)
            salted = builder.segment_id + at.to_bytes(8, "little") + data[at : at + 96] + data[at + 104 : at + 120]
            data[at + 96 : at + 104] = _pure.checksum(bytes(salted)).to_bytes(8, "little")
            yield bytes(data)


def absurd_tables() -> Iterator[bytes]:
    """Yield compacted segments whose seek table claims absurd numbers, with and without a checksum that matches."""
    builder = SegmentBuilder()
    builder.event(b"payload")
    packed = compact(bytes(builder.data))
    block = packed[: packed.index(b"\x5e\x2a\x4d\x18")]
    for length in LENGTHS:
        for entries in ([(length, BLOCK_BYTES, 0)], [(len(block), length, 0)], [(length, length, 0)] * 3):
            yield block + _pure.encode_table(entries) * 2
        for back in (24, 56 - 4):  # block count and skippable length of the last copy
            changed = bytearray(packed)
            changed[len(packed) - back : len(packed) - back + 4] = length.to_bytes(4, "little")
            yield bytes(changed)


CHILD = """
import importlib, resource, sys
core = importlib.import_module(sys.argv[1])
from turnlog.errors import Damaged, NotASegment
limit = 256 * 1024 * 1024
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
seen = 0
for line in sys.stdin:
    try:
        with core.SegmentReader(line.strip()) as reader:
            facts = reader.scan(digests=True)
            reader.replay(4096, 0)
            reader.resync(4096)
            reader.sparse()
            reader.read(0, 2**40)
            seen += bool(facts["faults"] or facts["header"]["fault"] or facts["header"]["degraded"])
    except (Damaged, NotASegment):
        seen += 1
print(seen)
"""


def test_absurd_lengths_are_findings_in_little_memory(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event(b"payload")
    sound = compact(bytes(builder.data))
    builder.event(b"another")
    files: list[str] = []
    for data in (*absurd_segments(), *absurd_tables()):
        if data not in {sound, bytes(builder.data)}:
            files.append(str(tmp_path / f"{len(files)}.seg"))
            (tmp_path / f"{len(files) - 1}.seg").write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, core.__name__],
        input="\n".join(files),
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stderr == ""
    assert int(done.stdout) == len(files)
