"""A tool runs once: its outcome is kept whatever it is, decisions are events, an unknown outcome is asked about."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import (
    Conflict,
    InvalidInput,
    InvalidTransition,
    NotFound,
    OutcomeUnknown,
    Resolution,
    Session,
    Store,
    ToolCall,
    ToolFailed,
    Turn,
)
from turnlog.disk import translate
from turnlog.state.state import RECENT_CALLS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=["disk", "memory"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = Store.open(tmp_path / "store") if request.param == "disk" else Store.ephemeral()
    with store, store.create() as made:
        yield made


@pytest.fixture
def turn(session: Session) -> Turn:
    return session.turn("goal", id="t1")


def types_of(session: Session) -> list[str]:
    return [event.type for event in session.events(after=2)]


class Counter:
    """A tool that counts how often it ran."""

    def __init__(self, result: Any = "done", error: BaseException | None = None) -> None:
        self.runs = 0
        self.result = result
        self.error = error

    def __call__(self, **arguments: Any) -> object:
        self.runs += 1
        if self.error is not None:
            raise self.error
        return self.result


def test_a_call_goes_through_its_states_and_runs_once(session: Session, turn: Turn) -> None:
    tool = Counter({"files": 3})
    call = turn.tool_call("count", {"folder": "src"}, call_id="c1")
    call.request_approval(reason="policy")
    with pytest.raises(InvalidTransition, match="approval_requested"):
        call.run(tool)
    assert call.approve(by="user").run(tool) == {"files": 3}
    assert call.run(tool) == {"files": 3}
    assert turn.tool_call("count", {"folder": "src"}, call_id="c1").approve(by="user").run(tool) == {"files": 3}
    assert session.call("t1", "c1").result == {"files": 3}
    assert tool.runs == 1
    ends = ["tool.proposed", "tool.approval_requested", "tool.approved", "tool.started", "tool.completed"]
    assert types_of(session) == ends
    assert session.state.violation_count == 0


def test_a_replayed_result_cannot_be_changed_by_who_got_it(turn: Turn) -> None:
    tool = Counter({"files": [1]})
    call = turn.tool_call("count")
    for _ in range(2):
        files: Any = call.run(tool)
        files["files"].append(2)
    assert call.run(tool) == {"files": [1]}


def test_the_outcome_survives_the_process(tmp_path: Path) -> None:
    tool = Counter({"text": "x" * 200_000})
    with Store.open(tmp_path) as store:
        store.create().turn("goal", id="t1").tool_call("read", call_id="c1").run(tool)
    with Store.open(tmp_path) as store:
        call = store.session("latest").call("t1", "c1")
        assert call.run(tool) == tool.result
        assert (call.standing, call.name, call.arguments) == ("finished", "read", None)
    assert tool.runs == 1


@pytest.mark.parametrize(
    ("arguments", "args", "kwargs", "expected"),
    [
        ({"a": 1, "b": 2}, (), {}, (1, 2)),
        ({"a": 1}, (), {}, (1, None)),
        (7, (), {}, (7, None)),
        (None, (1, 2), {}, (1, 2)),
        ({"a": 1}, (5,), {"b": 6}, (5, 6)),
    ],
    ids=["members", "default", "value", "given", "both"],
)
def test_a_tool_gets_the_arguments_of_the_proposal_unless_others_are_given(
    turn: Turn, arguments: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: tuple[Any, Any]
) -> None:
    got: list[tuple[Any, Any]] = []

    def tool(a: Any, b: Any = None) -> None:
        got.append((a, b))

    turn.tool_call("tool", arguments).run(tool, *args, **kwargs)
    assert got == [expected]


def test_arguments_that_do_not_fit_fail_the_call_before_it_starts(session: Session, turn: Turn) -> None:
    call = turn.tool_call("bash", {"command": "ls"})
    with pytest.raises(TypeError, match="cmd"):
        call.run(lambda cmd: cmd)
    assert call.state == "failed"
    assert types_of(session) == ["tool.proposed", "tool.failed"]
    assert session.state.violation_count == 0


def test_the_idempotency_key_is_handed_over_and_is_the_same_in_every_attempt(session: Session, turn: Turn) -> None:
    keys: list[str] = []

    def send(to: str, idempotency_key: str) -> None:
        keys.append(idempotency_key)
        if len(keys) == 1:
            raise KeyboardInterrupt

    call = turn.tool_call("send", {"to": "team"}, call_id="c1")
    with pytest.raises(KeyboardInterrupt):
        call.run(send)
    call.resolve(outcome="not_executed", by="user").run(send)
    assert keys == [call.idempotency_key] * 2
    attempts = [event.payload["attempt"] for event in session.events(types=["tool.started"])]
    assert attempts == [1, 2]


def test_the_same_call_id_in_another_turn_is_another_call(session: Session) -> None:
    results = []
    for name in ("t1", "t2"):
        with session.turn("goal", id=name) as turn:
            results.append(turn.tool_call("count", {"n": name}, call_id="call_0").run(lambda n: n))
            turn.complete()
    assert results == ["t1", "t2"]
    assert session.call("t1", "call_0").idempotency_key != session.call("t2", "call_0").idempotency_key


@pytest.mark.parametrize(("name", "arguments"), [("other", {"n": 1}), ("count", {"n": 2})])
def test_a_call_id_with_another_tool_or_other_arguments_is_a_conflict(
    tmp_path: Path, name: str, arguments: dict[str, int]
) -> None:
    with Store.open(tmp_path) as store:
        session = store.create()
        turn = session.turn("goal", id="t1")
        turn.tool_call("count", {"n": 1}, call_id="c1")
        with pytest.raises(Conflict):
            turn.tool_call(name, arguments, call_id="c1")
    with Store.open(tmp_path) as store:  # nothing is remembered but the log
        again = Turn(store.session("latest")._keeper(), "t1", None, {})
        assert again.tool_call("count", {"n": 1}, call_id="c1").state == "proposed"
        with pytest.raises(Conflict):
            again.tool_call(name, arguments, call_id="c1")


def test_a_failure_is_kept_and_raised_again(session: Session, turn: Turn) -> None:
    tool = Counter(error=ValueError("no such file"))
    call = turn.tool_call("read", call_id="c1")
    with pytest.raises(ValueError, match="no such file"):
        call.run(tool)
    for _ in range(2):
        with pytest.raises(ToolFailed, match="no such file") as failed:
            call.run(tool)
        assert failed.value.error == {"type": "ValueError", "message": "no such file"}
    assert (tool.runs, call.state) == (1, "failed")
    assert session.state.violation_count == 0


@pytest.mark.parametrize("effect", ["external", "idempotent", "none"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_interrupted_tool_did_not_say_whether_it_had_its_effect(
    turn: Turn, effect: str, error: type[BaseException]
) -> None:
    tool = Counter(error=error())
    call = turn.tool_call("send", effect=effect)
    with pytest.raises(error):
        call.run(tool)
    assert call.state == ("outcome_unknown" if effect == "external" else "cancelled")
    with pytest.raises(OutcomeUnknown if effect == "external" else InvalidTransition):
        call.run(tool)
    assert tool.runs == 1


@pytest.mark.parametrize("value", [object(), {1: 2}, float("nan"), {"a": {"b": lambda: None}}, b"bytes"])
def test_a_result_that_cannot_be_encoded_is_kept_and_the_call_finished(tmp_path: Path, value: Any) -> None:
    tool = Counter(value)
    with Store.open(tmp_path) as store:
        session = store.create()
        call = session.turn("goal", id="t1").tool_call("odd", call_id="c1")
        assert call.run(tool) is value
        assert call.state == "completed"
    with Store.open(tmp_path) as store:
        session = store.session("latest")
        replayed = session.call("t1", "c1").run(tool)
        assert replayed == (value if isinstance(value, bytes) else repr(value))
        payload = next(session.events(types=["tool.completed"])).payload
        assert ("unencodable" in payload) == (not isinstance(value, bytes))
    assert tool.runs == 1


def test_a_result_whose_repr_fails_or_that_holds_itself_is_kept(turn: Turn) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    knot: list[Any] = []
    knot.append(knot)
    for value, shown in ((Broken(), "Broken object at"), (knot, "[[...]]")):
        call = turn.tool_call("odd")
        assert call.run(Counter(value)) is value
        assert shown in call.result


def test_a_result_beyond_any_frame_is_kept_as_an_artifact_of_its_json(tmp_path: Path) -> None:
    value = [f"{number:060}" for number in range(300_000)]
    with Store.open(tmp_path) as store:
        session = store.create()
        call = session.turn("goal", id="t1").tool_call("big", call_id="c1")
        assert call.run(Counter(value)) is value
        assert call.result == value


def test_a_result_that_the_disk_does_not_take_is_stored_later_and_the_tool_not_run_again(
    session: Session, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = Counter("effect")
    append = session.append

    def full(type: str, *args: Any, **kwargs: Any) -> Any:
        if type == "tool.completed":
            raise translate(OSError(28, "No space left on device"), "appending")
        return append(type, *args, **kwargs)

    call = turn.tool_call("send", call_id="c1")
    monkeypatch.setattr(session, "append", full)
    with pytest.raises(OSError, match="No space"):
        call.run(tool)
    with pytest.raises(OSError, match="No space"):
        call.run(tool)
    assert call.state == "started"
    del call
    monkeypatch.undo()
    assert turn.call("c1").run(tool) == "effect"
    assert (turn.call("c1").state, tool.runs) == ("completed", 1)


def test_a_denied_or_cancelled_call_never_runs(session: Session, turn: Turn) -> None:
    tool = Counter()
    denied = turn.tool_call("bash", call_id="c1").deny(by="policy", reason="no")
    cancelled = turn.tool_call("bash", call_id="c2").cancel("not needed")
    for call in (denied, cancelled):
        with pytest.raises(InvalidTransition):
            call.run(tool)
        with pytest.raises(InvalidTransition):
            call.approve()
        with pytest.raises(InvalidTransition):
            _ = call.result
    assert (denied.deny().state, cancelled.cancel().state, tool.runs) == ("denied", "cancelled", 0)
    assert denied.record.decided_by == "policy"
    assert types_of(session) == ["tool.proposed", "tool.denied", "tool.proposed", "tool.cancelled"]


def test_a_call_cannot_be_denied_or_cancelled_while_it_runs_or_inside_itself(turn: Turn) -> None:
    call = turn.tool_call("deploy")

    def deploy() -> str:
        for forbidden in (call.deny, call.cancel, lambda: call.run(deploy), lambda: call.resolve(outcome="failed")):
            with pytest.raises(InvalidTransition):
                forbidden()
        with pytest.raises(InvalidTransition):
            call.complete("from inside")
        return "deployed"

    assert call.run(deploy) == "deployed"


def test_many_threads_run_a_call_once_and_all_get_its_result(session: Session, turn: Turn) -> None:
    tool = Counter("once")
    results: list[Any] = []
    call = turn.tool_call("send", call_id="c1")

    def run() -> None:
        results.append(session.call("t1", "c1").run(tool))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (results, tool.runs, call.record.attempts) == (["once"] * 8, 1, 1)


def test_calls_of_one_turn_run_side_by_side(session: Session, turn: Turn) -> None:
    meeting = threading.Barrier(4, timeout=20)
    calls = [turn.tool_call("meet", call_id=f"c{number}") for number in range(4)]
    threads = [threading.Thread(target=call.run, args=(lambda: meeting.wait() and None,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [call.state for call in calls] == ["completed"] * 4
    turn.complete()
    assert session.state.violation_count == 0


def test_an_outcome_that_the_state_let_go_of_is_found_and_nothing_runs_again(session: Session, turn: Turn) -> None:
    tool = Counter("first")
    call = turn.tool_call("count", {"n": 0}, call_id="c0")
    call.run(lambda n: "first")
    for number in range(1, RECENT_CALLS_MAX + 2):
        turn.tool_call("count", call_id=f"c{number}").deny()
    assert session.state.call("t1", "c0") is None
    assert turn.tool_call("count", {"n": 0}, call_id="c0").run(tool) == "first"
    del call
    session._keeper().book._recent.clear()
    assert turn.tool_call("count", {"n": 0}, call_id="c0").run(tool) == "first"
    session._keeper().known_from = 10**9  # as after a restart: only the log knows
    assert session.call("t1", "c0").run(tool) == "first"
    assert turn.tool_call("count", call_id="new").state == "proposed"
    assert tool.runs == 0


def test_a_call_that_was_never_proposed_is_not_found(session: Session, turn: Turn) -> None:
    with pytest.raises(NotFound):
        session.call("t1", "c1")
    with pytest.raises(InvalidInput, match="effect"):
        turn.tool_call("bash", effect="maybe")
    turn.complete()
    with pytest.raises(InvalidTransition, match="does not run"):
        turn.tool_call("bash")


@pytest.fixture
def dangling(tmp_path: Path) -> Iterator[Callable[[str], ToolCall]]:
    """Return a call that a process started before it died."""
    opened: list[Store] = []

    def make(effect: str) -> ToolCall:
        with Store.open(tmp_path) as store:
            turn = store.create().turn("goal", id="t1")
            turn.tool_call("send", {"to": "team"}, call_id="c1", effect=effect).start()
        opened.append(Store.open(tmp_path))
        return opened[0].session("latest").call("t1", "c1")

    yield make
    for store in opened:
        store.close()


def test_a_started_external_call_is_not_run_again(dangling: Callable[[str], ToolCall]) -> None:
    call, tool = dangling("external"), Counter()
    ways: list[Callable[[], object]] = [lambda: call.run(tool), call.start, call.cancel]
    for run in ways:
        with pytest.raises((OutcomeUnknown, InvalidTransition)):
            run()
    assert (call.standing, tool.runs) == ("unknown", 0)


@pytest.mark.parametrize("effect", ["idempotent", "none"])
def test_a_started_call_that_is_repeatable_runs_again(dangling: Callable[[str], ToolCall], effect: str) -> None:
    call, tool = dangling(effect), Counter("again")
    assert call.run(tool) == "again"
    assert (call.record.attempts, tool.runs) == (2, 1)


@pytest.mark.parametrize("outcome", ["completed", "failed", "not_executed", None])
def test_a_verifier_settles_an_unknown_outcome(dangling: Callable[[str], ToolCall], outcome: str | None) -> None:
    call, tool = dangling("external"), Counter("ran")
    keys: list[str] = []

    def verify(key: str) -> Resolution | None:
        keys.append(key)
        return None if outcome is None else Resolution(outcome, "sent" if outcome == "completed" else None, "bounced")

    call.resolve(verify)
    assert keys == [call.idempotency_key]
    if outcome == "completed":
        assert call.run(tool) == "sent"
    elif outcome == "failed":
        with pytest.raises(ToolFailed, match="bounced"):
            call.run(tool)
    elif outcome == "not_executed":
        assert call.run(tool) == "ran"
    else:
        assert call.state == "outcome_unknown"
        with pytest.raises(OutcomeUnknown):
            call.run(tool)
    assert tool.runs == (outcome == "not_executed")


def test_resolving_twice_changes_nothing(dangling: Callable[[str], ToolCall]) -> None:
    call = dangling("external")
    session = call._live.session
    call.resolve(lambda key: None)
    head = session.head()
    call.resolve(lambda key: None)
    assert session.head() == head
    call.resolve(outcome="completed", result="sent", by="user")
    head = session.head()
    call.resolve(outcome="failed")
    assert (session.head(), call.result) == (head, "sent")
    assert session.state.violation_count == 0


def test_what_is_no_outcome_is_refused(dangling: Callable[[str], ToolCall]) -> None:
    call = dangling("external")
    head = call._live.session.head()
    with pytest.raises(InvalidInput, match="outcome"):
        call.resolve(lambda key: "perhaps")
    assert call._live.session.head() == head


def test_a_call_that_was_not_started_has_nothing_to_resolve(turn: Turn) -> None:
    with pytest.raises(InvalidTransition, match="nothing to resolve"):
        turn.tool_call("bash").resolve(outcome="completed")
