"""A segment file under a writer, for tests.

Owns: making an empty segment, opening a writer on it, and taking a file apart with the reference decoder.
Must not know: what is tested.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.core.segments import SEGMENT_ID, SegmentBuilder
from turnlog._pure.format import HEADER_BYTES
from turnlog._pure.frame import FrameHeader, check_body, decode_frame_header, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

FIELDS = ("kind", "flags", "epoch", "ordinal", "durable_off", "event_id", "time_us", "type")


class Frame(NamedTuple):
    """A valid frame of a file."""

    offset: int
    header: FrameHeader
    payload: bytes


def new_segment(folder: Path, name: str = "a.seg") -> Path:
    """Make a file that holds a segment header only."""
    path = folder / name
    path.write_bytes(bytes(SegmentBuilder().data))
    return path


def open_writer(core: ModuleType, committer: Any, path: Path, **changes: Any) -> Any:
    """Open a writer on a file from `new_segment`; `changes` replace its keyword arguments."""
    start = SegmentBuilder()
    arguments = {
        "segment_id": SEGMENT_ID,
        "end": HEADER_BYTES,
        "ordinal": 0,
        "chain": start.chain,
        "epoch": 1,
        "roll_bytes": 64 << 20,
        **changes,
    }
    return core.Writer(committer, str(path), **arguments)


def frames_of(path: Path) -> list[Frame]:
    """Take the file apart; fails unless it is frames, each as `encode_frame` makes it, and then zeros."""
    data = path.read_bytes()
    frames: list[Frame] = []
    offset = HEADER_BYTES
    while data[offset : offset + 1] not in {b"", b"\0"}:
        header = decode_frame_header(data[offset : offset + 176], SEGMENT_ID, offset)
        assert isinstance(header, FrameHeader), (offset, header)
        frame = data[offset : offset + header.frame_length]
        assert check_body(frame, header, SEGMENT_ID) is None
        payload = frame[header.header_length : header.header_length + header.payload_length]
        fields = {name: getattr(header, name) for name in FIELDS}
        assert frame == encode_frame(segment_id=SEGMENT_ID, offset=offset, payload=payload, **fields)
        frames.append(Frame(offset, header, payload))
        offset += header.frame_length
    assert not data[offset:].strip(b"\0"), "bytes behind the last frame"
    return frames


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    """Return when `condition` holds; fail when it does not come true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)
