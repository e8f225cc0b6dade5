"""Write the golden vectors: `tests/vectors/` and the worked example of FORMAT.md.

usage: python tools/make_vectors.py [--check]

Both cores must reproduce every byte of them; `tests/core/test_vectors.py` and `tests/vectors.rs` see to it. The
reference core makes them from the literal cases below. `--check` writes nothing and fails if a file would change.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from turnlog._pure import format as layout  # noqa: E402 - the path comes first
from turnlog._pure.canon import canonical  # noqa: E402
from turnlog._pure.chain import chain_next, chain_start, checksum, digest  # noqa: E402
from turnlog._pure.frame import FrameHeader, decode_frame_header, encode_frame  # noqa: E402
from turnlog._pure.header import encode_header  # noqa: E402

VECTORS = ROOT / "tests" / "vectors"
FORMAT = ROOT / "FORMAT.md"

TIME_US = 1_767_225_600_000_000
SESSION_ID = bytes.fromhex("019b76da-a800-7000-8000-000000000001".replace("-", ""))
PARENT_ID = bytes.fromhex("019b76da-a400-7000-8000-000000000002".replace("-", ""))
SEGMENT_ID = bytes(range(1, 17))
SECOND_SEGMENT_ID = bytes(range(0x21, 0x31))

# JSON texts: every type, escape, key order and number form, and both extensions of RFC 8785.
DOCUMENTS = (
    "null",
    "[true,false,null]",
    "[]",
    "{}",
    '""',
    '{"b":1,"a":{"d":[],"c":{}}}',
    '{"peach":1,"p\\u00e9ch\\u00e9":2,"p\\u00eache":3,"sin":4}',
    '{"\\u20ac":"Euro","\\r":"","\\ufb33":"Dalet","1":"One","\\ud83d\\ude00":"Grin","\\u0080":"Control","\\u00f6":"o"}',
    '"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\"\\\\/\\u007f\\u0080\\u2028\\u2029\\ufeff\\uffff"',
    '"caf\\u00e9 \\u65e5\\u672c\\u8a9e \\ud83d\\ude80"',
    '"\\ud800"',
    '{"\\udfff":"\\ude00\\ud83d","a":1,"\\ud83d\\ude00":2,"\\ue000":3}',
    "[0,-0,1,-1,9007199254740993,9223372036854775807,-9223372036854775808,18446744073709551617]",
    "[0.0,-0.0,1.0,0.1,-2.5,1e21,1e20,123456789012345680000.0,1e-6,1e-7,5e-324,1.7976931348623157e308]",
    '{"content":"def f(x):\\n\\treturn \\"%s\\" % x\\n","is_error":false,"role":"tool"}',
)
# IEEE 754 doubles as their bits, five a line; the table of RFC 8785 appendix B and the borders of the layout rules.
DOUBLES = (
    "0000000000000000 8000000000000000 0000000000000001 8000000000000001 7fefffffffffffff",
    "ffefffffffffffff 4340000000000000 c340000000000000 4430000000000000 44b52d02c7e14af5",
    "44b52d02c7e14af6 44b52d02c7e14af7 444b1ae4d6e2ef4e 444b1ae4d6e2ef4f 444b1ae4d6e2ef50",
    "3eb0c6f7a0b5ed8c 3eb0c6f7a0b5ed8d 41b3de4355555553 41b3de4355555554 41b3de4355555555",
    "41b3de4355555556 41b3de4355555557 becbf647612f3696 43143ff3c1cb0959 3ff8000000000000",
    "4059000000000000 3fb999999999999a",
)
# UTF-16 code units of keys, in their order.
KEYS = ("", "d", "31", "61", "61 0", "61 62", "80", "f6", "20ac", "d7ff", "d800", "d83d de00", "dc00", "e000", "ffff")
# What breaks the first frame of the first segment: where, the bytes put there, and the condition that fails once the
# header checksum was made right again.
BROKEN = (
    (0, "fe", "frame magic is missing"),
    (4, "0d", "header length is out of range"),
    (4, "17", "header length is out of range"),
    (5, "02", "event type is malformed"),
    (104, "00", "event type is malformed"),
    (104, "10", "event type is malformed"),
    (104, "ff", "event type is malformed"),
    (104, "0161000000000000", "event type is malformed"),
    (108, "20", "event type is malformed"),
    (108, "7f", "event type is malformed"),
    (119, "01", "event type is malformed"),
    (8, "01000001", "payload length is over the limit"),
    (8, "15000000", "frame passes the end of the bytes"),
    (80, "00", "payload checksum does not match"),
    (122, "20", "payload checksum does not match"),
    (8, "0c000000", "payload checksum does not match"),
    (133, "01", "payload padding is not zero"),
    (136, "88", "trailer does not match the frame length"),
    (143, "00", "trailer does not match the frame length"),
    (136, "0000000000000000", "trailer does not match the frame length"),
)


class Segment:
    """A segment under construction: its bytes, and its frames as the vectors show them."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.header = header
        self.data = encode_header(header)
        self.chain: bytes = header["prev_chain"]
        self.ordinal: int = header["first_ordinal"] - 1
        self.frames: list[dict[str, Any]] = []

    def event(self, type: str, payload: bytes, flags: int) -> Segment:
        """Append an event."""
        self.ordinal += 1
        event_id = bytes.fromhex("019b76daa8017000800000000000") + struct.pack(">H", self.ordinal)
        self._frame(layout.KIND_EVENT, flags, event_id, type, payload)
        time_us = self.frames[-1]["time_us"]
        self.chain = chain_next(self.chain, self.ordinal, event_id, time_us, digest(payload), type)
        self.frames[-1]["chain"] = self.chain.hex()
        return self

    def control(self, kind: int, payload: bytes = b"") -> Segment:
        """Append a control frame."""
        self._frame(kind, layout.FLAG_COMMIT, bytes(16), "", payload)
        return self

    def _frame(self, kind: int, flags: int, event_id: bytes, type: str, payload: bytes) -> None:
        fields = {
            "offset": len(self.data),
            "kind": kind,
            "flags": flags,
            "epoch": self.header["writer_epoch"],
            "ordinal": self.ordinal,
            "durable_off": self.frames[-1]["offset"] if self.frames else layout.HEADER_BYTES,
            "event_id": event_id,
            "time_us": TIME_US + 1000 * len(self.frames),
            "type": type,
            "payload": payload,
        }
        self.data += encode_frame(segment_id=self.header["segment_id"], **fields)
        self.frames.append(_hexed(fields))


def first_segment() -> Segment:
    """Return segment 1 of a session: every kind of frame but SEAL, every payload shape, a group of two."""
    segment = Segment(
        {
            "session_id": SESSION_ID,
            "segment_id": SEGMENT_ID,
            "segment_number": 1,
            "first_ordinal": 1,
            "prev_chain": chain_start(SESSION_ID),
            "writer_epoch": 1,
            "created_us": TIME_US,
            "writer_name": "turnlog vectors",
        }
    )
    lone = layout.FLAG_COMMIT | layout.FLAG_DURABLE
    segment.event("message.user", canonical({"text": "hi"}), lone)
    segment.event("message.assistant", canonical({"text": "caf\u00e9 \U0001f600", "tokens": 2**70}), layout.FLAG_COMMIT)
    segment.control(layout.KIND_SYNC_MARK)
    segment.event("tool.call", canonical({"name": "ls", "arguments": {}}), 0)
    segment.event("tool.result", canonical({"content": "x" * 600}), lone)
    segment.event("r", bytes(range(256)), layout.FLAG_COMMIT | layout.FLAG_RAW)
    segment.event("t" * layout.TYPE_MAX_BYTES, b"", layout.FLAG_COMMIT | layout.FLAG_RAW)
    segment.control(layout.KIND_CLOSE, segment.chain)
    segment.control(layout.KIND_OPEN, segment.chain)
    return segment.event("message.user", canonical({"text": "again"}), lone)


def second_segment(first: Segment) -> Segment:
    """Return segment 2 of a fork, sealed, with every header field in use."""
    segment = Segment(
        {
            "session_id": SESSION_ID,
            "segment_id": SECOND_SEGMENT_ID,
            "segment_number": 2,
            "first_ordinal": first.ordinal + 1,
            "prev_segment_id": SEGMENT_ID,
            "prev_length": len(first.data),
            "prev_last_ordinal": first.ordinal,
            "prev_chain": chain_start(SESSION_ID, PARENT_ID, 5, digest(b"parent")),
            "writer_epoch": 2,
            "created_us": TIME_US + 1,
            "parent_session_id": PARENT_ID,
            "fork_ordinal": 5,
            "parent_chain": digest(b"parent"),
            "writer_name": "turnlog vectors " + "\u00e9" * 24,
        }
    )
    segment.event("message.user", canonical({"text": "second"}), layout.FLAG_COMMIT)
    sparse = struct.pack("<QQ", segment.ordinal, layout.HEADER_BYTES)
    return segment.control(layout.KIND_SEAL, segment.chain + struct.pack("<Q", 1) + bytes(range(0x41, 0x51)) + sparse)


def vectors() -> dict[Path, bytes]:
    """Return every vector file and its bytes."""
    first = first_segment()
    second = second_segment(first)
    files = {VECTORS / "first.seg": first.data, VECTORS / "second.seg": second.data}
    content = {
        "canonical": [
            {"json": text, "bytes": (data := canonical(json.loads(text))).hex(), "digest": digest(data).hex()}
            for text in DOCUMENTS
        ],
        "doubles": [
            {"bits": bits, "text": canonical(struct.unpack(">d", bytes.fromhex(bits))[0]).decode()}
            for line in DOUBLES
            for bits in line.split()
        ],
        "keys": [[int(unit, 16) for unit in units.split()] for units in KEYS],
        "chain_starts": [
            {
                **_hexed({"session_id": SESSION_ID, "parent_session_id": parent_id, "fork_ordinal": fork_ordinal}),
                **_hexed({"parent_chain": parent_chain}),
                "chain": chain_start(SESSION_ID, parent_id, fork_ordinal, parent_chain).hex(),
            }
            for parent_id, fork_ordinal, parent_chain in ((bytes(16), 0, bytes(32)), (PARENT_ID, 5, digest(b"parent")))
        ],
        "broken_frames": [{"frame": broken(first, at, data).hex(), "fault": fault} for at, data, fault in BROKEN],
        "segments": [
            {"file": path.name, "header": _hexed(segment.header), "frames": segment.frames}
            for path, segment in zip(files, (first, second), strict=True)
        ],
    }
    files[VECTORS / "vectors.json"] = (json.dumps(content, indent=1) + "\n").encode()
    files[FORMAT] = _with_example(FORMAT.read_text(), example(first)).encode()
    return files


def broken(segment: Segment, at: int, data: str) -> bytes:
    """Return the segment's first frame with bytes replaced and its header checksum made right again."""
    start, end = (frame["offset"] for frame in segment.frames[:2])
    frame = bytearray(segment.data[start:end])
    frame[at : at + len(data) // 2] = bytes.fromhex(data)
    salted = SEGMENT_ID + struct.pack("<Q", start) + frame[:96] + frame[104 : frame[4] * 8]
    frame[96:104] = struct.pack("<Q", checksum(bytes(salted)))
    return bytes(frame)


def example(segment: Segment) -> str:
    """Return the worked example: the first frame of the first segment, field by field."""
    start, end = (frame["offset"] for frame in segment.frames[:2])
    frame = segment.data[start:end]
    header = decode_frame_header(frame, SEGMENT_ID, start)
    if not isinstance(header, FrameHeader):
        raise TypeError(header)
    payload_end = header.header_length + header.payload_length
    rows = (
        (0, 4, "magic"),
        (4, 5, f"header_words: {frame[4]} x 8 = {header.header_length}"),
        (5, 6, "kind EVENT"),
        (6, 8, "flags COMMIT, DURABLE"),
        (8, 12, f"payload_length {header.payload_length}"),
        (12, 16, f"epoch {header.epoch}"),
        (16, 24, f"ordinal {header.ordinal}"),
        (24, 32, f"durable_off {header.durable_off:,}"),
        (32, 48, "event_id"),
        (48, 64, "digest of the payload"),
        (64, 80, ""),
        (80, 88, "payload_checksum, seed 0x0807060504030201"),
        (88, 96, "time_us: 2026-01-01T00:00:00Z"),
        (96, 104, "header_checksum"),
        (104, 105, f"type_length {len(header.type)}"),
        (105, 105 + len(header.type), f"type {header.type}"),
        (105 + len(header.type), header.header_length, "padding"),
        (header.header_length, payload_end, f"payload {frame[header.header_length : payload_end].decode()}"),
        (payload_end, len(frame) - 8, "padding"),
        (len(frame) - 8, len(frame) - 4, f"frame_length {len(frame)}"),
        (len(frame) - 4, len(frame), "frame_length_complement"),
    )
    lines = [f"{at:4}  {frame[at:to].hex(' ').upper():<48} {meaning}".rstrip() for at, to, meaning in rows if at < to]
    return f"""The frame at offset {start:,} of `tests/vectors/first.seg`; segment_id is
`{SEGMENT_ID.hex(" ").upper()}`. `tools/make_vectors.py` writes this section.

```text
{chr(10).join(lines)}
```

chain 0 of its session, `{SESSION_ID.hex()}` without a parent, is
`{segment.header["prev_chain"].hex()}`; chain 1, after this event, is
`{segment.frames[0]["chain"]}`."""


def main() -> int:
    """Write the files, or compare them; return the exit code."""
    is_check = sys.argv[1:] == ["--check"]
    stale = [path for path, data in vectors().items() if not path.exists() or path.read_bytes() != data]
    for path in stale:
        print(f"{path.relative_to(ROOT)} {'differs' if is_check else 'written'}")
    if is_check:
        return 1 if stale else 0
    VECTORS.mkdir(exist_ok=True)
    for path, data in vectors().items():
        if path in stale:
            path.write_bytes(data)
    return 0


def _with_example(text: str, example: str) -> str:
    before, heading, rest = text.partition("## 10. Worked example\n")
    _, next_heading, after = rest.partition("\n## 11.")
    return f"{before}{heading}\n{example}\n{next_heading}{after}"


def _hexed(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in fields.items()}


if __name__ == "__main__":
    sys.exit(main())
