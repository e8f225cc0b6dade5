"""Goal: a tool's effect happens at most once, and an unknown outcome is called unknown, wherever SIGKILL comes around a
call. Method: a child runs one call and kills itself at one of twelve points; the effect is a byte in a file; then a
second process looks, runs what it may, and a third finds nothing left to do. Control: a program that runs the tool
before it records the intent is caught.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from turnlog import OutcomeUnknown, Resolution, Session, Store, ToolCall
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from pathlib import Path

CHILD = """
import os, signal, sys
from turnlog import Store

path, effect, kill_at, counter, order = sys.argv[1:6]


def reach(point):
    if point == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)


def tool(n):
    reach("before_effect")
    descriptor = os.open(counter, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"x")
    os.close(descriptor)
    reach("after_effect")
    return {"n": n}


store = Store.open(path)
session = store.session("latest")
append = session.append
names = {"tool.proposed": "proposal", "tool.approved": "approval", "tool.started": "start", "tool.completed": "result"}


def watched(type, *args, **kwargs):
    name = names.get(type)
    reach(f"before_{name}")
    receipt = append(type, *args, **kwargs)
    reach(f"after_{name}")
    return receipt


session.append = watched
with session.turn("goal", id="t1") as turn:
    call = turn.tool_call("count", {"n": 7}, call_id="c1", effect=effect)
    call.approve(by="user")
    reach("before_run")
    if order == "effect first":
        tool(7)
        call.run(lambda n: {"n": n})
    else:
        call.run(tool)
    reach("after_run")
    turn.complete()
reach("after_turn")
"""


class Point(NamedTuple):
    """Where the child dies, and what the next process must find: the call's standing, None if there is no call."""

    name: str
    standing: str | None
    effects: int = 0


POINTS = [
    Point("before_proposal", None),
    Point("after_proposal", "not_started"),
    Point("before_approval", "not_started"),
    Point("after_approval", "not_started"),
    Point("before_run", "not_started"),
    Point("before_start", "not_started"),
    Point("after_start", "unknown"),
    Point("before_effect", "unknown"),
    Point("after_effect", "unknown", 1),
    Point("before_result", "unknown", 1),
    Point("after_result", "finished", 1),
    Point("after_run", "finished", 1),
]


class Scene:
    """A store in which a child died, and the file in which its tool left its mark."""

    def __init__(self, path: Path) -> None:
        self.store = path / "store"
        self.counter = path / "counter"
        with Store.open(self.store) as store:
            self.session_id = store.create().id

    def die_at(self, point: str, effect: str, order: str = "intent first") -> int:
        command = [sys.executable, "-c", CHILD, str(self.store), effect, point, str(self.counter), order]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
        return done.returncode

    def effects(self) -> int:
        return len(self.counter.read_bytes()) if self.counter.exists() else 0

    def tool(self, n: int) -> dict[str, int]:
        with self.counter.open("ab") as file:
            file.write(b"x")
        return {"n": n}

    def verify(self, _key: str) -> Resolution:
        """Look whether the effect is there, as a payment service would by the idempotency key."""
        return Resolution("completed", {"n": 7}) if self.effects() else Resolution("not_executed")


def call_of(session: Session) -> ToolCall | None:
    found = list(session.events(types=["tool.proposed"]))
    return session.call("t1", "c1") if found else None


def settle(scene: Scene, effect: str, standing: str | None) -> Any:
    """Do what a careful program does after the crash; return the result of the call."""
    with Store.open(scene.store) as store:
        call = call_of(store.session("latest"))
        assert (None if call is None else call.standing) == standing
        if call is None:
            return None
        if standing == "unknown" and effect == "external":
            before = scene.effects()
            with pytest.raises(OutcomeUnknown):
                call.run(scene.tool)
            assert scene.effects() == before
            call.resolve(scene.verify)
        return call.run(scene.tool)


@pytest.mark.parametrize("effect", ["external", "idempotent"])
@pytest.mark.parametrize("point", POINTS, ids=[point.name for point in POINTS])
def test_the_effect_happens_at_most_once_unless_it_may_be_repeated(tmp_path: Path, point: Point, effect: str) -> None:
    scene = Scene(tmp_path)
    assert scene.die_at(point.name, effect) == -signal.SIGKILL
    assert scene.effects() == point.effects
    result = settle(scene, effect, point.standing)
    assert result == (None if point.standing is None else {"n": 7})
    repeated = effect == "idempotent" and point.standing == "unknown" and point.effects
    assert scene.effects() == (0 if point.standing is None else 2 if repeated else 1)
    check = check_session(str(scene.store), scene.session_id)
    assert check.ok, check.findings


@pytest.mark.parametrize("point", POINTS, ids=[point.name for point in POINTS])
def test_a_second_look_changes_nothing(tmp_path: Path, point: Point) -> None:
    scene = Scene(tmp_path)
    scene.die_at(point.name, "external")
    first = settle(scene, "external", point.standing)
    looks = []
    for _ in range(2):
        with Store.open(scene.store) as store:
            session = store.session("latest")
            call = call_of(session)
            if call is not None:
                assert call.resolve(scene.verify).run(scene.tool) == first
            looks.append((session.head(), scene.effects(), session.state.violation_count))
    assert looks[0] == looks[1]
    assert looks[0][2] == 0


def test_a_child_that_lives_completes_its_turn(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert scene.die_at("after_turn", "external") == -signal.SIGKILL
    with Store.open(scene.store) as store:
        assert store.session("latest").state.turn_counts == {"completed": 1}
    assert scene.effects() == 1


def test_an_effect_before_the_intent_is_caught(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert scene.die_at("after_effect", "external", "effect first") == -signal.SIGKILL
    assert settle(scene, "external", "not_started") == {"n": 7}
    assert scene.effects() == 2
