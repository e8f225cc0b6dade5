"""SegmentReader and Event: what a handle tells, how long it lives, what errors look like."""

from __future__ import annotations

import errno
import gc
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.segments import TIME_US, SegmentBuilder, compact
from turnlog._pure.format import FLAG_COMMIT, HEADER_BYTES, SPARSE_STEP_BYTES
from turnlog.errors import Closed, Damaged, StorageError

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

RAW = FLAG_COMMIT | 2


def write(path: Path, data: bytes | bytearray) -> str:
    """Write a segment file and return its path."""
    file = path / "a.seg"
    file.write_bytes(data)
    return str(file)


def open_descriptors() -> int:
    """Count the open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def one_event(core: ModuleType, path: Path, payload: bytes, **fields: Any) -> Any:
    """Store one event and return its handle, its reader closed."""
    builder = SegmentBuilder()
    builder.event(payload, **fields)
    with core.SegmentReader(write(path, builder.data)) as reader:
        return reader.replay(HEADER_BYTES, 1)[0][0]


def test_a_handle_tells_all_fields_of_the_header(core: ModuleType, tmp_path: Path) -> None:
    event = one_event(core, tmp_path, b'{"a":1}', type="tool.call", flags=FLAG_COMMIT | 4, event_id=bytes(range(16)))
    assert (event.ordinal, event.type, event.time_us, event.size) == (1, "tool.call", TIME_US + 1, 7)
    assert event.id == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (event.event_id, event.digest) == (bytes(range(16)), core.digest(b'{"a":1}'))
    assert (event.flags, event.epoch, event.offset) == (5, 1, HEADER_BYTES)
    assert (event.is_raw, event.durable) == (False, True)
    assert repr(event) == "<Event 1 tool.call 7 B>"


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b'{"a":[1,2.5,null,true]}', {"a": [1, 2.5, None, True]}),
        (b'"\\ud800"', "\ud800"),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b"[" * 128 + b"]" * 128, None),
        ('"ß"'.encode(), "ß"),
    ],
)
def test_a_payload_is_decoded(core: ModuleType, tmp_path: Path, payload: bytes, value: object) -> None:
    decoded = one_event(core, tmp_path, payload).payload
    if value is None:
        for _ in range(127):
            (decoded,) = decoded
        value = []
    assert decoded == value


def test_a_raw_payload_is_bytes(core: ModuleType, tmp_path: Path) -> None:
    event = one_event(core, tmp_path, b"{}\xff", flags=RAW)
    assert (event.is_raw, event.payload, event.raw) == (True, b"{}\xff", b"{}\xff")


def test_a_payload_that_is_no_json_is_damage(core: ModuleType, tmp_path: Path) -> None:
    event = one_event(core, tmp_path, b"{nothing")
    with pytest.raises(Damaged, match="not JSON") as caught:
        _ = event.payload
    assert caught.value.ordinal == 1


def test_a_handle_cannot_be_changed(core: ModuleType, tmp_path: Path) -> None:
    event = one_event(core, tmp_path, b"1")
    for name in ("ordinal", "offset", "type", "payload", "unknown"):
        with pytest.raises(AttributeError):
            setattr(event, name, 1)


def test_a_native_handle_is_small(native: ModuleType) -> None:
    assert native.Event.__basicsize__ < 100


def test_a_handle_outlives_its_reader_and_then_lets_go_of_the_file(core: ModuleType, tmp_path: Path) -> None:
    gc.collect()
    before = open_descriptors()
    event = one_event(core, tmp_path, b'{"kept":true}')
    (tmp_path / "a.seg").unlink()
    gc.collect()
    assert open_descriptors() == before + 1
    assert event.payload == {"kept": True}
    del event
    gc.collect()
    assert open_descriptors() == before


def test_bytes_that_changed_after_they_were_verified_are_not_served(core: ModuleType, tmp_path: Path) -> None:
    event = one_event(core, tmp_path, b'{"n":1}')
    data = bytearray((tmp_path / "a.seg").read_bytes())
    data[HEADER_BYTES + event.offset - HEADER_BYTES + 121] ^= 1
    with (tmp_path / "a.seg").open("r+b") as file:
        file.write(data)
    with pytest.raises(Damaged, match="changed after it was verified") as caught:
        _ = event.raw
    assert (caught.value.segment, caught.value.offset, caught.value.ordinal) == ("a.seg", HEADER_BYTES, 1)


def test_a_file_cut_short_under_a_handle_is_damage_and_kills_nothing(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(100):
        builder.event(b"x" * 10_000, flags=RAW)
    path = write(tmp_path, builder.data)
    with core.SegmentReader(path) as reader:
        events = reader.replay(HEADER_BYTES, 1)[0]
        reader.replay(builder.starts[-1], 100)
        os.truncate(path, HEADER_BYTES + 5000)
        assert reader.size() == HEADER_BYTES + 5000
        with pytest.raises(Damaged):
            _ = events[50].payload
        assert reader.scan()["events"] == 0
        assert reader.replay(HEADER_BYTES, 1)[5]["code"] == "torn"


def test_handles_keep_no_payload_memory(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(40):
        builder.event(b"x" * 1_000_000, flags=RAW)
    with core.SegmentReader(write(tmp_path, builder.data)) as reader:
        offset, ordinal, events = HEADER_BYTES, 1, []
        before = resident_bytes()
        while offset < builder.end:
            batch, offset, ordinal, *_ = reader.replay(offset, ordinal)
            events += batch
        assert len(events) == 40
        assert resident_bytes() - before < 16_000_000
        assert all(len(event.raw) == 1_000_000 for event in events)


def resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_missing_file_is_a_storage_error_with_its_number(core: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        core.SegmentReader(str(tmp_path / "none.seg"))
    assert (caught.value.errno, caught.value.segment) == (errno.ENOENT, "none.seg")


def test_a_directory_is_a_storage_error(core: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        core.SegmentReader(str(tmp_path))
    assert caught.value.errno == errno.EISDIR


def test_a_closed_reader_refuses_every_call(core: ModuleType, tmp_path: Path) -> None:
    reader = core.SegmentReader(write(tmp_path, SegmentBuilder().data))
    reader.close()
    reader.close()
    for call in (reader.size, reader.scan, reader.sparse, reader.sync, reader.drop_cache):
        with pytest.raises(Closed):
            call()
    for name in ("read", "replay"):
        with pytest.raises(Closed):
            getattr(reader, name)(HEADER_BYTES, 1)
    with pytest.raises(Closed):
        reader.resync(0)


def test_read_returns_what_there_is(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    for data in (bytes(builder.data), compact(bytes(builder.data))):
        with core.SegmentReader(write(tmp_path, data)) as reader:
            assert reader.size() == builder.end
            assert reader.read(0, builder.end) == builder.data
            assert reader.read(builder.end - 3, 2**40) == builder.data[-3:]
            assert reader.read(builder.end, 1) == reader.read(2**50, 8) == b""


def test_size_follows_a_growing_file(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    path = write(tmp_path, builder.data)
    with core.SegmentReader(path) as reader:
        builder.event()
        (tmp_path / "a.seg").write_bytes(builder.data)
        assert reader.size() == builder.end
        assert len(reader.replay(HEADER_BYTES, 1)[0]) == 1
        reader.sync()
        reader.drop_cache()


def test_the_sparse_index_names_the_first_event_of_each_step(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(60):
        builder.event(b"x" * 9000, flags=RAW)
        builder.sync_mark()
    with core.SegmentReader(write(tmp_path, builder.data)) as reader:
        index = reader.sparse()
    events = {offset: ordinal for ordinal, offset in zip(range(1, 61), builder.starts[::2], strict=True)}
    wanted = []
    for step in range(builder.end // SPARSE_STEP_BYTES + 1):
        first = min((offset for offset in events if offset >= step * SPARSE_STEP_BYTES), default=None)
        if first is not None and (events[first], first) not in wanted:
            wanted.append((events[first], first))
    assert index == wanted


def test_the_sparse_index_steps_over_damage(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(30):
        builder.event(b"x" * 9000, flags=RAW)
    damaged = bytearray(builder.data)
    damaged[builder.starts[7]] ^= 1
    with core.SegmentReader(write(tmp_path, damaged)) as reader:
        assert [ordinal for ordinal, _ in reader.sparse()] == [1, 9, 15, 23, 30]


def test_the_sparse_index_of_a_sealed_segment_is_the_seal_frames(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.event()
    index = ((1, builder.starts[0]), (2, builder.starts[1]))
    builder.seal(index)
    with core.SegmentReader(write(tmp_path, builder.data)) as reader:
        assert reader.sparse() == list(index)
    builder.data[-20] ^= 1
    with core.SegmentReader(write(tmp_path, builder.data)) as reader:
        assert reader.sparse() == [(1, HEADER_BYTES)]


def test_a_seal_whose_index_points_elsewhere_is_not_used(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.seal(((1, 2**40),))
    with core.SegmentReader(write(tmp_path, builder.data)) as reader:
        assert reader.sparse() == [(1, HEADER_BYTES)]
