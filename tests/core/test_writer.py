"""Goal: what a writer leaves in the file is what the format says, and its answers agree with the file.

Method: the same calls on both cores; the file is taken apart with the reference decoder, each frame is encoded again.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.segments import SEGMENT_ID, SegmentBuilder
from tests.core.writing import frames_of, new_segment, open_writer, wait_until
from turnlog._pure.chain import chain_next, digest
from turnlog._pure.format import (
    FLAG_COMMIT,
    FLAG_DURABLE,
    FLAG_RAW,
    HEADER_BYTES,
    KIND_CLOSE,
    KIND_EVENT,
    KIND_OPEN,
    KIND_REPAIR_NOTE,
    KIND_SEAL,
    KIND_SYNC_MARK,
)
from turnlog.errors import (
    Closed,
    Conflict,
    Damaged,
    InvalidId,
    InvalidPayload,
    InvalidType,
    PayloadTooLarge,
    StorageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

SUCCESSOR = bytes(range(16, 32))


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


@pytest.fixture
def committer(core: ModuleType, tmp_path: Path) -> Iterator[Any]:
    made = core.Committer(str(tmp_path), interval_ms=60_000)
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_segment(tmp_path)


@pytest.fixture
def writer(core: ModuleType, committer: Any, path: Path) -> Iterator[Any]:
    made = open_writer(core, committer, path)
    yield made
    made.close()


def append_all_sorts(writer: Any) -> list[Any]:
    """Append every kind of event, ids given, so that two files differ in times alone."""
    return [
        writer.append("message.user", {"text": "häl\ud800lo", "n": [1, 2.5, None, True]}, id_of(1), True),
        writer.append("message.assistant", {"b": 1, "a": "x" * 1500}, id_of(2), False),
        writer.append("t" * 64, b"\x00\xff raw", id_of(3), True, True),
        writer.append("empty", b"", id_of(4), False, True),
        *writer.append_many([("a", 1, id_of(5), False), ("b", "2", id_of(6), False)], False, False),
        *writer.append_many(
            [("c", [], id_of(7), False), ("d", {}, id_of(8), False), ("e", b"", id_of(9), True)], True, True
        ),
    ]


def test_receipts_agree_with_the_file(writer: Any, path: Path) -> None:
    receipts = append_all_sorts(writer)
    frames = frames_of(path)
    assert len(frames) == len(receipts) == 9
    for frame, receipt in zip(frames, receipts, strict=True):
        header = frame.header
        assert (receipt.ordinal, receipt.event_id, receipt.time_us) == (header.ordinal, header.event_id, header.time_us)
        assert receipt.digest == header.digest == digest(frame.payload)
        assert receipt.durable == bool(header.flags & FLAG_DURABLE)
        assert receipt.id == str(uuid.UUID(bytes=receipt.event_id))
    assert [frame.header.ordinal for frame in frames] == list(range(1, 10))


def test_head_holds_the_chain_over_all_events(writer: Any, path: Path) -> None:
    append_all_sorts(writer)
    chain = SegmentBuilder().chain
    for _, header, _ in frames_of(path):
        chain = chain_next(chain, header.ordinal, header.event_id, header.time_us, header.digest, header.type)
    head = writer.head()
    assert head["chain"] == head["durable_chain"] == chain
    assert head["ordinal"] == head["durable_ordinal"] == 9
    assert head["end"] == head["written"] == head["durable"] == head["visible"]
    assert (head["poisoned"], head["path"]) == (False, str(path))


def test_both_cores_write_the_same_frames(core: ModuleType, native: ModuleType, tmp_path: Path) -> None:
    seen: list[list[Any]] = []
    for number, each in enumerate((core, native)):
        committer = each.Committer(str(tmp_path), interval_ms=60_000)
        file = new_segment(tmp_path, f"{number}.seg")
        writer = open_writer(each, committer, file)
        append_all_sorts(writer)
        writer.close()
        committer.close()
        names = ("kind", "flags", "epoch", "ordinal", "durable_off", "event_id", "digest", "type", "frame_length")
        chain = writer.head()["chain"]  # the CLOSE frame's payload; it covers the times
        frames = frames_of(file)
        assert frames[-1].payload == chain
        seen.append([tuple(getattr(frame.header, name) for name in names) for frame in frames[:-1]])
        seen[-1].append(frames[-1].header.durable_off)
    assert seen[0] == seen[1]


def test_flags_tell_level_form_and_group(writer: Any, path: Path) -> None:
    append_all_sorts(writer)
    durable, raw, commit = FLAG_DURABLE, FLAG_RAW, FLAG_COMMIT
    expected = [commit | durable, commit, commit | durable | raw, commit | raw, commit, commit]
    expected += [durable, durable, commit | durable | raw]
    assert [frame.header.flags for frame in frames_of(path)] == expected


def test_each_durable_frame_carries_the_end_of_the_last_sync(writer: Any, path: Path) -> None:
    for number in range(5):
        writer.append("note", number, None, True)
    frames = frames_of(path)
    assert [frame.header.durable_off for frame in frames] == [frame.offset for frame in frames]


def test_buffered_frames_carry_the_durable_offset_until_a_flush(writer: Any, path: Path) -> None:
    for number in range(3):
        writer.append("note", number, None, False)
    before = writer.head()
    assert (before["durable"], before["durable_ordinal"], before["visible"]) == (HEADER_BYTES, 0, before["written"])
    writer.flush()
    after = writer.head()
    assert (after["durable"], after["durable_ordinal"]) == (before["written"], 3)
    writer.append("note", 3, None, False)
    offsets = [frame.header.durable_off for frame in frames_of(path)]
    assert offsets == [HEADER_BYTES] * 3 + [after["durable"]]


def test_new_ids_are_version_7_in_the_order_of_their_times(writer: Any) -> None:
    receipts = [writer.append("note", number, None, False) for number in range(500)]
    ids = [uuid.UUID(bytes=receipt.event_id) for receipt in receipts]
    assert {each.version for each in ids} == {7}
    assert len(set(ids)) == 500
    assert all(each.int >> 80 == receipt.time_us // 1000 for each, receipt in zip(ids, receipts, strict=True))
    assert [each.bytes[:8] for each in ids] == sorted(each.bytes[:8] for each in ids)


def test_zeros_lie_ahead_while_open_and_are_cut_on_close(writer: Any, path: Path) -> None:
    writer.append("note", 1, None, True)
    wait_until(lambda: path.stat().st_size >= 64 * 1024)
    frames_of(path)
    writer.close()
    last = frames_of(path)[-1]
    assert path.stat().st_size == last.offset + last.header.frame_length


def test_zeros_never_pass_the_size_at_which_the_segment_rolls(core: ModuleType, committer: Any, path: Path) -> None:
    writer = open_writer(core, committer, path, roll_bytes=20_000)
    writer.append("note", 1, None, True)
    wait_until(lambda: path.stat().st_size >= 20_000)
    wait_until(lambda: committer.counters()["zero_syncs"] == 1)
    assert path.stat().st_size == 20_000
    writer.close()


def test_close_writes_the_chain_and_is_idempotent(writer: Any, path: Path) -> None:
    writer.append("note", 1, None, False)
    end = writer.head()["end"]
    writer.close()
    writer.close()
    *_, last = frames_of(path)
    assert (last.header.kind, last.offset, last.header.durable_off) == (KIND_CLOSE, end, end)
    assert last.payload == writer.head()["chain"]
    with pytest.raises(Closed):
        writer.append("note", 2, None, False)
    with pytest.raises(Closed):
        writer.flush()


def test_a_closed_segment_goes_on_with_an_open_frame(core: ModuleType, committer: Any, writer: Any, path: Path) -> None:
    writer.append("note", 1, None, True)
    writer.close()
    head = writer.head()
    more = open_writer(core, committer, path, end=head["end"], ordinal=1, chain=head["chain"], epoch=2)
    end = more.note(KIND_OPEN, head["chain"])
    assert more.head()["durable"] == end
    assert more.append("note", 2, None, True).ordinal == 2
    more.close()
    kinds = [frame.header.kind for frame in frames_of(path)]
    assert kinds == [KIND_EVENT, KIND_CLOSE, KIND_OPEN, KIND_EVENT, KIND_CLOSE]
    assert [frame.header.epoch for frame in frames_of(path)] == [1, 1, 2, 2, 2]


def test_only_open_and_repair_note_are_notes(writer: Any, path: Path) -> None:
    writer.note(KIND_REPAIR_NOTE, bytes(32) + b"{}")
    with pytest.raises(ValueError, match="OPEN and REPAIR_NOTE"):
        writer.note(KIND_CLOSE, b"")
    assert [frame.header.kind for frame in frames_of(path)] == [KIND_REPAIR_NOTE]


def test_a_seal_counts_the_events_and_indexes_them_over_all_writers(
    core: ModuleType, committer: Any, writer: Any, path: Path
) -> None:
    for number in range(60):
        writer.append("note", "x" * 5000, id_of(number), False)
    writer.close()
    head = writer.head()
    more = open_writer(core, committer, path, end=head["end"], ordinal=60, chain=head["chain"], epoch=2)
    for number in range(60):
        more.append("note", "y" * 5000, id_of(100 + number), False)
    with core.SegmentReader(str(path)) as reader:
        walked = reader.sparse()
    frozen = more.freeze()
    assert (frozen["durable"], frozen["ordinal"]) == (frozen["end"], 120)
    assert more.append("note", 1, None, True) is None
    more.seal(SUCCESSOR)
    *_, last = frames_of(path)
    assert last.header.kind == KIND_SEAL
    assert last.payload[:56] == frozen["chain"] + (120).to_bytes(8, "little") + SUCCESSOR
    with core.SegmentReader(str(path)) as reader:
        assert reader.sparse() == walked
        assert reader.scan()["seal"]["successor"] == SUCCESSOR
    assert path.stat().st_size == last.offset + last.header.frame_length
    with pytest.raises(Closed):
        more.append("note", 1, None, True)


def test_a_full_segment_asks_for_a_roll_before_it_takes_anything(core: ModuleType, committer: Any, path: Path) -> None:
    writer = open_writer(core, committer, path, roll_bytes=HEADER_BYTES + 1000)
    assert writer.append("note", "x" * 5000, None, True).ordinal == 1
    assert writer.append("note", 1, None, True) is None
    assert writer.append_many([("note", 1, None, False)], True, False) is None
    assert writer.head()["ordinal"] == 1
    writer.close()


def test_an_empty_batch_writes_nothing(writer: Any, path: Path) -> None:
    assert writer.append_many([], True, True) == []
    assert frames_of(path) == []


BAD_CALLS: list[tuple[str, tuple[Any, ...], type[Exception]]] = [
    ("empty type", ("", 1, None, True), InvalidType),
    ("long type", ("t" * 300, 1, None, True), InvalidType),
    ("space in the type", ("a b", 1, None, True), InvalidType),
    ("type beyond ASCII", ("é", 1, None, True), InvalidType),
    ("surrogate in the type", ("\ud800", 1, None, True), InvalidType),
    ("type that is no text", (7, 1, None, True), InvalidType),
    ("short id", ("note", 1, b"short", True), InvalidId),
    ("id as text", ("note", 1, str(uuid.UUID(int=1)), True), InvalidId),
    ("NaN", ("note", {"x": float("nan")}, None, True), InvalidPayload),
    ("bytes in JSON", ("note", {"x": b""}, None, True), InvalidPayload),
    ("raw that is no bytes", ("note", "text", None, True, True), InvalidPayload),
    ("17 MiB", ("note", bytes(17 << 20), None, True, True), PayloadTooLarge),
    ("17 MiB of JSON", ("note", "x" * (17 << 20), None, False), PayloadTooLarge),
]


@pytest.mark.parametrize(("arguments", "error"), [case[1:] for case in BAD_CALLS], ids=[case[0] for case in BAD_CALLS])
def test_bad_input_leaves_the_file_as_it_was(
    writer: Any, path: Path, arguments: tuple[Any, ...], error: type[Exception]
) -> None:
    writer.append("note", 1, None, False)
    before, head = path.read_bytes(), writer.head()
    with pytest.raises(error):
        writer.append(*arguments)
    good = ("note", 2, None, False)
    with pytest.raises(error):
        writer.append_many([good, (*arguments[:3], len(arguments) == 5)], True, False)
    assert (path.read_bytes(), writer.head()) == (before, head)


def test_the_same_error_has_the_same_words_in_both_cores(core: ModuleType, native: ModuleType, tmp_path: Path) -> None:
    messages: list[list[str]] = []
    for number, each in enumerate((core, native)):
        committer = each.Committer(str(tmp_path))
        writer = open_writer(each, committer, new_segment(tmp_path, f"{number}.seg"))
        messages.append([])
        for _, arguments, error in BAD_CALLS:
            with pytest.raises(error) as caught:
                writer.append(*arguments)
            messages[-1].append(str(caught.value))
        writer.close()
        committer.close()
    assert messages[0] == messages[1]


def test_a_known_id_is_answered_with_its_ordinal(core: ModuleType, committer: Any, path: Path) -> None:
    ids = core.IdIndex()
    writer = open_writer(core, committer, path, ids=ids)
    assert writer.append("note", 1, id_of(1), False).ordinal == 1
    assert writer.append("note", 2, None, False).ordinal == 2
    assert writer.append("note", "other", id_of(1), True) == 1
    assert writer.head()["durable_ordinal"] == 2  # what is reported as there is as safe as asked for
    assert writer.append_many([("note", 3, id_of(1), False), ("note", 3, id_of(3), False)], True, False)[0] == 1
    assert (len(ids), ids.get(id_of(3)), ids.get(id_of(9))) == (3, 3, None)
    assert len(frames_of(path)) == 3
    writer.close()


def test_ids_are_looked_up_only_from_track_on(core: ModuleType, writer: Any, path: Path) -> None:
    writer.append("note", 1, id_of(1), False)
    assert writer.append("note", 1, id_of(1), False).ordinal == 2
    ids = core.IdIndex()
    writer.track(ids)
    with core.SegmentReader(str(path)) as reader:
        ids.load(reader)
    assert writer.append("note", 1, id_of(1), False) == 2
    assert writer.append("note", 1, id_of(2), False).ordinal == 3


def test_an_id_twice_in_a_batch_is_stored_once(core: ModuleType, writer: Any, path: Path) -> None:
    writer.track(core.IdIndex())
    first, second, third = writer.append_many([("note", n, id_of(n // 2), False) for n in (2, 3, 4)], False, False)
    assert (first.ordinal, second, third.ordinal) == (1, 1, 2)
    assert len(frames_of(path)) == 2


def test_an_atomic_group_is_new_or_known_but_not_both(core: ModuleType, writer: Any, path: Path) -> None:
    writer.track(core.IdIndex())
    group = [("note", 1, id_of(1), False), ("note", 2, id_of(2), False)]
    receipts = writer.append_many(group, True, True)
    assert [receipt.ordinal for receipt in receipts] == [1, 2]
    assert writer.append_many(group, True, True) == [1, 2]
    with pytest.raises(Conflict):
        writer.append_many([*group, ("note", 3, id_of(3), False)], True, True)
    assert len(frames_of(path)) == 2


def test_receipts_are_equal_by_ordinal_id_and_digest(core: ModuleType) -> None:
    one = core.Receipt(1, id_of(1), bytes(32), 5, True)
    same = core.Receipt(1, id_of(1), bytes(32), 6, False)
    assert one == same
    assert hash(one) == hash(same)
    assert one != core.Receipt(2, id_of(1), bytes(32), 5, True)
    assert one != 1
    assert repr(one) == f"<Receipt 1 {uuid.UUID(int=1)} durable>"
    with pytest.raises(AttributeError):
        one.other = 1


def test_a_writer_refuses_a_file_that_is_too_short_or_missing(core: ModuleType, committer: Any, path: Path) -> None:
    with pytest.raises(Damaged) as caught:
        open_writer(core, committer, path, end=HEADER_BYTES + 8)
    assert (caught.value.segment, caught.value.offset) == (path.name, HEADER_BYTES)
    with pytest.raises(StorageError) as missing:
        open_writer(core, committer, path.with_name("none.seg"))
    assert missing.value.errno == 2
    with pytest.raises(ValueError, match="segment_id"):
        open_writer(core, committer, path, segment_id=SEGMENT_ID[:8])


def test_abandon_touches_nothing(writer: Any, path: Path) -> None:
    writer.append("note", 1, None, True)
    wait_until(lambda: path.stat().st_size >= 64 * 1024)
    before = path.read_bytes()
    writer.abandon()
    writer.close()
    assert path.read_bytes() == before
    with pytest.raises(Closed):
        writer.append("note", 1, None, True)


def test_a_quiet_segment_gets_one_sync_mark(core: ModuleType, writer: Any, path: Path) -> None:
    writer.append("note", 1, None, True)
    end = writer.head()["end"]
    wait_until(lambda: len(frames_of(path)) == 2)
    mark = frames_of(path)[-1]
    assert (mark.header.kind, mark.header.durable_off, mark.header.ordinal) == (KIND_SYNC_MARK, end, 1)
    head = writer.head()
    assert (head["durable"], head["visible"]) == (end, head["end"])
    assert writer.freeze()["durable"] == head["end"]  # a successor's header promises all bytes up to the end
