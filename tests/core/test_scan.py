"""What a scan says about a segment: one test for each fact that a verdict is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.core.segments import SESSION_ID, TIME_US, SegmentBuilder
from turnlog._pure.chain import chain_start
from turnlog._pure.format import FLAG_COMMIT, HEADER_BYTES, HEADER_COPY_OFFSET, KIND_EVENT, KIND_SYNC_MARK

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

SECTOR_BYTES = 512


def scan_of(core: ModuleType, path: Path, data: bytes | bytearray, **options: Any) -> dict[str, Any]:
    """Write the bytes to a file and scan it."""
    file = path / "a.seg"
    file.write_bytes(data)
    with core.SegmentReader(str(file)) as reader:
        facts: dict[str, Any] = reader.scan(**options)
    return facts


def codes(facts: dict[str, Any]) -> list[str]:
    """Return the codes of the faults, in file order."""
    return [fault["code"] for fault in facts["faults"]]


def flipped(data: bytes | bytearray, offset: int, mask: int = 1) -> bytes:
    """Return the bytes with one of them changed."""
    changed = bytearray(data)
    changed[offset] ^= mask
    return bytes(changed)


def test_a_sound_segment_has_no_faults_and_its_state_is_that_of_its_end(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event(b'{"n":1}')
    builder.group(3)
    builder.event(b"\x00", type="blob", flags=FLAG_COMMIT | 2)
    builder.close()
    facts = scan_of(core, tmp_path, builder.data, digests=True)
    assert facts["faults"] == []
    assert facts["size"] == facts["valid_end"] == facts["commit_end"] == facts["zero_from"] == builder.end
    assert (facts["events"], facts["first_ordinal"], facts["last_ordinal"]) == (5, 1, 5)
    assert (facts["chain"], facts["epoch"], facts["last_time_us"]) == (builder.chain, 1, TIME_US + 5)
    assert facts["types"] == {"message.user": 4, "blob": 1}
    assert facts["payload_bytes"] == 7 + 3 * 16 + 1
    assert facts["frame_bytes"] == builder.end - HEADER_BYTES
    assert facts["closed"] is True
    assert facts["header"]["fields"]["session_id"] == SESSION_ID


def test_an_empty_segment_stands_before_its_first_ordinal(core: ModuleType, tmp_path: Path) -> None:
    facts = scan_of(core, tmp_path, SegmentBuilder(first_ordinal=41).data)
    assert (facts["first_ordinal"], facts["last_ordinal"], facts["events"]) == (41, 40, 0)
    assert facts["valid_end"] == facts["zero_from"] == facts["durable_mark"] == HEADER_BYTES
    assert facts["chain"] == chain_start(SESSION_ID)


@pytest.mark.parametrize("tail", [1, 7, 8, 4096, 70_001])
def test_a_tail_of_zeros_is_no_fault(core: ModuleType, tmp_path: Path, tail: int) -> None:
    builder = SegmentBuilder()
    builder.event()
    facts = scan_of(core, tmp_path, builder.data + bytes(tail))
    assert facts["faults"] == []
    assert (facts["valid_end"], facts["zero_from"], facts["size"]) == (builder.end, builder.end, builder.end + tail)


def test_an_unfinished_group_is_not_visible(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    committed, chain = builder.end, builder.chain
    builder.event(flags=0)
    builder.event(flags=0, type="other")
    facts = scan_of(core, tmp_path, builder.data)
    assert (facts["valid_end"], facts["commit_end"]) == (builder.end, committed)
    assert (facts["events"], facts["last_ordinal"], facts["chain"]) == (1, 1, chain)
    assert facts["types"] == {"message.user": 1}


def test_the_end_argument_hides_what_follows(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    end = builder.end
    builder.event()
    facts = scan_of(core, tmp_path, builder.data, end=end)
    assert (facts["size"], facts["events"], facts["faults"]) == (end, 1, [])


def test_a_file_cut_at_any_byte_keeps_every_whole_frame(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for size in (0, 1, 30):
        builder.event(b"x" * size, flags=FLAG_COMMIT | 2)
    ends = [*builder.starts, builder.end]
    for cut in range(HEADER_BYTES, builder.end + 1):
        facts = scan_of(core, tmp_path, builder.data[:cut])
        whole = max(end for end in ends if end <= cut)
        assert (facts["valid_end"], facts["events"]) == (whole, ends.index(whole))
        if whole == cut:
            assert facts["faults"] == []
        else:
            (fault,) = facts["faults"]
            assert (fault["offset"], fault["end"], fault["signature"]) == (whole, cut, True)
            assert fault["code"] in {"header", "payload"}


@pytest.mark.parametrize("cut", [0, 1, 8, 4095])
def test_a_file_without_a_whole_header_is_missing_one(core: ModuleType, tmp_path: Path, cut: int) -> None:
    facts = scan_of(core, tmp_path, SegmentBuilder().data[:cut])
    assert facts["header"]["fault"] == "missing"
    assert (facts["size"], facts["events"]) == (cut, 0)


def test_a_damaged_payload_names_its_ordinal_and_hides_no_other_event(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(4):
        builder.event()
    start = builder.starts[1]
    facts = scan_of(core, tmp_path, flipped(builder.data, start + 130))
    (fault,) = facts["faults"]
    assert (fault["code"], fault["offset"], fault["end"]) == ("payload", start, builder.starts[2])
    assert (fault["ordinal"], fault["before"], fault["after"]) == (2, 1, 3)
    assert fault["signature"] is False
    assert (facts["events"], facts["valid_end"], facts["last_ordinal"]) == (3, start, 1)


def test_a_damaged_header_is_bounded_by_the_next_frame(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(4):
        builder.event()
    facts = scan_of(core, tmp_path, flipped(builder.data, builder.starts[2] + 17))
    (fault,) = facts["faults"]
    assert (fault["code"], fault["offset"], fault["end"]) == ("header", builder.starts[2], builder.starts[3])
    assert (fault["ordinal"], fault["before"], fault["after"]) == (0, 2, 4)
    assert facts["events"] == 3


@pytest.mark.parametrize("back", [1, 4, 5, 8, 9, 16])
def test_a_damaged_trailer_or_padding_is_a_fault(core: ModuleType, tmp_path: Path, back: int) -> None:
    builder = SegmentBuilder()
    builder.event(b"12345678", flags=FLAG_COMMIT | 2)
    builder.event(b"1", flags=FLAG_COMMIT | 2)
    start = builder.starts[1]
    facts = scan_of(core, tmp_path, flipped(builder.data, builder.end - back))
    (fault,) = facts["faults"]
    assert (fault["code"], fault["offset"]) == ("payload" if back == 16 else "trailer", start)
    assert facts["events"] == 1


def test_consecutive_damaged_frames_are_named_one_by_one(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for _ in range(4):
        builder.event()
    data = flipped(flipped(builder.data, builder.starts[1] + 130), builder.starts[2] + 130)
    facts = scan_of(core, tmp_path, data)
    assert [(fault["ordinal"], fault["before"], fault["after"]) for fault in facts["faults"]] == [(2, 1, 4), (3, 1, 4)]


def test_an_ordinal_that_is_not_the_next_is_out_of_order(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.event(ordinal=3)
    builder.event()
    facts = scan_of(core, tmp_path, builder.data)
    (fault,) = facts["faults"]
    assert (fault["code"], fault["ordinal"], fault["before"], fault["after"]) == ("order", 3, 1, 4)
    assert (facts["last_ordinal"], facts["commit_end"]) == (1, builder.starts[1])


def test_a_control_frame_with_another_ordinal_is_out_of_order(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.frame(KIND_SYNC_MARK, b"", ordinal=2)
    assert codes(scan_of(core, tmp_path, builder.data)) == ["order"]


def test_a_falling_epoch_is_out_of_order(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.close()
    builder.open()
    builder.event()
    builder.event(epoch=1)
    facts = scan_of(core, tmp_path, builder.data)
    assert codes(facts) == ["order"]
    assert (facts["epoch"], facts["last_ordinal"]) == (2, 2)


@pytest.mark.parametrize("kind", ["close", "open", "seal"])
def test_a_chain_that_was_not_computed_from_the_events_is_a_fault(core: ModuleType, tmp_path: Path, kind: str) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.chain = bytes(32)
    offset = getattr(builder, kind)()
    facts = scan_of(core, tmp_path, builder.data)
    (fault,) = facts["faults"]
    assert (fault["code"], fault["offset"], fault["ordinal"], fault["before"]) == ("chain", offset, 1, 1)
    assert facts["valid_end"] == builder.end


def test_a_digest_of_other_bytes_is_found_only_when_asked_for(core: ModuleType, tmp_path: Path) -> None:
    forged = SegmentBuilder()
    forged.event(b"evil")
    honest = SegmentBuilder()
    honest.event(b"good")
    data = bytearray(forged.data)
    at = forged.starts[0]
    data[at + 48 : at + 80] = honest.data[at + 48 : at + 80]
    data[at + 96 : at + 104] = bytes(8)
    salted = forged.segment_id + at.to_bytes(8, "little") + data[at : at + 96] + data[at + 104 : at + 120]
    data[at + 96 : at + 104] = core.checksum(bytes(salted)).to_bytes(8, "little")
    assert codes(scan_of(core, tmp_path, bytes(data))) == []
    facts = scan_of(core, tmp_path, bytes(data), digests=True)
    assert codes(facts) == ["digest"]
    assert (facts["faults"][0]["ordinal"], facts["faults"][0]["before"]) == (1, 0)


@pytest.mark.parametrize(("kind", "flags"), [(6, 1), (9, 1), (KIND_EVENT, 1 | 32), (KIND_EVENT, 1 | 128)])
def test_an_unknown_kind_or_flag_ends_the_scan(core: ModuleType, tmp_path: Path, kind: int, flags: int) -> None:
    builder = SegmentBuilder()
    builder.event()
    if kind == KIND_EVENT:
        builder.event(flags=flags)
    else:
        builder.frame(kind, b"", flags=flags)
    end = builder.starts[1]
    builder.event()
    facts = scan_of(core, tmp_path, builder.data)
    assert codes(facts) == ["unsupported"]
    assert (facts["valid_end"], facts["events"]) == (end, 1)


def test_ignorable_kinds_and_flags_are_skipped(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event(flags=FLAG_COMMIT | 0x8000)
    builder.frame(0x85, b"from the future")
    builder.event()
    facts = scan_of(core, tmp_path, builder.data)
    assert (facts["faults"], facts["events"], facts["valid_end"]) == ([], 2, builder.end)


def test_the_durable_mark_is_believed_from_a_frame_behind_damage(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.event()
    promised = builder.end
    builder.sync_mark()
    facts = scan_of(core, tmp_path, flipped(builder.data, builder.starts[1]))
    assert facts["durable_mark"] == promised
    assert facts["faults"][0]["offset"] < promised


def test_an_authentic_header_with_a_lost_payload_still_promises(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.event(b"x" * 4000, durable_off=builder.end, flags=FLAG_COMMIT | 2)
    facts = scan_of(core, tmp_path, builder.data[: builder.starts[1] + 200])
    assert facts["durable_mark"] == builder.starts[1]


@pytest.mark.parametrize("kind", ["close", "seal"])
def test_the_end_of_a_close_or_seal_is_durable(core: ModuleType, tmp_path: Path, kind: str) -> None:
    builder = SegmentBuilder()
    builder.event()
    getattr(builder, kind)()
    facts = scan_of(core, tmp_path, builder.data)
    assert (facts["durable_mark"], facts["closed"]) == (builder.end, True)


def test_a_seal_tells_count_chain_and_successor(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    offset = builder.seal(((1, HEADER_BYTES),), successor=b"S" * 16)
    facts = scan_of(core, tmp_path, builder.data)
    assert facts["seal"] == {
        "offset": offset,
        "end": builder.end,
        "count": 1,
        "chain": builder.chain,
        "successor": b"S" * 16,
    }


def test_a_repair_note_carries_ordinal_and_chain_over_the_gap(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder(first_ordinal=5)
    builder.note(9, b"c" * 32)
    builder.event()
    builder.close()
    facts = scan_of(core, tmp_path, builder.data)
    assert (facts["faults"], facts["first_ordinal"], facts["last_ordinal"]) == ([], 10, 10)
    assert facts["chain"] == builder.chain
    assert facts["notes"] == [{"offset": HEADER_BYTES, "ordinal": 9, "payload": b"c" * 32 + b"{}"}]


def test_a_missing_sector_in_the_last_frame_has_the_signature(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    start = builder.event(b"p" * 3000, flags=FLAG_COMMIT | 2)
    for sector in range(start // SECTOR_BYTES, builder.end // SECTOR_BYTES + 1):
        data = bytearray(builder.data + bytes(4096))
        low, high = max(start, sector * SECTOR_BYTES), min(builder.end, (sector + 1) * SECTOR_BYTES)
        data[low:high] = bytes(high - low)
        facts = scan_of(core, tmp_path, bytes(data))
        (fault,) = facts["faults"]
        assert (fault["offset"], fault["signature"]) == (start, True)
        assert facts["events"] == 1


@pytest.mark.parametrize("before_bytes", range(0, 512, 56))
def test_a_frame_that_is_written_in_part_before_zeros_has_the_signature(
    core: ModuleType, tmp_path: Path, before_bytes: int
) -> None:
    """Each start of the last frame within a sector, and each length of its written part."""
    builder = SegmentBuilder()
    builder.event(b"a" * before_bytes, flags=FLAG_COMMIT | 2)
    start = builder.event(b"b" * 200, flags=FLAG_COMMIT | 2)
    for cut in range(start + 8, builder.end, 8):
        (fault,) = scan_of(core, tmp_path, bytes(builder.data[:cut]) + bytes(8192))["faults"]
        assert (fault["offset"], fault["signature"]) == (start, True), f"{cut - start} bytes written"


@pytest.mark.parametrize("tail", [0, 4096])
def test_a_flipped_bit_in_the_last_frame_has_no_signature(core: ModuleType, tmp_path: Path, tail: int) -> None:
    builder = SegmentBuilder()
    builder.event()
    start = builder.event(b"p" * 100, flags=FLAG_COMMIT | 2)
    for offset in range(start, builder.end - 8):
        (fault,) = scan_of(core, tmp_path, flipped(builder.data, offset, 0x40) + bytes(tail))["faults"]
        assert (fault["offset"], fault["signature"]) == (start, False)


@pytest.mark.parametrize("offset", [HEADER_BYTES - 1, 1024, 300, HEADER_COPY_OFFSET + 8])
def test_one_bad_header_copy_or_a_byte_between_is_degraded(core: ModuleType, tmp_path: Path, offset: int) -> None:
    builder = SegmentBuilder()
    builder.event()
    facts = scan_of(core, tmp_path, flipped(builder.data, offset))
    assert (facts["header"]["degraded"], facts["header"]["fault"]) == (True, None)
    assert (facts["events"], facts["faults"]) == (1, [])


def test_events_behind_two_bad_header_copies_are_served_when_a_frame_proves_the_id(
    core: ModuleType, tmp_path: Path
) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.event()
    facts = scan_of(core, tmp_path, flipped(flipped(builder.data, 300), HEADER_COPY_OFFSET + 300))
    assert (facts["header"]["fault"], facts["events"], facts["commit_end"]) == ("damaged", 2, HEADER_BYTES)


def test_a_known_id_opens_the_frames_behind_a_lost_header(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    file = tmp_path / "a.seg"
    file.write_bytes(b"\xaa" * HEADER_BYTES + builder.data[HEADER_BYTES:])
    with core.SegmentReader(str(file)) as reader:
        assert reader.scan()["events"] == 0
    with core.SegmentReader(str(file), builder.segment_id) as reader:
        assert reader.scan()["events"] == 1
        assert len(reader.replay(HEADER_BYTES, 0)[0]) == 1


def test_a_frame_from_another_offset_or_segment_is_not_believed(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    builder.event()
    builder.event()
    stranger = SegmentBuilder(segment_id=bytes(16))
    stranger.event()
    stranger.event()
    start, end = builder.starts[1], builder.end
    for foreign in (bytes(stranger.data[start:end]), bytes(builder.data[HEADER_BYTES:start])):
        facts = scan_of(core, tmp_path, bytes(builder.data[:start]) + foreign)
        assert (codes(facts), facts["events"]) == (["header"], 1)


def test_a_large_segment_is_scanned_in_many_chunks(core: ModuleType, tmp_path: Path) -> None:
    builder = SegmentBuilder()
    for index in range(400):
        builder.event(b"%d" % index * 3000, flags=FLAG_COMMIT if index % 3 else 0)
    builder.event(b"x" * 3_000_000, flags=FLAG_COMMIT | 2)
    builder.seal()
    facts = scan_of(core, tmp_path, builder.data, digests=True)
    assert (facts["faults"], facts["events"], facts["chain"]) == ([], 401, builder.chain)
    facts = scan_of(core, tmp_path, flipped(builder.data, builder.starts[200] + 500), digests=True)
    assert [(fault["ordinal"], fault["after"]) for fault in facts["faults"]] == [(201, 202)]
    assert facts["events"] == 400
