"""Goal: whoever accepts damage gets a session to go on with: its history is valid, and all that is left can be read.

Method: seeded random sessions, made by the session model's API, are damaged at random (flipped bits, zeroed ranges, cut
tails, missing segments), resumed with `accept_damage=True` and read to the last part; again after a repair. What may
raise is a part whose own event is lost, and that with the ordinals. Controls: without acceptance the loss is raised by
`history`, whose `on_damage="skip"` passes over it; an undamaged session reads the same, accepted or not.
"""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import damage
from turnlog import Damaged, NotFound, Session, Store, ToolFailed, Turn, names
from turnlog.compact.compact import compact_session
from turnlog.history.check import problems
from turnlog.history.history import SHAPES
from turnlog.index.index import Index
from turnlog.log.segments import list_segments
from turnlog.repair.repair import plan_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROLL_BYTES = 8192
SESSION, PARENT = "019b76da-a800-7000-8000-000000000001", "019b76da-a800-7000-8000-000000000002"
WORDS = ("reproduce", "bisect", "fix", "the flaky test", "x" * 200, "ünïcode", "y" * 900)


class Wanderer:
    """Plays an application at random."""

    def __init__(self, session: Session, pick: random.Random, folder: Path) -> None:
        self.session, self.pick, self.folder = session, pick, folder
        self.context: list[Any] = []
        self.plan: Any = None

    def text(self) -> str:
        return " ".join(self.pick.choice(WORDS) for _ in range(self.pick.randrange(1, 4)))

    def go(self, turns: int, *, to_an_end: bool = False) -> None:
        for _ in range(turns):
            self.pick.choice([self.make_plan, self.make_task, self.touch, self.take_out, self.remark])()
            self.run_turn()
        if not to_an_end and self.pick.random() < 0.5:
            self.fill(self.session.turn(self.text()))  # left open

    def run_turn(self) -> None:
        turn = self.session.turn(self.text())
        self.fill(turn)
        ending = self.pick.choice(["complete", "complete", "abort", "fail"])
        if ending == "complete" and not self.session.state.open_calls:
            turn.complete()
        else:
            (turn.abort if ending == "abort" else turn.fail)(self.text())

    def fill(self, turn: Turn) -> None:
        for _ in range(self.pick.randrange(1, 5)):
            self.context.append({"role": "user", "content": self.text()})
            step = turn.step(context=self.context[-self.pick.randrange(1, 20) :])
            if self.pick.random() < 0.15:
                step.fail(self.text(), status=529)
                continue
            asked = [f"{turn.id[-12:]}-{step.id}-{number}" for number in range(self.pick.randrange(4))]
            uses = [{"type": "tool_use", "id": id, "name": "bash", "input": {"cmd": "ls"}} for id in asked]
            said: list[Any] = [{"type": "text", "text": self.text()}]
            response = {"role": "assistant", "content": said + (uses if self.pick.random() < 0.5 else [])}
            self.context.append(response)
            step.complete(response, usage={"input": 3, "output": 2})
            if self.pick.random() < 0.3:
                turn.steer(self.text())
            for id in asked:
                self.call(turn, id)
            if self.pick.random() < 0.5:
                turn.take_input()

    def call(self, turn: Turn, call_id: str) -> None:
        effect = self.pick.choice(["external", "none", "idempotent"])
        call = turn.tool_call("bash", {"cmd": self.text()}, call_id=call_id, effect=effect)
        kind = self.pick.randrange(8)
        if kind == 0:
            call.request_approval(reason=self.text())
        elif kind == 1:
            call.deny(by="user")
        elif kind == 2:
            call.start()
        elif kind == 3:
            with suppress(ToolFailed, ValueError):
                call.run(partial(refuse, self.text()))
        elif kind > 3:
            call.approve(by="policy").run(partial(answer, self.text()))

    def make_plan(self) -> None:
        known = self.session.current_plan
        if known is None or self.pick.random() < 0.3:
            self.session.plan(self.text())
        elif self.pick.random() < 0.5:
            known.revise(self.text())
        else:
            with suppress(ValueError):
                known.approve(by="user")

    def make_task(self) -> None:
        self.session.tasks.add(self.text())

    def touch(self) -> None:
        path = self.folder / f"{self.pick.randrange(5)}.txt"
        path.write_text(self.text())
        self.session.files.mark_written(path)
        if self.pick.random() < 0.7:
            self.session.files.save()

    def take_out(self) -> None:
        """Compact what was, or roll the last turn back."""
        state = self.session.state
        if self.pick.random() < 0.5:
            summary = {"summary": self.text(), "first": 1, "last": state.ordinal}
            self.session.record("context.compacted", summary)
        elif sum(state.turn_counts.values()):
            self.session.record("context.rolled_back", {"turns": 1})

    def remark(self) -> None:
        self.session.record("note.written", {"text": self.text()})


def refuse(text: str, **_arguments: Any) -> None:
    raise ValueError(text)


def answer(text: str, **_arguments: Any) -> dict[str, str]:
    return {"found": text}


def flip(path: str, pick: random.Random) -> None:
    for _ in range(pick.randrange(1, 4)):
        damage.flip(path, pick.randrange(os.path.getsize(path)))


def zero(path: str, pick: random.Random) -> None:
    size = os.path.getsize(path)
    at = pick.randrange(size)
    damage.edit(path, at, bytes(min(size - at, pick.choice([64, 512, 3000]))))


def shorten(path: str, pick: random.Random) -> None:
    damage.cut(path, pick.randrange(os.path.getsize(path)))


def remove(path: str, pick: random.Random) -> None:
    _ = pick
    os.unlink(path)


INJURIES: list[Callable[[str, random.Random], None]] = [flip, flip, zero, shorten, remove]


def made(path: Path, seed: int) -> None:
    """Make a store with one random session, in some of them a fork of another; closed in order, or as a process left
    it that was killed.
    """
    pick = random.Random(seed)
    files = path.with_suffix(".files")
    files.mkdir(exist_ok=True)
    with Store.open(path, roll_bytes=ROLL_BYTES) as store:
        is_fork = pick.random() < 0.25
        session = store.create(title="wandering", id=PARENT if is_fork else SESSION, cwd=str(files))
        Wanderer(session, pick, files).go(pick.randrange(2, 8), to_an_end=is_fork)
        if is_fork:
            session.close()
            session = store.fork(PARENT, id=SESSION)
            Wanderer(session, pick, files).go(pick.randrange(1, 4))
        session.flush()
        is_killed = pick.random() < 0.5
        if is_killed:
            without_index = shutil.ignore_patterns(f"{names.INDEX}*")  # a thread may be writing it
            shutil.copytree(path, path.with_suffix(".killed"), ignore=without_index)
    if is_killed:
        shutil.rmtree(path)
        path.with_suffix(".killed").rename(path)
    elif pick.random() < 0.3:
        compact_session(str(path), SESSION)


def injure(path: Path, seed: int) -> None:
    pick = random.Random(seed)
    for _ in range(pick.choice([1, 1, 2, 3])):
        folders = [names.session_dir(str(path), id) for id in (PARENT, SESSION)]
        files = [file.path for folder in folders if os.path.isdir(folder) for file in list_segments(folder)]
        files = [file for file in files if os.path.getsize(file)]
        if len(files) > 1:
            pick.choice(INJURIES)(pick.choice(files), pick)
    if pick.random() < 0.3:
        for name in (names.INDEX, *names.INDEX_SIDE_FILES):
            (path / name).unlink(missing_ok=True)


def witness(path: Path, id: str) -> Any:
    """Return what the index saw synced, as `sessionctl repair` does; None when it is gone."""
    if not (path / names.INDEX).exists():
        return None
    index = Index.open(str(path), read_only=True)
    try:
        return index.witness(id)
    finally:
        index.close()


def repair(path: Path) -> None:
    """Repair the session and the one that it was forked from; what that one lost the fork goes on without."""
    for id in (PARENT, SESSION):
        if os.path.isdir(names.session_dir(str(path), id)):
            repaired = plan_session(str(path), id, witness=witness(path, id), accept_tail=True).apply()
            assert repaired.ok or {finding["code"] for finding in repaired.findings} == {"parent"}, repaired.findings


def parts(session: Session) -> dict[str, Callable[[], object]]:
    """Return what can be read of a session, each by a function that reads it to its end."""
    found: dict[str, Callable[[], object]] = {
        "state": lambda: session.state,
        "plan": lambda: session.current_plan,
        "tasks": lambda: list(session.tasks),
        "current turn": lambda: session.current_turn,
        "files": session.files.to_snapshot,
        "turns": lambda: list(session.turns()),
        "turns back": lambda: list(session.turns(reverse=True)),
        "recovery": lambda: session.recovery and session.recovery.as_json(),
    }
    for shape in SHAPES:
        found[f"history {shape}"] = partial(list, session.history(shape))
        found[f"system {shape}"] = partial(getattr, session.history(shape), "system")
    return found


class Reader:
    """Reads every turn of a session to its last part, and keeps what is raised."""

    def __init__(self, session: Session) -> None:
        self.raised: list[Exception] = []
        for turn in session.turns():
            self.tried(lambda turn=turn: (turn.input, turn.settings, turn.error, turn.reason))
            for step in self.tried(lambda turn=turn: list(turn.steps())) or ():
                self.tried(lambda step=step: (step.response, step.usage, step.stop_reason, step.error))
                if step.ordinal:
                    self.tried(step.context)
                self.tried(partial(session.step, step.turn_id, step.id))
            for call in self.tried(lambda turn=turn: list(turn.calls())) or ():
                self.tried(lambda call=call: (call.state, call.standing, call.name, call.arguments, call.effect))
                if call.state in {"completed", "failed"}:
                    self.tried(lambda call=call: call.result)

    def tried(self, read: Callable[..., Any]) -> Any:
        try:
            return read()
        except ToolFailed:
            return None
        except Exception as error:  # noqa: BLE001 - judged by who asks
            self.raised.append(error)
            return None


def read_all(session: Session) -> None:
    for read in parts(session).values():
        read()
    for shape in SHAPES:
        assert problems(shape, list(session.history(shape))) == []
    for error in Reader(session).raised:
        assert isinstance(error, Damaged), error
        assert "cannot be read" in str(error)


def run(folder: Path, seed: int) -> None:
    path = folder / "store"
    folder.mkdir(exist_ok=True)
    made(path, seed)
    injure(path, seed)
    broken = folder / "broken"
    shutil.copytree(path, broken)
    with Store.open(path) as store, store.resume(SESSION, accept_damage=True) as session:
        read_all(session)
        if session.recovery is not None and session.recovery.writable:
            session.turn("go on").complete()
            read_all(session)
    repair(broken)
    with Store.open(broken) as store, store.resume(SESSION, accept_damage=True) as session:
        read_all(session)
        with session.turn("go on") as turn:
            turn.step(context=["go on"]).complete("gladly")
            turn.complete()
        read_all(session)


@pytest.mark.parametrize("seed", range(40))
def test_a_session_whose_damage_was_accepted_can_be_read_to_its_last_part(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_sessions_whose_damage_was_accepted_can_be_read(tmp_path: Path) -> None:
    for seed in range(1000, 1600):
        run(tmp_path / str(seed), seed)


def test_without_acceptance_the_loss_is_told_with_the_way_around_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    made(path, 5)
    files = list_segments(names.session_dir(str(path), SESSION))
    os.unlink(files[1].path)
    with Store.open(path) as store:
        session = store.session(SESSION)
        for shape in SHAPES:
            with pytest.raises(Damaged, match=r"history\(on_damage='skip'\) is made of what is left"):
                list(session.history(shape))
            assert problems(shape, list(session.history(shape, on_damage="skip"))) == []
        with pytest.raises(Damaged):
            list(session.turns())
        whole = [turn.id for turn in session.turns(on_damage="skip")]
        assert whole == [turn.id for turn in session.turns(reverse=True, on_damage="skip")][::-1]
    with Store.open(path) as store, pytest.raises(Damaged):
        store.resume(SESSION)


def test_an_event_before_the_first_segment_that_is_left_is_lost_and_not_unknown(tmp_path: Path) -> None:
    path = tmp_path / "store"
    made(path, 5)
    os.unlink(list_segments(names.session_dir(str(path), SESSION))[0].path)
    with Store.open(path) as store:
        session = store.session(SESSION)
        with pytest.raises(Damaged, match="cannot be read"):
            session.event(2)
        with pytest.raises(Damaged, match="cannot be read"):
            list(session.events(after=1, before=3))
        head = session.log().head()[0]
        with pytest.raises(NotFound):
            session.event(head + 1)
    repair(path)
    with Store.open(path) as store, pytest.raises(Damaged, match="a repair has noted that"):
        store.session(SESSION).event(2)


def test_a_history_past_damage_does_not_say_that_a_call_was_not_run_whose_start_may_be_lost(tmp_path: Path) -> None:
    with Store.open(tmp_path, roll_bytes=ROLL_BYTES) as store, store.create(id=SESSION) as session:
        turn = session.turn("send it")
        turn.tool_call("send", call_id="before")
        for _ in range(30):
            session.record("note.written", {"text": "x" * 900})
        turn.tool_call("send", call_id="behind")
    os.unlink(list_segments(names.session_dir(str(tmp_path), SESSION))[1].path)
    with Store.open(tmp_path) as store:
        for history in (
            store.session(SESSION).history("openai_chat", on_damage="skip"),
            store.resume(SESSION, accept_damage=True).history("openai_chat"),
        ):
            told = {message["tool_call_id"]: message["content"] for message in history if message["role"] == "tool"}
            assert "unknown" in told["before"]
            assert "was not run" in told["behind"]


def test_an_undamaged_session_reads_the_same_accepted_or_not(tmp_path: Path) -> None:
    path = tmp_path / "store"
    made(path, 8)
    found = []
    for accept in (False, True):
        with Store.open(path) as store, store.resume(SESSION, accept_damage=accept) as session:
            assert Reader(session).raised == []
            found.append([list(session.history(shape)) for shape in SHAPES])
    assert found[0] == found[1] != []
