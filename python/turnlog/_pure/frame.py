"""Frames: FORMAT.md section 3.

Owns: the bytes of one frame and the conditions under which it is valid.
Invariants: `encode_frame` only makes frames that `decode_frame_header` and `check_body` accept at that place; decoding
checks every length before it is used. Must not know: files, the order of frames, groups.
"""

from __future__ import annotations

from struct import Struct

from turnlog._pure.chain import chain_next, chain_start, check_length, checksum, digest
from turnlog._pure.format import (
    FLAGS_REQUIRED_UNKNOWN,
    FRAME_FIXED_BYTES,
    FRAME_HEADER_MAX_BYTES,
    FRAME_HEADER_MIN_BYTES,
    FRAME_MAGIC,
    FRAME_TRAILER_BYTES,
    HEADER_BYTES,
    KIND_CLOSE,
    KIND_EVENT,
    KIND_IGNORABLE,
    KIND_OPEN,
    KIND_REPAIR_NOTE,
    KIND_SEAL,
    KIND_SYNC_MARK,
    PAYLOAD_MAX_BYTES,
    TYPE_MAX_BYTES,
)
from turnlog.errors import InvalidType, PayloadTooLarge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar

__all__ = [
    "FrameFault",
    "FrameHeader",
    "chain_next",
    "chain_start",
    "check_body",
    "check_payload_length",
    "check_type",
    "checksum",
    "decode_frame_header",
    "digest",
    "encode_frame",
    "frame_length",
    "pad8",
]

_FIXED = Struct("<4sBBHIIQQ16s32sQQQ")  # the first 104 bytes
_BEFORE_CHECKSUM = Struct("<4sBBHIIQQ16s32sQQ")  # the first 96
_TRAILER = Struct("<II")
_TYPE_AT = 105
_UINT32_MAX = 0xFFFF_FFFF
_TYPE_BYTES = bytes(range(33, 127))
_KINDS_KNOWN = frozenset({KIND_EVENT, KIND_SYNC_MARK, KIND_CLOSE, KIND_SEAL, KIND_OPEN, KIND_REPAIR_NOTE})


class FrameFault(str):
    """The first validity condition that a frame breaks, as a sentence."""

    __slots__ = ()

    PLACE: ClassVar[FrameFault]
    MAGIC: ClassVar[FrameFault]
    HEADER_LENGTH: ClassVar[FrameFault]
    SHORT: ClassVar[FrameFault]
    HEADER_CHECKSUM: ClassVar[FrameFault]
    TYPE: ClassVar[FrameFault]
    PAYLOAD_LENGTH: ClassVar[FrameFault]
    PAYLOAD_CHECKSUM: ClassVar[FrameFault]
    PADDING: ClassVar[FrameFault]
    TRAILER: ClassVar[FrameFault]


FrameFault.PLACE = FrameFault("no frame can begin at this offset")
FrameFault.MAGIC = FrameFault("frame magic is missing")
FrameFault.HEADER_LENGTH = FrameFault("header length is out of range")
FrameFault.SHORT = FrameFault("frame passes the end of the bytes")
FrameFault.HEADER_CHECKSUM = FrameFault("header checksum does not match")
FrameFault.TYPE = FrameFault("event type is malformed")
FrameFault.PAYLOAD_LENGTH = FrameFault("payload length is over the limit")
FrameFault.PAYLOAD_CHECKSUM = FrameFault("payload checksum does not match")
FrameFault.PADDING = FrameFault("payload padding is not zero")
FrameFault.TRAILER = FrameFault("trailer does not match the frame length")


class FrameHeader:
    """A decoded, authentic frame header; the names are those of FORMAT.md section 3, lengths are in bytes."""

    __slots__ = (
        "digest",
        "durable_off",
        "epoch",
        "event_id",
        "flags",
        "frame_length",
        "header_length",
        "kind",
        "ordinal",
        "payload_checksum",
        "payload_length",
        "time_us",
        "type",
    )

    kind: int
    flags: int
    payload_length: int
    epoch: int
    ordinal: int
    durable_off: int
    event_id: bytes
    digest: bytes
    payload_checksum: int
    time_us: int

    def __init__(self, header: bytes) -> None:
        """Take the fields apart; `header` is the whole header, checked before."""
        (
            _,
            header_words,
            self.kind,
            self.flags,
            self.payload_length,
            self.epoch,
            self.ordinal,
            self.durable_off,
            self.event_id,
            self.digest,
            self.payload_checksum,
            self.time_us,
            _,
        ) = _FIXED.unpack_from(header)
        self.header_length: int = header_words * 8
        self.frame_length: int = self.header_length + pad8(self.payload_length) + FRAME_TRAILER_BYTES
        self.type = header[_TYPE_AT : _TYPE_AT + header[FRAME_FIXED_BYTES]].decode("ascii")

    def is_supported(self) -> bool:
        """Whether this version knows what to do with the frame; ignorable kinds count as known."""
        is_known = self.kind in _KINDS_KNOWN or bool(self.kind & KIND_IGNORABLE)
        return is_known and not self.flags & FLAGS_REQUIRED_UNKNOWN

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameHeader) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())


def frame_length(type_length: int, payload_length: int) -> int:
    """Return the length in bytes of the frame that `encode_frame` makes of these lengths."""
    return FRAME_FIXED_BYTES + pad8(1 + type_length) + pad8(payload_length) + FRAME_TRAILER_BYTES


def encode_frame(
    *,
    segment_id: bytes,
    offset: int,
    kind: int,
    flags: int,
    epoch: int,
    ordinal: int,
    durable_off: int,
    event_id: bytes,
    time_us: int,
    type: str,
    payload: bytes,
) -> bytes:
    """Return the frame for `offset` of the segment. Raises InvalidType, PayloadTooLarge; ValueError (a length)."""
    check_length("event_id", event_id, 16)
    check_length("segment_id", segment_id, 16)
    if not _is_place(offset):
        raise ValueError(f"no frame can begin at offset {offset}")
    type_bytes = type.encode()
    if kind == KIND_EVENT:
        check_type(type_bytes)
    elif type_bytes:
        raise InvalidType("a control frame has no event type")
    check_payload_length(len(payload))
    type_field = bytes([len(type_bytes)]) + type_bytes
    type_field += bytes(pad8(len(type_field)) - len(type_field))
    header = _BEFORE_CHECKSUM.pack(
        FRAME_MAGIC,
        (FRAME_FIXED_BYTES + len(type_field)) // 8,
        kind,
        flags,
        len(payload),
        epoch,
        ordinal,
        durable_off,
        event_id,
        digest(payload),
        checksum(payload, _payload_seed(segment_id)),
        time_us,
    )
    length = frame_length(len(type_bytes), len(payload))
    return b"".join(
        (
            header,
            _header_checksum(segment_id, offset, header, type_field),
            type_field,
            payload,
            bytes(pad8(len(payload)) - len(payload)),
            _TRAILER.pack(length, length ^ _UINT32_MAX),
        )
    )


def decode_frame_header(data: bytes, segment_id: bytes, offset: int) -> FrameHeader | FrameFault:
    """Decode the header of the frame that begins `data` and lies at `offset` of the segment: conditions (1) to (6).

    Payload and trailer may pass the end of `data`, which should hold 176 bytes or all that the file has. Returns the
    first condition that does not hold; SHORT if the bytes end inside the header.
    """
    if not _is_place(offset):
        return FrameFault.PLACE
    magic = data[:4]
    if magic != FRAME_MAGIC[: len(magic)]:
        return FrameFault.MAGIC
    if len(data) <= len(FRAME_MAGIC):
        return FrameFault.SHORT
    header_length = data[4] * 8
    if not FRAME_HEADER_MIN_BYTES <= header_length <= FRAME_HEADER_MAX_BYTES:
        return FrameFault.HEADER_LENGTH
    if len(data) < header_length:
        return FrameFault.SHORT
    header, type_field = data[:96], data[FRAME_FIXED_BYTES:header_length]
    if data[96:FRAME_FIXED_BYTES] != _header_checksum(segment_id, offset, header, type_field):
        return FrameFault.HEADER_CHECKSUM
    type_length = type_field[0]
    type_fits = (
        type_length <= TYPE_MAX_BYTES
        and len(type_field) == pad8(1 + type_length)
        and (data[5] == KIND_EVENT) == (type_length > 0)
    )
    if not type_fits or not _is_type(type_field[1 : 1 + type_length]) or any(type_field[1 + type_length :]):
        return FrameFault.TYPE
    if int.from_bytes(data[8:12], "little") > PAYLOAD_MAX_BYTES:
        return FrameFault.PAYLOAD_LENGTH
    return FrameHeader(data)


def check_body(data: bytes, header: FrameHeader, segment_id: bytes) -> FrameFault | None:
    """Check conditions (6) to (8) of the frame that begins `data`; return the first that does not hold."""
    if len(data) < header.frame_length:
        return FrameFault.SHORT
    payload_end = header.header_length + header.payload_length
    trailer_at = header.frame_length - FRAME_TRAILER_BYTES
    if checksum(data[header.header_length : payload_end], _payload_seed(segment_id)) != header.payload_checksum:
        return FrameFault.PAYLOAD_CHECKSUM
    if any(data[payload_end:trailer_at]):
        return FrameFault.PADDING
    if _TRAILER.unpack_from(data, trailer_at) != (header.frame_length, header.frame_length ^ _UINT32_MAX):
        return FrameFault.TRAILER
    return None


def check_type(type_bytes: bytes) -> None:
    """Check a caller's event type before it is stored. Raises InvalidType."""
    if not 1 <= len(type_bytes) <= TYPE_MAX_BYTES or not _is_type(type_bytes):
        raise InvalidType(f"an event type is 1 to {TYPE_MAX_BYTES} printable ASCII characters without spaces")


def check_payload_length(length: int) -> None:
    """Check the length of a caller's payload before it is stored. Raises PayloadTooLarge."""
    if length > PAYLOAD_MAX_BYTES:
        raise PayloadTooLarge(
            f"the payload has {length} bytes, the limit is {PAYLOAD_MAX_BYTES}; store it as an artifact"
        )


def pad8(length: int) -> int:
    """Round up to a multiple of 8."""
    return (length + 7) & ~7


def _is_place(offset: int) -> bool:
    return offset >= HEADER_BYTES and offset % 8 == 0


def _is_type(type_bytes: bytes) -> bool:
    return not type_bytes.translate(None, _TYPE_BYTES)


def _payload_seed(segment_id: bytes) -> int:
    return int.from_bytes(segment_id[:8], "little")


def _header_checksum(segment_id: bytes, offset: int, header: bytes, type_field: bytes) -> bytes:
    salted = segment_id + offset.to_bytes(8, "little") + header + type_field
    return checksum(salted).to_bytes(8, "little")
