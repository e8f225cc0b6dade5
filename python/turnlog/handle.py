"""An event as those see it who know no files: what of its handle the pure modules read.

Owns: the two protocols, which the cores' handles, those of sessions in memory and the tests' own all fulfil. Must not
know: who reads them, how an event is stored.
"""

from __future__ import annotations

from typing import Any, Protocol


class Event(Protocol):
    """What counts for what an event says."""

    @property
    def ordinal(self) -> int:
        """Position in the session, from 1."""

    @property
    def type(self) -> str:
        """The event's type."""

    @property
    def payload(self) -> Any:
        """The decoded payload; bytes of a RAW event."""


class StoredEvent(Event, Protocol):
    """And how it is stored, for those who decode only what they need."""

    @property
    def time_us(self) -> int:
        """Microseconds since 1970."""

    @property
    def is_raw(self) -> bool:
        """Whether the payload is bytes that are no JSON."""

    @property
    def raw(self) -> bytes:
        """The payload's stored bytes."""
