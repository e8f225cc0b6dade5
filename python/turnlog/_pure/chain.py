"""Digest, checksum and chain: FORMAT.md section 4.

Owns: what is put under each, and in which order. Must not know: how frames lie in a file.
"""

from __future__ import annotations

from hashlib import sha256

from xxhash import xxh3_64_intdigest

from turnlog._pure.format import CHAIN_TAG, CHAIN_VERSION


def digest(data: bytes) -> bytes:
    """Return the SHA-256 of the data, 32 bytes."""
    return sha256(data).digest()


def checksum(data: bytes, seed: int = 0) -> int:
    """Return the XXH3-64 of the data."""
    return xxh3_64_intdigest(data, seed)


def chain_start(
    session_id: bytes,
    parent_session_id: bytes = bytes(16),
    fork_ordinal: int = 0,
    parent_chain: bytes = bytes(32),
) -> bytes:
    """Return chain 0 of a session; the last three are zero unless it is a fork. Raises ValueError (a length)."""
    check_length("session_id", session_id, 16)
    check_length("parent_session_id", parent_session_id, 16)
    check_length("parent_chain", parent_chain, 32)
    return sha256(
        CHAIN_TAG + session_id + parent_session_id + fork_ordinal.to_bytes(8, "little") + parent_chain
    ).digest()


def chain_next(  # noqa: PLR0917 - called once per event, always in the order of the format
    chain: bytes, ordinal: int, event_id: bytes, time_us: int, digest: bytes, type: str
) -> bytes:
    """Return the chain after the event with this ordinal, given the chain before it. Raises ValueError (a length)."""
    check_length("chain", chain, 32)
    check_length("event_id", event_id, 16)
    check_length("digest", digest, 32)
    return sha256(
        CHAIN_VERSION
        + chain
        + ordinal.to_bytes(8, "little")
        + event_id
        + time_us.to_bytes(8, "little")
        + digest
        + type.encode()
    ).digest()


def check_length(name: str, data: bytes, length: int) -> None:
    """Raise ValueError unless the data has this many bytes."""
    if len(data) != length:
        raise ValueError(f"{name} must be {length} bytes, not {len(data)}")
