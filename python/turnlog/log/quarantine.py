"""Quarantine: where bytes go before they leave a log.

Owns: the folder `quarantine/<session>/`. Invariants: what was kept is durable before the call returns; keeping the same
bytes again, after a crash, makes no second copy; nothing here is ever deleted. Must not know: why bytes are damaged.
"""

from __future__ import annotations

import os

from turnlog import disk, names
from turnlog.ids import now_us

_PIECE_BYTES = 1024 * 1024


class Quarantine:
    """The quarantine of one session."""

    def __init__(self, store: str, session_id: str) -> None:
        """Remember where it is; folders are made when something is kept."""
        self._store = store
        self._session_id = session_id

    def keep_file(self, path: str) -> str:
        """Keep a whole file by a second name for the same bytes; return that name's path. Raises TurnlogError."""
        name = os.path.basename(path)
        try:
            kept = next((other for other in self._kept(name, 0) if os.path.samefile(other, path)), None)
            if kept is None:
                kept = self._place(name, 0)
                try:
                    os.link(path, kept)
                except (PermissionError, NotImplementedError):  # a file system without hard links
                    self._copy(path, kept, 0, os.path.getsize(path))
            disk.sync_directory(os.path.dirname(kept))
        except OSError as error:
            raise disk.translate(error, f"keeping {path} in quarantine") from error
        return kept

    def keep_range(self, path: str, start: int, end: int) -> str | None:
        """Keep a copy of bytes start..end of a file; return the copy's path, None for an empty range."""
        if end <= start:
            return None
        name = os.path.basename(path)
        try:
            for other in self._kept(name, start):
                if _same_bytes(other, path, start, end):
                    return other
            kept = self._place(name, start)
            self._copy(path, kept, start, end)
        except OSError as error:
            raise disk.translate(error, f"keeping bytes {start} to {end} of {path} in quarantine") from error
        return kept

    def shown(self, path: str) -> str:
        """Return a kept file's path below the store."""
        return os.path.relpath(path, self._store)

    def _kept(self, name: str, offset: int) -> list[str]:
        folder = os.path.dirname(names.quarantine_path(self._store, self._session_id, 0, name, offset))
        try:
            entries = os.listdir(folder)
        except FileNotFoundError:
            return []
        return [os.path.join(folder, entry) for entry in entries if entry.endswith(f"-{name}-{offset}")]

    def _place(self, name: str, offset: int) -> str:
        path = names.quarantine_path(self._store, self._session_id, now_us(), name, offset)
        folder = os.path.dirname(path)
        for directory in (os.path.dirname(folder), folder):
            disk.make_directory(directory)
        return path

    def _copy(self, path: str, kept: str, start: int, end: int) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            disk.copy_range(descriptor, kept, start, end)
        finally:
            os.close(descriptor)


def _same_bytes(kept: str, path: str, start: int, end: int) -> bool:
    if os.path.getsize(kept) != end - start:
        return False
    with open(kept, "rb") as copy, open(path, "rb") as source:
        source.seek(start)
        while piece := copy.read(_PIECE_BYTES):
            if piece != source.read(len(piece)):
                return False
    return True
