"""Transcript files on disk: which files of a home are sessions, of which product, and which belongs to which.

Owns: discovery, product, the key that gives a file its session id, parent keys, names and times kept outside the files.
Invariants: a file gives the same key and parent whether its home or the file alone is named; the shape of its first
records says whose a file is, its name only where they do not; nothing is written; what cannot be read is reported,
never skipped in silence. Must not know: records beyond the first ones, events, stores.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

import msgspec

from turnlog.errors import InvalidInput
from turnlog.importers.claude import ClaudeMapper
from turnlog.importers.codex import CodexMapper
from turnlog.importers.compressed import open_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, BinaryIO

    from turnlog.importers.mapper import Mapper

    Findings = list[dict[str, Any]]

MAPPERS: dict[str, type[Mapper]] = {"claude": ClaudeMapper, "codex": CodexMapper}
SUFFIXES = (".jsonl", ".jsonl.zst")
NOT_SESSIONS = frozenset(("history.jsonl", "session_index.jsonl", "journal.jsonl", "timeline.jsonl"))
ROLLOUT = re.compile(
    r"rollout-(?P<time>[\dT-]{10,19})-(?P<thread>[0-9a-f-]{36})(_(?P<segment>[0-9a-f-]{36}))?\.jsonl?$"
)
SUBAGENT = re.compile(r"(?P<parent>.+)/subagents/(.+/)?agent-[^/]+\.jsonl$")
CODEX_FOLDERS = ("sessions", "archived_sessions")
SNIFF_BYTES = 64 << 10
SNIFF_LINES = 64


class SourceFile:
    """One transcript file: where it is, what wrote it, and the key its session id is made from."""

    __slots__ = ("archived", "key", "parent_key", "path", "product", "size", "title")

    def __init__(self, path: str, product: str, *, size: int = 0) -> None:
        """Work out key and parent from the path; `size` is in bytes on disk."""
        self.path = path
        self.product = product
        self.size = size
        self.key = key_of(path, product)
        self.archived = product == "codex" and os.path.basename(os.path.dirname(path)) == "archived_sessions"
        self.title: str | None = None
        found = SUBAGENT.match(self.key) if product == "claude" else None
        self.parent_key = f"{found['parent']}.jsonl" if found else None

    def open(self) -> BinaryIO:
        """Open the file's bytes, decompressed. Raises OSError."""
        return open_bytes(self.path)

    def other_time(self) -> tuple[str, str] | None:
        """Return a time for a file whose records have none, in UTC, and where it is from: the file's name, which has
        local time, else when the file was last written.
        """
        found = ROLLOUT.search(self.key) if self.product == "codex" else None
        if found is not None and (named := _named_time(found["time"])) is not None:
            return _utc(named), "file_name"
        try:
            return _utc(datetime.fromtimestamp(os.stat(self.path).st_mtime, UTC)), "file_time"
        except (OSError, OverflowError, ValueError):
            return None


def key_of(path: str, product: str) -> str:
    """Return the part of a path that stays the same when the home moves: below `projects/`, or the file name."""
    parts = os.path.abspath(path).removesuffix(".zst").split(os.sep)
    if product == "claude":
        for anchor, above in (("projects", 1), ("subagents", -1)):
            if anchor in parts[:-1]:
                last = len(parts) - 1 - parts[::-1].index(anchor)
                return "/".join(parts[max(0, last + above) :])
    return parts[-1]


def _named_time(text: str) -> datetime | None:
    for form in ("%Y-%m-%dT%H-%M-%S", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, form).astimezone()
        except (OverflowError, ValueError):
            continue
    return None


def _utc(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def find_sources(path: str, findings: Findings, product: str | None = None) -> Iterator[SourceFile]:
    """Yield the transcripts at a path, a file or a home, parents before their children.

    What cannot be read or told apart is added to `findings` as {code, path, detail}. Raises InvalidInput for a product
    there is no mapper for.
    """
    if product is not None and product not in MAPPERS:
        raise InvalidInput(f"there is no importer for {product!r}, only for {' and '.join(MAPPERS)}")
    if not os.path.isdir(path):
        if (source := _source(path, findings, product)) is not None:
            _link_rollouts([source], _rollouts_beside(path))
            yield source
        return
    names: dict[str, str] = {}
    sources: list[SourceFile] = []
    for folder, folders, files in os.walk(path, onerror=lambda error: findings.append(_unreadable(error))):
        folders.sort()
        for name in folders:
            if name.endswith(SUFFIXES):
                findings.append(_finding("is_a_directory", os.path.join(folder, name), "a folder, not a transcript"))
        if "session_index.jsonl" in files:
            names |= _names(os.path.join(folder, "session_index.jsonl"), findings)
        for name in sorted(files):
            # A plain file wins over its compressed copy.
            copy = name.endswith(".zst") and name.removesuffix(".zst") in files
            if _may_be_session(name) and not copy:
                source = _source(os.path.join(folder, name), findings, product)
                sources += [source] if source is not None else []
    keys = [source.key for source in sources if source.product == "codex"]
    _link_rollouts(sources, keys or _rollouts_beside(path))
    for source in _parents_first(sources):
        found = ROLLOUT.search(source.key)
        source.title = names.get(found["thread"]) if found else None
        yield source


def _may_be_session(name: str) -> bool:
    """Tell by its name whether a file of a home may be a transcript."""
    whole_object = name.startswith("rollout-") and name.endswith(".json")
    return (name.endswith(SUFFIXES) and name not in NOT_SESSIONS) or whole_object


def _source(path: str, findings: Findings, product: str | None) -> SourceFile | None:
    """Tell what a file is, or report why it is nothing that can be imported."""
    try:
        with open_bytes(path) as file:
            head = file.read(SNIFF_BYTES)
        size = os.stat(path).st_size
    except OSError as error:
        findings.append(_unreadable(error, path))
        return None
    if not head:
        findings.append(_finding("empty_file", path, "the file has no bytes"))
        return None
    shape = shape_of(head)
    if product is not None and shape not in (None, product):
        findings.append({**_finding("other_product", path, f"its records are of {shape}"), "product": shape})
        return None
    product = product or shape or product_of(path)
    if product is None:
        findings.append(_finding("unknown_product", path, "its start holds no record of a known product"))
        return None
    source = SourceFile(path, product, size=size)
    if product == "codex":
        source.parent_key = _origin(head)
    return source


def product_of(path: str) -> str | None:
    """Tell the product by the file's name and folder."""
    if ROLLOUT.search(os.path.basename(path).removesuffix(".zst")):
        return "codex"
    return "claude" if "projects" in os.path.abspath(path).split(os.sep)[:-1] else None


def shape_of(head: bytes) -> str | None:
    """Tell the product by the shape of a record near the start of a file; None where no record tells."""
    for line in head.split(b"\n")[:SNIFF_LINES]:
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        for product, mapper in MAPPERS.items():
            if mapper().is_record(record):
                return product
    return None


def _origin(head: bytes) -> str | None:
    """Return the id that a rollout's header names as its origin: a rollout or a thread."""
    try:
        payload = msgspec.json.decode(head.partition(b"\n")[0])["payload"]
        base = payload.get("history_base") or {}
        found = base.get("thread_id") or payload.get("forked_from_id") or payload.get("parent_thread_id")
    except (msgspec.DecodeError, RecursionError, AttributeError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _rollouts_beside(path: str) -> list[str]:
    """Return the keys of all rollouts of the home a path lies in."""
    parts = os.path.abspath(path).split(os.sep)
    anchor = next((at for at, part in enumerate(parts) if part in CODEX_FOLDERS), None)
    if anchor is None:
        return []
    home = os.sep.join(parts[:anchor])
    return [
        name.removesuffix(".zst")
        for part in CODEX_FOLDERS
        for _, _, names in os.walk(os.path.join(home, part))
        for name in sorted(names)
    ]


def _link_rollouts(sources: list[SourceFile], keys: list[str]) -> None:
    """Replace the origin id of each rollout by the key of its file, if the home has it."""
    by_id: dict[str, str] = {}
    for key in keys:
        if found := ROLLOUT.search(key):
            by_id.setdefault(found["segment"] or found["thread"], key)
    for source in sources:
        if source.product == "codex" and source.parent_key is not None:
            parent = by_id.get(source.parent_key)
            source.parent_key = parent if parent != source.key else None


def _parents_first(sources: list[SourceFile]) -> list[SourceFile]:
    """Put every parent before its children."""
    by_key = {source.key: source for source in sources}
    ordered: dict[str, SourceFile] = {}
    for source in sources:
        line = [source]
        while (parent := by_key.get(line[-1].parent_key or "")) is not None and parent not in line:
            line.append(parent)
        for member in reversed(line):
            ordered.setdefault(member.path, member)
    return list(ordered.values())


def _names(path: str, findings: Findings) -> dict[str, str]:
    """Read the names people gave to threads; the last line of a thread counts."""
    names: dict[str, str] = {}
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    record = msgspec.json.decode(line)
                except (msgspec.DecodeError, RecursionError):
                    findings.append(_finding("torn", path, "a line of the list of names"))
                    continue
                if isinstance(record, dict) and isinstance(record.get("thread_name"), str):
                    names[str(record.get("id"))] = record["thread_name"]
    except OSError as error:
        findings.append(_unreadable(error, path))
    return names


def _finding(code: str, path: str, detail: str) -> dict[str, Any]:
    return {"code": code, "path": path, "detail": detail}


def _unreadable(error: OSError, path: str | None = None) -> dict[str, Any]:
    """Describe a file or folder that the operating system does not give us."""
    code = "missing" if isinstance(error, FileNotFoundError) else "unreadable"
    return _finding(code, path or str(error.filename), error.strerror or str(error))
