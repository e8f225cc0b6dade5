"""New event ids.

Owns: UUID version 7 (RFC 9562, method 3 of section 6.2: the fraction of the millisecond follows the milliseconds).
Must not know: events.
"""

from __future__ import annotations

import os
import time


def now_us() -> int:
    """Return the time in microseconds since 1970; a clock that is set before that counts as 0."""
    return max(0, time.time_ns() // 1000)


def new_id(time_us: int) -> bytes:
    """Return a UUIDv7 (RFC 9562): 48 bits of milliseconds, 12 of their fraction (method 3), 62 random."""
    milliseconds, microseconds = divmod(time_us, 1000)
    high = milliseconds << 16 | 0x7000 | microseconds * 4096 // 1000
    low = int.from_bytes(os.urandom(8), "big") >> 2 | 1 << 63
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")
