"""What a disk would hold after a power loss, at each moment of a child's life: builds durable.c, reads its records.

Owns: the count of syncs a child reads at a moment (`Count`), and the image that the syncs up to then leave (`Image`).
The model is the harshest: a file has the bytes that were there when its last sync began, a name exists only once its
folder was synced. Must not know: what is stored.
"""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.preload import run_child

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).with_name("durable.c")
DELAY_MS = 10
_BYTES = 4096


class Count:
    """How many syncs were done, by all processes that are recorded."""

    def __init__(self) -> None:
        with open(os.environ["DURABLE_COUNT"], "r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _BYTES)

    def __call__(self) -> int:
        return int.from_bytes(self._shared[:4], sys.byteorder)


class Image:
    """What the syncs that a child was seen to do leave of the folder `root`."""

    def __init__(self, root: Path, records: Path) -> None:
        self._root = root
        self._records: dict[str, list[tuple[int, int, Path]]] = {}  # inode: (when it began, when it was done, record)
        for path in records.iterdir():
            if not path.name.startswith("pending"):
                step, inode, began = path.name.split("-")
                self._records.setdefault(inode, []).append((int(began), int(step), path))

    def at(self, count: int, place: Path) -> Path:
        """Make the folder as the first `count` syncs left it, and return it."""
        self._fill(str(self._root.stat().st_ino), count, place)
        return place

    def _fill(self, inode: str, count: int, place: Path) -> None:
        place.mkdir()
        listed = self._last(inode, count)
        for line in [] if listed is None else listed.read_text("utf-8").splitlines():
            inner, kind, name = line.split(" ", 2)
            if kind == "d":
                self._fill(inner, count, place / name)
                continue
            content = self._last(inner, count)
            if content is None:
                (place / name).touch()
            else:
                shutil.copyfile(content, place / name)

    def _last(self, inode: str, count: int) -> Path | None:
        """Return the record of a file or folder that began last, among those of the first `count` syncs."""
        done = [record for record in self._records.get(inode, []) if record[1] <= count]
        return max(done)[2] if done else None


def run_recorded(core: str, code: str, folder: Path) -> tuple[str, Image]:
    """Run `code` in a child as `run_child` does; what it stores below folder/store is recorded."""
    library, records, count, root = (folder / name for name in ("durable.so", "records", "count", "store"))
    records.mkdir()
    root.mkdir()
    count.write_bytes(bytes(_BYTES))
    environment = {
        "DURABLE_ROOT": str(root.resolve()),
        "DURABLE_RECORDS": str(records),
        "DURABLE_COUNT": str(count),
        "DURABLE_DELAY_MS": str(DELAY_MS),
        "TURNLOG_CORE": core,
    }
    told = run_child(core, code, folder, environment=environment, behind=(_built(library),))
    return told, Image(root, records)


def _built(library: Path) -> str:
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SOURCE), "-ldl"]
    compiler = shutil.which("cc")
    if compiler is not None:  # else run_child skips the test
        subprocess.run([compiler, *command[1:]], check=True)
    return str(library)


def images(image: Image, counts: set[int], folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield each count with its image, which lasts until the next one."""
    for count in sorted(counts):
        place = image.at(count, folder / f"image-{count}")
        yield count, place
        shutil.rmtree(place)
