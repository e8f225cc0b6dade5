"""Session logs for the tests of the index: written by real writers, without a store and its threads around them."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from turnlog import _core, names
from turnlog.index.index import Index
from turnlog.log.appender import Appender

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROLL_BYTES = 64 * 1024


def session_id(number: int, shard: int = 0xAB) -> str:
    """A fixed id: `number` in front, the shard at the end."""
    return f"{number:08x}-7a1b-7c3d-8e4f-0123456789{shard:02x}"


class Logs:
    """The `sessions/` and `live/` folders of a store, and the writers open in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = str(folder)
        self.open: dict[str, Appender] = {}
        for part in (names.SESSIONS, names.LIVE):
            (folder / part).mkdir(parents=True)
        # no timed sync: only what a test syncs is durable
        self.committer = _core.Committer(str(folder / names.SESSIONS), interval_ms=3_600_000)

    def index(self, *, read_only: bool = False, name: str = names.INDEX) -> Index:
        return Index.open(self.store, path=str(self.folder / name), read_only=read_only, busy_timeout_ms=50)

    def create(self, id: str, **settings: Any) -> None:
        self._mark(id)
        self.open[id] = Appender.create(self.store, id, self.committer, roll_bytes=ROLL_BYTES)
        self.append(id, "session.created", settings)

    def resume(self, id: str, index: Index | None = None) -> None:
        self._mark(id)
        witness: Any = index.witness(id) if index is not None else None
        self.open[id] = Appender.open(self.store, id, self.committer, roll_bytes=ROLL_BYTES, witness=witness)

    def append(self, id: str, type: str, payload: Any, *, durable: bool = True) -> None:
        self.open[id].append(type, payload, None, durable=durable)

    def append_group(self, id: str, items: list[tuple[str, Any]]) -> None:
        self.open[id].append_many([(type, payload, None, False) for type, payload in items], durable=True, atomic=True)

    def close(self, id: str) -> None:
        self.open.pop(id).close()

    def kill(self, id: str) -> None:
        """End the writer as SIGKILL does: no close, the zeroed tail and the marker stay."""
        self.open.pop(id).abandon()

    def heads(self) -> dict[str, dict[str, Any]]:
        return {id: appender.head() for id, appender in self.open.items()}

    def end(self) -> None:
        for id in list(self.open):
            self.close(id)
        self.committer.close()

    def session_folder(self, id: str) -> Path:
        return self.folder / names.SESSIONS / names.shard(id) / id

    def segment(self, id: str) -> Path:
        """The newest segment file."""
        return max(self.session_folder(id).glob("*.seg"))

    def marker(self, id: str) -> Path:
        return self.folder / names.LIVE / id

    def _mark(self, id: str) -> None:
        self.marker(id).touch(0o600)


def all_rows(index: Index, **filters: Any) -> list[dict[str, Any]]:
    """Every row, page by page."""
    rows, token = index.list(limit=3, **filters)
    while token is not None:
        page, token = index.list(limit=3, after=token, **filters)
        rows += page
    return rows


def ids(index: Index, **filters: Any) -> list[str]:
    return [row["id"] for row in all_rows(index, **filters)]


def tables(index: Index) -> dict[str, list[tuple[Any, ...]]]:
    """Everything the index says about sessions, keys left out: equal for equal logs."""
    by_id = "SELECT s.id, g.* FROM {} AS g JOIN sessions AS s ON s.session = g.session"
    found = {}
    for table in ("sessions", "segments", "tags"):
        cursor = index._database._connected().execute(by_id.format(table))
        columns = [name for name, _ in cursor.get_description()]
        dropped = columns.index("session")
        found[table] = sorted(row[:dropped] + row[dropped + 1 :] for row in cursor)
    return found


def folder_state(folder: Path) -> Iterator[tuple[str, int, str]]:
    """Path, time and digest of everything below a folder."""
    for parent, _, files in sorted(os.walk(folder)):
        yield parent, os.stat(parent).st_mtime_ns, ""
        for name in sorted(files):
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                yield path, os.stat(path).st_mtime_ns, hashlib.sha256(file.read()).hexdigest()
