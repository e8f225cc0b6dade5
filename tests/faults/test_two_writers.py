"""Goal: one writer per session, always. Method: a second process, a forked child, a replaced lock file, a stopped
holder."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from turnlog import Store
from turnlog.errors import Locked, WrongProcess

if TYPE_CHECKING:
    from pathlib import Path

    from turnlog import Session

OTHER = """
import sys
from turnlog import Store, Locked
with Store.open(sys.argv[1]) as store:
    session = store.session(sys.argv[2])
    print(sum(1 for _ in session.events()))
    try:
        session.append("note.written", {})
    except Locked as error:
        print(error.code, str(error))
        sys.exit(error.exit_code)
"""

ORPHAN = """
import os, sys, time
from turnlog import Store
session = Store.open(sys.argv[1]).session(sys.argv[2])
session.append("note.written", {})
pid = os.fork()
if pid == 0:
    os.close(1)
    time.sleep(30)
    os._exit(0)
print(pid, flush=True)
os._exit(0)
"""


def other_process(path: Path, session_id: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OTHER, str(path), session_id], capture_output=True, text=True, check=False
    )


def append_for(seconds: int, session: Session) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        session.append("note.written", {}, durability="buffered")


def test_a_second_process_reads_but_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        session.append("note.written", {})
        refused = other_process(tmp_path / "store", session.id)
        assert refused.returncode == 11
        assert refused.stdout.startswith("2\n")
        assert f"pid {os.getpid()}" in refused.stdout
    assert other_process(tmp_path / "store", session.id).returncode == 0


def test_a_forked_child_is_refused_and_leaves_the_parent_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                session.append("note.written", {})
            except WrongProcess:
                store.close()
                code = 42
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
        assert other_process(tmp_path / "store", session.id).returncode == 11  # the child did not free the lock
        assert session.append("note.written", {}).ordinal == 2


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session_id = store.create().id
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN, str(tmp_path / "store"), session_id],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    try:
        with Store.open(tmp_path / "store") as store:
            assert store.session(session_id).append("note.written", {}).ordinal == 3
    finally:
        os.kill(int(done.stdout), 9)


def test_a_replaced_lock_file_stops_the_writer(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        lock = next((tmp_path / "store").glob("sessions/*/*/LOCK"))
        lock.unlink()
        lock.touch()
        with pytest.raises(Locked):
            append_for(30, session)
