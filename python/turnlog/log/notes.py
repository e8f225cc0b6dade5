"""The payload of a REPAIR_NOTE: the record that repair leaves in the log where events were lost.

Owns: its bytes (FORMAT.md section 3). Invariant: `lost_in_note(note_payload(...))` gives the range back. Must not know:
files, why events were lost.
"""

from __future__ import annotations

from turnlog import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CHAIN_BYTES = 32
_GAP_TAG = b"turnlog chain gap v1"


def note_payload(chain: bytes, lost: tuple[int, int] | None, about: Mapping[str, Any]) -> bytes:
    """Return the payload: the chain to go on from, then what was lost (None: nothing) and what is known about it."""
    return chain + _core.canonical({"lost": list(lost) if lost is not None else None, **about})


def lost_in_note(payload: bytes) -> tuple[int, int] | None:
    """Return the inclusive range of ordinals that a note names as lost; None when it names none."""
    import json  # only here: start-up counts

    try:
        lost = json.loads(payload[CHAIN_BYTES:])["lost"]
        first, last = lost
    except (ValueError, KeyError, TypeError):
        return None  # a note that only sets the chain, or one of a later minor version
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def gap_chain(chain: bytes, lost: tuple[int, int]) -> bytes:
    """Return the chain behind a gap whose events left not even their headers (FORMAT.md section 4)."""
    first, last = lost
    return _core.digest(_GAP_TAG + chain + first.to_bytes(8, "little") + last.to_bytes(8, "little"))
