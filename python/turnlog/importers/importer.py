"""The driver of an import: one transcript file becomes one session, and a longer version of it becomes more events of
that session.

Owns: one atomic group for each line, the comparison of a file with what is stored of it, the result for each file.
Invariants: the stored `source.line` payloads of a session, concatenated, are a prefix of the file; importing the same
bytes again writes nothing; a file whose stored part has changed is refused. Must not know: what records mean, how a
session is stored.
"""

from __future__ import annotations

import hashlib
from itertools import chain

from turnlog.errors import Conflict, Damaged, InvalidPayload, Locked, NewerFormat, PayloadTooLarge, TurnlogError
from turnlog.ids import derive_id, format_id
from turnlog.importers.lines import read_lines
from turnlog.importers.preview import preview
from turnlog.importers.result import Imported
from turnlog.importers.source import MAPPERS, find_sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    from turnlog.importers.lines import Line
    from turnlog.importers.mapper import Event, Mapper
    from turnlog.importers.source import SourceFile
    from turnlog.session import Session
    from turnlog.store import Store

    Item = tuple[str, Any, None, bool]

FLUSH_BYTES = 4 << 20
PROGRESS_BYTES = 256 << 10
READ_BYTES = 1 << 20


def session_id_of(product: str, key: str) -> str:
    """Return the id of the session that a file becomes.

    >>> session_id_of("claude", "a") == session_id_of("claude", "a") != session_id_of("codex", "a")
    True
    """
    return format_id(derive_id(product, key))


def import_path(
    store: Store, path: str, progress: Callable[[int, int], None] | None = None, *, product: str | None = None
) -> Iterator[Imported]:
    r"""Import a transcript, or all transcripts of a home; yield the result of each file as it is done.

    `progress` is called with the bytes done and the bytes in all. `product`, `claude` or `codex`, says what wrote the
    files; without it each file tells, and with it one whose records are of the other product is refused. Raises
    NoSpace, SyncFailed and other errors of the store's medium; a file that cannot be imported gives a result with
    status `refused`.

    >>> from turnlog import Store
    >>> import pathlib
    >>> line = '{"type":"user","sessionId":"s","message":{"role":"user","content":"hello"}}'
    >>> _ = pathlib.Path("a.jsonl").write_text(line + "\n")
    >>> with Store.open("runs") as store:
    ...     [result.status for _ in range(2) for result in import_path(store, "a.jsonl", product="claude")]
    ['imported', 'unchanged']
    """
    findings: list[dict[str, Any]] = []
    sources = list(find_sources(path, findings, product))
    for finding in findings:
        yield Imported(finding["path"]).refuse(**{name: value for name, value in finding.items() if name != "path"})
    done, total = 0, sum(source.size for source in sources)
    for source in sources:

        def shown(position: int, before: int = done, size: int = source.size) -> None:
            if progress is not None:
                progress(before + min(position, size), total)

        yield import_file(store, source, shown)
        done += source.size
        shown(0, done)


def import_file(store: Store, source: SourceFile, progress: Callable[[int], None] | None = None) -> Imported:
    r"""Import one transcript, or what is new in it; `progress` is called with the bytes of the file that are done.

    >>> from turnlog import Store
    >>> import pathlib
    >>> line = '{"type":"user","sessionId":"s","message":{"role":"user","content":"hello"}}'
    >>> _ = pathlib.Path("b.jsonl").write_text(line + "\n")
    >>> with Store.open("runs") as store:
    ...     (source,) = find_sources("b.jsonl", [], "claude")
    ...     import_file(store, source).lines
    1
    """
    result = Imported(source.path, session_id_of(source.product, source.key))
    run = Import(store, source, result, progress)
    try:
        with source.open() as stream:
            behind = run.compare(stream)
        if behind:
            with source.open() as stream:
                run.run(stream)
    except (Conflict, Damaged, Locked, NewerFormat) as error:
        return result.refuse(error.code, str(error))
    except OSError as error:
        if isinstance(error, TurnlogError):
            raise
        return result.refuse("unreadable", error.strerror or str(error))
    finally:
        if run.session is not None:
            run.session.close()
    return result


class Import:
    """One run over one file: what is stored of it only goes through the mapper, the rest is appended."""

    def __init__(
        self, store: Store, source: SourceFile, result: Imported, progress: Callable[[int], None] | None
    ) -> None:
        """Prepare; nothing is read or written yet."""
        self.store = store
        self.source = source
        self.result = result
        self.progress = progress
        self.mapper = self._mapper()
        self.session: Session | None = None
        self.stored = 0
        self.complete = False
        self.broken: OSError | None = None
        self.unflushed = self.position = self.told = 0
        self.digest = hashlib.sha256()

    def _mapper(self) -> Mapper:
        mapper = MAPPERS[self.source.product]()
        mapper.other_time = self.source.other_time()
        return mapper

    def compare(self, stream: BinaryIO) -> bool:
        """Compare the file with the digests of the lines stored from it; False when nothing is to be done."""
        identity = str(self.result.session)
        if not self.store.session_exists(identity):
            return True
        self.session = self.store.session(identity)
        last = None
        for event in self.session.events(types=("source.line", "source.imported")):
            self.complete = event.type == "source.imported"
            if self.complete:
                last = event
                continue
            if _digest(stream, event.size) != event.digest:
                detail = "the file differs from what was imported from it before"
                self.result.refuse("source_rewritten", detail, offset=self.stored)
                return False
            self.stored += event.size
        if self.complete and last is not None and not stream.read(1):
            self.result.status = "unchanged"
            self.result.lines = last.payload["lines"]
            return False
        return True

    def run(self, stream: BinaryIO) -> None:
        """Append what is not stored yet."""
        lines = self._new_lines(self._guarded(read_lines(stream)))
        first = next(lines, None)
        self.result.status = "imported" if self.session is None else "grown"
        lines = chain([] if first is None else [first], lines)
        known_findings = len(self.mapper.facts.findings)
        for line in lines if self.session is not None else self._create(lines):
            self._take(line)
        if self.broken is None:
            self._end()
        if self.session is not None:
            self.session.flush()
        facts = self.mapper.facts
        self.result.lines, self.result.unknown = facts.lines, facts.unknown
        self.result.findings += [{**finding, "path": self.source.path} for finding in facts.findings[known_findings:]]

    def _guarded(self, lines: Iterator[Line]) -> Iterator[Line]:
        """End at a read error: what was read before it is imported, and the rest by a later import."""
        try:
            yield from lines
        except OSError as error:
            self.broken = error
            self.result.findings.append(
                {"code": "unreadable", "path": self.source.path, "offset": self.position, "detail": error.strerror}
            )

    def _new_lines(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Feed what is stored to the mapper, dropping its events; yield the lines that are new or have grown."""
        mapper, stored, rebuilt = self.mapper, self.stored, self.stored == 0
        for line in lines:
            end = line.offset + line.length
            if end <= stored:
                self.digest.update(b"".join(line.parts))
                mapper.feed(line)
                continue
            inside = stored - line.offset
            if not rebuilt:
                rebuilt = True
                if inside > 0 and line.whole:
                    mapper.feed(line.before(inside))
                    self.digest.update(line.data[:inside])
                if self.complete:
                    mapper.finish()
            yield line.after(inside) if inside > 0 else line

    def _create(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Make the session, listed under what the start of the file says."""
        source = self.source
        seen = preview(lines, self._mapper())
        parent = None if source.parent_key is None else session_id_of(source.product, source.parent_key)
        self.session = self.store.create(
            id=self.result.session,
            title=source.title or seen.title,
            cwd=seen.cwd,
            model=seen.model,
            parent=parent,
            durability="buffered",
        )
        if source.archived:
            self.session.append("session.archived", {}, durability="buffered")
        return chain(seen.lines, lines)

    def _take(self, line: Line) -> None:
        """Store one line and its events."""
        items: list[Item] = []
        for part in line.parts:
            self.digest.update(part)
            self.unflushed += len(part)
            items.append(("source.line", part, None, True))
        if line.data:
            self.result.appended_lines += 1
        self.position = line.offset + line.length
        self._add(items, self.mapper.feed(line))

    def _add(self, items: list[Item], events: list[Event]) -> None:
        """Append a line and its events as one atomic group, so that damage hides no more than the line it hits.

        A line whose events cannot be stored keeps its bytes and becomes damage.
        """
        items += [(kind, payload, None, False) for kind, payload in events]
        session = self.session
        if session is None or not items:
            return
        try:
            self._append(session, items)
        except (InvalidPayload, PayloadTooLarge) as error:
            self._append(session, self._unstorable(items, error))
        if self.unflushed >= FLUSH_BYTES:
            session.flush()
            self.unflushed = 0
        if self.progress is not None and self.position >= self.told + PROGRESS_BYTES:
            self.told = self.position
            self.progress(self.position)

    def _end(self) -> None:
        """Add what only the end of the file makes known, and the marker that it was reached."""
        events = self.mapper.finish()
        facts = {
            "bytes": self.position or self.stored,
            "sha256": self.digest.hexdigest(),
            **self.mapper.facts.summary(),
        }
        if facts["first_time"] is None and (other := self.mapper.other_time) is not None:
            times = dict.fromkeys(("first_time", "last_time", "min_time", "max_time"), other[0])
            facts |= {**times, "time_from": other[1]}
        events.append(("source.imported", {"product": self.source.product, "key": self.source.key, **facts}))
        self._add([], events)

    def _append(self, session: Session, items: list[Item]) -> None:
        """Append items as one atomic group."""
        session.append_many(items, atomic=True, durability="buffered")
        self.result.events += len(items)

    def _unstorable(self, items: list[Item], error: TurnlogError) -> list[Item]:
        """Replace the events of a line that canonical JSON cannot hold."""
        places = (payload.get("source") for _, payload, _, raw in items if not raw)
        place: dict[str, Any] = next(filter(None, places), {})
        length = sum(len(payload) for _, payload, _, raw in items if raw)
        finding = {"code": "unstorable", "length": length, "detail": error.message}
        self.result.findings.append({**finding, "path": self.source.path, **place})
        damaged = ("source.damaged", {**finding, "whole_records": 0, "source": place}, None, False)
        return [item for item in items if item[3]] + [damaged]


def _digest(stream: BinaryIO, size: int) -> bytes:
    """Return the SHA-256 of the next `size` bytes, or of what is left of the file."""
    digest = hashlib.sha256()
    while size and (data := stream.read(min(size, READ_BYTES))):
        digest.update(data)
        size -= len(data)
    return digest.digest()
