"""The file-state cache of a session: restored from its log, kept in it now and then.

Owns: when the cache is written into the log, and what it begins with. Invariants: marking a file costs no append, but
for one `file.snapshot` in SAVE_INTERVAL_S; what was saved is there after a resume and in a fork; marks that came later
than the last save are lost with the process, and such a file is simply not known. Must not know: how files are
compared.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from turnlog.errors import ArtifactNotFound, Damaged, InvalidInput, NotFound, TurnlogError
from turnlog.events import understood
from turnlog.files.files import FileCache

if TYPE_CHECKING:
    from turnlog.files.file_state import FileState
    from turnlog.model.live import Live

SAVE_INTERVAL_S = 30
_TYPE = "file.snapshot"


class SessionFiles(FileCache):
    """What the session's agent knows of files: `Session.files`. Relative paths begin in the session's `cwd`.

    The states of the files marked last are written into the log by `save`, when the session closes, and half a minute
    or more after the last time: with the first mark then, or when a turn ends. What was marked after that is lost when
    the process is killed; `has_external_modification` then raises NotFound, as for a file that was never marked.
    """

    def __init__(self, live: Live) -> None:
        """Take over what the log says (for `Session.files`). Raises Damaged, StorageError."""
        super().__init__()
        self.lost: TurnlogError | None = None
        """Why the newest snapshot could not be read: the cache began empty."""

        self._live = live
        self._is_dirty = False
        self._saved_s = time.monotonic()
        self._restore()
        live.paused = self._pause

    def save(self) -> bool:
        """Write the cache into the log, if it has changed: before a pause, for example. Tell whether there was need to.

        Raises what `Session.append` raises.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> with open("notes.txt", "w") as file:
        ...     _ = file.write("one")
        >>> session.files.mark_read("notes.txt")
        >>> session.files.save(), session.files.save()
        (True, False)
        """
        if not self._is_dirty:
            return False
        self._is_dirty, self._saved_s = False, time.monotonic()
        try:
            self._live.record(_TYPE, self.to_snapshot())
        except BaseException:
            self._is_dirty = True
            raise
        return True

    def _pause(self) -> None:
        """Save where that is due, at the end of a turn: its outcome is stored, so nothing is raised; what could not be
        saved stays to be saved by the next mark that is due, or by the close, which raise.
        """
        try:
            self._save_if_due()
        except TurnlogError:
            self._is_dirty = True

    def _save_if_due(self) -> None:
        if self._is_dirty and time.monotonic() - self._saved_s >= SAVE_INTERVAL_S and self._live.session.is_writing:
            self.save()

    def _restore(self) -> None:
        ordinal = self._live.current().files.snapshot_ordinal
        if not ordinal:
            return
        try:
            payload = self._live.payload(self._live.session.event(ordinal))
            fields: dict[str, Any] = understood(_TYPE, payload) or {}
            if fields.get("source") is None:  # else another product's, which says only how many files there were
                self._load(fields)
        except (ArtifactNotFound, Damaged, InvalidInput, NotFound) as error:
            self.lost = error

    def _folder(self) -> str:
        return self._live.current().cwd

    def _keep(self, state: FileState) -> None:
        super()._keep(state)
        self._is_dirty = True
        self._save_if_due()
