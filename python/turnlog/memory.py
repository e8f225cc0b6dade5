"""Sessions that never touch the disk: an appender and a log in memory, with the behaviour of those on disk.

Owns: the events of one ephemeral session. Invariants: what cannot be stored on disk is refused here too (canonical
form, size, id, type); order, chain and repeated ids are those of a stored session; when the session closes, everything
is gone. Must not know: files, durability beyond having none.
"""

from __future__ import annotations

import io
import os
import threading
from typing import TYPE_CHECKING, cast

from turnlog import _core
from turnlog.arguments import listed_texts
from turnlog.artifacts.artifacts import GRACE_DAYS, ArtifactFinding, check_range, digest_of
from turnlog.artifacts.file import pieces_of
from turnlog.artifacts.sweep import Swept
from turnlog.errors import ArtifactNotFound, Closed, Conflict, InvalidInput, InvalidPayload, InvalidType, StorageError
from turnlog.ids import format_id, new_id, now_us, parse_id
from turnlog.log.appender import Appender
from turnlog.log.log import Log, Window
from turnlog.log.tail import Tail
from turnlog.reference import BINARY, Reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from turnlog._core import Event, Receipt
    from turnlog.artifacts.file import Stream
    from turnlog.log.lost import LostEvents


class MemoryEvent:
    """An event in memory, with the attributes of a stored one."""

    __slots__ = ("digest", "durable", "event_id", "is_raw", "ordinal", "raw", "time_us", "type")

    def __init__(self, receipt: Receipt, type: str, raw: bytes, *, is_raw: bool) -> None:
        """Keep the payload's bytes beside what the receipt says."""
        self.ordinal = receipt.ordinal
        self.event_id = receipt.event_id
        self.digest = receipt.digest
        self.time_us = receipt.time_us
        self.durable = False
        self.type = type
        self.raw = raw
        self.is_raw = is_raw

    @property
    def id(self) -> str:
        """The event's id in UUID text form."""
        return format_id(self.event_id)

    @property
    def size(self) -> int:
        """Bytes of the payload."""
        return len(self.raw)

    @property
    def payload(self) -> Any:
        """The decoded payload; bytes of a raw event."""
        if self.is_raw:
            return self.raw
        from turnlog.decoding import decode

        return decode(self.raw)

    def __repr__(self) -> str:
        """Name the event in one line."""
        return f"<MemoryEvent {self.ordinal} {self.type} {self.size} B>"


class MemoryAppender(Appender):
    """The writer of an ephemeral session. Thread-safe."""

    def __init__(self, session_id: str) -> None:
        """Start an empty session."""
        # Not calling the constructor of Appender: it takes a lock file.
        self.session_id = session_id
        self.opened_ordinal = 0
        self.events: list[MemoryEvent] = []
        self.chain = _core.chain_start(parse_id(session_id))
        self._known: dict[bytes, MemoryEvent] = {}
        self._guard = threading.Lock()
        self._closed = False

    def append(
        self, type: str, payload: object, event_id: bytes | None, *, durable: bool, raw: bool = False
    ) -> Receipt:
        """Append one event; its receipt never claims durability."""
        return self.append_many([(type, payload, event_id, raw)], durable=durable, atomic=False)[0]

    def append_many(
        self, items: list[tuple[str, object, bytes | None, bool]], *, durable: bool, atomic: bool
    ) -> list[Receipt]:
        """Append several events, all or none: nothing here can fail half way."""
        _ = durable, atomic
        encoded = [(type, _encoded(type, payload, raw=raw), given, raw) for type, payload, given, raw in items]
        with self._guard:
            if self._closed:
                raise Closed("the session is closed", session=self.session_id)
            fresh: dict[bytes, tuple[str, bytes]] = {}
            for type, data, given, _raw in encoded:
                self._refuse_other_content(fresh, type, data, given)
            return [self._push(*item) for item in encoded]

    def _refuse_other_content(
        self, fresh: dict[bytes, tuple[str, bytes]], type: str, data: bytes, given: bytes | None
    ) -> None:
        if given is None:
            return
        event = self._known.get(given)
        first = (event.type, event.raw) if event is not None else fresh.setdefault(given, (type, data))
        if first != (type, data):
            message = f"event {format_id(given)} is already stored with other content"
            raise Conflict(message, session=self.session_id, ordinal=None if event is None else event.ordinal)

    def _push(self, type: str, data: bytes, given: bytes | None, raw: bool) -> Receipt:
        known = None if given is None else self._known.get(given)
        if known is not None:
            return _core.Receipt(known.ordinal, known.event_id, known.digest, known.time_us, False)
        event_id, ordinal = given or new_id(), len(self.events) + 1
        receipt = _core.Receipt(ordinal, event_id, _core.digest(data), now_us(), False)
        self.chain = _core.chain_next(self.chain, ordinal, event_id, receipt.time_us, receipt.digest, type)
        event = MemoryEvent(receipt, type, data, is_raw=raw)
        self._known[event_id] = event
        self.events.append(event)
        return receipt

    def log(self) -> MemoryLog:
        """Return a reader over what was appended, also over what comes."""
        return MemoryLog(self)

    def tail(self, after: int, mark: bytes | None = None) -> MemoryTail:
        """Return a place behind an ordinal that moves forward; see `Tail` for `mark`."""
        return MemoryTail(self.log(), after, mark=mark, newest=lambda: len(self.events))

    def visible(self) -> None:
        """Return None: there is no segment."""

    def durable_end(self) -> None:
        """Return None: there is no segment."""

    def head(self) -> dict[str, Any]:
        """Return ordinal and chain."""
        return {"ordinal": len(self.events), "chain": self.chain, "poisoned": False}

    def check(self) -> None:
        """Do nothing: there is no lock to lose."""

    def flush(self) -> None:
        """Do nothing: there is nothing to write."""

    def close(self) -> None:
        """Refuse further events; idempotent."""
        with self._guard:
            self._closed = True

    def abandon(self) -> None:
        """Do the same as `close`."""
        self.close()


class MemoryArtifacts:
    """The artifacts of one ephemeral session, with the methods of `ArtifactStore`; they go with the session."""

    path: str | None = None

    def __init__(self) -> None:
        """Hold nothing."""
        self._content: dict[str, bytes] = {}

    def put(
        self,
        source: bytes | bytearray | memoryview | str | os.PathLike[str] | Stream,
        /,
        *,
        media_type: str = BINARY,
        summary: str | None = None,
    ) -> Reference:
        """Keep bytes, the content of a file or what a stream gives, equal content once. Raises as `ArtifactStore.put`.

        >>> MemoryArtifacts().put(b"a long output").size
        13
        """
        data = _bytes_of(source)
        reference = Reference(_core.digest(data).hex(), len(data), media_type=media_type, summary=summary)
        self._content[reference.digest] = data
        return reference

    def read(self, artifact: Reference | str, start: int = 0, length: int | None = None) -> bytes:
        """Return the content, or a range of it. Raises ArtifactNotFound, InvalidInput.

        >>> artifacts = MemoryArtifacts()
        >>> artifacts.read(artifacts.put(b"a long output"), start=7)
        b'output'
        """
        check_range(start, length)
        digest = digest_of(artifact)
        if digest not in self._content:
            raise ArtifactNotFound(f"the session has no artifact {digest}")
        return self._content[digest][start : None if length is None else start + length]

    def open(self, artifact: Reference | str, start: int = 0, length: int | None = None) -> io.BufferedReader:
        """Return a seekable binary stream over the content, or a range of it. Raises as `read`.

        >>> artifacts = MemoryArtifacts()
        >>> artifacts.open(artifacts.put(b"one output"), 4).read()
        b'output'
        """
        return io.BufferedReader(io.BytesIO(self.read(artifact, start, length)))

    def verify(self, artifact: Reference | str, *, full: bool = True) -> ArtifactFinding | None:
        """Return what is wrong with an artifact: it can only be missing, `full` or not. Raises InvalidInput.

        >>> MemoryArtifacts().verify("0" * 64).kind
        'missing'
        """
        _ = full
        digest = digest_of(artifact)
        return None if digest in self._content else ArtifactFinding(digest, "missing", "the session has none")

    def sweep(self, referenced: Iterable[str], *, grace_days: float = GRACE_DAYS, dry_run: bool = True) -> Swept:
        """Return what an `ArtifactStore` would of young artifacts: they stay as long as the session, whatever the days.

        >>> artifacts = MemoryArtifacts()
        >>> artifacts.sweep([artifacts.put(b"referred to").digest]).kept
        1
        """
        _ = grace_days
        wanted = {digest_of(digest) for digest in listed_texts("referenced", referenced)}
        swept = Swept(dry_run=dry_run)
        swept.kept = len(wanted & self._content.keys())
        swept.young = len(self._content.keys() - wanted)
        return swept


def _bytes_of(source: bytes | bytearray | memoryview | str | os.PathLike[str] | Stream) -> bytes:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror or error}", error.errno) from error
    if hasattr(source, "read"):
        return b"".join(pieces_of(source))
    raise InvalidInput(f"an artifact is made of bytes, a path or a binary stream, not {type(source).__name__}")


class MemoryLog(Log):
    """Reads an ephemeral session as `Log` reads a stored one."""

    def __init__(self, appender: MemoryAppender) -> None:
        """Read what the appender holds, also what it will hold later."""
        super().__init__("", appender.session_id)
        self._appender = appender

    def events(self, window: Window) -> Iterator[Event]:
        """Yield the events of the window, oldest first."""
        events, at = self._appender.events, max(0, window.after)
        while at < len(events) and not window.ends_at(at + 1):
            if window.types is None or events[at].type in window.types:
                yield cast("Event", events[at])
            at += 1

    def batches(self, window: Window) -> Iterator[list[Event]]:
        """Yield the same events in one list."""
        found = list(self.events(window))
        if found:
            yield found

    def events_reversed(self, window: Window) -> Iterator[Event]:
        """Yield the same events, newest first."""
        events = self._appender.events
        end = len(events) if window.before is None else min(len(events), window.before - 1)
        for at in range(end - 1, max(0, window.after) - 1, -1):
            if window.types is None or events[at].type in window.types:
                yield cast("Event", events[at])

    def head(self) -> tuple[int, bytes]:
        """Return (last ordinal, chain)."""
        return len(self._appender.events), self._appender.chain

    def close(self) -> None:
        """Do nothing: there is no file."""


class MemoryTail(Tail):
    """A place in an ephemeral session that moves forward with every `look`."""

    def look(self) -> list[Event | LostEvents]:
        """Return what came since the last look. Raises CursorMismatch."""
        if self._unconfirmed is not None and not self._confirm():
            return []
        found: list[Event | LostEvents] = [*self._log.events(Window(self._after))]
        self._after += len(found)
        return found


def _encoded(type: str, payload: object, *, raw: bool) -> bytes:
    """Return the payload's bytes. Raises InvalidPayload, InvalidType, PayloadTooLarge."""
    given: object = type  # whatever the annotation says
    if not isinstance(given, str):
        raise InvalidType(f"an event type is a text, not {given!r}")
    if not raw:
        data = _core.canonical(payload)
    elif isinstance(payload, bytes):
        data = payload
    else:
        raise InvalidPayload(f"a raw payload is bytes, not {payload.__class__.__name__}")
    _core.encode_frame(  # only for its checks: what no frame can hold is refused here too
        segment_id=bytes(16),
        offset=_core.HEADER_BYTES,
        kind=_core.KIND_EVENT,
        flags=0,
        epoch=1,
        ordinal=1,
        durable_off=_core.HEADER_BYTES,
        event_id=bytes(16),
        time_us=0,
        type=type,
        payload=data,
    )
    return data
