"""Events that are handed out without being in the log.

Owns: what an ephemeral event and the notice of missed ones look like. Invariant: what was shown does not change with
the object that was appended. Must not know: who hears of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.decoding import decode
from turnlog.ids import format_id

if TYPE_CHECKING:
    from turnlog._core import Receipt

LAGGED = "feed.lagged"


class EphemeralEvent:
    """An event that is not in the log: `ordinal` 0, no `cursor`, and the other attributes of a stored one.

    `after` is the ordinal of the newest event in the session's state when it was shown.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> with session.subscribe() as subscriber:
    ...     _ = session.append("progress.updated", {"done": 1}, durability="ephemeral")
    ...     event = subscriber.read()[0]
    >>> event.type, event.payload, event.ordinal, event.cursor, event.after
    ('progress.updated', {'done': 1}, 0, None, 1)
    """

    __slots__ = ("after", "event_id", "raw", "session", "time_us", "type")

    ordinal = 0
    durable = False
    is_raw = False
    cursor: str | None = None

    def __init__(self, session: str, type: str, raw: bytes, receipt: Receipt | None, after: int) -> None:
        """Keep the canonical bytes, so that later changes of the object that was appended do not show."""
        self.session = session
        self.type = type
        self.raw = raw
        self.event_id = bytes(16) if receipt is None else receipt.event_id
        self.time_us = 0 if receipt is None else receipt.time_us
        self.after = after

    @property
    def id(self) -> str:
        """The event's id in UUID text form."""
        return format_id(self.event_id)

    @property
    def payload(self) -> Any:
        """The decoded payload."""
        return decode(self.raw)

    def __repr__(self) -> str:
        """Name the session and the event in one line."""
        return f"<EphemeralEvent {self.session} {self.type}>"


def lagged(session: str, missed: int) -> EphemeralEvent:
    """Return the notice that so many ephemeral events of a session were dropped.

    >>> lagged("019b76da-a800-7000-8000-000000000001", 3).payload
    {'missed': 3}
    """
    return EphemeralEvent(session, LAGGED, b'{"missed":%d}' % missed, None, 0)
