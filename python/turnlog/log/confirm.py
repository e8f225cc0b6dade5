"""Whether a log holds the event behind which somebody wants to go on.

Owns: the answer to a cursor that the log does not know (any more). Invariants: a log that ends below the cursor is
waited for only while somebody writes it, who may have more than can be seen yet; a lost event is no reason to refuse:
what comes behind it can be served. Must not know: how a cursor is written, who follows.
"""

from __future__ import annotations

from turnlog.errors import CursorMismatch, Damaged
from turnlog.log.lock import is_locked
from turnlog.log.log import Window
from turnlog.log.segments import list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from turnlog.log.log import Log


def is_confirmed(log: Log, place: tuple[int, bytes], newest: Callable[[], int | None]) -> bool:
    """Tell whether a log holds the event at `place` (its ordinal and the end of its id, zeros where that is not known),
    or has lost it to damage; False when it may have it, and cannot show it yet.

    `newest` gives the last ordinal of the writer in this process, None when there is none. Raises CursorMismatch.
    """
    ordinal, mark = place
    writer = newest()
    is_written = is_locked(log.directory) if writer is None and log.directory else writer is not None
    found = _is_there(log, ordinal, mark)  # looked for after the writer was, who may have stored it and gone
    if found is not None:
        return found
    ends = _end(log)
    if ends is None or ends >= ordinal:
        return True  # nothing at that place can be compared: it was lost, and maybe repaired
    if is_written and (writer is None or writer >= ordinal):
        return False
    what = f"the cursor is behind event {ordinal}, and the log ends at event {ends if writer is None else writer}"
    raise CursorMismatch(f"{what}: {_WHY}", session=log.session_id, ordinal=ordinal)


_WHY = (
    "it lost its end, is a restored backup, or the cursor is of another store; follow again from the error's `cursor` "
    "(all events of the session), or from an event that the log holds"
)


def _is_there(log: Log, ordinal: int, mark: bytes) -> bool | None:
    """Tell whether the event is the one that is meant or is known to be lost; None when there is none."""
    noted = len(log.damage)
    event = next(log.events(Window(ordinal - 1, ordinal + 1, None, "skip")), None)
    is_lost = len(log.damage) > noted
    del log.damage[noted:]
    if event is None:
        return True if is_lost else None
    if any(mark) and not event.event_id.endswith(mark):
        what = f"event {ordinal} is another one than the one that the cursor is behind"
        raise CursorMismatch(f"{what}: {_WHY}", session=log.session_id, ordinal=ordinal)
    return True


def _end(log: Log) -> int | None:
    """Return the last ordinal that can be seen, None when the end is damaged."""
    if log.directory and not list_segments(log.directory):
        return 0
    try:
        return log.head()[0]
    except Damaged:
        return None
