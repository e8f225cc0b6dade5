"""Goal: a frame is valid exactly when FORMAT.md section 3 says so, and names the first condition that it breaks.

Method: sound frames of both cores are compared and taken apart; then every bit is flipped, each condition is broken
alone with the header checksum made right again, and the bytes are cut at every length. `tests/vectors.rs` does so to
the native core's decoder, which Python cannot call.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog._pure import format as layout
from turnlog._pure.frame import FrameFault, FrameHeader, check_body, decode_frame_header, encode_frame, frame_length
from turnlog.errors import InvalidType, PayloadTooLarge

if TYPE_CHECKING:
    from types import ModuleType

SEGMENT_ID = bytes(range(100, 116))
OFFSET = 8192
BROKEN = json.loads((Path(__file__).parents[1] / "vectors/vectors.json").read_text())["broken_frames"]
EVENT: dict[str, Any] = {
    "segment_id": SEGMENT_ID,
    "offset": OFFSET,
    "kind": layout.KIND_EVENT,
    "flags": layout.FLAG_COMMIT | layout.FLAG_DURABLE,
    "epoch": 3,
    "ordinal": 77,
    "durable_off": 4096,
    "event_id": bytes(range(16)),
    "time_us": 1_767_225_600_000_001,
    "type": "tool.call",
    "payload": b'{"name":"ls"}',
}
CONTROL = EVENT | {"kind": layout.KIND_SYNC_MARK, "event_id": bytes(16), "type": "", "payload": b""}


def decode(frame: bytes, offset: int = OFFSET, segment_id: bytes = SEGMENT_ID) -> FrameHeader | FrameFault | None:
    """Return the first fault of the frame, or its header."""
    header = decode_frame_header(frame, segment_id, offset)
    if isinstance(header, FrameFault):
        return header
    return check_body(frame, header, segment_id) or header


@pytest.mark.parametrize("fields", [EVENT, CONTROL], ids=["event", "control"])
def test_a_decoded_header_has_the_fields_that_were_encoded(core: ModuleType, fields: dict[str, Any]) -> None:
    frame = core.encode_frame(**fields)
    header = decode(frame)
    assert isinstance(header, FrameHeader)
    for name in set(fields) - {"segment_id", "offset", "payload"}:
        assert getattr(header, name) == fields[name], name
    assert header.digest == hashlib.sha256(fields["payload"]).digest()
    assert header.payload_length == len(fields["payload"])
    assert frame[header.header_length :].startswith(fields["payload"])
    assert header.frame_length == len(frame) == frame_length(len(fields["type"]), len(fields["payload"]))
    assert len(frame) % 8 == 0


@pytest.mark.parametrize("type_length", [1, 7, 8, 15, 63, 64])
@pytest.mark.parametrize("payload_length", [0, 1, 7, 8, 9, 1000])
def test_frames_of_every_padding_are_sound(core: ModuleType, type_length: int, payload_length: int) -> None:
    frame = core.encode_frame(**EVENT | {"type": "t" * type_length, "payload": b"\xff" * payload_length})
    header = decode(frame)
    assert isinstance(header, FrameHeader)
    assert header.type == "t" * type_length
    assert layout.FRAME_HEADER_MIN_BYTES <= header.header_length <= layout.FRAME_HEADER_MAX_BYTES


@settings(max_examples=200, deadline=None)
@given(
    numbers=st.tuples(*(st.integers(min_value=0, max_value=2**bits - 1) for bits in (16, 32, 64, 64, 64))),
    ids=st.tuples(st.binary(min_size=16, max_size=16), st.binary(min_size=16, max_size=16)),
    type_name=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=64),
    payload=st.binary(max_size=300),
    place=st.integers(min_value=512, max_value=2**60),
)
def test_both_cores_make_the_same_frame(  # noqa: PLR0917 - filled in by name
    native: ModuleType,
    numbers: tuple[int, ...],
    ids: tuple[bytes, bytes],
    type_name: str,
    payload: bytes,
    place: int,
) -> None:
    names = ("flags", "epoch", "ordinal", "durable_off", "time_us")
    fields = EVENT | dict(zip(names, numbers, strict=True)) | {"type": type_name, "payload": payload}
    fields |= {"segment_id": ids[0], "event_id": ids[1], "offset": place * 8}
    frame = native.encode_frame(**fields)
    assert frame == encode_frame(**fields)
    assert isinstance(decode(frame, place * 8, ids[0]), FrameHeader)


def test_a_flipped_bit_anywhere_is_a_fault() -> None:
    frame = encode_frame(**EVENT)
    for at in range(len(frame)):
        for bit in range(8):
            flipped = bytearray(frame)
            flipped[at] ^= 1 << bit
            assert isinstance(decode(bytes(flipped)), FrameFault), (at, bit)


def test_a_frame_cut_anywhere_is_short() -> None:
    frame = encode_frame(**EVENT)
    for length in range(len(frame)):
        assert decode(frame[:length]) is FrameFault.SHORT, length


def test_a_header_can_be_believed_without_its_payload() -> None:
    frame = encode_frame(**EVENT)
    header = decode_frame_header(frame[:120], SEGMENT_ID, OFFSET)
    assert header == decode(frame)
    assert hash(header) == hash(decode(frame))


@pytest.mark.parametrize("offset", [0, 4088, 8191, 8193])
def test_no_frame_begins_before_the_header_ends_or_off_the_grid(core: ModuleType, offset: int) -> None:
    assert decode(encode_frame(**EVENT), offset) is FrameFault.PLACE
    with pytest.raises(ValueError, match=f"no frame can begin at offset {offset}"):
        core.encode_frame(**EVENT | {"offset": offset})


def test_a_frame_moved_to_another_place_or_segment_is_a_fault() -> None:
    frame = encode_frame(**EVENT)
    assert decode(frame, OFFSET + 8) is FrameFault.HEADER_CHECKSUM
    assert decode(frame, segment_id=bytes(16)) is FrameFault.HEADER_CHECKSUM


@pytest.mark.parametrize("case", BROKEN)
def test_each_condition_is_named_when_it_alone_is_broken(case: dict[str, str]) -> None:
    assert decode(bytes.fromhex(case["frame"]), layout.HEADER_BYTES, bytes(range(1, 17))) == case["fault"]


@pytest.mark.parametrize(
    ("changes", "is_supported"),
    [
        ({"kind": 0x80}, True),
        ({"kind": 0xFF}, True),
        ({"kind": 8}, False),
        ({"kind": 0}, False),
        ({"kind": layout.KIND_REDACT}, False),
        ({"kind": layout.KIND_REPAIR_NOTE}, True),
        ({"flags": 0x20}, False),
        ({"flags": 0x80}, False),
        ({"flags": 0x8100}, True),
    ],
)
def test_unknown_kinds_and_flags_are_authentic_and_known_as_such(changes: dict[str, int], is_supported: bool) -> None:
    header = decode(encode_frame(**CONTROL | changes))
    assert isinstance(header, FrameHeader)
    assert header.is_supported() is is_supported


@pytest.mark.parametrize("type_name", ["", "t" * 65, "a b", "caf\u00e9", "a\n", "\x7f"])
def test_a_type_that_no_frame_can_hold_is_refused(core: ModuleType, type_name: str) -> None:
    with pytest.raises(InvalidType, match="1 to 64 printable ASCII characters"):
        core.encode_frame(**EVENT | {"type": type_name})


def test_a_control_frame_with_a_type_is_refused(core: ModuleType) -> None:
    with pytest.raises(InvalidType, match="control frame"):
        core.encode_frame(**CONTROL | {"type": "a"})


def test_a_payload_over_the_limit_is_refused_and_one_at_the_limit_is_not(core: ModuleType) -> None:
    limit = bytes(layout.PAYLOAD_MAX_BYTES)
    assert len(core.encode_frame(**EVENT | {"payload": limit})) == frame_length(9, len(limit))
    with pytest.raises(PayloadTooLarge, match="16777217 bytes, the limit is 16777216"):
        core.encode_frame(**EVENT | {"payload": limit + b"x"})


@pytest.mark.parametrize(("name", "length"), [("event_id", 16), ("segment_id", 16)])
def test_an_id_of_a_wrong_length_is_refused(core: ModuleType, name: str, length: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be {length} bytes, not 3"):
        core.encode_frame(**EVENT | {name: b"abc"})


def test_digest_and_checksum_are_sha_256_and_xxh3_64(core: ModuleType) -> None:
    for data in (b"", b"abc", bytes(300), b"x" * 100_000):
        assert core.digest(data) == hashlib.sha256(data).digest()
        assert core.checksum(data) == xxhash.xxh3_64_intdigest(data)
        assert core.checksum(data, 2**64 - 1) == xxhash.xxh3_64_intdigest(data, 2**64 - 1)


def test_the_chain_covers_every_field_that_it_names(core: ModuleType) -> None:
    sound: dict[str, Any] = {
        "chain": bytes(32),
        "ordinal": 1,
        "event_id": bytes(16),
        "time_us": 2,
        "digest": bytes(32),
        "type": "a",
    }
    changes = {
        "chain": b"\1" * 32,
        "ordinal": 2,
        "event_id": b"\1" * 16,
        "time_us": 3,
        "digest": b"\1" * 32,
        "type": "b",
    }
    chains = {core.chain_next(**sound)} | {core.chain_next(**sound | {name: changes[name]}) for name in changes}
    assert len(chains) == len(changes) + 1
    by_hand = b"\x01" + bytes(32) + (1).to_bytes(8, "little") + bytes(16) + (2).to_bytes(8, "little") + bytes(32) + b"a"
    assert core.chain_next(**sound) == hashlib.sha256(by_hand).digest()


def test_the_first_chain_covers_session_and_lineage(core: ModuleType) -> None:
    session, parent, chain = b"s" * 16, b"p" * 16, b"c" * 32
    by_hand = b"turnlog chain v1" + session + parent + (9).to_bytes(8, "little") + chain
    assert core.chain_start(session, parent, 9, chain) == hashlib.sha256(by_hand).digest()
    assert core.chain_start(session) == core.chain_start(session, bytes(16), 0, bytes(32))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda core: core.chain_start(b"1"), "session_id must be 16 bytes, not 1"),
        (lambda core: core.chain_start(bytes(16), b"1"), "parent_session_id must be 16 bytes, not 1"),
        (lambda core: core.chain_start(bytes(16), bytes(16), 0, b"1"), "parent_chain must be 32 bytes, not 1"),
        (lambda core: core.chain_next(b"1", 1, bytes(16), 0, bytes(32), "a"), "chain must be 32 bytes, not 1"),
        (lambda core: core.chain_next(bytes(32), 1, b"1", 0, bytes(32), "a"), "event_id must be 16 bytes, not 1"),
        (lambda core: core.chain_next(bytes(32), 1, bytes(16), 0, b"1", "a"), "digest must be 32 bytes, not 1"),
    ],
)
def test_parts_of_the_chain_of_a_wrong_length_are_refused(core: ModuleType, call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(core)
