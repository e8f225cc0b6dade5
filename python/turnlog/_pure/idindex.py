"""Event ids of one log and their ordinals.

Owns: the map. Invariant: one lock around each step; it is a leaf, no other lock is taken under it. Must not know:
files, writers.
"""

from __future__ import annotations

import threading

from turnlog._pure.format import KIND_EVENT
from turnlog._pure.walk import headers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnlog._pure.reader import SegmentReader


class IdIndex:
    """Event id -> ordinal, shared by the successive writers of a log."""

    __slots__ = ("_lock", "_ordinals")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ordinals: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._ordinals)

    def get(self, event_id: bytes) -> int | None:
        """Return the ordinal of the event with this id, or None."""
        with self._lock:
            return self._ordinals.get(event_id)

    def load(self, reader: SegmentReader) -> None:
        """Add all ids of a segment by a walk over its headers. Raises StorageError, NotASegment, Closed."""
        for _, header in headers(reader._open(), reader._id()):  # noqa: SLF001 - one core
            if header.kind == KIND_EVENT:
                self.add(header.event_id, header.ordinal)

    def add(self, event_id: bytes, ordinal: int) -> None:
        """Add one event."""
        with self._lock:
            self._ordinals[event_id] = ordinal

    def remove(self, event_ids: Iterable[bytes]) -> None:
        """Forget events that were rolled back."""
        with self._lock:
            for event_id in event_ids:
                self._ordinals.pop(event_id, None)
