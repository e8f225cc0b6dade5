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
from turnlog.verify.verify import check_store

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


WRITER = """
import sys
from turnlog import Store
with Store.open(sys.argv[1], roll_bytes=16384) as store:
    session = store.create(title=sys.argv[2])
    print("open", flush=True)
    sys.stdin.readline()
    for number in range(300):
        session.append("note.written", {"n": number, "text": "x" * 200}, durability=("durable", "buffered")[number % 2])
"""


RACER = """
import sys
from turnlog import Store
print("ready", flush=True)
sys.stdin.readline()
with Store.open(sys.argv[1]) as store:
    session = store.create()
    with open(sys.argv[1] + "/store.json") as identity:
        print(session.append("note.written", {}).ordinal, identity.read())
"""


def test_of_several_processes_that_open_a_new_store_at_once_one_makes_it(tmp_path: Path) -> None:
    for attempt in range(5):
        command = [sys.executable, "-c", RACER, str(tmp_path / str(attempt))]
        racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
        ready = [racer.stdout.readline() for racer in racers if racer.stdout is not None]
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        answers = [racer.communicate(timeout=60)[0] for racer in racers]
        assert ready == ["ready\n"] * 6
        assert {answer.partition(" ")[0] for answer in answers} == {"2"}
        assert len(set(answers)) == 1, "the identity of the store was written twice"
        assert len(check_store(str(tmp_path / str(attempt))).sessions) == 6


def test_several_processes_write_sessions_of_one_store_at_the_same_time(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    command = [sys.executable, "-c", WRITER, path]
    writers = [
        subprocess.Popen([*command, f"writer {number}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    opened = [writer.stdout.readline() for writer in writers if writer.stdout is not None]
    rest = [writer.communicate("go\n", timeout=60)[0] for writer in writers]
    assert (opened, rest) == (["open\n"] * 4, [""] * 4)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert check_store(path, full=True).ok
    with Store.open(path, read_only=True) as store:
        rows, _ = store.list()
        assert sorted(row["title"] for row in rows) == [f"writer {number}" for number in range(4)]
        for row in rows:
            assert row["events"] == 301
            payloads = [event.payload["n"] for event in store.session(row["id"]).events(after=1)]
            assert payloads == list(range(300))


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
    with Store.open(tmp_path / "store", roll_bytes=1 << 40) as store:  # a roll would notice it too
        session = store.create()
        lock = next((tmp_path / "store").glob("sessions/*/*/LOCK"))
        lock.unlink()
        lock.touch()
        with pytest.raises(Locked):
            append_for(30, session)
