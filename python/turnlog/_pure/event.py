"""The handle of one stored event, decoded only as far as it is asked.

Owns: reading payload bytes again when the chunk they were verified in is gone. Invariants: a handle holds no payload,
only a weak link to the chunk it was read in; bytes read again are verified again; it keeps the descriptor of its
segment open, so it outlives its reader. Must not know: order, groups, where a segment begins or ends.
"""

from __future__ import annotations

from turnlog._pure.format import FLAG_DURABLE, FLAG_ENCRYPTED, FLAG_RAW, FLAG_REDACTED, FRAME_HEADER_MAX_BYTES
from turnlog._pure.frame import check_body, decode_frame_header
from turnlog.errors import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
    from weakref import ref

    from turnlog._pure.frame import FrameHeader
    from turnlog._pure.source import RawSource
    from turnlog._pure.walk import Chunk


class Event:
    """An event that was verified when it was read. Immutable."""

    __slots__ = ("_chunk", "_header", "_segment_id", "_source", "offset")

    offset: int
    _source: RawSource
    _segment_id: bytes
    _header: FrameHeader
    _chunk: ref[Chunk] | None

    def __init__(
        self, source: RawSource, segment_id: bytes, offset: int, header: FrameHeader, chunk: ref[Chunk] | None
    ) -> None:
        put = object.__setattr__
        put(self, "_source", source)
        put(self, "_segment_id", segment_id)
        put(self, "offset", offset)
        put(self, "_header", header)
        put(self, "_chunk", chunk)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse: a stored event does not change."""
        raise AttributeError(f"event attribute {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        """Refuse: a stored event does not change."""
        raise AttributeError(f"event attribute {name} cannot be deleted")

    @property
    def ordinal(self) -> int:
        """Position in the session, from 1."""
        return self._header.ordinal

    @property
    def type(self) -> str:
        """Event type."""
        return self._header.type

    @property
    def time_us(self) -> int:
        """Microseconds since 1970, UTC."""
        return self._header.time_us

    @property
    def event_id(self) -> bytes:
        """The event's id as 16 bytes."""
        return self._header.event_id

    @property
    def id(self) -> str:
        """The event's id in UUID text form."""
        text = self._header.event_id.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    @property
    def digest(self) -> bytes:
        """SHA-256 of the payload bytes, as stored in the header."""
        return self._header.digest

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return self._header.payload_length

    @property
    def flags(self) -> int:
        """FORMAT.md section 3, table of flags."""
        return self._header.flags

    @property
    def epoch(self) -> int:
        """Epoch of the writer."""
        return self._header.epoch

    @property
    def is_raw(self) -> bool:
        """Whether the payload is opaque bytes."""
        return self._header.flags & FLAG_RAW != 0

    @property
    def durable(self) -> bool:
        """Whether the event was appended at level durable."""
        return self._header.flags & FLAG_DURABLE != 0

    @property
    def raw(self) -> bytes:
        """The stored payload bytes. Raises Damaged, StorageError."""
        header = self._header
        chunk = self._chunk() if self._chunk is not None else None
        if chunk is not None:
            at = self.offset - chunk.base + header.header_length
            return chunk.data[at : at + header.payload_length]
        return self._read_again()

    def _read_again(self) -> bytes:
        header = self._header
        frame = self._source.read(self.offset, header.frame_length)
        now = decode_frame_header(frame[:FRAME_HEADER_MAX_BYTES], self._segment_id, self.offset)
        if now != header or check_body(frame, header, self._segment_id) is not None:
            raise Damaged(
                "the stored event changed after it was verified",
                segment=self._source.name,
                offset=self.offset,
                ordinal=header.ordinal,
            )
        return frame[header.header_length : header.header_length + header.payload_length]

    @property
    def payload(self) -> Any:
        """The decoded payload; bytes of a raw or encrypted event; None when redacted. Raises Damaged, StorageError."""
        flags = self._header.flags
        if flags & FLAG_REDACTED:
            return None
        raw = self.raw
        return raw if flags & (FLAG_RAW | FLAG_ENCRYPTED) else decode(raw, self._header.ordinal)

    def __repr__(self) -> str:
        """Name the event in one line."""
        return f"<Event {self.ordinal} {self.type} {self.size} B>"


def decode(raw: bytes, ordinal: int) -> Any:
    """Decode canonical JSON; what msgspec refuses (lone surrogates) goes to json. Raises Damaged if it is no JSON."""
    import msgspec

    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        import json
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as cause:
        raise Damaged(f"the payload is not JSON: {cause}", ordinal=ordinal) from cause
