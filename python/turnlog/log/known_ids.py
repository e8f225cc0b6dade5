"""The event ids that a session knows already: those of its own events and those of the events it inherits.

Owns: which segments are walked, own and inherited. Invariants: an event of a parent behind the fork ordinal is none
of the fork's; an own event counts before an inherited one with the same id; inherited events that are lost take their
ids with them, as lost events of the session itself do. Must not know: what is done about an id that is known.
"""

from __future__ import annotations

from itertools import pairwise

from turnlog.errors import Damaged
from turnlog.log.log import Log, Window
from turnlog.log.segments import list_segments, open_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog._core import IdIndex


def load_ids(ids: IdIndex, directory: str, session_id: str) -> None:
    """Add the ids of all events of a session: one walk over the headers of its segments and of its ancestors'.

    Raises Damaged, StorageError.
    """
    log = Log(directory, session_id)
    try:
        inherited = log.fork_ordinal()
        if inherited:
            for holder, part in log.spans(Window(before=inherited + 1, on_damage="skip")):
                _load_part(ids, holder, part)
    finally:
        log.close()
    for file in list_segments(directory):
        with open_segment(file) as reader:
            ids.load(reader)


def _load_part(ids: IdIndex, holder: Log, part: Window) -> None:
    """Add the ids of a part of an ancestor: whole segments by their headers, the rest event by event."""
    files = [file for file in list_segments(holder.directory) if holder.is_true(file)]
    for file, following in pairwise(files):
        if part.ends_at(following.first_ordinal - 1):
            break
        try:
            ids.load(holder.open_reader(file))
        except Damaged:
            break  # what is left of it is read like the last one
        part = part.above(following.first_ordinal - 1)
    for batch in holder.own_batches(part):
        for event in batch:
            ids.add(event.event_id, event.ordinal)
