"""Arguments of a wrong type or range are InvalidInput, and nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog import InvalidInput, InvalidPayload, NotFound, Store, events
from turnlog.arguments import EPHEMERAL_TYPES
from turnlog.feed.feed import SeenEvents

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from turnlog import Session, Step, Turn

OBJECT = object()
NO_TEXT: tuple[Any, ...] = (3, 1.5, b"x", [], {}, OBJECT, True)
NO_WHOLE: tuple[Any, ...] = (1.5, "1", b"x", [], {}, OBJECT, True, -1)
NO_PATH: tuple[Any, ...] = (3, 1.5, [], {}, OBJECT, True)

NO_CUSTOM: tuple[Any, ...] = (3, "x", ["a"], {3: 1}, {"": 1}, {"model": "x"}, {"title": "x"}, {"v": 2}, OBJECT)
MISSPELT: tuple[Any, ...] = ("modle", "on_runing", "titel", "acme")


def loose(thing: Any) -> Any:
    """Return a thing without its types, for what a type checker would refuse."""
    return thing


CALLS: dict[str, tuple[Callable[[Store, Session, Any], object], tuple[Any, ...]]] = {
    "Store.open": (lambda _store, _session, wrong: Store.open(wrong), (*NO_PATH, None)),
    "roll_bytes": (lambda store, _session, wrong: Store.open(store.path, roll_bytes=wrong), (*NO_WHOLE, None, 0)),
    "offload_bytes": (lambda store, _session, wrong: Store.open(store.path, offload_bytes=wrong), NO_WHOLE),
    "create title": (lambda store, _session, wrong: store.create(title=wrong), NO_TEXT),
    "create model": (lambda store, _session, wrong: store.create(model=wrong), NO_TEXT),
    "create parent": (lambda store, _session, wrong: store.create(parent=wrong), NO_TEXT),
    "create cwd": (lambda store, _session, wrong: store.create(cwd=wrong), NO_PATH),
    "create tags": (lambda store, _session, wrong: store.create(tags=wrong), (3, None, "ci", b"ci", [3], OBJECT)),
    "create id": (lambda store, _session, wrong: store.create(id=wrong), (3, "x", b"x", [], OBJECT)),
    "create durability": (lambda store, _session, wrong: store.create(durability=wrong), (3, None, "x", [], OBJECT)),
    "session": (lambda store, _session, wrong: store.session(wrong), (*NO_TEXT, None)),
    "resolve": (lambda store, _session, wrong: store.resolve(wrong), (*NO_TEXT, None)),
    "session_exists": (lambda store, _session, wrong: store.session_exists(wrong), (*NO_TEXT, None)),
    "list cwd": (lambda store, _session, wrong: store.list(cwd=wrong), NO_PATH),
    "configure cwd": (lambda _store, session, wrong: session.configure(cwd=wrong), NO_PATH),
    "append type": (lambda _store, session, wrong: session.append(wrong, {}), (*NO_TEXT, None, "", "a b")),
    "append id": (lambda _store, session, wrong: session.append("a.b", {}, id=wrong), (3, "x", b"x", [], OBJECT)),
    "append level": (lambda _store, session, wrong: session.append("a.b", {}, durability=wrong), (3, None, "x", [])),
    "append_many": (lambda _store, session, wrong: session.append_many([wrong]), (3, None, "ab", ["a.b", {}], ())),
    "events after": (lambda _store, session, wrong: session.events(after=wrong), (*NO_WHOLE, None)),
    "events before": (lambda _store, session, wrong: session.events(before=wrong), NO_WHOLE),
    "append ephemeral type": (lambda _store, session, wrong: session.append(wrong, {}), tuple(EPHEMERAL_TYPES)),
    "append_many ephemeral": (lambda _s, session, wrong: session.append_many([(wrong, {})]), tuple(EPHEMERAL_TYPES)),
    "record ephemeral type": (
        lambda _store, session, wrong: session.record(wrong, {"dialog": "d"}, durability="durable"),
        ("progress.updated", "dialog.opened"),
    ),
    "record payload": (lambda _store, session, wrong: session.record("a.b", wrong), (None, 3, "x", [1], b"x", OBJECT)),
    "record type": (lambda _store, session, wrong: session.record(wrong, {}), (*NO_TEXT, None, "", "a b")),
    "record level": (lambda _s, session, wrong: session.record("a.b", {}, durability=wrong), (3, "x", [])),
    "create effort": (lambda store, _session, wrong: store.create(effort=wrong), NO_TEXT),
    "create principal": (lambda store, _session, wrong: store.create(principal=wrong), NO_TEXT),
    "create custom": (lambda store, _session, wrong: store.create(custom=wrong), NO_CUSTOM),
    "create misspelt": (lambda store, _session, wrong: loose(store).create(**{wrong: "x"}), MISSPELT),
    "configure effort": (lambda _store, session, wrong: session.configure(effort=wrong), NO_TEXT),
    "configure custom": (lambda _store, session, wrong: session.configure(custom=wrong), NO_CUSTOM),
    "configure misspelt": (lambda _store, session, wrong: loose(session).configure(**{wrong: "x"}), MISSPELT),
    "fork custom": (lambda store, session, wrong: store.fork(session, custom=wrong), NO_CUSTOM),
    "fork misspelt": (lambda store, session, wrong: loose(store).fork(session, **{wrong: "x"}), MISSPELT),
    "fork title": (lambda store, session, wrong: store.fork(session, title=wrong), NO_TEXT),
    "fork cwd": (lambda store, session, wrong: store.fork(session, cwd=wrong), NO_PATH),
    "turn effort": (lambda _store, session, wrong: session.turn("x", effort=wrong), NO_TEXT),
    "turn custom": (lambda _store, session, wrong: session.turn("x", custom=wrong), NO_CUSTOM),
    "turn misspelt": (lambda _store, session, wrong: loose(session).turn("x", **{wrong: "x"}), MISSPELT),
    "turn id": (lambda _store, session, wrong: session.turn("x", id=wrong), (*NO_TEXT, "")),
    "turns damage": (lambda _store, session, wrong: session.turns(on_damage=wrong), (3, "x")),
    "history damage": (lambda _store, session, wrong: session.history(on_damage=wrong), (3, "x", [])),
    "follow after": (lambda _s, session, wrong: session.follow(after=wrong), (*NO_WHOLE, None)),
    "follow types": (lambda _s, session, wrong: session.follow(types=wrong), (3, "a.b", b"x", [3], OBJECT)),
    "follow timeout": (lambda _s, session, wrong: session.follow(timeout_ms=wrong), NO_WHOLE),
    "follow caught up": (lambda _s, session, wrong: session.follow(on_caught_up=wrong), (3, "x", [])),
    "follow damage": (lambda _s, session, wrong: session.follow(on_damage=wrong), (3, None, "x", [])),
    "store follow after": (lambda store, _session, wrong: store.follow(after=wrong), (*NO_TEXT, "x", 0, 3)),
    "store follow types": (lambda store, _s, wrong: store.follow(types=wrong), (3, "a.b", b"x", [3], OBJECT)),
    "store follow timeout": (lambda store, _session, wrong: store.follow(timeout_ms=wrong), NO_WHOLE),
    "store follow caught up": (lambda store, _session, wrong: store.follow(on_caught_up=wrong), (3, "x", [])),
    "store follow failure": (lambda store, _session, wrong: store.follow(on_failure=wrong), (3, "x", [])),
    "store follow damage": (lambda store, _session, wrong: store.follow(on_damage=wrong), (3, None, "x", [])),
    "subscribe after": (lambda _s, session, wrong: session.subscribe(after=wrong), NO_WHOLE),
    "subscribe callback": (lambda _s, session, wrong: session.subscribe(wrong), (3, "x", [])),
    "subscribe types": (lambda _s, session, wrong: session.subscribe(types=wrong), (3, "a.b", b"x", [3], OBJECT)),
    "subscribe capacity": (lambda _s, session, wrong: session.subscribe(capacity=wrong), (*NO_WHOLE, None, 0)),
    "subscribe damage": (lambda _s, session, wrong: session.subscribe(on_damage=wrong), (3, None, "x", [])),
    "store subscribe callback": (lambda store, _s, wrong: store.subscribe(wrong), (3, "x", [])),
    "store subscribe types": (lambda store, _s, wrong: store.subscribe(types=wrong), (3, "a.b", b"x", [3], OBJECT)),
    "store subscribe capacity": (lambda store, _s, wrong: store.subscribe(capacity=wrong), (*NO_WHOLE, None, 0)),
    "store subscribe damage": (lambda store, _s, wrong: store.subscribe(on_damage=wrong), (3, None, "x", [])),
    "subscriber read": (lambda _s, session, wrong: session.subscribe().read(wrong), NO_WHOLE),
    "seen cursor": (lambda _store, _session, wrong: SeenEvents(wrong), NO_TEXT),
    "seen event": (lambda _store, _session, wrong: SeenEvents().is_new(wrong), (*NO_TEXT, None)),
    "rename": (lambda _store, session, wrong: session.rename(wrong), NO_TEXT),
    "grant tool": (lambda _store, session, wrong: session.grant(wrong), (*NO_TEXT, None, "")),
    "task title": (lambda _store, session, wrong: session.tasks.add(wrong), (*NO_TEXT, None)),
    "list limit": (lambda store, _session, wrong: store.list(limit=wrong), ("x", 1.5, b"x", [], OBJECT, None, 0)),
    "event ordinal": (lambda _store, session, wrong: session.event(wrong), (*NO_WHOLE[:-1], None)),
    "events types": (lambda _store, session, wrong: session.events(types=wrong), (3, 1.5, "x", b"x", OBJECT, [3])),
    "watch selector": (lambda _store, session, wrong: session.watch(wrong, print), (3, None, "x", [], OBJECT)),
    "watch callback": (lambda _store, session, wrong: session.watch(str, wrong), (3, None, "x", [], OBJECT)),
    "fork at": (lambda store, session, wrong: store.fork(session, at=wrong), (*NO_WHOLE, 0)),
    "fork parent": (lambda store, _session, wrong: store.fork(wrong), (3, None, b"x", [], OBJECT)),
    "fork turn": (lambda store, session, wrong: store.fork(session, turn=wrong), NO_TEXT),
    "payload": (lambda _store, session, wrong: session.payload(wrong), (3, None, "x", [], OBJECT)),
    "tag remove": (lambda _store, session, wrong: session.tag(remove=wrong), (3, None, "ci", b"ci", [3], OBJECT)),
    "revoke": (lambda _store, session, wrong: session.revoke(wrong), (3, None, b"x", [], OBJECT)),
    "depends_on": (
        lambda _store, session, wrong: session.tasks.add("x", depends_on=wrong),
        (3, None, "ab", b"ab", [3], OBJECT),
    ),
    "task": (lambda _store, session, wrong: session.tasks.update(wrong), (3, None, b"x", [], OBJECT)),
    "call turn": (lambda _store, session, wrong: session.call(wrong, "c1"), (*NO_TEXT, None)),
    "call id": (lambda _store, session, wrong: session.call("t1", wrong), (*NO_TEXT, None)),
    "append_many items": (lambda _store, session, wrong: session.append_many(wrong), (3, None, 1.5, OBJECT)),
    "on_running": (lambda _store, session, wrong: session.turn("x", on_running=wrong), (*NO_TEXT, None, "maybe")),
    "mark_read": (lambda _store, session, wrong: session.files.mark_read(wrong), (*NO_PATH, None, "", "a\0b")),
    "recent": (lambda _store, session, wrong: session.files.recent(wrong), NO_WHOLE),
    "read artifact": (lambda _store, session, wrong: session.artifacts.read(wrong), (*NO_TEXT, None, "x")),
    "child": (lambda _store, session, wrong: session.children.add(wrong), (3, None, "x", [], OBJECT)),
    "events limit": (lambda _store, session, wrong: session.events(limit=wrong), NO_WHOLE),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_invalid_input_and_writes_nothing(tmp_path: Path, name: str) -> None:
    call, values = CALLS[name]
    with Store.open(tmp_path / "store") as store, store.create() as session:
        for wrong in values:
            with pytest.raises(InvalidInput):
                call(store, session, wrong)
        assert (session.head()[0], store.session_ids()) == (1, [session.id])


IN_A_TURN: dict[str, tuple[Callable[[Turn, Any], object], tuple[Any, ...]]] = {
    "abort reason": (lambda turn, wrong: turn.abort(wrong), NO_TEXT),
    "fail error": (lambda turn, wrong: turn.fail(wrong), (*NO_TEXT, None)),
    "steer by": (lambda turn, wrong: turn.steer("x", by=wrong), NO_TEXT),
    "steer input": (lambda turn, wrong: turn.steer(wrong), (OBJECT, {1, 2})),
    "tool name": (lambda turn, wrong: turn.tool_call(wrong), (*NO_TEXT, None, "")),
    "tool arguments": (lambda turn, wrong: turn.tool_call("bash", wrong), (OBJECT, {1, 2}, float("nan"))),
    "tool call_id": (lambda turn, wrong: turn.tool_call("bash", call_id=wrong), (*NO_TEXT, "")),
    "tool effect": (lambda turn, wrong: turn.tool_call("bash", effect=wrong), (*NO_TEXT, None, "some")),
    "tool by": (lambda turn, wrong: turn.tool_call("bash", by=wrong), NO_TEXT),
    "step effort": (lambda turn, wrong: turn.step(effort=wrong), NO_TEXT),
    "step model": (lambda turn, wrong: turn.step(model=wrong), NO_TEXT),
    "step context": (lambda turn, wrong: turn.step(context=wrong), ([OBJECT],)),
}


@pytest.mark.parametrize("name", IN_A_TURN)
def test_a_wrong_argument_in_a_turn_is_invalid_input_and_writes_nothing(name: str) -> None:
    call, values = IN_A_TURN[name]
    session = Store.ephemeral().create()
    turn = session.turn("goal")
    for wrong in values:
        with pytest.raises(InvalidInput):
            call(turn, wrong)
    assert (session.head()[0], turn.outcome) == (2, None)


IN_A_STEP: dict[str, tuple[Callable[[Step, Any], object], tuple[Any, ...]]] = {
    "stop_reason": (lambda step, wrong: step.complete("hi", stop_reason=wrong), NO_TEXT),
    "usage": (lambda step, wrong: step.complete("hi", usage=wrong), (3, "x", [], [1], {"input": -1}, {"output": "x"})),
    "response": (lambda step, wrong: step.complete(wrong), (OBJECT, {1, 2})),
    "error": (lambda step, wrong: step.fail(wrong), (*NO_TEXT, None)),
}


@pytest.mark.parametrize("name", IN_A_STEP)
def test_a_wrong_argument_in_a_step_is_invalid_input_and_writes_nothing(name: str) -> None:
    call, values = IN_A_STEP[name]
    session = Store.ephemeral().create()
    step = session.turn("goal").step()
    for wrong in values:
        with pytest.raises(InvalidInput):
            call(step, wrong)
    assert (session.head()[0], step.outcome) == (3, None)


@pytest.mark.parametrize("method", ["approve", "deny", "request_approval", "cancel"])
def test_a_decision_with_a_wrong_reason_or_author_is_no_decision(method: str) -> None:
    call = Store.ephemeral().create().turn("goal").tool_call("bash")
    for wrong in NO_TEXT:
        with pytest.raises(InvalidInput):
            getattr(call, method)(reason=wrong)
        if method != "cancel":
            with pytest.raises(InvalidInput):
                getattr(call, method)(by=wrong)
    assert call.state == "proposed"


def test_a_lone_surrogate_where_a_number_is_due_is_an_invalid_payload() -> None:
    session = Store.ephemeral().create()
    session.turn("goal").step()
    with pytest.raises(InvalidPayload):
        session.record("step.failed", {"attempt": "\ud800"})
    assert session.head()[0] == 3


def test_the_types_that_are_refused_are_those_of_the_vocabulary() -> None:
    assert {name for name, known in events.TYPES.items() if known.durability == events.EPHEMERAL} == EPHEMERAL_TYPES


def test_the_identity_of_a_session_cannot_be_assigned() -> None:
    session = Store.ephemeral().create()
    for name in ("id", "state", "current_turn"):
        with pytest.raises(AttributeError):
            setattr(session, name, "x")


def test_what_a_tool_or_a_verifier_cannot_be_is_refused() -> None:
    session = Store.ephemeral().create()
    call = session.turn("goal").tool_call("bash", call_id="c1")
    for wrong in (3, None, "x", [], OBJECT):
        with pytest.raises(InvalidInput):
            call.run(loose(wrong))
    assert (call.state, session.head()[0]) == ("proposed", 3)
    call.start()
    call._entry.leave()  # as after a restart
    with pytest.raises(InvalidInput, match=r"the outcome that a verifier returns is one of .*: not True"):
        call.resolve(verifier=lambda _: loose(True))


class Silent:
    """A stream that is not blocking and has nothing yet."""

    def read(self, _size: int) -> None:
        return None


def test_an_artifact_of_nothing_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        with pytest.raises(NotFound):
            session.artifacts.put(tmp_path / "missing")
        with pytest.raises(InvalidInput, match="NoneType"):
            session.artifacts.put(loose(Silent()))


@pytest.mark.parametrize("wrong", [3, None, 1.5, b"x", [], True], ids=str)
def test_a_session_in_memory_takes_no_type_that_is_no_text(wrong: Any) -> None:
    session = Store.ephemeral().create()
    with pytest.raises(InvalidInput):
        session.append(wrong, {})
    assert session.head()[0] == 1


@pytest.mark.parametrize("wrong", ["\ud800", "a\0b", b"a\0b"], ids=repr)
def test_what_no_path_can_be_is_refused(tmp_path: Path, wrong: Any) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        for given in (
            lambda: Store.open(wrong),
            lambda: store.create(cwd=wrong),
            lambda: store.list(cwd=wrong),
            lambda: session.files.mark_read(wrong),
            lambda: session.files.has_external_modification(wrong),
        ):
            with pytest.raises(InvalidInput, match="path"):
                given()
