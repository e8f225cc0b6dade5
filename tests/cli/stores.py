"""Stores whose every byte is known, for golden output: built with the reference core's encoders, not by a writer.

Owns: the sessions FLAKY (whole), HOSTILE (text that tries to drive a terminal) and DAMAGED (one event changed below the
durable mark). Must not know: sessionctl.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tests.core.segments import TIME_US, SegmentBuilder
from turnlog import names
from turnlog._pure.canon import canonical
from turnlog._pure.chain import chain_start
from turnlog.ids import parse_id

if TYPE_CHECKING:
    from pathlib import Path

FLAKY = "0196aaaa-0000-7000-8000-00000000000a"
HOSTILE = "0196aaaa-0000-7000-8000-00000000000b"
DAMAGED = "0197cccc-0000-7000-8000-00000000000c"
HOUR_US = 3_600_000_000
NOW_US = TIME_US + 2 * HOUR_US

FLAKY_EVENTS: list[tuple[str, Any]] = [
    ("session.created", {"title": "flaky test", "cwd": "/src/app", "model": "provider/x", "tags": ["ci"]}),
    ("turn.started", {}),
    ("message.user", {"content": "Why does test_retry fail?"}),
    ("tool.proposed", {"call_id": "c1", "name": "bash", "input": {"cmd": "pytest -x"}}),
    ("source.line", b'{"line": 1}\n'),
    ("tool.completed", {"call_id": "c1", "output": "1 failed"}),
    ("step.completed", {"usage": {"input": 812, "output": 64}}),
    ("source.line", b"caf\xe9\x1b[2J\n"),
    ("turn.completed", {}),
]
HOSTILE_TEXT = "\x1b]0;owned\x07\x9b2J\u202eevil\r\n\ud800"
HOSTILE_EVENTS: list[tuple[str, Any]] = [
    ("session.created", {"title": f"nice {HOSTILE_TEXT}", "cwd": "/tmp/\x1b[31m", "parent": FLAKY}),
    ("message.user", {"content": HOSTILE_TEXT}),
    ("source.line", HOSTILE_TEXT.encode("utf-8", "surrogatepass")),
]
DAMAGED_EVENTS: list[tuple[str, Any]] = [
    ("session.created", {"title": "broken"}),
    ("message.user", {"content": "before"}),
    ("message.user", {"content": "changed"}),
    ("message.user", {"content": "after"}),
]


def build(session_id: str, events: list[tuple[str, Any]]) -> SegmentBuilder:
    """Return a closed segment with these events; bytes are kept verbatim."""
    identity = parse_id(session_id)
    builder = SegmentBuilder(session_id=identity, chain=chain_start(identity))
    for kind, payload in events:
        if isinstance(payload, bytes):
            builder.event(payload, type=kind, flags=3)
        else:
            builder.event(canonical(payload), type=kind)
    builder.sync_mark()
    builder.close()
    return builder


def place(store: Path, session_id: str, data: bytes) -> Path:
    """Put a segment's bytes where the session's first segment belongs."""
    folder = store / names.SESSIONS / names.shard(session_id) / session_id
    folder.mkdir(parents=True, mode=0o700)
    path = folder / names.segment_name(1, bytes(range(100, 116)))
    path.write_bytes(data)
    return path


def make_store(path: Path, *session_ids: str) -> Path:
    """Make a store with some of the sessions."""
    (path / names.SESSIONS).mkdir(parents=True)
    (path / names.LIVE).mkdir()
    identity = {"created_us": TIME_US, "format": 1, "store_id": FLAKY}
    (path / names.STORE_FILE).write_bytes(canonical(identity))
    for session_id in session_ids:
        if session_id == FLAKY:
            place(path, FLAKY, bytes(build(FLAKY, FLAKY_EVENTS).data))
        elif session_id == HOSTILE:
            place(path, HOSTILE, bytes(build(HOSTILE, HOSTILE_EVENTS).data))
        else:
            builder = build(DAMAGED, DAMAGED_EVENTS)
            data = bytes(builder.data).replace(b"changed", b"chAnged")
            assert data != bytes(builder.data)
            place(path, DAMAGED, data)
    return path


def fingerprint(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Return digest, modification time and mode of every file and folder: equal means that nothing was written."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        content = path.read_bytes() if path.is_file() else b""
        state = path.stat()
        digest = hashlib.sha256(content).hexdigest()
        found[str(path.relative_to(folder))] = (digest, state.st_mtime_ns, state.st_mode)
    return found
