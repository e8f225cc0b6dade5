"""Lineage: where a session was forked, as the headers of its segments and its first event state it.

Owns: reading both statements. Invariants: the header counts; the event only adds the id of the last inherited event,
by which a parent that has another history now is recognised without walking its chain. Must not know: how inherited
events are read, how a fork is made.
"""

from __future__ import annotations

from turnlog.errors import InvalidId
from turnlog.ids import format_id, parse_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from turnlog._core import Event

FORKED = "session.forked"
_ZERO_ID = bytes(16)
_CHAIN_DIGITS = 64


class Origin:
    """The point at which a session was forked: the parent, its ordinal and its chain there."""

    __slots__ = ("chain", "ordinal", "session")

    def __init__(self, session: str, ordinal: int, chain: bytes) -> None:
        """`session` is the parent's id, `ordinal` the last inherited one, `chain` the parent's chain there."""
        self.session = session
        self.ordinal = ordinal
        self.chain = chain

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return {"session": self.session, "ordinal": self.ordinal, "chain": self.chain.hex()}

    def __eq__(self, other: object) -> bool:
        return self.as_json() == other.as_json() if isinstance(other, Origin) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.session, self.ordinal, self.chain))

    def __repr__(self) -> str:
        return f"<Origin {self.session}:{self.ordinal}>"


def origin_of(fields: Mapping[str, Any]) -> Origin | None:
    """Return what a segment header says about the session's origin, None for a session that is no fork."""
    if fields["parent_session_id"] == _ZERO_ID:
        return None
    return Origin(format_id(fields["parent_session_id"]), fields["fork_ordinal"], fields["parent_chain"])


def stated_origin(payload: object) -> Origin | None:
    """Return the origin that the payload of a fork's first event states, for where the header is lost; None when it
    states none.
    """
    told = payload if isinstance(payload, dict) else {}
    parent, ordinal, chain = told.get("parent"), told.get("fork_ordinal"), told.get("parent_chain")
    if not isinstance(ordinal, int) or ordinal < 1 or not isinstance(chain, str) or len(chain) != _CHAIN_DIGITS:
        return None
    try:
        return Origin(format_id(parse_id(parent)), ordinal, bytes.fromhex(chain)) if isinstance(parent, str) else None
    except (InvalidId, ValueError):
        return None


def last_inherited_id(forked: Event) -> str | None:
    """Return the id of the last inherited event as the fork's first event states it; None when it states none.

    Raises Damaged, StorageError.
    """
    payload = None if forked.is_raw else forked.payload
    stated = payload.get("parent_event") if isinstance(payload, dict) else None
    return stated if isinstance(stated, str) else None
