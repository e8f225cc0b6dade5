"""The file-state cache of a session: restored from its log, kept in it now and then.

Owns: when the cache is written into the log, and what it begins with. Invariants: marking a file costs no append, but
for one `file.snapshot` in SAVE_INTERVAL_S; what was saved is there after a resume and in a fork; marks that came later
than the last save are lost with the process, and such a file is simply not known. Must not know: how files are
compared.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from turnlog.errors import ArtifactNotFound, Damaged, InvalidInput, NotFound
from turnlog.events import understood
from turnlog.files.files import FileCache

if TYPE_CHECKING:
    from turnlog.errors import TurnlogError
    from turnlog.files.file_state import FileState
    from turnlog.model.live import Live

SAVE_INTERVAL_S = 30
_TYPE = "file.snapshot"


class SessionFiles(FileCache):
    """What the session's agent knows of files: `Session.files`. Relative paths begin in the session's `cwd`.

    The states of the files marked last are written into the log by `save`, when the session closes, and with the first
    mark that comes half a minute or more after the last time.
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
        if time.monotonic() - self._saved_s >= SAVE_INTERVAL_S and self._live.session.is_writing:
            self.save()
