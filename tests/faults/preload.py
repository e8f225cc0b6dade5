"""Faults of a disk for a child process: builds preload.c, sets its words, runs code under it.

Owns: the names of the words, which are those of `enum word` in preload.c. Must not know: what is tested with them.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("preload.c")
ROOT = SOURCE.parents[2]
_ENUM = re.search(r"enum word \{(.*?)\};", SOURCE.read_text(encoding="utf-8"), re.DOTALL)
WORDS = re.findall(r"^    ([A-Z_]+),", _ENUM.group(1), re.MULTILINE) if _ENUM else []
_BYTES = 4096


class Faults:
    """The words, shared with every process that has the same file: `faults["SYNC_FAIL_AT"] = 3`."""

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _BYTES)

    def __getitem__(self, name: str) -> int:
        at = WORDS.index(name) * 4
        return int.from_bytes(self._shared[at : at + 4], sys.byteorder, signed=True)

    def __setitem__(self, name: str, value: int) -> None:
        at = WORDS.index(name) * 4
        self._shared[at : at + 4] = value.to_bytes(4, sys.byteorder, signed=True)


def run_child(
    core: str,
    code: str,
    folder: Path,
    words: dict[str, int] | None = None,
    *,
    prefix: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    behind: tuple[str, ...] = (),
) -> str:
    """Run `code` after CHILD below, as an argument of the command `prefix`; return what it printed.

    `environment` is added to its own, the libraries `behind` are loaded after that of the faults.
    """
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs Linux and a C compiler")
    library, shared = folder / "preload.so", folder / "faults"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    shared.write_bytes(bytes(_BYTES))
    faults = Faults(str(shared))
    for name, value in (words or {}).items():
        faults[name] = value
    full = {
        **os.environ,
        **(environment or {}),
        "LD_PRELOAD": os.pathsep.join([str(library), *behind]),
        "FAULTS_FILE": str(shared),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT)]),
    }
    arguments = [*prefix, sys.executable, "-c", CHILD + code, core, str(folder)]
    child = subprocess.run(arguments, env=full, capture_output=True, text=True, timeout=60, check=False)
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


CHILD = """
import os, sys, threading
from importlib import import_module
from pathlib import Path
from tests.core.writing import frames_of, new_segment, open_writer, wait_until
from tests.faults.preload import Faults
from turnlog import errors
core = import_module("turnlog._" + sys.argv[1])
folder = Path(sys.argv[2])
faults = Faults(os.environ["FAULTS_FILE"])

def in_threads(count, work):
    outcomes = [None] * count
    def run(index):
        try:
            outcomes[index] = work(index)
        except errors.TurnlogError as error:
            outcomes[index] = error
    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    return threads, outcomes

def join_all(threads):
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "a waiter hangs"
"""
