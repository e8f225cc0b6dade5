"""Segments for tests, built byte by byte with the reference core's encoders.

Owns: a builder that keeps offset, ordinal and chain, and a maker of compacted files. Must not know: readers.
"""

from __future__ import annotations

from typing import Any

import zstandard

from turnlog._pure.blocks import encode_table
from turnlog._pure.chain import chain_next, chain_start, checksum, digest
from turnlog._pure.format import (
    BLOCK_BYTES,
    FLAG_COMMIT,
    HEADER_BYTES,
    KIND_CLOSE,
    KIND_EVENT,
    KIND_OPEN,
    KIND_REPAIR_NOTE,
    KIND_SEAL,
    KIND_SYNC_MARK,
)
from turnlog._pure.frame import encode_frame
from turnlog._pure.header import encode_header

SESSION_ID = bytes(range(16))
SEGMENT_ID = bytes(range(100, 116))
TIME_US = 1_790_000_000_000_000


class SegmentBuilder:
    """Appends frames to `data`; `starts` holds the offset of each frame."""

    def __init__(self, *, first_ordinal: int = 1, chain: bytes | None = None, **fields: Any) -> None:
        self.chain = chain_start(SESSION_ID) if chain is None else chain
        self.segment_id: bytes = fields.pop("segment_id", SEGMENT_ID)
        self.header: dict[str, Any] = {
            "session_id": SESSION_ID,
            "segment_id": self.segment_id,
            "segment_number": 1,
            "first_ordinal": first_ordinal,
            "prev_last_ordinal": first_ordinal - 1,
            "prev_chain": self.chain,
            "writer_epoch": 1,
            "created_us": TIME_US,
            "writer_name": "test",
            **fields,
        }
        self.data = bytearray(encode_header(self.header))
        self.ordinal = first_ordinal - 1
        self.events = 0
        self.epoch = 1
        self.durable_off = HEADER_BYTES
        self.starts: list[int] = []

    @property
    def end(self) -> int:
        return len(self.data)

    def frame(self, kind: int, payload: bytes, *, type: str = "", flags: int = FLAG_COMMIT, **fields: Any) -> int:
        """Append any frame; return its offset."""
        values: dict[str, Any] = {
            "segment_id": self.segment_id,
            "offset": self.end,
            "kind": kind,
            "flags": flags,
            "epoch": self.epoch,
            "ordinal": self.ordinal,
            "durable_off": self.durable_off,
            "event_id": bytes(16),
            "time_us": TIME_US + self.ordinal,
            "type": type,
            "payload": payload,
            **fields,
        }
        self.starts.append(self.end)
        self.data += encode_frame(**values)
        return self.starts[-1]

    def event(self, payload: bytes = b'{"text":"hello"}', *, type: str = "message.user", **fields: Any) -> int:
        """Append the next event; return its offset."""
        self.ordinal = fields.pop("ordinal", self.ordinal + 1)
        self.events += 1
        event_id = fields.pop("event_id", self.ordinal.to_bytes(16, "big"))
        time_us = TIME_US + self.ordinal
        self.chain = chain_next(self.chain, self.ordinal, event_id, time_us, digest(payload), type)
        return self.frame(KIND_EVENT, payload, type=type, event_id=event_id, **fields)

    def group(self, count: int) -> None:
        """Append an atomic group."""
        for index in range(count):
            self.event(flags=FLAG_COMMIT if index == count - 1 else 0)

    def sync_mark(self) -> int:
        """Append a SYNC_MARK that promises all bytes before it."""
        self.durable_off = self.end
        return self.frame(KIND_SYNC_MARK, b"")

    def open(self) -> int:
        """Append an OPEN frame with the next epoch."""
        self.epoch += 1
        return self.frame(KIND_OPEN, self.chain)

    def close(self) -> int:
        """Append a CLOSE frame."""
        return self.frame(KIND_CLOSE, self.chain)

    def note(self, last_lost: int, chain: bytes) -> int:
        """Append a REPAIR_NOTE over a gap."""
        self.ordinal, self.chain = last_lost, chain
        return self.frame(KIND_REPAIR_NOTE, chain + b"{}")

    def seal(self, index: tuple[tuple[int, int], ...] = (), successor: bytes = bytes(range(16, 32))) -> int:
        """Append a SEAL frame."""
        rows = b"".join(ordinal.to_bytes(8, "little") + offset.to_bytes(8, "little") for ordinal, offset in index)
        return self.frame(KIND_SEAL, self.chain + self.events.to_bytes(8, "little") + successor + rows)


def compact(data: bytes) -> bytes:
    """Return the compacted form of a segment's logical bytes."""
    blocks = [data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)]
    packed = [zstandard.ZstdCompressor(level=3).compress(block) for block in blocks]
    sizes = [(len(small), len(block), checksum(block)) for small, block in zip(packed, blocks, strict=True)]
    return b"".join(packed) + encode_table(sizes) * 2
