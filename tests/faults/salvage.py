"""Reading around damage, as a caller of a core would.

Owns: the loop of replay and resync. Must not know: what was damaged.
"""

from __future__ import annotations

from typing import Any

from turnlog._pure.format import HEADER_BYTES


def served(reader: Any) -> set[tuple[int, bytes]]:
    """Read all events there are, over damage: their ordinals and stored bytes."""
    events: set[tuple[int, bytes]] = set()
    offset, ordinal = HEADER_BYTES, 0
    while True:
        batch, following, ordinal, _, _, fault = reader.replay(offset, ordinal)
        events |= {(event.ordinal, event.raw) for event in batch}
        if fault is not None:
            found = reader.resync(max(following, fault["offset"]))
            if found is None:
                return events
            following, ordinal = found[0], 0
        elif not batch and following == offset:
            return events
        offset = following
