"""The single steps of a repair: each changes one thing on disk, durably, and may be repeated after a crash.

Owns: what each step does and how it is told. Invariants: damaged bytes are durable in quarantine before they leave
their place; a file appears under its name only when it is whole. Must not know: which steps a session needs, and in
which order.
"""

from __future__ import annotations

import os

from turnlog import _core, disk
from turnlog.errors import Conflict, Damaged
from turnlog.repair.rewrite import bridge, rewrite

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from turnlog.log.quarantine import Quarantine
    from turnlog.log.segments import SegmentFile
    from turnlog.repair.rewrite import Target

MISNAMED_SUFFIX = ".misnamed"  # for the moment in which two segments change names back

_PIECE_BYTES = 1024 * 1024


class Action:
    """One step: `kind`, the segment's name, `text` for people; `run` carries it out."""

    kind = "none"

    def __init__(self, segment: str, text: str, lost: list[tuple[int, int]] | None = None) -> None:
        """Keep what is told about the step; `lost` are the ordinals that it records as lost."""
        self.segment = segment
        self.text = text
        self.lost = lost or []

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        lost = [list(part) for part in self.lost]
        return {"type": "action", "kind": self.kind, "segment": self.segment, "lost": lost, "text": self.text}

    def run(self, keep: Quarantine, /) -> None:
        """Carry the step out. Raises NoSpace, ReadOnly, StorageError."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show what it does."""
        return f"<{self.kind}: {self.text}>"


class SetAside(Action):
    """Move a file that is no segment of this session to quarantine."""

    kind = "set_aside"

    def __init__(self, path: str, why: str) -> None:
        """`path` is the file, `why` a few words."""
        super().__init__(os.path.basename(path), f"move {os.path.basename(path)} to quarantine: {why}")
        self._path = path

    def run(self, keep: Quarantine, /) -> None:
        """Keep the file under a second name, then take the first one away."""
        keep.keep_file(self._path)
        disk.remove_if_present(self._path)
        disk.sync_directory(os.path.dirname(self._path))


class Rename(Action):
    """Give a segment back the name that its header states."""

    kind = "rename"

    def __init__(self, path: str, name: str) -> None:
        """`path` is the file, `name` its true name, or one under which it is out of the way."""
        super().__init__(name, f"rename {os.path.basename(path)} to {name}, as its header says")
        self.path = path
        self.target = os.path.join(os.path.dirname(path), name)

    def run(self, _keep: Quarantine, /) -> None:
        """Rename, over no other file."""
        if os.path.exists(self.target):
            raise Conflict(f"{self.target} is there already; plan again", segment=self.segment)
        os.rename(self.path, self.target)
        disk.sync_directory(os.path.dirname(self.target))


class CutTail(Action):
    """Cut what a crash left unfinished at the end of a segment."""

    kind = "cut_tail"

    def __init__(self, file: SegmentFile, start: int, end: int, *, suspect: bool) -> None:
        """`start` is the end of the last committed frame, `end` where the unfinished bytes end."""
        what = "unreadable" if suspect else "unfinished"
        text = f"copy the {what} end of {file.name} (bytes {start} to {end}) to quarantine and cut it"
        super().__init__(file.name, text)
        self._path = file.path
        self._start = start
        self._end = end

    def run(self, keep: Quarantine, /) -> None:
        """Keep a copy, then cut."""
        keep.keep_range(self._path, self._start, self._end)
        disk.cut(self._path, self._start)


class RestoreHeader(Action):
    """Restore the damaged copy of a segment header from the good one, in place."""

    kind = "restore_header"

    def __init__(self, file: SegmentFile) -> None:
        """`file` is a raw segment."""
        super().__init__(file.name, f"restore the damaged header copy of {file.name} from the good one")
        self._path = file.path

    def run(self, keep: Quarantine, /) -> None:
        """Write only the bytes that differ; the good copy is never touched, so a torn write loses nothing."""
        keep.keep_range(self._path, 0, _core.HEADER_BYTES)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            block = os.pread(descriptor, _core.HEADER_BYTES, 0)
            whole = whole_header(block)
            for start in range(0, _core.HEADER_BYTES, _core.HEADER_STRUCT_BYTES):
                part = whole[start : start + _core.HEADER_STRUCT_BYTES]
                if part != block[start : start + len(part)]:
                    disk.write_all(descriptor, part, start)
            disk.sync_file(descriptor)
        except OSError as error:
            raise disk.translate(error, f"restoring the header of {self._path}") from error
        finally:
            os.close(descriptor)


class Unpack(Action):
    """Replace a compacted segment whose seek table or header copy is damaged by its raw form."""

    kind = "unpack"

    def __init__(self, file: SegmentFile, raw_path: str) -> None:
        """`file` is the compacted segment, `raw_path` where the raw one goes."""
        super().__init__(file.name, f"unpack {file.name}, whose header or seek table has one damaged copy")
        self._path = file.path
        self._raw_path = raw_path

    def run(self, keep: Quarantine, /) -> None:
        """Write the raw segment, then take the compacted one away."""
        with _core.SegmentReader(self._path) as reader:
            block = whole_header(reader.read(0, _core.HEADER_BYTES))

            def write(descriptor: int) -> None:
                disk.write_all(descriptor, block, 0)
                for offset in range(_core.HEADER_BYTES, reader.size(), _PIECE_BYTES):
                    disk.write_all(descriptor, reader.read(offset, _PIECE_BYTES), offset)

            _create(self._raw_path, write)
        SetAside(self._path, "unpacked").run(keep)


class Rewrite(Action):
    """Replace a damaged segment by one that holds everything undamaged and a note at each gap."""

    kind = "rewrite"

    def __init__(
        self,
        file: SegmentFile,
        raw_path: str,
        fields: Mapping[str, Any],
        *,
        verdict: str,
        mark: int,
        target: Target,
        lost: list[tuple[int, int]],
    ) -> None:
        """`raw_path` is where the new file goes, `fields` its header, `mark` the durable mark of the old one."""
        told = ", ".join(f"{first}-{last}" if first < last else f"{first}" for first, last in lost) or "none"
        text = f"rewrite {file.name} ({verdict}); the old file goes to quarantine; events recorded as lost: {told}"
        super().__init__(file.name, text, lost)
        self._path = file.path
        self._raw_path = raw_path
        self._fields = fields
        self._verdict = verdict
        self._mark = mark
        self._target = target

    def run(self, keep: Quarantine, /) -> None:
        """Keep the old file, write the new one beside it, rename."""
        kept = keep.keep_file(self._path)
        if self._raw_path != self._path and os.path.exists(self._raw_path):
            keep.keep_file(self._raw_path)
        about = {"quarantined": keep.shown(kept), "verdict": self._verdict}
        promised = max((last for _, last in self.lost), default=0)
        _create(
            self._raw_path,
            lambda descriptor: rewrite(
                descriptor,
                self._path,
                self._fields,
                mark=self._mark,
                promised=promised,
                target=self._target,
                about=about,
            ),
        )
        if self._raw_path != self._path:
            disk.remove_if_present(self._path)
            disk.sync_directory(os.path.dirname(self._path))


class Bridge(Action):
    """Create a segment that stands for a missing one and records its events as lost."""

    kind = "bridge"

    def __init__(
        self, path: str, fields: Mapping[str, Any], last: int, chain: bytes | None, before: str | None
    ) -> None:
        """`last` is the last lost ordinal, `chain` the chain there (None: unknown), `before` the successor's name."""
        first = fields["first_ordinal"]
        lost = [(first, last)] if last >= first else []
        told = f"records events {first} to {last} as lost" if lost else "no event is known to be lost"
        where = f"before {before}" if before is not None else "at the end"
        super().__init__(os.path.basename(path), f"create a segment {where} for the missing one; {told}", lost)
        self._path = path
        self._fields = fields
        self._last = last
        self._chain = chain

    def run(self, _keep: Quarantine, /) -> None:
        """Create the file whole."""
        about = {"quarantined": None, "verdict": "LOST_DATA"}
        _create(self._path, lambda descriptor: bridge(descriptor, self._fields, self._last, self._chain, about))


def whole_header(block: bytes) -> bytes:
    """Return the header block made of its good copy. Raises Damaged when neither copy is good."""
    size, gap = _core.HEADER_STRUCT_BYTES, bytes(_core.HEADER_COPY_OFFSET - _core.HEADER_STRUCT_BYTES)
    for start in (0, _core.HEADER_COPY_OFFSET):
        copy = block[start : start + size]
        whole = copy + gap + copy + gap
        header = _core.decode_header(whole)
        if header["fault"] is None and not header["degraded"]:
            return whole
    raise Damaged("neither copy of the segment header can be read")


def _create(path: str, write: Any) -> None:
    try:
        disk.create_file(path, write)
    except OSError as error:
        raise disk.translate(error, f"writing {path}") from error
