"""What stands in a feed for events that cannot be served.

Owns: the mark's type and payload. Invariants: it has what an event has, so whoever handles events can handle it; its
ordinal is the last one that is lost, and following goes on behind that; where nobody knows how much is lost, it is the
last one before. Must not know: how damage is found, who is told.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.errors import Damaged

LOST = "feed.damaged"


class LostEvents:
    """The mark of a gap; `error` says what is damaged, `payload` which ordinals are lost: first, last (None: unknown).

    >>> from turnlog.errors import Damaged
    >>> error = Damaged("events 4 to 9 cannot be read")
    >>> error.lost = 4, 9
    >>> mark = LostEvents(error, 4)
    >>> mark.type, mark.ordinal, mark.payload["first"], mark.payload["last"]
    ('feed.damaged', 9, 4, 9)
    """

    __slots__ = ("error", "ordinal", "payload")

    type = LOST
    time_us = 0
    id = ""
    event_id = bytes(16)
    digest = bytes(32)
    size = 0
    is_raw = False
    durable = False
    raw = b""

    def __init__(self, error: Damaged, wanted: int) -> None:
        """`wanted` is the first ordinal that was asked for: what is lost before it is of no concern."""
        first, last = error.lost or (wanted, wanted)
        first = max(first, wanted)
        self.error = error
        self.ordinal = first - 1 if error.is_open else max(first, last)
        ends = None if error.is_open else self.ordinal
        self.payload: dict[str, Any] = {"first": first, "last": ends, "message": str(error)}

    def __repr__(self) -> str:
        """Name the lost ordinals."""
        return f"<LostEvents {self.payload['first']} to {self.payload['last'] or 'an unknown end'}>"
