"""Zero-filling ahead of the end of a segment, off the path of acknowledgements: a sync into existing blocks needs no
journal commit.

Owns: which range is zeroed next. Invariants: a range is claimed under the segment's lock and no append is written
into it before the claim is released; zeros go through a descriptor of their own, so that a failed sync is reported to
both and one cannot hide it from the other; without space the segment simply grows as it is written. Must not know:
rounds, writers.
"""

from __future__ import annotations

import os

from turnlog._pure import format as fmt
from turnlog._pure.active import OPEN, ActiveSegment
from turnlog._pure.medium import NO_SPACE, Descriptor, sync_file, write_all

_CLAIM_BYTES = 64 * 1024
_ZEROS = bytes(_CLAIM_BYTES)


def ask(segment: ActiveSegment) -> bool:
    """Whether the background thread should be told to fill this segment; at most once for each step.

    Called with the lock held.
    """
    if not segment.waited or segment.zero_asked or segment.mode != OPEN or segment.zeroed >= segment.roll_bytes:
        return False
    segment.zero_asked = segment.zeroed - segment.end.offset < step_bytes(segment) // 2
    segment.waited = not segment.zero_asked
    return segment.zero_asked


def step_bytes(segment: ActiveSegment) -> int:
    """Half of what the segment holds: a small segment does not pay for zeros that it will never use, a large one asks
    seldom.
    """
    half = segment.end.offset // 2 // _CLAIM_BYTES * _CLAIM_BYTES
    return min(max(half, fmt.ZERO_STEP_MIN_BYTES), fmt.ZERO_STEP_MAX_BYTES)


def fill(segment: ActiveSegment) -> tuple[int, int]:
    """Write and sync one step of zeros; return (bytes, syncs). A failure other than no-space poisons the segment."""
    try:
        own = Descriptor(segment.path, os.O_WRONLY)
        with segment.lock:
            same = segment.file is not None and os.path.samestat(os.fstat(own.fd), os.fstat(segment.file.fd))
            goal = min(max(segment.zeroed, segment.end.offset) + step_bytes(segment), segment.roll_bytes)
    except OSError:
        return 0, 0  # no descriptor left, or the name is gone: appending works without zeros
    if not same:
        return 0, 0
    zeroed_bytes = 0
    action = "cannot write zeros ahead"
    try:
        while (claim := _claim(segment, goal)) is not None:
            done = False
            try:
                write_all(own.fd, _ZEROS[: claim[1] - claim[0]], claim[0])
                done = True
            finally:
                _release(segment, claim, done=done)
            zeroed_bytes += claim[1] - claim[0]
        action = "cannot sync the segment"
        sync_file(own.fd)
    except OSError as cause:
        if cause.errno not in NO_SPACE or action == "cannot sync the segment":
            with segment.lock:
                segment.fail(action, cause.errno or 0)
        return zeroed_bytes, 0  # `zero_asked` stays: no further zeros in this segment
    with segment.lock:
        segment.zero_asked = False
    return zeroed_bytes, 1


def _claim(segment: ActiveSegment, goal: int) -> tuple[int, int] | None:
    with segment.lock:
        start = max(segment.zeroed, segment.end.offset)
        if segment.mode != OPEN or segment.poison is not None or start >= goal:
            return None
        segment.zero_claim = (start, min(start + _CLAIM_BYTES, goal))
        return segment.zero_claim


def _release(segment: ActiveSegment, claim: tuple[int, int], *, done: bool) -> None:
    with segment.lock:
        if done and segment.zeroed <= claim[0]:
            segment.zeroed = claim[1]
        segment.zero_claim = None
        segment.zero_done.notify_all()
