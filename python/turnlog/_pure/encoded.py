"""An event that needs only its place: checked, canonical, digested, with time and id, all outside the lock.

Owns: what is checked before anything is written. Must not know: files, locks.
"""

from __future__ import annotations

from turnlog._pure import format as fmt
from turnlog._pure.canon import canonical
from turnlog._pure.chain import digest
from turnlog._pure.frame import check_payload_length, check_type
from turnlog._pure.identity import new_id, now_us
from turnlog.errors import InvalidId, InvalidPayload


class Encoded:
    """An event that needs only its place: made outside the lock."""

    __slots__ = ("digest", "event_id", "flags", "given", "payload", "time_us", "type")

    def __init__(
        self, *, type: str, payload: bytes, digest: bytes, event_id: bytes, given: bool, flags: int, time_us: int
    ) -> None:
        self.type = type
        self.payload = payload
        self.digest = digest
        self.event_id = event_id
        self.given = given  # whether the caller gave the id, so that it may be known
        self.flags = flags
        self.time_us = time_us


def encode(type: str, payload: object, event_id: bytes | None, raw: bool) -> Encoded:
    """Check and encode all that does not depend on the event's place."""
    check_type(type.encode("utf-8", "surrogatepass") if isinstance(type, str) else b"")
    if event_id is not None and (not isinstance(event_id, bytes) or len(event_id) != 16):
        raise InvalidId("an event id is a UUID of 16 bytes")
    if not raw:
        data = canonical(payload)
    elif isinstance(payload, bytes):
        data = payload
    else:
        raise InvalidPayload(f"a raw payload is bytes, not {payload.__class__.__name__}")
    check_payload_length(len(data))
    time_us = now_us()
    return Encoded(
        type=type,
        payload=data,
        digest=digest(data),
        event_id=event_id or new_id(time_us),
        given=event_id is not None,
        flags=fmt.FLAG_RAW if raw else 0,
        time_us=time_us,
    )
