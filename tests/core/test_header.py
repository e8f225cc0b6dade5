"""Goal: a segment header survives the loss of either copy, and whatever else a file begins with gets the right name.

Method: header blocks are damaged in every way that FORMAT.md section 2 distinguishes; both cores must answer alike,
also for every single changed byte and for generated blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog._pure import format as layout
from turnlog._pure.header import decode_header as reference

if TYPE_CHECKING:
    from types import ModuleType

FIELDS: dict[str, Any] = {
    "format_major": 1,
    "format_minor": 0,
    "features_required": 0,
    "features_readonly": 0,
    "session_id": b"s" * 16,
    "segment_id": b"g" * 16,
    "segment_number": 2,
    "first_ordinal": 3,
    "prev_segment_id": b"p" * 16,
    "prev_length": 5000,
    "prev_last_ordinal": 2,
    "prev_chain": b"c" * 32,
    "writer_epoch": 7,
    "canon_version": 1,
    "digest_algorithm": 1,
    "checksum_algorithm": 1,
    "created_us": 1_767_225_600_000_000,
    "parent_session_id": b"f" * 16,
    "fork_ordinal": 11,
    "parent_chain": b"h" * 32,
    "writer_name": "turnlog 0.1.0 é",
    "min_writer": 1,
}
REQUIRED = ("session_id", "segment_id", "segment_number", "first_ordinal", "prev_chain", "writer_epoch", "created_us")
OPTIONAL = set(FIELDS) - {*REQUIRED, "writer_name"}
SECOND = layout.HEADER_COPY_OFFSET
COPY = layout.HEADER_STRUCT_BYTES


def resigned(block: bytes, at: int, data: bytes) -> bytes:
    """Return the block with bytes replaced in both copies and the checksums made right again."""
    copy = bytearray(block[:COPY])
    copy[at : at + len(data)] = data
    copy[COPY - 8 :] = xxhash.xxh3_64_intdigest(bytes(copy[: COPY - 8])).to_bytes(8, "little")
    gap = bytes(SECOND - COPY)
    return bytes(copy) + gap + bytes(copy) + gap


def answer(core: ModuleType, block: bytes) -> tuple[bool, str | None, bool, bool]:
    """Return the answer, with the fields only as known or not."""
    decoded = core.decode_header(block)
    return decoded["fields"] is not None, decoded["fault"], decoded["degraded"], decoded["read_only"]


@pytest.fixture(scope="session")
def block(core: ModuleType) -> bytes:
    """Return a sound header block."""
    encoded: bytes = core.encode_header(FIELDS)
    return encoded


def test_a_header_is_read_back_as_it_was_written(core: ModuleType, block: bytes) -> None:
    assert len(block) == layout.HEADER_BYTES
    assert core.decode_header(block) == {"fields": FIELDS, "fault": None, "degraded": False, "read_only": False}
    assert core.decode_header(block + b"frames")["fields"] == FIELDS


def test_fields_with_a_natural_value_may_be_left_out(core: ModuleType) -> None:
    few = {name: value for name, value in FIELDS.items() if name not in OPTIONAL}
    decoded = core.decode_header(core.encode_header(few))["fields"]
    assert decoded == FIELDS | {
        "prev_segment_id": bytes(16),
        "prev_length": 0,
        "prev_last_ordinal": 0,
        "parent_session_id": bytes(16),
        "fork_ordinal": 0,
        "parent_chain": bytes(32),
    }


@pytest.mark.parametrize("name", [*REQUIRED, "writer_name"])
def test_a_field_without_a_natural_value_must_be_given(core: ModuleType, name: str) -> None:
    with pytest.raises(KeyError, match=name):
        core.encode_header({other: value for other, value in FIELDS.items() if other != name})


def test_unknown_fields_and_wrong_lengths_are_refused(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="unknown header field colour"):
        core.encode_header(FIELDS | {"colour": 1})
    with pytest.raises(ValueError, match="session_id must be 16 bytes, not 3"):
        core.encode_header(FIELDS | {"session_id": b"abc"})


def test_a_long_writer_name_is_cut_between_characters(core: ModuleType) -> None:
    decoded = core.decode_header(core.encode_header(FIELDS | {"writer_name": "a" + "é" * 40}))
    assert decoded["fields"]["writer_name"] == "a" + "é" * 31


@pytest.mark.parametrize("at", [0, 9, 300, COPY - 1, SECOND, SECOND + 9, SECOND + 300, SECOND + COPY - 1])
def test_either_copy_may_be_lost(core: ModuleType, block: bytes, at: int) -> None:
    damaged = block[:at] + bytes([block[at] ^ 0x40]) + block[at + 1 :]
    assert core.decode_header(damaged) == {"fields": FIELDS, "fault": None, "degraded": True, "read_only": False}


@pytest.mark.parametrize("at", [COPY, SECOND - 1, SECOND + COPY, layout.HEADER_BYTES - 1])
def test_bytes_between_the_copies_degrade_the_header(core: ModuleType, block: bytes, at: int) -> None:
    assert answer(core, block[:at] + b"x" + block[at + 1 :]) == (True, None, True, False)


def test_two_sound_copies_that_differ_degrade_the_header(core: ModuleType, block: bytes) -> None:
    other = core.encode_header(FIELDS | {"segment_number": 9})
    decoded = core.decode_header(block[:SECOND] + other[SECOND:])
    assert (decoded["fields"]["segment_number"], decoded["degraded"]) == (2, True)


def test_blocks_that_are_no_header_get_the_right_name(core: ModuleType, block: bytes) -> None:
    size = layout.HEADER_BYTES
    second_only = b"x" * COPY + block[COPY:]
    cases = {
        b"": "missing",
        block[:-1]: "missing",
        bytes(size): "missing",
        b"PNG".ljust(size, b"\0"): "not_a_segment",
        b"{}\n".ljust(size): "not_a_segment",
        layout.SEGMENT_MAGIC.ljust(size, b"\0"): "damaged",
        bytes([block[0]]) + b"TLGx" + bytes(size): "damaged",
        block[:8] + bytes(size): "damaged",
        b"x" * COPY + block[COPY : SECOND + 100] + bytes(COPY * 2): "damaged",
        block.replace(b"\r\n", b"\n") + bytes(2): "text_mode",
        block.replace(b"\n", b"\r\n")[:size]: "text_mode",
        block.replace(b"\n", b"\r"): "text_mode",
    }
    for data, fault in cases.items():
        assert answer(core, data) == (False, fault, False, False), data[:12]
    assert answer(core, second_only) == (True, None, True, False)


@pytest.mark.parametrize(
    ("at", "data", "fault", "read_only"),
    [
        (8, b"\x02", "newer_major", False),
        (8, b"\x00", "damaged", False),
        (10, b"\x09", None, False),
        (12, b"\x01", "unknown_feature", False),
        (15, b"\x80", "unknown_feature", False),
        (16, b"\x01", None, True),
        (20, b"\x00\x20", "damaged", False),
        (140, b"\x02", "unknown_feature", False),
        (141, b"\x02", "unknown_feature", False),
        (142, b"\x02", "unknown_feature", False),
        (272, b"\x02", None, True),
        (276, b"\x01", None, False),
        (143, b"\x01", None, False),
    ],
)
def test_versions_and_features_decide_whether_it_is_read_and_written(  # noqa: PLR0917 - filled in by name
    core: ModuleType, block: bytes, at: int, data: bytes, fault: str | None, read_only: bool
) -> None:
    assert answer(core, resigned(block, at, data)) == (True, fault, False, read_only)


def test_a_newer_major_is_not_believed_without_a_sound_copy(core: ModuleType, block: bytes) -> None:
    newer = block[:8] + b"\x02" + block[9:]
    assert core.decode_header(newer)["fields"]["format_major"] == 1
    both = newer[: SECOND + 8] + b"\x02" + newer[SECOND + 9 :]
    assert answer(core, both) == (False, "damaged", False, False)


def test_both_cores_answer_alike_for_every_changed_byte(native: ModuleType) -> None:
    block = native.encode_header(FIELDS)
    for at in (*range(COPY), *range(SECOND - 8, SECOND + 300)):
        changed = block[:at] + bytes([block[at] ^ 0xFF]) + block[at + 1 :]
        assert native.decode_header(changed) == reference(changed), at
        alone = resigned(block, at % COPY, bytes([block[at] ^ 0xFF])) if at % COPY < COPY - 8 else changed
        assert native.decode_header(alone) == reference(alone), at


@settings(max_examples=300, deadline=None)
@given(start=st.binary(max_size=24), name=st.binary(min_size=64, max_size=64))
def test_both_cores_answer_alike_for_generated_blocks(native: ModuleType, start: bytes, name: bytes) -> None:
    block = native.encode_header(FIELDS)
    for data in (start.ljust(layout.HEADER_BYTES, b"\0"), b"\x89TLG" + start + block[8:], resigned(block, 208, name)):
        assert native.decode_header(data) == reference(data)
