"""A store in memory with the part of the API an import drives: atomic groups, payloads checked like the real one."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from turnlog.errors import Conflict, InvalidPayload, PayloadTooLarge

PAYLOAD_BYTES_MAX = 16 << 20


class MemoryEvent:
    def __init__(self, ordinal: int, kind: str, raw: bytes, *, is_raw: bool) -> None:
        self.ordinal = ordinal
        self.type = kind
        self.raw = raw
        self.size = len(raw)
        self.digest = hashlib.sha256(raw).digest()
        self.payload: Any = raw if is_raw else json.loads(raw)


class MemorySession:
    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.stored: list[MemoryEvent] = []
        self.groups = 0

    def append(self, kind: str, payload: Any, *, durability: str = "durable") -> None:
        self.append_many([(kind, payload, None, False)], atomic=True, durability=durability)

    def append_many(self, items: list[tuple[str, Any, None, bool]], *, atomic: bool, durability: str) -> None:
        encoded = [(kind, payload if raw else _canonical(payload), raw) for kind, payload, _, raw in items]
        if any(len(data) > PAYLOAD_BYTES_MAX for _, data, _ in encoded):
            raise PayloadTooLarge("payload above 16 MiB")
        for kind, data, raw in encoded:
            self.stored.append(MemoryEvent(len(self.stored) + 1, kind, data, is_raw=raw))
        self.groups += 1

    def events(self, *, types: tuple[str, ...] | None = None) -> list[MemoryEvent]:
        return [event for event in self.stored if types is None or event.type in types]

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass


class MemoryStore:
    def __init__(self) -> None:
        self.sessions: dict[str, MemorySession] = {}

    def session_exists(self, session_id: str) -> bool:
        return session_id in self.sessions

    def session(self, session_id: str) -> MemorySession:
        return self.sessions[session_id]

    def create(self, *, id: str, durability: str, **fields: str | None) -> MemorySession:
        if id in self.sessions:
            raise Conflict("a session with this id exists already", session=id)
        session = self.sessions[id] = MemorySession(id)
        known = {name: value for name, value in fields.items() if value is not None}
        session.append("session.created", known, durability=durability)
        return session


def _canonical(payload: Any) -> bytes:
    try:
        if _depth(payload) > 128:
            raise InvalidPayload("nested deeper than 128 levels")
        return json.dumps(payload, allow_nan=False).encode()
    except ValueError as error:
        if isinstance(error, InvalidPayload):
            raise
        raise InvalidPayload(str(error)) from error


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)
