"""Replay: batches of verified events, whole groups, and stops that are never taken for an end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.core.segments import TIME_US, SegmentBuilder
from turnlog._pure.format import FLAG_COMMIT, HEADER_BYTES
from turnlog.errors import NotASegment

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

RAW = FLAG_COMMIT | 2


def reader_of(core: ModuleType, path: Path, data: bytes | bytearray) -> Any:
    """Write the bytes to a file and open it."""
    file = path / "a.seg"
    file.write_bytes(data)
    return core.SegmentReader(str(file))


def drain(reader: Any, **options: Any) -> tuple[list[Any], dict[str, Any] | None]:
    """Replay to the end or to a fault; return the events and the fault."""
    offset, ordinal, events = HEADER_BYTES, 1, []
    while True:
        batch, following, ordinal, _, _, fault = reader.replay(offset, ordinal, **options)
        events += batch
        if fault is not None or (not batch and following == offset):
            return events, fault
        offset = following


def test_replay_returns_events_place_chain_and_time(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    start = builder.chain
    builder.event(b'{"a":[1]}')
    builder.sync_mark()
    builder.event(b"\x00\xff", type="blob", flags=RAW)
    builder.close()
    builder.open()
    with reader_of(core, tmp_path, builder.data) as reader:
        events, offset, ordinal, chain, time_us, fault = reader.replay(HEADER_BYTES, 1, chain=start)
    assert [(event.ordinal, event.type, event.payload) for event in events] == [
        (1, "message.user", {"a": [1]}),
        (2, "blob", b"\x00\xff"),
    ]
    assert (offset, ordinal, chain, time_us, fault) == (builder.end, 3, builder.chain, TIME_US + 2, None)


@pytest.mark.parametrize("options", [{}, {"limit": 2}, {"types": frozenset({"blob"})}, {"end": HEADER_BYTES + 400}])
@pytest.mark.parametrize("is_torn", [False, True])
def test_a_lazy_replay_says_what_a_replay_says(
    core: ModuleType, tmp_path: Path, options: dict[str, Any], is_torn: bool
) -> None:
    builder = SegmentBuilder()
    for index in range(9):
        builder.event(b"x" * (index * 700), type="blob" if index % 2 else "note", flags=RAW)
    data = builder.data[:-20] if is_torn else builder.data
    with reader_of(core, tmp_path, data) as reader:
        expected, *place = reader.replay(HEADER_BYTES, 1, **options)
        events, *same = reader.replay_lazily(HEADER_BYTES, 1, **options)
        assert same == place
        assert len(events) == len(expected) > 0
        names = ("ordinal", "type", "time_us", "event_id", "digest", "raw", "flags", "offset")
        for event, known in zip(events, expected, strict=True):
            assert [getattr(event, name) for name in names] == [getattr(known, name) for name in names]
        assert (events[-1].ordinal, events[0].ordinal) == (expected[-1].ordinal, expected[0].ordinal)
        for outside in (len(events), -len(events) - 1):
            with pytest.raises(IndexError):
                events[outside]
        last = events[-1]
        del events
    assert last.raw == expected[-1].raw  # a handle outlives what it came from


def test_without_a_chain_none_is_returned(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    with reader_of(core, tmp_path, builder.data) as reader:
        assert reader.replay(HEADER_BYTES, 1)[3] is None


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 7, 100])
def test_batches_of_any_size_give_every_event_once(core: ModuleType, tmp_path: Path, limit: int) -> None:
    builder = SegmentBuilder()
    for index in range(30):
        builder.event(b"x" * (index * 700), flags=RAW)
    with reader_of(core, tmp_path, builder.data) as reader:
        events, fault = drain(reader, limit=limit)
    assert ([event.ordinal for event in events], fault) == (list(range(1, 31)), None)
    assert [len(event.raw) for event in events] == [index * 700 for index in range(30)]


def test_a_batch_is_about_as_long_as_its_limit(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(50):
        builder.event()
    with reader_of(core, tmp_path, builder.data) as reader:
        assert len(reader.replay(HEADER_BYTES, 1, limit=20)[0]) == 20


def test_a_batch_reads_about_one_mebibyte(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(40):
        builder.event(b"x" * 100_000, flags=RAW)
    with reader_of(core, tmp_path, builder.data) as reader:
        assert 9 <= len(reader.replay(HEADER_BYTES, 1)[0]) <= 11
        assert len(drain(reader)[0]) == 40


def test_a_group_is_never_cut(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.group(10)
    builder.event()
    with reader_of(core, tmp_path, builder.data) as reader:
        events, offset, ordinal, *_ = reader.replay(HEADER_BYTES, 1, limit=3)
        assert (len(events), offset, ordinal) == (11, builder.starts[11], 12)


def test_an_open_group_at_the_end_is_left_for_later(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    begin, chain = builder.end, builder.chain
    builder.event(flags=0)
    builder.event(flags=0)
    with reader_of(core, tmp_path, builder.data) as reader:
        events, offset, ordinal, seen, time_us, fault = reader.replay(HEADER_BYTES, 1, chain=reader_chain(builder))
        assert (len(events), offset, ordinal, seen, time_us, fault) == (1, begin, 2, chain, TIME_US + 1, None)
        assert reader.replay(begin, 2)[:3] == ([], begin, 2)
        builder.event()
        (tmp_path / "a.seg").write_bytes(builder.data)
        assert len(reader.replay(begin, 2)[0]) == 3


def reader_chain(builder: SegmentBuilder) -> bytes:
    """Return the chain before the first event."""
    chain: bytes = builder.header["prev_chain"]
    return chain


def test_types_choose_handles_but_not_what_is_verified(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for index in range(9):
        builder.event(type="a" if index % 3 else "b")
    with reader_of(core, tmp_path, builder.data) as reader:
        events, offset, ordinal, chain, _, fault = reader.replay(
            HEADER_BYTES, 1, types=frozenset({"b", "c"}), chain=reader_chain(builder)
        )
    assert [event.ordinal for event in events] == [1, 4, 7]
    assert (offset, ordinal, chain, fault) == (builder.end, 10, builder.chain, None)


@pytest.mark.parametrize("tail", [0, 1, 100, 1_200_000])
def test_zeros_to_the_end_are_the_end(core: ModuleType, tmp_path: Path, tail: int) -> None:
    builder = SegmentBuilder()
    builder.event()
    with reader_of(core, tmp_path, builder.data + bytes(tail)) as reader:
        events, fault = drain(reader)
    assert (len(events), fault) == (1, None)


def test_zeros_before_other_bytes_are_not_the_end(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    lost = builder.end
    builder.event()
    builder.event()
    data = bytes(builder.data[:lost]) + bytes(builder.starts[2] - lost) + bytes(builder.data[builder.starts[2] :])
    with reader_of(core, tmp_path, data) as reader:
        events, fault = drain(reader)
        assert len(events) == 1
        assert fault == {"code": "torn", "offset": lost, "detail": "frame magic is missing"}
        assert reader.resync(lost) == (builder.starts[2], 3)
        assert reader.resync(builder.starts[2]) is None


def test_the_end_argument_is_where_reading_ends(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    end = builder.end
    builder.event()
    with reader_of(core, tmp_path, builder.data) as reader:
        assert reader.replay(HEADER_BYTES, 1, end=end)[1:3] == (end, 2)
        assert reader.replay(HEADER_BYTES, 1, end=end + 8)[5]["code"] == "torn"


@pytest.mark.parametrize(
    ("at", "code"), [(0, "torn"), (20, "torn"), (104, "torn"), (125, "checksum"), (-1, "checksum")]
)
def test_damage_stops_replay_after_the_events_before_it(core: ModuleType, tmp_path: Path, at: int, code: str) -> None:
    builder = SegmentBuilder()
    for _ in range(3):
        builder.event()
    damaged = bytearray(builder.data)
    damaged[(builder.starts[1] if at >= 0 else builder.starts[2]) + at] ^= 4
    with reader_of(core, tmp_path, damaged) as reader:
        events, offset, ordinal, _, _, fault = reader.replay(HEADER_BYTES, 1)
        assert (len(events), offset, ordinal) == (1, builder.starts[1], 2)
        assert (fault["code"], fault["offset"]) == (code, builder.starts[1])
        assert reader.resync(builder.starts[1]) == (builder.starts[2], 3)


def test_damage_inside_a_group_holds_the_group_back(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.group(3)
    damaged = bytearray(builder.data)
    damaged[builder.starts[2] + 130] ^= 4
    with reader_of(core, tmp_path, damaged) as reader:
        events, offset, ordinal, _, _, fault = reader.replay(HEADER_BYTES, 1)
    assert (len(events), offset, ordinal, fault["offset"]) == (1, builder.starts[1], 2, builder.starts[2])


def test_a_frame_that_passes_the_end_is_torn(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event(b"x" * 500, flags=RAW)
    with reader_of(core, tmp_path, builder.data[:-8]) as reader:
        assert drain(reader) == (
            [],
            {"code": "torn", "offset": HEADER_BYTES, "detail": "frame passes the end of the bytes"},
        )


def test_another_ordinal_is_out_of_order_unless_any_will_do(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder(first_ordinal=7)
    builder.event()
    with reader_of(core, tmp_path, builder.data) as reader:
        fault = reader.replay(HEADER_BYTES, 6)[5]
        assert fault == {"code": "order", "offset": HEADER_BYTES, "detail": "ordinal 7 instead of 6"}
        events, _, ordinal, *_ = reader.replay(HEADER_BYTES, 0)
        assert (len(events), ordinal) == (1, 8)


def test_an_unknown_kind_is_unsupported(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.frame(9, b"")
    with reader_of(core, tmp_path, builder.data) as reader:
        events, _, _, _, _, fault = reader.replay(HEADER_BYTES, 1)
    assert (len(events), fault["code"]) == (1, "unsupported")


def test_a_repair_note_moves_ordinal_and_chain(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder(first_ordinal=5)
    builder.note(9, b"c" * 32)
    builder.event()
    with reader_of(core, tmp_path, builder.data) as reader:
        events, _, ordinal, chain, _, fault = reader.replay(HEADER_BYTES, 5, chain=bytes(32))
    assert ([event.ordinal for event in events], ordinal, chain, fault) == ([10], 11, builder.chain, None)


def test_a_segment_without_a_usable_header_is_refused(core: ModuleType, tmp_path: Path) -> None:
    with reader_of(core, tmp_path, b"some other file" * 1000) as reader:
        assert reader.header["fault"] == "not_a_segment"
        with pytest.raises(NotASegment, match="not_a_segment"):
            reader.replay(HEADER_BYTES, 1)
