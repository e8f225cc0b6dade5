"""Which files of a session folder are its segments: the first part of a repair's plan.

Owns: telling segments from foreign, renamed and unreadable files, and a damaged compacted file from its raw twin.
Invariants: reads only; a file is given up only when nothing proves that it is this session's. Must not know: damage
inside a segment.
"""

from __future__ import annotations

import os

from turnlog import _core
from turnlog.errors import Damaged, StorageError
from turnlog.ids import format_id
from turnlog.log import recovery
from turnlog.log.segments import SegmentFile, list_segments, stray_names, true_file
from turnlog.log.survey import belongs, examine, header_fields, stated_ids
from turnlog.repair.mending import MISNAMED_SUFFIX, Rename, SetAside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from turnlog.log.recovery import Witness
    from turnlog.repair.mending import Action

_NO_HEADER = frozenset({"missing", "not_a_segment", "text_mode", "damaged"})


class Sorted:
    """The session's true segments, and the actions that make the folder hold just those.

    `files` are in order, each with the path it will have; `found` gives the path where it is now.
    """

    def __init__(self, directory: str, session_id: str, witness: Witness | None) -> None:
        """Look at every file of the folder."""
        self.actions: list[Action] = []
        self.ids: dict[str, bytes] = {}  # by path: segment ids that only neighbours or frames prove
        self._directory = directory
        self._session_id = session_id
        self._witness = witness
        files = [self._of_twins(file) for file in list_segments(directory)]
        kept = [file for index, file in enumerate(files) if self._is_ours(files, index)]
        taken = {(file.first_ordinal, file.prefix) for file in kept}
        self.found = {file.path: file.path for file in kept}
        for path in self._wanderers(files, kept):
            self._place(path, taken, kept)
        self._clear_the_way()
        self.files = sorted(kept, key=self._age)

    def _age(self, file: SegmentFile) -> tuple[int, int]:
        fields = self.fields(file)
        return file.first_ordinal, fields["segment_number"] if fields is not None else 0

    def fields(self, file: SegmentFile) -> dict[str, Any] | None:
        """Return the header fields of a file that may still lie under another name."""
        return fields_at(self.found[file.path])

    def _is_ours(self, files: Sequence[SegmentFile], index: int) -> bool:
        file = files[index]
        try:
            with _core.SegmentReader(file.path) as reader:
                header = reader.header
        except Damaged:
            self.actions.append(SetAside(file.path, "nothing of it can be read"))
            return False
        if header["fault"] in _NO_HEADER:
            successor = header_fields(files[index + 1]) if index + 1 < len(files) else None
            segment_id = _core.provable_id(file.path, stated_ids(files, index, successor, self._witness))
            if segment_id is None or segment_id[:4].hex() != file.prefix:
                self.actions.append(SetAside(file.path, f"its header is unusable ({header['fault']})"))
                return False
            self.ids[file.path] = segment_id
            return True
        return header["fault"] is not None or belongs(header["fields"], file, self._session_id)

    def _wanderers(self, files: Sequence[SegmentFile], kept: Sequence[SegmentFile]) -> list[str]:
        """Return the paths of files that are not under a true name."""
        set_aside = {action.segment for action in self.actions}
        renamed = [file.path for file in files if file not in kept and file.name not in set_aside]
        return renamed + [os.path.join(self._directory, name) for name in stray_names(self._directory)]

    def _place(self, path: str, taken: set[tuple[int, str]], kept: list[SegmentFile]) -> None:
        """Give a segment of ours its name back; set aside what only looks like a segment of this session."""
        name = os.path.basename(path)
        fields = fields_at(path)
        if fields is None or format_id(fields["session_id"]) != self._session_id:
            if name not in stray_names(self._directory):
                self.actions.append(SetAside(path, "it is of another session"))
            return
        key = (fields["first_ordinal"], fields["segment_id"][:4].hex())
        if key in taken:
            self.actions.append(SetAside(path, "it is a second copy of a segment"))
            return
        taken.add(key)
        with _core.SegmentReader(path) as reader:
            file = true_file(self._directory, fields, compacted=reader.compacted)
        self.actions.append(Rename(path, file.name))
        self.found[file.path] = path
        kept.append(file)

    def _clear_the_way(self) -> None:
        """Where a file lies under the name of another one that comes back, move it out of the way first."""
        back = [action for action in self.actions if isinstance(action, Rename)]
        occupied = {action.target for action in back}
        first: list[Action] = []
        for action in back:
            if action.path in occupied:
                aside = Rename(action.path, os.path.basename(action.path) + MISNAMED_SUFFIX)
                first.append(aside)
                action.path = aside.target
        self.actions = [*first, *self.actions]

    def _of_twins(self, file: SegmentFile) -> SegmentFile:
        """Choose between a compacted file and the raw one that an interrupted compaction left beside it."""
        if file.twin is None or _verdict(file, self._session_id) == recovery.CLEAN:
            return file
        raw = SegmentFile(
            self._directory, os.path.basename(file.twin), file.first_ordinal, file.prefix, compacted=False
        )
        if _verdict(raw, self._session_id) != recovery.CLEAN:
            return file
        self.actions.append(SetAside(file.path, "it is damaged, and the raw file is still there"))
        return raw


def _verdict(file: SegmentFile, session_id: str) -> str:
    try:
        return examine(file, session_id, newest=False).verdict
    except Damaged:
        return recovery.CORRUPT
    except StorageError:
        return recovery.IO_ERROR


def fields_at(path: str) -> dict[str, Any] | None:
    """Return the header fields of the segment at `path`, or None when it is none."""
    try:
        with _core.SegmentReader(path) as reader:
            return reader.header["fields"] if reader.header["fault"] is None else None
    except (Damaged, StorageError):
        return None
