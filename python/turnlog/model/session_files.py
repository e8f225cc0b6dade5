"""The file-state cache of a session: restored from its log, kept in it now and then.

Owns: when the cache is written into the log, and what it begins with. Invariants: marking a file costs no append, but
for one `file.snapshot` in SAVE_INTERVAL_S; what was saved is there after a resume and in a fork; marks that came later
than the last save are lost with the process, and such a file is simply not known. Must not know: how files are
compared.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from turnlog.errors import ArtifactNotFound, Damaged, InvalidInput, NotFound, TurnlogError
from turnlog.events import understood
from turnlog.files.file_state import FileState
from turnlog.files.files import FILES_MAX, FileCache
from turnlog.names import is_digest

if TYPE_CHECKING:
    from turnlog._core import Event
    from turnlog.model.live import Live
    from turnlog.state.records import Files

SAVE_INTERVAL_S = 30
_TYPE = "file.snapshot"
_TOUCHED = ("file.read", "file.written")


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and is_digest(value)


class SessionFiles(FileCache):
    """What the session's agent knows of files: `Session.files`. Relative paths begin in the session's `cwd`.

    The states of the files marked last are written into the log by `save`, when the session closes, and half a minute
    or more after the last time: with the first mark then, or when a turn ends. What was marked after that is lost when
    the process is killed; `has_external_modification` then raises NotFound, as for a file that was never marked. An
    application that must not lose a mark records it: `file.read` and `file.written` events with a digest that lie
    behind the newest snapshot are taken over, too: at the next mark or question.
    """

    def __init__(self, live: Live) -> None:
        """Take over what the log says (for `Session.files`). Raises Damaged, StorageError."""
        super().__init__()
        self.lost: TurnlogError | None = None
        """Why the newest snapshot could not be read: the cache began empty."""

        self._live = live
        self._is_dirty = False
        self._saved_s = time.monotonic()
        self._saving = threading.RLock()  # an older snapshot must not come behind a newer one
        self._catching = threading.RLock()
        self._seen: Files | None = None  # what the state said of files when records were looked for last
        self._seen_ordinal = 0
        self._forgotten: dict[str, int] = {}  # since then, and behind which event
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
        self._catch_up()
        with self._saving:
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
        found = self._live.current().files
        if found.snapshot_ordinal:
            self._restore_snapshot(found.snapshot_ordinal)
        self._seen_ordinal = found.snapshot_ordinal
        if found.touched_since:
            self._catch_up()

    def _catch_up(self) -> None:
        """Take over what an application has recorded as read or written since the last look, before the next mark or
        question, so that the later one of a mark and a record counts.
        """
        state = self._live.current()
        if state.files is self._seen:
            return
        with self._catching:
            found, end = state.files, state.ordinal
            events = self._live.session.events(
                after=self._seen_ordinal, types=_TOUCHED, reverse=True, limit=FILES_MAX, on_damage="skip"
            )
            for event in reversed(list(events)):
                self._take_over(event)
                end = max(end, event.ordinal)
                self._is_dirty |= event.ordinal < found.snapshot_ordinal  # which did not hold it yet
            self._seen, self._seen_ordinal = found, end
            self._forgotten.clear()

    def _take_over(self, event: Event) -> None:
        fields = self._live.fields(event) or {}
        path, digest = fields.get("path"), fields.get("digest")
        if fields.get("source") is None and isinstance(path, str) and "\0" not in path and _is_digest(digest):
            name = self._full(path)
            if event.ordinal > self._forgotten.get(name, 0):
                self._put(self._recorded(name, str(digest), written=event.type == "file.written"))

    @staticmethod
    def _recorded(name: str, digest: str, *, written: bool) -> FileState:
        """Return a state of which the digest alone is known: whether the content is still the same decides."""
        state = FileState(name, os.path.realpath(name), digest)
        state.written = written
        with suppress(OSError):  # gone, or not to be looked at: whoever asks for changes is told
            found = os.stat(name)
            state.inode, state.device = found.st_ino, found.st_dev
        return state

    def _restore_snapshot(self, ordinal: int) -> None:
        try:
            payload = self._live.payload(self._live.session.event(ordinal))
            fields: dict[str, Any] = understood(_TYPE, payload) or {}
            if fields.get("source") is None:  # else another product's, which says only how many files there were
                self._load(fields)
        except (ArtifactNotFound, Damaged, InvalidInput, NotFound) as error:
            self.lost = error

    def _put(self, state: FileState) -> None:
        super()._keep(state)

    def has_external_modification(self, path: str | os.PathLike[str]) -> str | None:
        """Return what happened to a file since it was marked or recorded; see `FileCache.has_external_modification`.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> with open("notes.txt", "w") as file:
        ...     _ = file.write("one")
        >>> session.files.mark_written("notes.txt")
        >>> session.files.has_external_modification("notes.txt") is None
        True
        """
        self._catch_up()
        return super().has_external_modification(path)

    def forget(self, path: str | os.PathLike[str]) -> None:
        """Drop what is known of a file, if anything.

        >>> from turnlog import Store
        >>> Store.ephemeral().create().files.forget("never seen")
        """
        self._forgotten[self._full(path)] = self._live.current().ordinal
        super().forget(path)
        self._is_dirty = True

    def _mark(self, path: str | os.PathLike[str], digest: str | None, *, written: bool) -> None:
        self._catch_up()
        super()._mark(path, digest, written=written)

    def _folder(self) -> str:
        return self._live.current().cwd

    def _keep(self, state: FileState) -> None:
        self._put(state)
        self._is_dirty = True
        self._save_if_due()
