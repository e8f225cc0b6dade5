"""Damage that takes the event telling that a call was started: what may have had its effect is never offered again.

Method: a turn that was cut short after its external call began; every short range of its events is damaged, the session
is repaired and resumed, and whatever the report offers is run, with a count of the effects.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.faults.damage import Victim, flip
from tests.turns import TURN
from turnlog import InvalidTransition, OutcomeUnknown, Resolution, Store, names
from turnlog.errors import Damaged
from turnlog.repair.repair import plan_session
from turnlog.state.state import State
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog import Session

STARTED = 11  # the ordinal of the start of the external call c2
LONGEST = 3


class Lost(NamedTuple):
    """A damaged copy of a session that ends after `last`; the events from `first` to `end` are lost."""

    store: str
    session: str
    first: int
    end: int
    last: int


def written(path: Path, last: int) -> Victim:
    """Write the turn up to an ordinal."""
    victim = Victim(path, events=1)
    with Store.open(path) as store:
        session = store.session(victim.session)
        for type, payload in TURN[: last - 1]:
            session.append(type, payload)
    return victim


def losses(path: Path, last: int) -> Iterator[Lost]:
    """Make one damaged copy after the other, each repaired."""
    whole = written(path / f"whole-{last}", last)
    places = {ordinal: (segment, at) for segment in whole.segments() for ordinal, at in whole.held_by(segment).items()}
    for first in range(2, last + 1):
        for end in range(first, min(first + LONGEST, last + 1)):
            copy = path / f"copy-{last}-{first}-{end}"
            shutil.copytree(whole.store, copy)
            for ordinal in range(first, end + 1):
                segment, offset = places[ordinal]
                flip(segment.replace(whole.store, str(copy)), offset + 70)
            plan_session(str(copy), whole.session, accept_tail=True).apply()
            yield Lost(str(copy), whole.session, first, end, last)
            shutil.rmtree(copy)


def run_what_is_offered(session: Session) -> int:
    """Do what README's loop does; return how often the external call ran."""
    assert session.recovery is not None
    effects = []
    for call in session.recovery.retryable:
        call.handle.run(lambda name=call.call_id, **_arguments: effects.append(name))
    return effects.count("c2")


def is_started(session: Session) -> bool:
    """Try to begin the external call behind the report's back."""
    try:
        session.call("t1", "c2").start()
    except (OutcomeUnknown, InvalidTransition):
        return False
    return True


@pytest.mark.parametrize("last", [STARTED, STARTED + 1, STARTED + 3])
def test_a_call_whose_start_may_be_lost_is_not_run_again(tmp_path: Path, last: int) -> None:
    for lost in losses(tmp_path, last):
        with Store.open(lost.store) as store:
            assert not is_started(store.session(lost.session)), lost
        with Store.open(lost.store) as store, store.resume(lost.session) as session:
            assert run_what_is_offered(session) == 0, lost
            assert not is_started(session), lost
            head = session.head()
        with Store.open(lost.store) as store, store.resume(lost.session) as session:
            assert session.head() == head, lost  # the first resume said all there is to say


def test_without_the_doubt_the_effect_would_come_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "may_have_started", lambda _state, _call: False)
    doubled = set()
    for lost in losses(tmp_path, STARTED + 1):
        with Store.open(lost.store) as store, store.resume(lost.session) as session:
            if run_what_is_offered(session):
                doubled.add((lost.first, lost.end))
    assert (STARTED, STARTED + 1) in doubled


@pytest.mark.parametrize("behind", [0, 2])
def test_a_call_in_doubt_is_settled_like_any_unknown_one(tmp_path: Path, behind: int) -> None:
    victim = written(tmp_path / "store", STARTED)
    with Store.open(victim.store) as store:
        session = store.session(victim.session)
        for number in range(behind):
            session.append("acme.note", {"n": number})
    flip(victim.newest(), victim.held_by(victim.newest())[STARTED] + 70)
    plan_session(victim.store, victim.session, accept_tail=True).apply()
    with Store.open(victim.store) as store:
        session = store.resume(victim.session, verifier=lambda _key: Resolution("not_executed"))
        assert session.recovery is not None
        assert (session.recovery.unknown, [call.call_id for call in session.recovery.retryable]) == ([], ["c2"])
        assert run_what_is_offered(session) == 1


def test_damage_that_is_accepted_leaves_the_call_unknown(tmp_path: Path) -> None:
    victim = written(tmp_path / "store", STARTED)
    with Store.open(victim.store) as store:
        store.session(victim.session).append("acme.note", {})
    flip(victim.newest(), victim.held_by(victim.newest())[STARTED] + 70)
    with Store.open(victim.store) as store:
        with pytest.raises(Damaged):
            store.resume(victim.session)
        session = store.resume(victim.session, accept_damage=True)
        assert session.recovery is not None
        assert [(call.call_id, call.standing) for call in session.recovery.unknown] == [("c2", "unknown")]
        assert "c2" not in [call.call_id for call in session.recovery.retryable]


def without_its_start(path: Path) -> Victim:
    """Return a session from whose end the start of the external call is lost, and its approval."""
    victim = written(path, STARTED)
    segment = victim.newest()
    places = victim.held_by(segment)
    for ordinal in (STARTED - 1, STARTED):
        flip(segment, places[ordinal] + 70)
    plan_session(victim.store, victim.session, accept_tail=True).apply()
    return victim


@pytest.mark.parametrize("decide", ["request_approval", "approve", "deny", "cancel", "fail", "complete"])
def test_nothing_is_decided_about_a_call_in_doubt(tmp_path: Path, decide: str) -> None:
    victim = without_its_start(tmp_path / "store")
    with Store.open(victim.store) as store:
        session = store.session(victim.session)
        call, head = session.call("t1", "c2"), session.head()
        given = ["it is not there"] if decide == "fail" else []
        with pytest.raises(InvalidTransition):
            getattr(call, decide)(*given)
        assert session.head() == head
        assert (call.standing, is_started(session)) == ("unknown", False)
        with pytest.raises(OutcomeUnknown, match="by an event that is lost"):
            call.run(lambda to: to)
        assert call.resolve(outcome="not_executed", by="user").run(lambda to: to) == "x"


def test_a_state_that_is_folded_again_knows_of_the_lost_end(tmp_path: Path) -> None:
    victim = without_its_start(tmp_path / "store")
    with Store.open(victim.store) as store:
        session = store.session(victim.session)
        live = session._keeper()
        assert live.current().lost_ordinal == STARTED
        live._torn = True  # as an interruption of a reducer leaves it
        assert live.current().lost_ordinal == STARTED
        assert not is_started(session)


@pytest.mark.parametrize("last", [STARTED, STARTED + 3])
def test_a_turn_whose_start_is_lost_keeps_its_id(tmp_path: Path, last: int) -> None:
    victim = written(tmp_path / "store", last)
    flip(victim.newest(), victim.held_by(victim.newest())[2] + 70)
    plan_session(victim.store, victim.session, accept_tail=True).apply()
    with Store.open(victim.store) as store, store.resume(victim.session) as session:
        with pytest.raises(InvalidTransition, match="has had a turn"):
            session.turn("Send the report.", id="t1")
        with pytest.raises(InvalidTransition, match="has had a turn"):
            session.turn("Send the report.", id="t1")
        session.turn("Send the report.", id="t2").complete()


@pytest.mark.parametrize("last", [STARTED, STARTED + 1])
def test_the_plan_of_a_repair_names_the_last_events_too(tmp_path: Path, last: int) -> None:
    victim = written(tmp_path / "store", last)
    flip(victim.newest(), victim.held_by(victim.newest())[last] + 70)
    plan = plan_session(victim.store, victim.session)
    assert [action["lost"] for action in plan.as_json()["actions"]] == [[[last, last]]]
    lost = [finding["lost"] for finding in check_session(victim.store, victim.session).findings]
    assert lost == [[last, last]]


def test_the_history_does_not_say_that_a_call_in_doubt_was_not_run(tmp_path: Path) -> None:
    victim = written(tmp_path / "store", STARTED + 1)
    segment = victim.newest()
    places = victim.held_by(segment)
    for ordinal in (STARTED, STARTED + 1):
        flip(segment, places[ordinal] + 70)
    plan_session(victim.store, victim.session, accept_tail=True).apply()
    with Store.open(victim.store) as store:
        *_, results = store.session(victim.session).history("anthropic")
        assert [part["tool_use_id"] for part in results["content"]] == ["c1", "c2"]
        assert "outcome of this call is unknown" in results["content"][1]["content"][0]["text"]


@pytest.mark.parametrize("on_damage", [None, "skip"])
def test_an_end_that_is_missing_before_a_repair_leaves_the_call_in_doubt(tmp_path: Path, on_damage: str | None) -> None:
    victim = written(tmp_path / "store", STARTED - 1)
    with Store.open(victim.store) as store:
        store.session(victim.session).append("acme.note", {})
        shutil.copytree(victim.store, tmp_path / "copy")  # as a killed process leaves it, no next segment named
    victim.store = str(tmp_path / "copy")
    victim.folder = names.session_dir(victim.store, victim.session)
    with Store.open(victim.store) as store:
        store.session(victim.session).append(*TURN[STARTED - 2])
    assert list(victim.held_by(victim.newest())) == [STARTED + 1]
    Path(victim.newest()).unlink()
    with Store.open(victim.store, read_only=True) as store:
        session = store.session(victim.session)
        *_, results = session.history("anthropic", on_damage=on_damage)
        assert "outcome of this call is unknown" in results["content"][1]["content"][0]["text"]
        assert session.call("t1", "c2").standing == "unknown"
