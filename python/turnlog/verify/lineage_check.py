"""The check of a fork's lineage: whether every ancestor still has the history that was forked.

Owns: the findings about ancestors. Invariants: reads only; a gap that repair has recorded in an ancestor is told and
is no damage. Must not know: how an ancestor's own segments are judged; verifying the ancestor says that.
"""

from __future__ import annotations

from turnlog.errors import Damaged
from turnlog.log import recovery
from turnlog.log.log import Log
from turnlog.log.notes import lost_in_note
from turnlog.log.segments import list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_VERIFY = "sessionctl verify {session}"


def lineage_findings(directory: str, session_id: str) -> Iterator[dict[str, Any]]:
    """Yield a finding for each ancestor that is missing, cut short, or has another history than the one forked.

    Raises StorageError.
    """
    log = Log(directory, session_id)
    child, inherited = log, log.fork_ordinal()
    try:
        for ancestor in log.ancestors():
            yield from _compare(child, ancestor, session_id)
            child, inherited = ancestor, min(inherited, ancestor.fork_ordinal())
    except Damaged as error:
        yield _finding(session_id, recovery.LOST_DATA, [1, inherited], error.message, error.next_commands())
    finally:
        log.close()


def _compare(child: Log, parent: Log, session_id: str) -> Iterator[dict[str, Any]]:
    """Compare the parent's chain at the fork ordinal with the one that the child's header states."""
    ordinal = child.fork_ordinal()
    origin, found = child.origin(), parent.chain_at(ordinal)
    if origin is None or found == origin.chain:
        return
    advice = [_VERIFY.format(session=parent.session_id)]
    gaps = list(_recorded_gaps(parent, ordinal))
    for lost in gaps:
        detail = f"inherited events {lost[0]} to {lost[1]} were lost in {parent.session_id}; repair recorded the gap"
        yield _finding(session_id, recovery.CLEAN, lost, detail, [], code="repaired")
    if gaps:
        return
    if found is None:
        detail = f"{parent.session_id} has no readable history up to event {ordinal}, where it was forked"
        yield _finding(session_id, recovery.LOST_DATA, None, detail, advice)
    else:
        detail = f"{parent.session_id} has another history than the one that was forked: its chain at {ordinal} differs"
        yield _finding(session_id, recovery.TAMPERED, None, detail, advice)


def _recorded_gaps(parent: Log, upto: int) -> Iterator[list[int]]:
    for file in list_segments(parent.directory):
        if file.first_ordinal > upto or not parent.is_true(file):
            continue
        for note in parent.open_reader(file).scan()["notes"]:
            lost = lost_in_note(note["payload"])
            if lost is not None and lost[0] <= upto:
                yield [*lost]


def _finding(
    session_id: str, verdict: str, lost: list[int] | None, detail: str, advice: list[str], *, code: str = "parent"
) -> dict[str, Any]:
    return {
        "type": "finding",
        "session": session_id,
        "segment": None,
        "verdict": verdict,
        "code": code,
        "offset": 0,
        "end": 0,
        "lost": lost,
        "detail": detail,
        "next": advice,
    }
