"""Goal: a writer states the chain every so many events, where the format says, and nowhere else.

Method: the same appends on both cores; the file is taken apart with the reference decoder.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.segments import SEGMENT_ID, SegmentBuilder
from tests.core.writing import frames_of, new_segment, open_writer
from turnlog._pure.chain import chain_next
from turnlog._pure.format import CHAIN_STEP_EVENTS, FLAG_COMMIT, HEADER_BYTES, KIND_CHAIN_MARK, KIND_EVENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

EVENTS = 3 * CHAIN_STEP_EVENTS


@pytest.fixture
def committer(core: ModuleType, tmp_path: Path) -> Iterator[Any]:
    made = core.Committer(str(tmp_path), interval_ms=60_000)
    yield made
    made.close()


def marks_of(path: Path) -> dict[int, bytes]:
    """Return ordinal and chain of each mark; fails where one does not stand before the first event of a step."""
    marks = {}
    for mark, following in pairwise(frames_of(path)):
        if mark.header.kind == KIND_CHAIN_MARK:
            assert mark.header.flags == FLAG_COMMIT
            assert (following.header.kind, following.header.ordinal) == (KIND_EVENT, mark.header.ordinal + 1)
            marks[mark.header.ordinal] = mark.payload
    return marks


@pytest.mark.parametrize("group", [1, 2, 3, 500])
def test_each_step_of_events_begins_with_the_chain(
    core: ModuleType, committer: Any, tmp_path: Path, group: int
) -> None:
    path = new_segment(tmp_path)
    writer = open_writer(core, committer, path)
    items = [("note", number, None, False) for number in range(EVENTS + 1)]
    for start in range(0, len(items), group):
        writer.append_many(items[start : start + group], start % 2 == 0, True)
    writer.close()
    chain, chains = SegmentBuilder().chain, {}
    for _, header, _ in frames_of(path):
        if header.kind == KIND_EVENT:
            chain = chain_next(chain, header.ordinal, header.event_id, header.time_us, header.digest, header.type)
            chains[header.ordinal] = chain
    assert marks_of(path) == {
        ordinal: chains[ordinal] for ordinal in range(CHAIN_STEP_EVENTS, EVENTS + 1, CHAIN_STEP_EVENTS)
    }
    with core.SegmentReader(str(path)) as reader:
        facts = reader.scan(digests=True)
    assert (facts["faults"], facts["chain"], facts["events"]) == ([], chain, EVENTS + 1)


def test_a_segment_that_begins_with_a_step_needs_no_mark(core: ModuleType, committer: Any, tmp_path: Path) -> None:
    builder = SegmentBuilder(first_ordinal=CHAIN_STEP_EVENTS + 1)
    path = tmp_path / "b.seg"
    path.write_bytes(bytes(builder.data))
    writer = open_writer(core, committer, path, ordinal=CHAIN_STEP_EVENTS, segment_id=SEGMENT_ID)
    writer.append("note", 1, None, True)
    writer.close()
    first = frames_of(path)[0]
    assert (first.header.kind, first.offset) == (KIND_EVENT, HEADER_BYTES)
