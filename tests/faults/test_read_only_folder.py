"""Goal: a store in a folder that may not be written is read like any other, and every attempt to write it is a typed
error that changes nothing. Method: no folder and no file of the store has a write bit, and a child without the right
to pass over that opens it, by the API and by sessionctl.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from turnlog import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RIGHTS = "-dac_override,-dac_read_search"  # with them root writes everywhere

READ_AND_TRY = """
import sys
from turnlog import IndexUnavailable, ReadOnly, Store
path, session_id = sys.argv[1:]
with Store.open(path) as store:
    session = store.session(session_id)
    print([event.ordinal for event in session.events()])
    for write in (lambda: session.append("note.written", {}), store.create, lambda: Store.open(path + "/new")):
        try:
            write()
        except ReadOnly as error:
            print(error.code, "Permission denied" in error.message, path in error.message, error.next_commands())
    try:
        store.list()
    except IndexUnavailable as error:
        print(error.code, error.next_commands())
with Store.open(path, read_only=True) as store:
    print([row["title"] for row in store.list()[0]])
"""


@pytest.fixture
def fixed(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Return a store without write bits, and its session."""
    path = tmp_path / "store"
    with Store.open(path) as store:
        session_id = store.create(title="kept").id
        store.session(session_id).append("note.written", {})
    places = [path, *path.rglob("*")]
    for place in places:
        place.chmod(0o500 if place.is_dir() else 0o400)
    yield path, session_id
    for place in places:
        place.chmod(0o700)


def without_rights(*command: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a user whom the write bits bind."""
    prefix: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root needs setpriv to give up its rights")
        prefix = ["setpriv", f"--bounding-set={RIGHTS}"]
    words = [*prefix, sys.executable, *command]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_folder_that_cannot_be_written_is_read_and_refuses_the_rest(fixed: tuple[Path, str]) -> None:
    path, session_id = fixed
    before = contents(path)
    done = without_rights("-c", READ_AND_TRY, str(path), session_id)
    assert (done.stderr, done.stdout.splitlines()) == (
        "",
        [
            "[1, 2]",
            *["read_only True True ['sessionctl path']"] * 3,
            "index_unavailable ['sessionctl list']",
            "['kept']",
        ],
    )
    assert contents(path) == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("list", 0),
        ("show latest", 0),
        ("cat latest", 0),
        ("tail latest", 0),
        ("stats", 0),
        ("verify --full", 0),
        ("repair --apply", 0),  # there is nothing to do
        ("rebuild-index", 14),
        ("compact latest", 4),
    ],
)
def test_verbs_that_read_answer_and_the_others_end_with_their_code(
    fixed: tuple[Path, str], words: str, code: int
) -> None:
    path, _ = fixed
    before = contents(path)
    done = without_rights("-m", "turnlog", "--store", str(path), *words.split())
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert contents(path) == before
