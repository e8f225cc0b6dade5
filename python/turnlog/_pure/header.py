"""The segment header: FORMAT.md section 2.

Owns: its 4,096 bytes, and the answer what they are when they are not a sound header.
Invariants: decoding never fails, it names the fault; a newer major or an unknown feature is believed only from a copy
whose checksum holds. Must not know: files, frames.
"""

from __future__ import annotations

from struct import Struct

from turnlog._pure.chain import check_length, checksum
from turnlog._pure.format import (
    CANON_VERSION,
    CHECKSUM_ALGORITHM,
    DIGEST_ALGORITHM,
    FEATURES_READONLY_KNOWN,
    FEATURES_REQUIRED_KNOWN,
    FORMAT_MAJOR,
    FORMAT_MINOR,
    HEADER_BYTES,
    HEADER_COPY_OFFSET,
    HEADER_STRUCT_BYTES,
    SEGMENT_MAGIC,
    WRITER_LEVEL,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CHECKSUM_AT = HEADER_STRUCT_BYTES - 8
_NAME_BYTES = 64
_STRUCT = Struct("<8sHHIII16s16sQQ16sQQ32sIBBBxQ16sQ32s64sI")
_NAMES = (
    "format_major",
    "format_minor",
    "features_required",
    "features_readonly",
    "session_id",
    "segment_id",
    "segment_number",
    "first_ordinal",
    "prev_segment_id",
    "prev_length",
    "prev_last_ordinal",
    "prev_chain",
    "writer_epoch",
    "canon_version",
    "digest_algorithm",
    "checksum_algorithm",
    "created_us",
    "parent_session_id",
    "fork_ordinal",
    "parent_chain",
    "writer_name",
    "min_writer",
)
_DEFAULTS = {
    "format_major": FORMAT_MAJOR,
    "format_minor": FORMAT_MINOR,
    "features_required": FEATURES_REQUIRED_KNOWN,
    "features_readonly": FEATURES_READONLY_KNOWN,
    "prev_segment_id": bytes(16),
    "prev_length": 0,
    "prev_last_ordinal": 0,
    "canon_version": CANON_VERSION,
    "digest_algorithm": DIGEST_ALGORITHM,
    "checksum_algorithm": CHECKSUM_ALGORITHM,
    "parent_session_id": bytes(16),
    "fork_ordinal": 0,
    "parent_chain": bytes(32),
    "min_writer": WRITER_LEVEL,
}
_LENGTHS = {
    "session_id": 16,
    "segment_id": 16,
    "prev_segment_id": 16,
    "prev_chain": 32,
    "parent_session_id": 16,
    "parent_chain": 32,
}
_LINE_ENDS = b"\r\n"


def encode_header(fields: dict[str, Any]) -> bytes:
    """Encode the header block: the struct twice, zeros between.

    Fields of version numbers, predecessor and parent may be left out, except `prev_chain`. A `writer_name` too long for
    its field is cut. Raises KeyError for a missing field, ValueError for an unknown one or a wrong length.
    """
    for name in fields:
        if name not in _NAMES:
            raise ValueError(f"unknown header field {name}")
    values = {**_DEFAULTS, **fields}
    for name, length in _LENGTHS.items():
        check_length(name, values[name], length)
    values["writer_name"] = values["writer_name"].encode()[:_NAME_BYTES].decode(errors="ignore").encode()
    ordered = [values[name] for name in _NAMES]
    copy = _STRUCT.pack(SEGMENT_MAGIC, *ordered[:4], HEADER_BYTES, *ordered[4:])
    copy += bytes(_CHECKSUM_AT - len(copy))
    copy += checksum(copy).to_bytes(8, "little")
    gap = bytes(HEADER_COPY_OFFSET - HEADER_STRUCT_BYTES)
    return copy + gap + copy + gap


def decode_header(block: bytes) -> dict[str, Any]:
    """Say what the first 4,096 bytes of a file are; raises nothing.

    Returns `fields` (of the first sound copy; with fault newer_major only the version numbers can be relied on),
    `fault`, `degraded` (a bad copy, or bytes between the copies) and `read_only` (a feature or level forbids writing).
    """
    block = block[:HEADER_BYTES]
    if len(block) < HEADER_BYTES or not any(block):
        return _refused("missing")
    first, second = block[:HEADER_STRUCT_BYTES], block[HEADER_COPY_OFFSET:][:HEADER_STRUCT_BYTES]
    sound = next((copy for copy in (first, second) if _is_sound(copy)), None)
    if sound is None:
        return _refused(_name_fault(first, second))
    gaps = block[HEADER_STRUCT_BYTES:HEADER_COPY_OFFSET] + block[HEADER_COPY_OFFSET + HEADER_STRUCT_BYTES :]
    _, *values = _STRUCT.unpack_from(sound)
    header_length = values.pop(4)
    fields = dict(zip(_NAMES, values, strict=True))
    fields["writer_name"] = fields["writer_name"].rstrip(b"\0").decode(errors="replace")
    return {
        "fields": fields,
        "fault": _version_fault(fields, header_length),
        "degraded": first != second or any(gaps),
        "read_only": fields["features_readonly"] & ~FEATURES_READONLY_KNOWN != 0 or fields["min_writer"] > WRITER_LEVEL,
    }


def _refused(fault: str) -> dict[str, Any]:
    return {"fields": None, "fault": fault, "degraded": False, "read_only": False}


def _is_sound(copy: bytes) -> bool:
    is_segment = copy.startswith(SEGMENT_MAGIC)
    return is_segment and copy[_CHECKSUM_AT:] == checksum(copy[:_CHECKSUM_AT]).to_bytes(8, "little")


def _version_fault(fields: dict[str, Any], header_length: int) -> str | None:
    if fields["format_major"] > FORMAT_MAJOR:
        return "newer_major"
    if fields["format_major"] < FORMAT_MAJOR or header_length != HEADER_BYTES:
        return "damaged"
    algorithms = (fields["canon_version"], fields["digest_algorithm"], fields["checksum_algorithm"])
    if algorithms != (CANON_VERSION, DIGEST_ALGORITHM, CHECKSUM_ALGORITHM):
        return "unknown_feature"
    return "unknown_feature" if fields["features_required"] & ~FEATURES_REQUIRED_KNOWN else None


def _name_fault(first: bytes, second: bytes) -> str:
    if first.startswith(SEGMENT_MAGIC) or second.startswith(SEGMENT_MAGIC):
        return "damaged"
    if not first.startswith(SEGMENT_MAGIC[:4]):
        return "not_a_segment"
    rest = first[4:]
    after = rest.lstrip(_LINE_ENDS)
    is_translated = 1 <= len(rest) - len(after) <= 3 and after[:1] == b"\x1a" and after[1:2] in {b"\r", b"\n"}
    return "text_mode" if is_translated else "damaged"
