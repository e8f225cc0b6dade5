"""A process that is killed at any step of a turn is resumed: what ran is known, and nothing runs by itself.

Method: a child plays a turn through the API and kills itself at one step; the effect of its tool is a byte in a file.
The expectations are written down beside the steps.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from turnlog import Store
from turnlog.history.check import problems
from turnlog.history.history import SHAPES

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import os, signal, sys
from turnlog import Store

folder, wanted = sys.argv[1:]

def step(name):
    if name == wanted:
        os.kill(os.getpid(), signal.SIGKILL)

def send(to):
    step("before the effect")
    with open(folder + "/effect", "ab") as file:
        file.write(b"x")
    step("after the effect")
    return "y" * 100_000

session = Store.open(folder).create(title="report", model="provider/x")
turn = session.turn("Send the report.")
step("turn begun")
model = turn.step(context=[{"role": "user", "content": "Send the report."}])
step("model asked")
asked = {"type": "tool_use", "id": "c1", "name": "send", "input": {"to": "x"}}
model.complete({"role": "assistant", "content": [{"type": "text", "text": "So."}, asked]})
step("model answered")
call = turn.tool_call("send", {"to": "x"}, call_id="c1")
step("proposed")
call.approve(by="user")
step("approved")
call.run(send)
step("call finished")
turn.steer("And the minutes.")
turn.take_input()
step("input taken")
with turn.step(context=[]) as model:
    model.complete({"role": "assistant", "content": "Done."})
step("answered")
turn.complete()
step("turn completed")
"""

# step: class of the call (None: not in the log), whether the effect took place, roles of the completions shape
STEPS: dict[str, tuple[str | None, bool, str]] = {
    "turn begun": (None, False, "user"),
    "model asked": (None, False, "user"),
    "model answered": (None, False, "user assistant tool"),
    "proposed": ("not_started", False, "user assistant tool"),
    "approved": ("not_started", False, "user assistant tool"),
    "before the effect": ("unknown", False, "user assistant tool"),
    "after the effect": ("unknown", True, "user assistant tool"),
    "call finished": ("finished", True, "user assistant tool"),
    "input taken": ("finished", True, "user assistant tool user"),
    "answered": ("finished", True, "user assistant tool user assistant"),
    "turn completed": (None, True, "user assistant tool user assistant"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_is_killed_there_is_resumed(tmp_path: Path, step: str) -> None:
    standing, effect, roles = STEPS[step]
    folder = tmp_path / "store"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", CHILD, str(folder), step], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    seen: list[Any] = []
    for _ in range(2):
        with Store.open(folder) as store, store.resume() as session:
            recovery = session.recovery
            assert recovery is not None
            calls = [*recovery.reused, *recovery.retryable, *recovery.unknown]
            assert [call.standing for call in calls] == [standing] * (standing is not None)
            assert (recovery.interrupted is not None) == (step != "turn completed")
            for shape in SHAPES:
                assert problems(shape, session.history(shape)) == []
            messages = list(session.history("openai_chat"))
            assert " ".join(message["role"] for message in messages) == roles
            if standing == "finished":
                assert messages[2]["content"] == "y" * 100_000
            seen.append((session.head(), messages))
    assert seen[0] == seen[1]
    assert (folder / "effect").exists() == effect
    assert not effect or (folder / "effect").read_bytes() == b"x"
