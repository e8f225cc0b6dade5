"""The file-state cache for asyncio: files are looked at and read in a worker thread.

Owns: the wrapper. Invariant: what touches a file is awaited, what is known in memory is plain. Must not know: sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.aio.threads import Facade, Threads
from turnlog.files.files import FILES_MAX, SNAPSHOT_MAX, FileCache

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from turnlog.errors import TurnlogError
    from turnlog.files.file_state import FileState
    from turnlog.model.session_files import SessionFiles


class AsyncFileCache(Facade[FileCache]):
    """A `FileCache` that does not stop the loop.

    >>> import asyncio
    >>> async def main():
    ...     cache = AsyncFileCache()
    ...     with open("notes.txt", "w") as file:
    ...         _ = file.write("one")
    ...     await cache.mark_read("notes.txt")
    ...     with open("notes.txt", "w") as file:
    ...         _ = file.write("two")
    ...     return await cache.has_external_modification("notes.txt")
    >>> asyncio.run(main())
    'modified'
    """

    def __init__(self, files_max: int = FILES_MAX, *, sync: FileCache | None = None) -> None:
        """Keep at most `files_max` states, or wrap a cache that is there. Raises InvalidInput."""
        super().__init__(FileCache(files_max) if sync is None else sync, Threads())

    async def mark_read(self, path: str | os.PathLike[str], digest: str | None = None) -> None:
        """Do as `FileCache.mark_read` does.

        >>> import asyncio
        >>> async def main():
        ...     cache = AsyncFileCache()
        ...     with open("notes.txt", "w") as file:
        ...         _ = file.write("one")
        ...     await cache.mark_read("notes.txt")
        ...     return "notes.txt" in cache
        >>> asyncio.run(main())
        True
        """
        await self._threads.run(self.sync.mark_read, path, digest)

    async def mark_written(self, path: str | os.PathLike[str], digest: str | None = None) -> None:
        """Do as `FileCache.mark_written` does.

        >>> import asyncio
        >>> async def main():
        ...     cache = AsyncFileCache()
        ...     with open("notes.txt", "w") as file:
        ...         _ = file.write("one")
        ...     await cache.mark_written("notes.txt")
        ...     return cache.recent()[0].written
        >>> asyncio.run(main())
        True
        """
        await self._threads.run(self.sync.mark_written, path, digest)

    async def has_external_modification(self, path: str | os.PathLike[str]) -> str | None:
        """Do as `FileCache.has_external_modification` does.

        >>> import asyncio
        >>> async def main():
        ...     cache = AsyncFileCache()
        ...     with open("notes.txt", "w") as file:
        ...         _ = file.write("one")
        ...     await cache.mark_read("notes.txt")
        ...     return await cache.has_external_modification("notes.txt")
        >>> asyncio.run(main()) is None
        True
        """
        return await self._threads.run(self.sync.has_external_modification, path)

    def forget(self, path: str | os.PathLike[str]) -> None:
        """Do as `FileCache.forget` does.

        >>> AsyncFileCache().forget("never seen")
        """
        self.sync.forget(path)

    def recent(self, limit: int = 10) -> list[FileState]:
        """Do as `FileCache.recent` does.

        >>> AsyncFileCache().recent()
        []
        """
        return self.sync.recent(limit)

    def to_snapshot(self, limit: int = SNAPSHOT_MAX) -> dict[str, Any]:
        """Do as `FileCache.to_snapshot` does.

        >>> AsyncFileCache().to_snapshot()
        {'version': 1, 'files': []}
        """
        return self.sync.to_snapshot(limit)

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any], files_max: int = FILES_MAX) -> AsyncFileCache:
        """Do as `FileCache.from_snapshot` does.

        >>> AsyncFileCache.from_snapshot({"version": 1, "files": []}).recent()
        []
        """
        return cls(sync=FileCache.from_snapshot(snapshot, files_max))

    def __len__(self) -> int:
        """Count the files."""
        return len(self.sync)

    def __contains__(self, path: str | os.PathLike[str]) -> bool:
        """Tell whether the file was marked."""
        return path in self.sync


class AsyncSessionFiles(AsyncFileCache):
    """What a session's agent knows of files: `AsyncSession.files`."""

    sync: SessionFiles

    def __init__(self, sync: SessionFiles, threads: Threads) -> None:
        """Use `AsyncSession.files`."""
        super().__init__(sync=sync)
        self._threads = threads

    @property
    def lost(self) -> TurnlogError | None:
        """As `SessionFiles.lost`."""
        return self.sync.lost

    async def save(self) -> bool:
        """Do as `SessionFiles.save` does.

        >>> import asyncio
        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await (await session.files()).save()
        >>> asyncio.run(main())
        False
        """
        return await self._threads.run(self.sync.save)
