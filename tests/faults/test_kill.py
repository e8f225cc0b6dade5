"""Goal: what was acknowledged survives SIGKILL at any moment. Method: a child appends and reports each receipt
through a pipe, the parent
kills it after a random one, reopens and compares. Control: a child that reports before it appends is caught.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from turnlog import Store
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from pathlib import Path

CHILD = """
import os, sys, time
from turnlog import Store
path, session_id, level, lie = sys.argv[1:5]
store = Store.open(path, roll_bytes=65536)
session = store.session(session_id)
for number in range(1000):
    payload = {"number": number, "text": "x" * (number * 37 % 900)}
    if lie == "lie":
        os.write(1, b"%d\\n" % number)
        time.sleep(0.02)  # the death finds it between the claim and the deed
    session.append("note.written", payload, durability=level)
    if lie != "lie":
        os.write(1, b"%d\\n" % number)
"""


def run_and_kill(path: Path, session_id: str, level: str, after: int, *, lie: bool = False) -> int:
    """Let a child append, kill it after `after` acknowledgements; return how many it reported."""
    command = [sys.executable, "-c", CHILD, str(path), session_id, level, "lie" if lie else "honest"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(after):
            child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        rest = child.stdout.read().count(b"\n")
        child.wait()
    return after + rest


@pytest.mark.parametrize("level", ["durable", "buffered"])
def test_every_acknowledged_event_survives_sigkill(tmp_path: Path, level: str) -> None:
    pick = random.Random(11)
    path = tmp_path / "store"
    with Store.open(path) as store:
        session_id = store.create().id
    expected = 1
    for _ in range(6):
        acknowledged = run_and_kill(path, session_id, level, pick.randrange(1, 400))
        check = check_session(str(path), session_id)
        assert check.ok, check.findings
        with Store.open(path) as store:
            session = store.session(session_id)
            found = [event.payload.get("number") for event in session.events(after=expected)]
            assert found == list(range(len(found)))
            assert acknowledged <= len(found) <= acknowledged + 1  # one may be durable and not yet reported
            expected += len(found)
            expected = session.append("note.written", {"number": -1}).ordinal
            rows, _ = store.list()
            assert rows[0]["events"] == expected


def test_an_acknowledgement_before_the_append_is_caught(tmp_path: Path) -> None:
    path = tmp_path / "store"
    missed = 0
    for attempt in range(10):
        with Store.open(path) as store:
            session_id = store.create().id
        reported = run_and_kill(path, session_id, "durable", 20 + attempt, lie=True)
        with Store.open(path) as store:
            missed += reported > sum(1 for _ in store.session(session_id).events(after=1))
    assert missed > 0
