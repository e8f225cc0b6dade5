"""Goal: a signal ends a process whose main thread waits inside turnlog's own code, or whose asyncio loop is blocked.

Method: children that stay there for good; the parent signals them and looks at how they ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from turnlog import Store
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from pathlib import Path

FOLLOWS = """
import sys, time
from turnlog import Store
store = Store.open(sys.argv[1])
store.close_on_signals(deadline_ms=5000)
session = store.create()
for event in session.follow():
    print("ready", flush=True)
time.sleep(600)
"""

CALLED = """
import os, signal
def handler(signum, frame):
    print("handler", flush=True)
    os._exit(7)
signal.signal(signal.SIGTERM, handler)
"""

BLOCKED = """
import asyncio, sys, time
import turnlog.signals
from turnlog.aio import AsyncStore
turnlog.signals._BEYOND_S = 0.1
async def main():
    store = await AsyncStore.open(sys.argv[1])
    store.close_on_signals(deadline_ms=100)
    async with await store.create() as session:
        await session.append("note.written", {})
        print("ready", flush=True)
        WORK
asyncio.run(main())
"""


def end(path: Path, code: str) -> tuple[int, str, str]:
    """Signal a program when it is ready; return its status, what it wrote since, its errors."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        try:
            out, errors = child.communicate(timeout=60)
        finally:
            child.kill()
        return child.returncode, out, errors


def test_a_main_thread_that_waits_in_a_feed_is_ended_by_the_signal(tmp_path: Path) -> None:
    assert end(tmp_path, FOLLOWS) == (-signal.SIGTERM, "", "")
    assert os.listdir(tmp_path / "live") == []


def test_a_handler_that_was_there_is_called_though_another_thread_closed(tmp_path: Path) -> None:
    assert end(tmp_path, CALLED + FOLLOWS) == (7, "handler\n", "")
    assert os.listdir(tmp_path / "live") == []


@pytest.mark.parametrize("work", ["time.sleep(600)", "while True: pass"])
def test_a_process_whose_loop_never_hears_of_the_signal_is_ended_by_force(tmp_path: Path, work: str) -> None:
    assert end(tmp_path, BLOCKED.replace("WORK", work)) == (-signal.SIGKILL, "", "")
    with Store.open(tmp_path) as store:
        session = store.session("latest")
        assert check_session(str(tmp_path), session.id).ok
        assert [event.type for event in session.events()] == ["session.created", "note.written"]
