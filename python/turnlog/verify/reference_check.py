"""The check of references: whether each artifact that an event refers to is in the store, with the size it states.

Owns: which events refer to artifacts, and the findings about those that are not there. Invariants: reads only; payloads
are decoded only where their bytes hold the mark of a reference, and segments without any mark are not replayed; the
events that a fork inherits are its parent's. Must not know: what artifacts hold; `wrong_artifacts` reads that.
"""

from __future__ import annotations

from turnlog import _core, names
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.artifacts.offload import MARK, references
from turnlog.errors import Damaged, NewerFormat, StorageError
from turnlog.log import recovery
from turnlog.log.log import Log, Window
from turnlog.log.segments import list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from turnlog._core import Event, SegmentReader
    from turnlog.artifacts.artifacts import ArtifactFinding
    from turnlog.log.segments import SegmentFile
    from turnlog.reference import Reference

_PIECE_BYTES = 1 << 20
_VERDICTS = {"missing": recovery.LOST_DATA, "damaged": recovery.CORRUPT, "unreadable": recovery.IO_ERROR}
_SHOW = "sessionctl show {session}:{ordinal}"


def reference_findings(directory: str, session_id: str) -> Iterator[dict[str, Any]]:
    """Yield a finding for each artifact that a session's own events refer to and that is not there as they say.

    It names the first event that refers to it, and counts the others.
    """
    artifacts = ArtifactStore(names.store_of(directory))
    sound: set[tuple[str, int]] = set()
    found: dict[tuple[str, int], dict[str, Any]] = {}
    more: dict[tuple[str, int], int] = {}
    for file, event in _referring(directory, session_id):
        for reference in references(event.payload):
            key = reference.digest, reference.size
            if key in found:
                more[key] += event.ordinal != found[key]["ordinal"]
            elif key not in sound:
                wrong = artifacts.verify(reference, full=False)
                if wrong is None:
                    sound.add(key)
                    continue
                more[key] = 0
                found[key] = _finding(session_id, file, event, reference, wrong)
    for key, finding in found.items():
        if more[key]:
            finding["detail"] += f" (and {more[key]} more)"
        yield finding


def _referring(directory: str, session_id: str) -> Iterator[tuple[SegmentFile, Event]]:
    """Yield the session's own events that hold the mark of a reference."""
    log = Log(directory, session_id)
    try:
        files = [file for file in list_segments(directory) if log.is_true(file)]
        for file, following in zip(files, [*files[1:], None], strict=True):
            if not _holds_mark(log.open_reader(file)):
                continue
            end = None if following is None else following.first_ordinal
            for batch in log.own_batches(Window(file.first_ordinal - 1, end, on_damage="skip")):
                yield from ((file, event) for event in batch if not event.is_raw and MARK in event.raw)
    except (Damaged, NewerFormat, StorageError):
        return  # the check of the segments has reported it, and what it lost cannot be asked
    finally:
        log.close()


def _holds_mark(reader: SegmentReader) -> bool:
    """Tell whether the mark stands anywhere in a segment; also where that cannot be told."""
    offset, before = _core.HEADER_BYTES, b""
    try:
        while piece := reader.read(offset, _PIECE_BYTES):
            if MARK in piece or MARK in before + piece[: len(MARK)]:
                return True
            offset, before = offset + len(piece), piece[-len(MARK) :]
    except Damaged:
        return True
    return False


def _finding(
    session_id: str, file: SegmentFile, event: Event, reference: Reference, wrong: ArtifactFinding
) -> dict[str, Any]:
    why = "is not in the store" if wrong.kind == "missing" else f"is not as it says: {wrong.detail}"
    return {
        "type": "finding",
        "session": session_id,
        "segment": file.name,
        "verdict": _VERDICTS[wrong.kind],
        "code": "reference",
        "offset": event.offset,
        "end": event.offset,
        "lost": None,
        "ordinal": event.ordinal,
        "digest": reference.digest,
        "detail": f"event {event.ordinal} refers to artifact {reference.digest} ({reference.size} bytes), which {why}",
        "next": [_SHOW.format(session=session_id, ordinal=event.ordinal)],
    }
