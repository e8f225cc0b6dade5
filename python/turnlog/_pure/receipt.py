"""What an append earns.

Owns: plain values. Must not know: files, locks.
"""

from __future__ import annotations


class Receipt:
    """Proof of one append. Equal if ordinal, event id and digest are."""

    __slots__ = ("digest", "durable", "event_id", "ordinal", "time_us")

    def __init__(self, ordinal: int, event_id: bytes, digest: bytes, time_us: int, durable: bool) -> None:
        self.ordinal = ordinal
        self.event_id = event_id
        self.digest = digest
        self.time_us = time_us
        self.durable = durable

    @property
    def id(self) -> str:
        """The event id as UUID text."""
        text = self.event_id.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Receipt):
            return NotImplemented
        return (self.ordinal, self.event_id, self.digest) == (other.ordinal, other.event_id, other.digest)

    def __hash__(self) -> int:
        return hash((self.ordinal, self.event_id, self.digest))

    def __repr__(self) -> str:
        return f"<Receipt {self.ordinal} {self.id}{' durable' if self.durable else ''}>"
