"""What is left of a damaged segment: every frame whose header can be believed, in file order.

Owns: the walk that repair and the search for misplaced frames rest on. Invariants: memory is one frame; a frame is
handed out with its payload if and only if it is valid. It runs offline, so it serves both cores. Must not know: order,
verdicts, what repair writes.
"""

from __future__ import annotations

from turnlog._pure.blocks import open_source
from turnlog._pure.format import FRAME_HEADER_MAX_BYTES, FRAME_MAGIC, HEADER_BYTES, HEADER_COPY_OFFSET
from turnlog._pure.frame import FrameFault, decode_frame_header
from turnlog._pure.reader import SEGMENT_ID_AT, SEGMENT_ID_BYTES
from turnlog._pure.walk import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from turnlog._pure.frame import FrameHeader


def salvage(path: str, segment_id: bytes) -> Iterator[tuple[int, FrameHeader, bytes | None]]:
    """Yield (offset, header, payload) of each authentic frame; the payload is None where the body is not valid.

    Raises StorageError, Damaged (nothing of a compacted file is readable).
    """
    source = open_source(path)
    window = Window(source, source.size())
    offset = HEADER_BYTES
    while (found := window.next_authentic(segment_id, offset)) is not None:
        offset, header = found
        fault = window.body_fault(header, segment_id, offset)
        payload = None
        if fault is None:
            at = window.view(offset, header.frame_length) + header.header_length
            payload = window.chunk.data[at : at + header.payload_length]
        yield offset, header, payload
        offset += 8 if fault is FrameFault.SHORT else header.frame_length


def provable_id(path: str, stated: Iterable[bytes]) -> bytes | None:
    """Return the segment id under which frames of the file are authentic: one of `stated`, or one that is left in a
    damaged header copy.
    """
    block = open_source(path).read_filled(0, HEADER_BYTES)[0]
    left = [block[at + SEGMENT_ID_AT : at + SEGMENT_ID_AT + SEGMENT_ID_BYTES] for at in (0, HEADER_COPY_OFFSET)]
    for candidate in (*stated, *left):
        if len(candidate) == SEGMENT_ID_BYTES and next(salvage(path, candidate), None) is not None:
            return candidate
    return None


def claimed_ordinal(data: bytes, segment_ids: Iterable[bytes], offsets: Iterable[int]) -> int | None:
    """Return the ordinal of the frame whose header begins `data`, if it is authentic at one of the other places."""
    places = list(offsets)
    for segment_id in segment_ids:
        for offset in places:
            header = decode_frame_header(data[:FRAME_HEADER_MAX_BYTES], segment_id, offset)
            if not isinstance(header, FrameFault):
                return header.ordinal
    return None


def stated_ordinal(data: bytes) -> int | None:
    """Return the ordinal that a frame header states, believed or not; None when `data` begins no frame."""
    return int.from_bytes(data[16:24], "little") if data[:4] == FRAME_MAGIC and len(data) >= 24 else None
