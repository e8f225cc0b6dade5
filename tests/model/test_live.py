"""The state is what the log says, at every moment and from every thread; listeners hear of what is durable."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Closed, InvalidInput, InvalidPayload, InvalidTransition, Locked, Session, State, Store
from turnlog.state.reduce import fold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["disk", "memory"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = Store.open(tmp_path / "store") if request.param == "disk" else Store.ephemeral()
    with store, store.create(title="flaky test") as made:
        yield made


def folded(session: Session) -> dict[str, Any]:
    return fold(session.events(), State(session.id)).to_snapshot()


def test_the_state_after_each_append_is_the_fold_of_the_log(session: Session) -> None:
    assert session.state.ordinal == 1
    for payload in ({"content": "hello"}, {"content": "x" * 100_000}, {"content": ["a", {"b": None}]}):
        receipt = session.append("message.user", payload)
        assert session.state.ordinal == receipt.ordinal
    session.configure(effort="high", tools=("bash", "edit"))
    session.append_many([("message.assistant", {"content": "hi"}), ("acme.note", {"n": 1})], atomic=True)
    assert session.state.to_snapshot() == folded(session)
    assert session.state.settings == {"effort": "high", "tools": ["bash", "edit"]}


def test_numbers_are_reduced_in_the_form_that_a_reader_finds(session: Session) -> None:
    session.append("step.failed", {"usage": {"input": 12.0}})
    assert session.state.usage.input == 12
    assert session.state.to_snapshot() == folded(session)


def test_a_state_that_is_asked_for_late_holds_what_came_before(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = store.create(title="first")
        session.append("session.renamed", {"title": "second"})
        assert session.state.title == "second"
    with Store.open(tmp_path) as store:
        assert store.session("latest").state.title == "second"


@pytest.mark.parametrize("durability", ["durable", "buffered"])
def test_events_of_many_threads_are_reduced_in_the_order_of_their_ordinals(session: Session, durability: str) -> None:
    seen: list[int] = []
    session.watch(lambda state: state.ordinal, lambda new, _old: seen.append(new))

    def append(number: int) -> None:
        for round_ in range(20):
            receipt = session.append("task.added", {"task": f"{number}.{round_}"}, durability=durability)
            assert session.state.ordinal >= receipt.ordinal
            assert f"{number}.{round_}" in session.state.tasks

    threads = [threading.Thread(target=append, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.state.ordinal == 121
    assert session.state.violation_count == 0
    assert list(session.state.tasks) == [event.payload["task"] for event in session.events(after=1)]
    assert seen == sorted(seen)
    assert seen[-1] == 121
    assert session.state.to_snapshot() == folded(session)


def test_an_event_whose_thread_was_interrupted_is_read_from_the_log(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as session:
        assert session.state.ordinal == 1
        live, session._live = session._live, None  # as if an exception came between the append and the hand-over
        session.append("message.user", {"content": "lost on the way"})
        session._live = live
        session.append("message.user", {"content": "next"})
        assert session.state.messages.count == 2
        assert session.state.violation_count == 0


def test_a_reader_follows_what_another_writer_appends(tmp_path: Path) -> None:
    with Store.open(tmp_path) as writing, Store.open(tmp_path) as reading:
        writer = writing.create(title="first")
        reader = reading.session(writer.id)
        assert reader.state.title == "first"
        writer.rename("second")
        assert reader.state.title == "second"
        with pytest.raises(Locked):
            reader.rename("third")
        writer.close()
        reader.tag("mine")
        assert reader.state.ordinal == 3
        assert reader.state.violation_count == 0


def test_a_listener_is_told_of_nothing_that_a_power_cut_could_take_back(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create() as session:
        synced: list[tuple[int, int]] = []

        def note(ordinal: int, _old: int) -> None:
            head = session._written_head()
            assert head is not None
            synced.append((ordinal, head["durable_ordinal"]))

        session.watch(lambda state: state.ordinal, note)
        for title in ("second", "third"):
            session.rename(title)
            session.append("message.user", {"content": "buffered"}, durability="buffered")
        durable = [pair for pair in synced if pair[0] % 2 == 0]
        assert len(synced) == 4
        assert all(ordinal <= there for ordinal, there in durable)


def test_a_listener_that_raises_loses_nothing(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_new: str, _old: str) -> None:
        raise RuntimeError("no screen")

    session.watch(lambda state: state.title, fail)
    assert session.rename("second").ordinal == 2
    assert session.state.title == "second"
    assert "listener" in caplog.text


def test_a_listener_may_append_and_start_work(session: Session) -> None:
    def answer(new: str, _old: str) -> None:
        if new != "done":
            with session.turn("from inside") as turn:
                turn.complete()
            session.rename("done")

    session.watch(lambda state: state.title, answer)
    session.rename("second")
    assert (session.state.title, session.state.turn_counts) == ("done", {"completed": 1})


def test_listeners_of_a_group_see_it_whole(session: Session) -> None:
    seen: list[int] = []
    session.watch(lambda state: state.messages.count, lambda new, _old: seen.append(new))
    session.append_many([("message.user", {"content": "a"}), ("message.user", {"content": "b"})], atomic=True)
    assert seen == [2]


def test_ephemeral_events_reach_listeners_and_nothing_else(session: Session) -> None:
    seen: list[list[str]] = []
    session.watch(lambda state: list(state.live.dialogs), lambda new, _old: seen.append(new))
    receipt = session.append("dialog.opened", {"dialog": "d1", "text": "Run it?"}, durability="ephemeral")
    session.append("dialog.closed", {"dialog": "d1"}, durability="ephemeral")
    assert (receipt.ordinal, receipt.durable) == (0, False)
    assert seen == [["d1"], []]
    assert session.head()[0] == 1


def test_history_cannot_be_ephemeral(session: Session) -> None:
    with pytest.raises(InvalidInput, match="part of the history"):
        session.append("turn.started", {"turn": "t1"}, durability="ephemeral")
    for payload in ({"dialog": float("nan")}, "d1", None):
        with pytest.raises(InvalidPayload):
            session.append("dialog.opened", payload, durability="ephemeral")


def test_settings_titles_tags_and_the_archive_are_events(session: Session) -> None:
    session.configure(model="provider/model-x", cwd="/src", permission_mode="ask", environment={"CI": "1"})
    session.configure(effort="low", cwd=None)
    session.tag("ci", "flaky")
    session.tag(remove=["ci"])
    session.archive("done with it")
    state = session.state
    assert state.settings == {
        "model": "provider/model-x",
        "permission_mode": "ask",
        "environment": {"CI": "1"},
        "effort": "low",
    }
    assert (state.tags, state.archived) == (("flaky",), True)
    session.unarchive()
    assert not session.state.archived
    assert session.state.to_snapshot() == folded(session)


def test_what_is_not_legal_is_refused_before_anything_is_written(session: Session) -> None:
    before = session.head()
    with pytest.raises(InvalidTransition) as refusal:
        session.record("turn.completed", {"turn": "t1"})
    assert (refusal.value.rule, refusal.value.session) == ("turn_unknown", session.id)
    with pytest.raises(InvalidPayload):
        session.record("turn.started", {"turn": 5})
    assert session.head() == before
    assert session.state.violation_count == 0


def test_an_append_at_the_raw_level_is_not_checked_but_noted(session: Session) -> None:
    assert session.state.violation_count == 0
    session.append("turn.completed", {"turn": "t1"})
    assert session.state.violations[0].code == "turn_unknown"


def test_identity_is_kept_from_the_first_event(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, store.create(principal="ci", effort="high") as session:
        assert session.state.identity is not None
        assert (session.state.identity.principal, session.state.effort) == ("ci", "high")


def test_long_strings_become_artifacts_and_come_back(tmp_path: Path) -> None:
    with Store.open(tmp_path, offload_bytes=1000) as store, store.create() as session:
        short = session.record("message.user", {"content": "x" * 1000})
        long = session.record("message.user", {"content": "y" * 1001})
        event = session.event(long.ordinal)
        assert session.event(short.ordinal).payload == {"content": "x" * 1000}
        assert event.payload["content"]["$artifact"]["size"] == 1001
        assert session.payload(event) == {"content": "y" * 1001}
        assert session.state.to_snapshot() == folded(session)


def test_an_ephemeral_session_of_a_store_touches_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        before = sorted(tmp_path.rglob("*"))
        session = store.create(title="a try", ephemeral=True)
        with session.turn("hello") as turn:
            turn.tool_call("bash", {"cmd": "ls"}).run(lambda cmd: "x" * 100_000)
            turn.complete()
        assert store.session(session.id) is session
        assert sorted(tmp_path.rglob("*")) == before
        assert [event.ordinal for event in session.events(after=2, reverse=True)] == [6, 5, 4, 3]
        assert store.session_ids() == []
        session.close()
        with pytest.raises(Closed):
            session.append("note.written", {})


def test_an_ephemeral_session_refuses_what_a_stored_one_refuses(session: Session) -> None:
    first = session.append("note.written", {"n": 1}, id="019b76da-a800-7000-8000-000000000001")
    again = session.append("note.written", {"n": 1}, id="019b76da-a800-7000-8000-000000000001")
    assert (again.ordinal, again.digest) == (first.ordinal, first.digest)
    for type_, payload in (("bad type", {}), ("note.written", {"n": float("nan")}), ("note.written", object())):
        with pytest.raises(InvalidInput):
            session.append(type_, payload)
    assert [event.payload["n"] for event in session.follow(after=1, timeout_ms=0)] == [1]


def test_the_import_loads_no_model() -> None:
    code = (
        "import sys, tempfile, turnlog; store = turnlog.Store.open(tempfile.mkdtemp()); session = store.create()\n"
        "session.append('note.written', {'n': 1}); store.close(); print(*sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {"turnlog.model.live", "turnlog.state.state", "turnlog.model.turn"} & loaded


def test_text_that_is_no_unicode_is_reduced_like_any_other(session: Session) -> None:
    title = "half a pair: \ud800"
    session.configure(environment={"odd": title})
    session.append("step.failed", {"usage": {"input": 3}, "error": title})
    assert session.state.settings["environment"] == {"odd": title}
    assert session.state.usage.input == 3
    assert session.state.to_snapshot() == folded(session)


def test_an_interruption_while_the_state_changes_is_healed_from_the_log(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = session.state
    seen: list[str] = []
    session.watch(lambda state: state.title, lambda new, _old: seen.append(new))

    def interrupted(changed: State, _type: str, ordinal: int, *_rest: object) -> None:
        changed.ordinal = ordinal  # and then nothing of what the event does
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("turnlog.model.live.reduce", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.rename("second")
    assert session.state is state
    assert state.title == "second"
    session.append("message.user", {"content": "hello"})
    assert session.state.to_snapshot() == folded(session)
    assert seen == ["second"]


def test_a_folder_among_the_settings_is_kept_as_an_absolute_path(session: Session, tmp_path: Path) -> None:
    session.configure(cwd=tmp_path)
    with session.turn("goal", cwd=tmp_path / "inner") as turn:
        assert turn.settings["cwd"] == str(tmp_path / "inner")
        turn.complete()
    assert session.state.cwd == str(tmp_path)


@pytest.mark.parametrize("payload", [[1], None, 3])
def test_a_payload_that_is_no_object_is_refused_before_anything_is_written(session: Session, payload: Any) -> None:
    head = session.head()
    with pytest.raises(InvalidPayload, match="object"):
        session.record("message.user", payload)
    with pytest.raises(InvalidInput, match="type"):
        session.record(payload, {})
    assert session.head() == head
