"""The committer's background thread: what nobody waits for.

Owns: when buffered bytes are synced, when a quiet segment gets its SYNC_MARK, when zeros are written ahead.
Invariants: the thread holds no strong reference while it sleeps, so dropped writers and committers vanish; it is a
daemon and ends with the process. Must not know: who appends.
"""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue

from turnlog._pure import format as fmt
from turnlog._pure import zerofill
from turnlog._pure.active import OPEN
from turnlog.errors import NoSpace, SyncFailed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from turnlog._pure.active import ActiveSegment
    from turnlog._pure.commit import Committer


def run(committer: Callable[[], Committer | None], alarm: SimpleQueue[bool]) -> None:
    """Tend the segments whenever something is due, until the alarm says False or the committer is gone."""
    timeout_s: float | None = None
    while True:
        try:
            if not alarm.get(timeout=timeout_s):
                return
        except Empty:
            pass  # the time of the earliest deadline has come
        alive = committer()
        if alive is None:
            return
        timeout_s = _tend(alive)
        del alive


def _tend(committer: Committer) -> float | None:
    """Do what is due; return the seconds until the next deadline, None if there is none."""
    committer.alarm_at = float("inf")
    segments = committer.segments()
    for segment in segments:
        if segment.zero_asked:
            zero_bytes, zero_syncs = zerofill.fill(segment)
            committer.count(zero_bytes=zero_bytes, zero_syncs=zero_syncs)
    latest = time.monotonic() - committer.interval_s
    if any(segment.dirty_since is not None and segment.dirty_since <= latest for segment in segments):
        committer.commit([segment for segment in segments if segment.needs_sync()])
    for segment in segments:
        if segment.mark_due is not None and segment.mark_due <= time.monotonic():
            _mark(committer, segment)
    due = float("inf")
    for segment in segments:
        with segment.lock:
            due = min(due, segment.deadline(committer.interval_s))
    committer.alarm_at = due
    return None if due == float("inf") else max(due - time.monotonic(), 0.0)


def _mark(committer: Committer, segment: ActiveSegment) -> None:
    """Write a SYNC_MARK into a quiet segment.

    It carries the durable offset of the last commit, for a recovery without the index.
    """
    with segment.lock:
        segment.settle_zeros(fmt.FRAME_HEADER_MAX_BYTES)
        segment.mark_due = None
        if segment.mode != OPEN or segment.poison is not None or segment.end.offset != segment.durable.offset:
            return
        segment.push_control(fmt.KIND_SYNC_MARK, b"")
        try:
            calls, size = segment.write_pending()
        except (NoSpace, SyncFailed):
            return  # rolled back, or kept as the poison that the next caller meets
    committer.count(write_calls=calls, written_bytes=size)
