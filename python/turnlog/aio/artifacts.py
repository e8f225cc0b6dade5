"""Artifacts for asyncio: large blobs, put and read without stopping the loop.

Owns: the wrappers of the artifact store and of a stream over a content. Invariant: a put whose await was cancelled goes
on, and the content is stored once, whole, or not at all. Must not know: which events refer to an artifact.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from turnlog.aio.threads import Closing, Facade
from turnlog.artifacts.artifacts import GRACE_DAYS, ArtifactStore
from turnlog.memory import MemoryArtifacts
from turnlog.reference import BINARY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnlog.artifacts.artifacts import ArtifactFinding
    from turnlog.artifacts.file import Stream
    from turnlog.artifacts.sweep import Swept
    from turnlog.reference import Reference


class AsyncArtifacts(Facade[ArtifactStore | MemoryArtifacts]):
    """The artifacts of a store, or in memory of an ephemeral session: `AsyncStore.artifacts`, `AsyncSession.artifacts`.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with await AsyncStore.open("runs") as store:
    ...         reference = await store.artifacts.put(b"a long output", media_type="text/plain")
    ...         return await store.artifacts.read(reference, 2, 4)
    >>> asyncio.run(main())
    b'long'
    """

    @property
    def path(self) -> str | None:
        """The store's folder; None for artifacts in memory."""
        return self.sync.path

    async def put(
        self,
        source: bytes | bytearray | memoryview | str | os.PathLike[str] | Stream,
        /,
        *,
        media_type: str = BINARY,
        summary: str | None = None,
    ) -> Reference:
        """Do as `ArtifactStore.put` does; a stream is read in a worker thread.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         return (await store.artifacts.put(io.BytesIO(b"from a stream"))).size
        >>> asyncio.run(main())
        13
        """
        return await self._threads.alone(self.sync.put, source, media_type=media_type, summary=summary)

    async def read(self, artifact: Reference | str, start: int = 0, length: int | None = None) -> bytes:
        """Do as `ArtifactStore.read` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await session.artifacts.read(await session.artifacts.put(b"a long output"), start=7)
        >>> asyncio.run(main())
        b'output'
        """
        return await self._threads.run(self.sync.read, artifact, start, length)

    async def open(self, artifact: Reference | str, start: int = 0, length: int | None = None) -> AsyncStream:
        """Do as `ArtifactStore.open` does; the stream's methods are awaited.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.artifacts.open(await store.artifacts.put(b"one output")) as stream:
        ...             return await stream.seek(4), await stream.read()
        >>> asyncio.run(main())
        (4, b'output')
        """
        opened = await self._threads.begin(
            lambda: self.sync.open(artifact, start, length), lambda stream: stream.close()
        )
        return AsyncStream(opened, self._threads)

    async def verify(self, artifact: Reference | str, *, full: bool = True) -> ArtifactFinding | None:
        """Do as `ArtifactStore.verify` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         return (await store.artifacts.verify("0" * 64)).kind
        >>> asyncio.run(main())
        'missing'
        """
        return await self._threads.run(self.sync.verify, artifact, full=full)

    async def sweep(self, referenced: Iterable[str], *, grace_days: float = GRACE_DAYS, dry_run: bool = True) -> Swept:
        """Do as `ArtifactStore.sweep` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         reference = await store.artifacts.put(b"referred to")
        ...         return (await store.artifacts.sweep([reference.digest])).kept
        >>> asyncio.run(main())
        1
        """
        return await self._threads.alone(self.sync.sweep, referenced, grace_days=grace_days, dry_run=dry_run)


class AsyncStream(Closing, Facade[io.BufferedReader]):
    """A binary stream over the content of an artifact whose methods are awaited; one await at a time."""

    async def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that follow when it is negative. Raises Damaged, StorageError.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.artifacts.open(await store.artifacts.put(b"one output")) as stream:
        ...             return await stream.read(3)
        >>> asyncio.run(main())
        b'one'
        """
        return await self._threads.run(self.sync.read, size)

    async def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move within the range and return the place.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.artifacts.open(await store.artifacts.put(b"one output")) as stream:
        ...             return await stream.seek(0, os.SEEK_END)
        >>> asyncio.run(main())
        10
        """
        return await self._threads.run(self.sync.seek, offset, whence)

    async def close(self) -> None:
        """Release the file; idempotent.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         stream = await store.artifacts.open(await store.artifacts.put(b"one output"))
        ...         await stream.close()
        >>> asyncio.run(main())
        """
        await self._threads.finish(self.sync.close)
