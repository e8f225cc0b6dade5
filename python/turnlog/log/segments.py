"""The segment files of one session folder: which there are, in which order, and how a new one is made.

Owns: listing, ordering and durable creation. Invariants: a segment is counted once (compacted wins over raw); a new
segment names its predecessor and appears whole or not at all. Must not know: locks, verdicts, what events mean.
"""

from __future__ import annotations

import errno
import os

from turnlog import _core, disk, names
from turnlog._core import ZERO_STEP_MIN_BYTES
from turnlog.errors import StorageError, SyncFailed
from turnlog.ids import now_us, parse_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from turnlog.log.lineage import Origin

_ZERO_ID = bytes(16)
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})  # a later try may succeed
_ZERO_CHAIN = bytes(32)
_WRITER_NAME = "turnlog"
_WRITER_LEVEL = 1


class SegmentFile:
    """One segment on disk, named but not read."""

    __slots__ = ("compacted", "first_ordinal", "name", "path", "prefix", "twin")

    def __init__(self, directory: str, name: str, first_ordinal: int, prefix: str, *, compacted: bool) -> None:
        """Keep the parts of the name."""
        self.name = name
        self.path = os.path.join(directory, name)
        self.first_ordinal = first_ordinal
        self.prefix = prefix
        self.compacted = compacted
        self.twin: str | None = None  # the raw file that an interrupted compaction left beside the compacted one

    def __repr__(self) -> str:
        """Show the name."""
        return f"<SegmentFile {self.name}>"


def list_segments(directory: str) -> list[SegmentFile]:
    """Return the session's segments, oldest first; an empty list when there are none.

    Raises StorageError when the folder cannot be read.
    """
    try:
        entries = os.listdir(directory)
    except OSError as error:
        message = f"reading the session folder {directory}: {error.strerror}"
        raise StorageError(message, error.errno) from error
    found: dict[tuple[int, str], SegmentFile] = {}
    for name in sorted(entries):  # of two twins the raw one sorts first
        parts = names.parse_segment_name(name)
        if parts is None:
            continue
        first, prefix, compacted = parts
        segment = SegmentFile(directory, name, first, prefix, compacted=compacted)
        raw = found.get((first, prefix))
        if raw is not None:
            segment.twin = raw.path
        found[first, prefix] = segment
    if len(found) < 2:  # nearly all sessions, and a rebuild asks for each
        return list(found.values())
    return sorted(found.values(), key=_age(found))


def stray_names(directory: str) -> list[str]:
    """Return the names in a session folder that are neither segments nor the lock nor unfinished creations."""
    return [
        name
        for name in sorted(os.listdir(directory))
        if name != names.LOCK and not name.endswith(names.TEMP_SUFFIX) and names.parse_segment_name(name) is None
    ]


def true_file(directory: str, fields: Mapping[str, Any], *, compacted: bool) -> SegmentFile:
    """Return the segment file under the name that its header states."""
    name = names.segment_name(fields["first_ordinal"], fields["segment_id"], compacted=compacted)
    return SegmentFile(directory, name, fields["first_ordinal"], fields["segment_id"][:4].hex(), compacted=compacted)


def raw_path(file: SegmentFile, segment_id: bytes) -> str:
    """Return where the raw form of a segment lies."""
    return os.path.join(os.path.dirname(file.path), names.segment_name(file.first_ordinal, segment_id))


def _age(found: dict[tuple[int, str], SegmentFile]) -> Any:
    """Return a sort key: first ordinal, and the number in the header where a crash left two segments with one first
    ordinal.
    """
    firsts = [first for first, _ in found]

    def key(segment: SegmentFile) -> tuple[int, int]:
        if firsts.count(segment.first_ordinal) == 1:
            return segment.first_ordinal, 0
        with open_segment(segment) as reader:
            fields = reader.header["fields"]
        return segment.first_ordinal, fields["segment_number"] if fields else 0

    return key


def open_segment(file: SegmentFile, known_id: bytes | None = None) -> _core.SegmentReader:
    """Return a reader for a segment; for the compacted file where it was compacted since it was listed.

    Raises StorageError, Damaged.
    """
    try:
        return _core.SegmentReader(file.path, known_id)
    except StorageError as error:
        if error.errno != errno.ENOENT:
            raise
        same = [
            other.path
            for other in list_segments(os.path.dirname(file.path))
            if (other.first_ordinal, other.prefix) == (file.first_ordinal, file.prefix) and other.path != file.path
        ]
        if not same:
            raise
        return _core.SegmentReader(same[0], known_id)


def read_header(path: str) -> dict[str, Any]:
    """Return the decoded header of a segment file (the core's `decode_header` result)."""
    with _core.SegmentReader(path) as reader:
        return reader.header


def first_fields(session_id: str, *, epoch: int = 1, origin: Origin | None = None) -> dict[str, Any]:
    """Return the header fields of a session's first segment; `origin` is where it was forked."""
    identity = parse_id(session_id)
    lineage = (_ZERO_ID, 0, _ZERO_CHAIN)
    if origin is not None:
        lineage = (parse_id(origin.session), origin.ordinal, origin.chain)
    parent, inherited, parent_chain = lineage
    return {
        **_fields(epoch),
        "session_id": identity,
        "segment_number": 1,
        "first_ordinal": inherited + 1,
        "prev_segment_id": _ZERO_ID,
        "prev_length": 0,
        "prev_last_ordinal": inherited,
        "prev_chain": _core.chain_start(identity, *lineage),
        "parent_session_id": parent,
        "fork_ordinal": inherited,
        "parent_chain": parent_chain,
    }


def successor_fields(
    previous: Mapping[str, Any], *, length: int, ordinal: int, chain: bytes, epoch: int
) -> dict[str, Any]:
    """Return the header fields of the segment that follows `previous`.

    `length` is the previous segment's logical length up to its last event, `ordinal` and `chain` its state there.
    """
    return {
        **_fields(epoch),
        "session_id": previous["session_id"],
        "segment_number": previous["segment_number"] + 1,
        "first_ordinal": ordinal + 1,
        "prev_segment_id": previous["segment_id"],
        "prev_length": length,
        "prev_last_ordinal": ordinal,
        "prev_chain": chain,
        "parent_session_id": previous["parent_session_id"],
        "fork_ordinal": previous["fork_ordinal"],
        "parent_chain": previous["parent_chain"],
    }


def create_segment(directory: str, fields: Mapping[str, Any]) -> str:
    """Create a segment that holds its header and the first zeroed step; return its path.

    Raises NoSpace, ReadOnly or StorageError; then no segment was made. Raises SyncFailed when it was made and its name
    may not last: then it must not be made again beside this one, only an opening that starts over may go on.
    """
    path = os.path.join(directory, names.segment_name(fields["first_ordinal"], fields["segment_id"]))
    block = _core.encode_header(dict(fields))
    try:
        disk.create_file(
            path, lambda descriptor: disk.write_all(descriptor, block + bytes(ZERO_STEP_MIN_BYTES - len(block)), 0)
        )
    except OSError as error:
        segment = os.path.basename(path)
        if error.errno in _EXHAUSTED:  # the folder could not be opened, so no sync failed
            disk.remove_if_present(path)
        if os.path.exists(path):
            message = f"syncing the folder of a new segment: {error.strerror or error}; reopen the session"
            raise SyncFailed(message, error.errno, segment=segment) from error
        raise disk.translate(error, f"creating the segment {path}").at(segment=segment) from error
    return path


def _fields(epoch: int) -> dict[str, Any]:
    return {
        "features_required": 0,
        "features_readonly": 0,
        "segment_id": os.urandom(16),
        "writer_epoch": epoch,
        "created_us": now_us(),
        "writer_name": _WRITER_NAME,
        "min_writer": _WRITER_LEVEL,
    }
