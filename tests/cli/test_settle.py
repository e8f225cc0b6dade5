"""`sessionctl settle`: a person's word about a call of unknown outcome becomes an event, once."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import fingerprint
from tests.turns import TURN
from turnlog import Store, ToolFailed

if TYPE_CHECKING:
    from pathlib import Path

ID = "0196aaaa-0000-7000-8000-00000000000d"


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store whose session ended while the call c2 ran."""
    store = tmp_path / "cut"
    with Store.open(store) as opened, opened.create(id=ID) as session:
        session.append_many(TURN[:10])
    monkeypatch.setenv("TURNLOG_STORE", str(store))
    return store


def events(store: Path) -> list[tuple[str, Any]]:
    with Store.open(store, read_only=True) as opened:
        return [(event.type, event.payload) for event in opened.session(ID).events(after=11)]


def result(store: Path) -> Any:
    with Store.open(store, read_only=True) as opened:
        return opened.session(ID).call("t1", "c2").result


def test_the_command_that_resume_prints_settles_the_call(run: Runner, cut: Path) -> None:
    command = run("resume", "--json", "--yes").objects[0]["next"][0]
    done = run(*command.split()[1:])
    assert (done.code, done.out, done.err) == (0, "c2  send  completed\n", "")
    assert [type for type, _ in events(cut)] == ["tool.outcome_unknown", "turn.interrupted", "tool.resolved"]
    assert events(cut)[-1][1] == {"turn": "t1", "call_id": "c2", "outcome": "completed", "by": "user"}
    assert (run("resume", ID).code, run("resume", ID).err) == (
        0,
        "nothing was written: there is nothing to put right\n",
    )


def test_a_session_that_was_not_resumed_is_put_right_first(run: Runner, cut: Path) -> None:
    done = run("settle", "latest", "c2", "--outcome", "not-executed", "--by", "ops", "--json")
    assert done.code == 0
    assert_fits_schema(run, "settle", done.objects)
    assert [part["event"] for part in done.objects[0]["repaired"]] == ["tool.outcome_unknown", "turn.interrupted"]
    assert events(cut)[-1][1]["by"] == "ops"
    with Store.open(cut) as store, store.resume(ID) as session:
        assert session.call("t1", "c2").run(lambda to: f"sent to {to}") == "sent to x"  # it may run now


@pytest.mark.parametrize(
    ("content", "stored"), [(b'{"sent": true}', {"sent": True}), (b"sent at noon\n", "sent at noon\n"), (b"", "")]
)
def test_a_result_is_json_or_text(run: Runner, cut: Path, tmp_path: Path, content: bytes, stored: Any) -> None:
    file = tmp_path / "result"
    file.write_bytes(content)
    assert run("settle", ID, "c2", "--outcome", "completed", "--result", file).code == 0
    assert result(cut) == stored


def test_a_result_comes_from_stdin_and_a_failure_is_one(
    run: Runner, cut: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"mailbox full")))
    assert run("settle", ID, "c2", "--outcome", "failed", "--result", "-").code == 0
    with pytest.raises(ToolFailed):
        result(cut)
    assert events(cut)[-1][1]["content"] == "mailbox full"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["c2"], 2),
        (["c2", "--outcome", "done"], 2),
        (["c1", "--outcome", "completed"], 2),  # it is finished
        (["c3", "--outcome", "completed"], 10),
        (["c2", "--turn", "t2", "--outcome", "completed"], 10),
        (["c2", "--outcome", "not-executed", "--result", "/dev/null"], 2),
        (["c2", "--outcome", "completed", "--result", "/absent"], 2),
        (["c2", "--outcome", "completed", "--result", "/proc/self/exe"], 2),
    ],
)
def test_what_cannot_be_meant_writes_nothing(run: Runner, cut: Path, words: list[str], code: int) -> None:
    before = fingerprint(cut)
    done = run("settle", ID, *words)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("error[")
    assert fingerprint(cut) == before


def test_settling_twice_is_refused(run: Runner, cut: Path) -> None:
    assert run("settle", ID, "c2", "--outcome", "completed").code == 0
    last = events(cut)
    again = run("settle", ID, "c2", "--outcome", "failed")
    assert again.code == 2
    assert "'c2' is resolved: there is nothing to settle" in again.err
    assert events(cut) == last


def test_a_call_id_of_two_turns_needs_the_turn_and_resume_prints_it(run: Runner, cut: Path) -> None:
    with Store.open(cut) as store, store.resume(ID) as session:
        turn = session.turn("again", id="t2")
        turn.tool_call("send", {"to": "y"}, call_id="c2").start()
    assert run("settle", ID, "c2", "--outcome", "completed").code == 2
    commands = run("resume", "--json", "--yes").objects[0]["next"]
    assert [command.partition(" --turn ")[2] for command in commands] == [
        "t1 --outcome completed",
        "t2 --outcome completed",
    ]
    for command in commands:
        assert run(*command.split()[1:]).code == 0
    assert [payload["turn"] for type, payload in events(cut) if type == "tool.resolved"] == ["t1", "t2"]


def test_a_session_that_is_being_written_is_left_alone(run: Runner, cut: Path) -> None:
    with Store.open(cut) as store, store.session(ID) as session:
        session.append("message.user", {"content": "I am here."})
        assert run("settle", ID, "c2", "--outcome", "completed").code == 11
        assert session.append("message.user", {"content": "Still."}).ordinal == 13
