"""Artifacts: large blobs of a store, named after the SHA-256 of their content, each stored once.

Owns: `artifacts/` and the order of a put: temporary file, sync, rename, sync of the folder. Invariants: when `put`
returns, the content is durable, so the event that refers to it may be appended; what has an artifact's name is whole; a
put and a sweep in another process cannot meet between a check and its consequence, both hold the folder's lock.
Must not know: which events refer to an artifact, what the content means.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from contextlib import contextmanager

from turnlog import _core, disk, names
from turnlog.arguments import require_whole
from turnlog.artifacts.file import NEXT, PIECE_BYTES, Content, ContentStream, Recorder, pays, pays_throughout, pieces_of
from turnlog.artifacts.sweep import locked, sweep
from turnlog.errors import ArtifactNotFound, Damaged, InvalidInput, NotFound, StorageError
from turnlog.reference import BINARY, Reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from turnlog.artifacts.file import Stream
    from turnlog.artifacts.sweep import Swept

GRACE_DAYS = 14
_SETTLED_MAX = 4096


class ArtifactStore:
    """The artifacts of the store at a path. Thread-safe, and safe between processes.

    >>> import tempfile
    >>> artifacts = ArtifactStore(tempfile.mkdtemp())
    >>> reference = artifacts.put(b"a long output", media_type="text/plain")
    >>> reference.size, artifacts.read(reference), artifacts.read(reference, 2, 4)
    (13, b'a long output', b'long')
    >>> artifacts.put(b"a long output").digest == reference.digest
    True
    >>> artifacts.verify(reference) is None
    True
    """

    def __init__(self, store_path: str | os.PathLike[str]) -> None:
        """Remember where the store is; folders are made by the first put."""
        self.path = os.path.abspath(os.fspath(store_path))
        self._root = os.path.join(self.path, names.ARTIFACTS)
        self._made: set[str] = set()  # folders whose names this process has synced
        self._settled: dict[str, None] = {}  # digests whose names this process has synced, oldest first

    # -- putting ---------------------------------------------------------------------------------------------------

    def put(
        self,
        source: bytes | bytearray | memoryview | str | os.PathLike[str] | Stream,
        /,
        *,
        media_type: str = BINARY,
        summary: str | None = None,
    ) -> Reference:
        """Store bytes, the file at a path (`str` is a path, never content) or what a binary stream gives, durably.

        Memory is bounded whatever the size. What the store holds already is not written again; its grace period
        begins anew. Raises NotFound (no such file), NoSpace, ReadOnly, StorageError, InvalidInput (no such kind of
        source); what a stream raises comes through. Nothing is visible of a put that failed.

        >>> import io, tempfile
        >>> artifacts = ArtifactStore(tempfile.mkdtemp())
        >>> artifacts.put(io.BytesIO(b"from a stream")) == artifacts.put(b"from a stream")
        True
        """
        if isinstance(source, str | os.PathLike):
            digest, size = self._put_file(os.fspath(source))
        elif isinstance(source, bytes | bytearray | memoryview):
            digest, size = self._put_bytes(bytes(source))
        elif hasattr(source, "read"):
            pieces = pieces_of(source)
            first = next(pieces, b"")
            digest, size = self._record(first, pieces, packed=pays(first))
        else:
            raise InvalidInput(f"an artifact is made of bytes, a path or a binary stream, not {type(source).__name__}")
        return Reference(digest, size, media_type=media_type, summary=summary)

    def _put_bytes(self, data: bytes) -> tuple[str, int]:
        digest = hashlib.sha256(data).hexdigest()
        if self._has(digest, len(data)):
            return digest, len(data)
        pieces = (data[at : at + PIECE_BYTES] for at in range(PIECE_BYTES, len(data), PIECE_BYTES))
        return self._record(data[:PIECE_BYTES], pieces, packed=pays_throughout(io.BytesIO(data), len(data)))

    def _put_file(self, path: str) -> tuple[str, int]:
        try:
            with open(path, "rb", buffering=0) as file:
                size = os.fstat(file.fileno()).st_size
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                if self._has(digest, size):
                    return digest, size
                packed = pays_throughout(file, size)
                file.seek(0)
                pieces = pieces_of(file)  # digested again: the file may have changed meanwhile
                return self._record(next(pieces, b""), pieces, packed=packed)
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            if error.errno in {errno.ENOENT, errno.ENOTDIR}:
                raise NotFound(f"there is no file {path!r} to make an artifact of") from error
            raise StorageError(f"cannot read {path}: {error.strerror or error}", error.errno) from error

    def _record(self, first: bytes, pieces: Iterator[bytes], *, packed: bool) -> tuple[str, int]:
        """Write the content under a temporary name, then give it its own."""
        with self._doing("making the folder of artifacts"):
            self._make(self._root)
        temporary = os.path.join(self._root, os.urandom(16).hex() + names.TEMP_SUFFIX)
        with self._doing("creating an artifact"):
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                recorder = Recorder(descriptor, packed=packed)
                piece = first
                while piece:
                    with self._doing("writing an artifact"):
                        recorder.write(piece)
                    piece = next(pieces, b"")
                with self._doing("writing an artifact"):
                    digest = recorder.finish()
                    disk.sync_file(descriptor)
            finally:
                os.close(descriptor)
            self._publish(temporary, digest, recorder.size, packed=packed)
        finally:
            disk.remove_if_present(temporary)  # after a rename there is none
        return digest, recorder.size

    def _publish(self, temporary: str, digest: str, size: int, *, packed: bool) -> None:
        if self._has(digest, size):  # another put was quicker
            return
        folder = names.artifact_dir(self.path, digest)
        with self._doing(f"naming artifact {digest}"):
            self._make(folder)
            with locked(self._root):
                os.rename(temporary, names.artifact_path(self.path, digest, packed=packed))
                other = names.artifact_path(self.path, digest, packed=not packed)
                if os.path.exists(other) and not _has_size(other, size):
                    os.unlink(other)  # it was damaged: the file just named replaces it
            disk.sync_directory(folder)
        self._settle(digest)

    def _has(self, digest: str, size: int) -> bool:
        """Tell whether the artifact is there with the right size; if so, see to it that it stays."""
        for path in self._files(digest):
            if not _has_size(path, size):
                continue
            with self._doing(f"keeping artifact {digest}"):
                try:
                    with locked(self._root):
                        os.utime(path)
                except FileNotFoundError:  # swept since it was found
                    continue
                if digest not in self._settled:
                    _sync(path)
                    disk.sync_directory(os.path.dirname(path))
                    self._settle(digest)
            return True
        return False

    def _settle(self, digest: str) -> None:
        self._settled[digest] = None
        if len(self._settled) > _SETTLED_MAX:
            self._settled.pop(next(iter(self._settled)), None)

    def _make(self, folder: str) -> None:
        """Make a folder durable, whoever made it."""
        if folder in self._made and os.path.isdir(folder):
            return
        disk.make_directory(folder)
        self._made.add(folder)

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, artifact: Reference | str, start: int = 0, length: int | None = None) -> bytes:
        """Return the content, or `length` bytes of it from `start` on (fewer at the end).

        The whole content is compared with its digest; a range of a compressed artifact with the checksums of its
        blocks. `artifact` is a reference or a digest. Raises ArtifactNotFound, Damaged, StorageError, InvalidInput.

        >>> import tempfile
        >>> artifacts = ArtifactStore(tempfile.mkdtemp())
        >>> artifacts.read(artifacts.put(b"a long output"), start=7)
        b'output'
        """
        check_range(start, length)
        with self._content(artifact) as content:
            if start == 0 and (length is None or length >= content.size()):
                return content.whole()
            size = content.size()
            end = size if length is None else min(start + length, size)
            return content.read(start, end - start) if end > start else b""

    def open(self, artifact: Reference | str, start: int = 0, length: int | None = None) -> io.BufferedReader:
        """Return a seekable binary stream over the content or a range of it; memory is bounded.

        What it gives is checked as a range is by `read`. Raises as `read`, also while the stream is read.

        >>> import tempfile
        >>> artifacts = ArtifactStore(tempfile.mkdtemp())
        >>> with artifacts.open(artifacts.put(b"one output")) as stream:
        ...     stream.seek(4), stream.read()
        (4, b'output')
        """
        check_range(start, length)
        content = self._content(artifact)
        size = content.size()
        end = size if length is None else min(start + length, size)
        return io.BufferedReader(ContentStream(content, start, end), _core.BLOCK_BYTES)

    def verify(self, artifact: Reference | str, *, full: bool = True) -> ArtifactFinding | None:
        """Read the whole artifact and return what is wrong with it, None when nothing is. Raises InvalidInput.

        With `full=False` only look whether it is there, with the size that a reference states.

        >>> import tempfile
        >>> artifacts = ArtifactStore(tempfile.mkdtemp())
        >>> artifacts.verify("0" * 64).kind
        'missing'
        """
        digest = digest_of(artifact)
        try:
            with self._content(artifact) as content:
                if full:
                    content.check()
        except ArtifactNotFound as error:
            return ArtifactFinding(digest, "missing", error.message)
        except Damaged as error:
            return ArtifactFinding(digest, "damaged", error.message)
        except StorageError as error:
            return ArtifactFinding(digest, "unreadable", error.message)
        return None

    def sweep(self, referenced: Iterable[str], *, grace_days: float = GRACE_DAYS, dry_run: bool = True) -> Swept:
        """Return which artifacts no digest of `referenced` names and nothing put within the grace period; with
        `dry_run=False` remove them. Raises as `turnlog.artifacts.sweep.sweep`.

        >>> import tempfile
        >>> artifacts = ArtifactStore(tempfile.mkdtemp())
        >>> artifacts.sweep([artifacts.put(b"referred to").digest]).digests
        []
        """
        return sweep(self.path, referenced, grace_days=grace_days, dry_run=dry_run)

    def _content(self, artifact: Reference | str) -> Content:
        digest = digest_of(artifact)
        for path in self._files(digest):
            content = Content(path)
            if isinstance(artifact, Reference) and content.size() != artifact.size:
                has = content.size()
                content.close()
                raise content.damaged(f"the file holds {has} bytes of content, not {artifact.size}")
            return content
        error = ArtifactNotFound(f"the store has no artifact {digest}", store=self.path)
        error.next = NEXT
        raise error

    def _files(self, digest: str) -> list[str]:
        paths = (names.artifact_path(self.path, digest, packed=packed) for packed in (False, True))
        return [path for path in paths if os.path.exists(path)]

    @contextmanager
    def _doing(self, what: str) -> Iterator[None]:
        """Turn an error of the operating system into the package's own."""
        try:
            yield
        except StorageError:
            raise
        except OSError as error:
            raise disk.translate(error, what).at(store=self.path) from error


class ArtifactFinding:
    """What is wrong with an artifact: `kind` is "missing", "damaged" or "unreadable"."""

    __slots__ = ("detail", "digest", "kind")

    def __init__(self, digest: str, kind: str, detail: str) -> None:
        """Keep the three."""
        self.digest = digest
        self.kind = kind
        self.detail = detail

    def __repr__(self) -> str:
        """Show the kind and the detail."""
        return f"<ArtifactFinding {self.kind}: {self.detail}>"


def digest_of(artifact: Reference | str) -> str:
    """Return the digest of a reference, or one that was given. Raises InvalidInput.

    >>> digest_of("0" * 64) == "0" * 64
    True
    """
    digest = artifact.digest if isinstance(artifact, Reference) else artifact
    if not names.is_digest(digest):
        raise InvalidInput(f"an artifact's digest is 64 lower-case hex digits, not {digest!r}")
    return digest


def check_range(start: int, length: int | None) -> None:
    """Raise InvalidInput for a range that cannot be meant.

    >>> check_range(0, None)
    """
    require_whole("start", start)
    require_whole("length", length, optional=True)


def _has_size(path: str, size: int) -> bool:
    """Tell whether the file can be opened and holds so many plain bytes."""
    try:
        with Content(path) as content:
            return content.size() == size
    except (Damaged, StorageError):
        return False


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        disk.sync_file(descriptor)
    finally:
        os.close(descriptor)
