"""The payload of a SEAL frame: FORMAT.md section 3.

Owns: the sparse index of a segment that is being sealed. Invariant: it also covers frames written before this writer
opened the file, by a walk over their headers. Must not know: rounds, how the frame is written.
"""

from __future__ import annotations

import os
import struct

from turnlog._pure import format as fmt
from turnlog._pure.frame import FrameHeader, decode_frame_header
from turnlog.errors import Damaged, StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog._pure.active import ActiveSegment
    from turnlog._pure.medium import Descriptor


def seal_payload(segment: ActiveSegment, file: Descriptor, opened_at: int, successor: bytes) -> bytes:
    """Return chain, event count, successor and sparse index.

    `opened_at` is where this writer's frames begin. Raises Damaged, StorageError.
    """
    events, sparse = _walk(segment, file, opened_at)
    for ordinal, offset in segment.sparse:
        if not sparse or offset // fmt.SPARSE_STEP_BYTES > sparse[-1][1] // fmt.SPARSE_STEP_BYTES:
            sparse.append((ordinal, offset))
    parts = [segment.end.chain, struct.pack("<Q", events + segment.events), successor]
    parts += [struct.pack("<QQ", ordinal, offset) for ordinal, offset in sparse]
    return b"".join(parts)


def _walk(segment: ActiveSegment, file: Descriptor, end: int) -> tuple[int, list[tuple[int, int]]]:
    """Return the event count and the sparse entries of the frames before `end`."""
    events = 0
    sparse: list[tuple[int, int]] = []
    offset = fmt.HEADER_BYTES
    while offset < end:
        try:
            block = os.pread(file.fd, fmt.FRAME_HEADER_MAX_BYTES, offset)
        except OSError as cause:
            message = f"cannot read the segment: {os.strerror(cause.errno or 0)}"
            raise StorageError(message, cause.errno, segment=segment.name, offset=offset) from cause
        header = decode_frame_header(block, segment.segment_id, offset)
        if not isinstance(header, FrameHeader):
            raise Damaged("a frame to be sealed cannot be read", segment=segment.name, offset=offset)
        if header.kind == fmt.KIND_EVENT:
            events += 1
            if not sparse or offset // fmt.SPARSE_STEP_BYTES > sparse[-1][1] // fmt.SPARSE_STEP_BYTES:
                sparse.append((header.ordinal, offset))
        offset += header.frame_length
    return events, sparse
