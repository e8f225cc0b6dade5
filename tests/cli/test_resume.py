"""`sessionctl resume`: shows what is open, asks, repairs; without a yes it writes nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import FLAKY, fingerprint
from tests.turns import TURN
from turnlog import Store
from turnlog.cli import resume

if TYPE_CHECKING:
    from pathlib import Path

ID = "0196aaaa-0000-7000-8000-00000000000d"
CARD = """\
session   0196aaaa-0000-7000-8000-00000000000d
title     weekly report
age       0s
summary   Send the report.
cwd       /src/app
model     provider/x
turns     1 turn
messages  2 messages
tokens    9 input
cut off   turn t1: its process ended in it
1 finished, reused
  c1  bash  completed
1 call outcome unknown: find out, then settle it as completed, failed or not-executed
  c2  send  outcome_unknown  key k
"""
SETTLE = f"  next   sessionctl settle {ID} c2 --outcome completed\n"


def make(folder: Path, events: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    with (
        Store.open(folder) as store,
        store.create(id=ID, title="weekly report", cwd="/src/app", model="provider/x") as s,
    ):
        s.append_many(TURN[:events])
    monkeypatch.setenv("TURNLOG_STORE", str(folder))
    return folder


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store whose session ended while a call that must not be repeated ran."""
    return make(tmp_path / "cut", 10, monkeypatch)


def head(store: Path) -> int:
    with Store.open(store, read_only=True) as opened:
        return opened.session(ID).head()[0]


def test_the_card_is_shown_and_nothing_is_written_without_a_yes(run: Runner, cut: Path) -> None:
    before = fingerprint(cut)
    done = run("resume")
    assert done.code == 4
    assert done.out == CARD
    would = "nothing was written; with --yes: tool.outcome_unknown c2, turn.interrupted t1\n"
    assert done.err == f"{would}  next   sessionctl resume {ID} --yes\n{SETTLE}"
    assert fingerprint(cut) == before


def test_yes_repairs_once(run: Runner, cut: Path) -> None:
    done = run("resume", ID, "--yes")
    assert (done.code, done.out, done.err) == (0, CARD, f"resumed; 2 repairs made\n{SETTLE}")
    assert head(cut) == 13
    left = run("resume", ID)
    said = "nothing was written: all that is open are calls of unknown outcome\n"
    assert (left.code, left.err) == (4, said + SETTLE)
    again = run("resume", ID, "--yes")
    assert (again.code, again.out, again.err) == (0, CARD, f"resumed; 0 repairs made\n{SETTLE}")
    assert head(cut) == 13


def test_json_tells_the_same(run: Runner, cut: Path) -> None:
    plan = run("resume", "latest", "--json")
    assert plan.code == 4
    done = run("resume", "latest", "--json", "--yes")
    assert done.code == 0
    assert_fits_schema(run, "resume", [*plan.objects, *done.objects])
    (planned,), (applied,) = plan.objects, done.objects
    assert (planned["applied"], applied["applied"]) == (False, True)
    assert [part["event"] for part in planned["repaired"]] == [part["event"] for part in applied["repaired"]]
    same = ("reused", "retryable", "unknown", "title", "summary", "turns", "tokens_input")
    settle = SETTLE.removeprefix("  next   ").strip()
    assert planned["next"] == [f"sessionctl resume {ID} --yes", settle]
    assert applied["next"] == [settle]
    differing = [name for name in same if planned[name] != applied[name]]
    assert differing in ([], ["unknown"])  # an ordinal is known only once the event is written


def test_without_unknown_outcomes_it_is_not_refused_but_says_that_nothing_was_done(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make(tmp_path / "store", 5, monkeypatch)
    before = head(store)
    for words in ([], ["--json"]):
        done = run("resume", *words)
        assert done.code == 1
        assert done.err == (
            f"nothing was written; with --yes: turn.interrupted t1\n  next   sessionctl resume {ID} --yes\n"
        )
    assert "2 calls may be run" in run("resume").out
    assert head(store) == before
    assert run("resume", "--yes").code == 0
    assert run("resume").code == 0  # nothing is left to do


def test_a_session_that_ended_in_order_has_nothing_to_repair(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path / "store", len(TURN), monkeypatch)
    done = run("resume", "--yes")
    assert (done.code, done.err) == (0, "resumed; 0 repairs made\n")


@pytest.mark.parametrize(("answer", "code", "last"), [(True, 0, 13), (False, 1, 11)])
def test_a_person_is_asked(
    run: Runner, cut: Path, monkeypatch: pytest.MonkeyPatch, *, answer: bool, code: int, last: int
) -> None:
    asked: list[tuple[str, bool]] = []

    def confirm(text: str, *, default: bool) -> bool:
        asked.append((text, default))
        return answer

    monkeypatch.setattr("turnlog.cli.output.is_terminal", lambda _stream: True)
    monkeypatch.setattr(resume, "is_terminal", lambda _stream: True)
    monkeypatch.setattr("click.confirm", confirm)
    assert run("resume", "--color", "never").code == code
    assert asked == [("Go on?", False)]
    assert head(cut) == last


def test_a_live_writer_is_left_alone(run: Runner, cut: Path) -> None:
    with Store.open(cut) as store, store.session(ID) as session:
        session.append("message.user", {"content": "I am here."})
        done = run("resume", ID)
        assert done.code == 11
        assert run("resume", ID, "--yes").code == 11
        assert session.append("message.user", {"content": "Still."}).ordinal == 13


def test_damage_needs_to_be_accepted(run: Runner, damaged: Path) -> None:
    before = fingerprint(damaged)
    done = run("resume", "0197cccc")
    assert done.code == 1
    repair = "sessionctl repair 0197cccc-0000-7000-8000-00000000000c"
    assert done.err == f"nothing was written: events are lost\n  next   {repair}\n"
    assert "damaged   events 3 to 3" in done.out
    assert run("resume", "0197cccc", "--yes").code == 4
    assert fingerprint(damaged).keys() >= before.keys()
    accepted = run("resume", "0197cccc", "--yes", "--accept-damage", "--json")
    assert accepted.code == 0
    assert accepted.objects[0]["writable"] is False


def test_an_old_session_of_another_program_can_be_resumed(run: Runner, whole: Path) -> None:
    assert os.path.isdir(whole)
    assert run("resume", FLAKY, "--yes").code == 0
    done = run("resume", FLAKY)
    assert (done.code, done.err) == (0, "nothing was written: there is nothing to put right\n")
