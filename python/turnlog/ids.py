"""Identifiers of sessions, segments, events and stores: UUIDs as 16 bytes, and as lower-case text for people.

Owns: making, reading and writing them, and the time that goes with them. Invariant: an id derived from the same parts
is the same for ever. Must not know: any other module except errors. The standard library's uuid module would cost
start-up time.
"""

from __future__ import annotations

import os
import time

from turnlog.errors import InvalidId

ID_BYTES = 16
_DERIVE_TAG = b"turnlog derived id v1"
_TEXT_LENGTH = 36
_DASHES_AT = (8, 13, 18, 23)
_DIGITS = frozenset("0123456789abcdef")


def now_us() -> int:
    """Return the time in microseconds since 1970, UTC; a clock that is set before that counts as 0.

    >>> now_us() <= now_us()
    True
    """
    return max(0, time.time_ns() // 1000)


def new_id() -> bytes:
    """Return a new id: UUIDv7 of RFC 9562, that is the time in milliseconds and 74 random bits.

    >>> len(new_id()), new_id() < new_id() or new_id() != new_id()
    (16, True)
    """
    time_ms = time.time_ns() // 1_000_000
    return _stamp((time_ms & 0xFFFF_FFFF_FFFF).to_bytes(6, "big") + os.urandom(10), version=7)


def derive_id(*parts: str | bytes) -> bytes:
    """Return the id that belongs to these parts: UUIDv8 of RFC 9562 from the SHA-256 of the parts and their lengths.

    The importers give what the source calls an event, so that importing twice stores nothing twice.

    >>> format_id(derive_id("claude", "a transcript")) == format_id(derive_id("claude", "a transcript"))
    True
    >>> derive_id("ab", "c") == derive_id("a", "bc")
    False
    """
    from hashlib import sha256  # only here: start-up counts

    named = [_DERIVE_TAG]
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        named += len(data).to_bytes(8, "little"), data
    return _stamp(sha256(b"".join(named)).digest()[:ID_BYTES], version=8)


def parse_id(value: object) -> bytes:
    """Return the 16 bytes of an id given as such, as text in any case, or as an object with `bytes`, such as uuid.UUID.

    Raises InvalidId.

    >>> parse_id("01890A5D-ac96-774b-bcce-b302099a8057").hex()
    '01890a5dac96774bbcceb302099a8057'
    """
    if isinstance(value, str):
        return _parse_text(value)
    data = value if isinstance(value, bytes) else getattr(value, "bytes", None)
    if not isinstance(data, bytes):
        raise InvalidId(f"an id is a UUID as text or 16 bytes, not {type(value).__name__}")
    if len(data) != ID_BYTES:
        raise InvalidId(f"an id has {ID_BYTES} bytes, not {len(data)}")
    return data


def format_id(value: bytes) -> str:
    """Return the text form of an id. Raises InvalidId unless it has 16 bytes.

    >>> format_id(bytes(16))
    '00000000-0000-0000-0000-000000000000'
    """
    if len(value) != ID_BYTES:
        raise InvalidId(f"an id has {ID_BYTES} bytes, not {len(value)}")
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _parse_text(text: str) -> bytes:
    lower = text.lower()
    digits = lower.replace("-", "")
    is_dashed = len(lower) == _TEXT_LENGTH and all(lower[at] == "-" for at in _DASHES_AT)
    if not is_dashed or len(digits) != ID_BYTES * 2 or not _DIGITS.issuperset(digits):
        shown = text if len(text) <= _TEXT_LENGTH else f"{text[:_TEXT_LENGTH]}…"
        raise InvalidId(f"{shown!r} is not a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057")
    return bytes.fromhex(digits)


def _stamp(data: bytes, version: int) -> bytes:
    """Put version and variant of RFC 9562 into 16 bytes."""
    stamped = bytearray(data)
    stamped[6] = version << 4 | stamped[6] & 0x0F
    stamped[8] = 0x80 | stamped[8] & 0x3F
    return bytes(stamped)
