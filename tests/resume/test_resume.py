"""Resume as a whole: repairs that are events, done once; snapshots that are trusted only when the log agrees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.turns import TURN
from turnlog import Damaged, IndexUnavailable, Locked, ReadOnly, Store, names
from turnlog.history.check import problems
from turnlog.history.history import SHAPES
from turnlog.importers.importer import import_path
from turnlog.index.snapshots import Snapshot
from turnlog.resume.snapshots import keep, pack, unpack
from turnlog.state.reduce import fold
from turnlog.state.state import SNAPSHOT_SCHEMA, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog.resume.recovered import Recovery
    from turnlog.session import Session

CORPUS = Path(__file__).parents[1] / "corpus"
FILES: dict[str, Any] = json.loads((CORPUS / "expected.json").read_text())["files"]
SHAPE_OF = {"claude": "anthropic", "codex": "openai_responses"}
KILLED = """
import os, signal, sys
from tests.turns import TURN
from turnlog import Store
session = Store.open(sys.argv[1]).create(title="cut short")
for type, payload in TURN[:int(sys.argv[2])]:
    session.append(type, payload)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def recovery_of(session: Session) -> Recovery:
    assert session.recovery is not None
    return session.recovery


def begun(store: Store, events: int) -> str:
    """Write the first events of the turn and close the session in order."""
    with store.create(title="report") as session:
        session.append_many(TURN[:events])
        return session.id


def ids(calls: list[Any]) -> list[str]:
    return [call.call_id for call in calls]


def test_a_session_that_ended_in_order_needs_nothing(store: Store) -> None:
    id = begun(store, len(TURN))
    head = store.session(id).head()
    with store.resume(id) as session:
        assert recovery_of(session).clean
        assert session.head() == head


def test_latest_is_the_one_with_the_newest_activity(store: Store) -> None:
    begun(store, 3)
    newest = begun(store, 1)
    with store.resume() as session:
        assert session.id == newest


def test_a_resumed_session_can_be_written(store: Store) -> None:
    with store.resume(begun(store, 7)) as session:
        session.append("turn.started", {"turn": "t2", "input": "Go on."})
        messages = list(session.history())
    assert messages[-1] == {**messages[-1], "role": "user"}
    assert messages[-1]["content"][-1] == {"type": "text", "text": "Go on."}


def test_every_repair_is_an_event_and_a_second_resume_appends_none(store: Store) -> None:
    id = begun(store, 10)
    with store.resume(id) as session:
        repaired = recovery_of(session).repaired
        assert [(part["event"], part["ordinal"]) for part in repaired] == [
            ("tool.outcome_unknown", 12),
            ("turn.interrupted", 13),
        ]
        assert [event.type for event in session.events(after=11)] == ["tool.outcome_unknown", "turn.interrupted"]
        first = recovery_of(session).as_json()
        head = session.head()
    with store.resume(id) as session:
        assert session.head() == head
        assert {**recovery_of(session).as_json(), "repaired": first["repaired"]} == first


def test_a_killed_process_is_resumed_twice(tmp_path: Path) -> None:
    folder = str(tmp_path / "store")
    root = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'python'}{os.pathsep}{root}"}
    done = subprocess.run([sys.executable, "-c", KILLED, folder, "10"], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    heads = []
    for repairs in (2, 0):
        with Store.open(folder) as store, store.resume("latest") as session:
            recovery = recovery_of(session)
            assert (ids(recovery.reused), ids(recovery.unknown)) == (["c1"], ["c2"])
            assert len([part for part in recovery.repaired if part["kind"] == "event"]) == repairs
            assert all(problems(shape, session.history(shape)) == [] for shape in SHAPES)
            heads.append(session.head())
    assert heads[0] == heads[1]


def test_the_verifier_is_asked_with_the_idempotency_key(store: Store) -> None:
    asked: list[str] = []

    def verifier(key: str) -> str:
        asked.append(key)
        return "completed"

    id = begun(store, 10)
    with store.resume(id, verifier=verifier) as session:
        assert asked == ["k"]
        assert recovery_of(session).unknown == []
        assert ids(recovery_of(session).reused) == ["c1", "c2"]
    with store.resume(id, verifier=verifier):
        assert asked == ["k"]


def test_a_verifier_that_cannot_tell_leaves_the_call_unknown(store: Store) -> None:
    id = begun(store, 10)
    for _ in range(2):
        with store.resume(id, verifier=lambda _key: None) as session:
            assert ids(recovery_of(session).unknown) == ["c2"]
            head = session.head()
    assert store.session(id).head() == head


def test_a_person_can_settle_it_later(store: Store) -> None:
    id = begun(store, 10)
    with store.resume(id) as session:
        for call in recovery_of(session).unknown:
            call.resolve(outcome="not_executed", by="user")
            assert call.handle.standing == "not_started"
    with store.resume(id) as session:
        assert (ids(recovery_of(session).unknown), ids(recovery_of(session).retryable)) == ([], ["c2"])


@pytest.mark.parametrize(("events", "again"), [(5, ["c1", "c2"]), (7, ["c1", "c2"]), (8, ["c2"])])
def test_what_may_be_run_can_be_run_in_a_turn_that_was_interrupted(store: Store, events: int, again: list[str]) -> None:
    ran: list[str] = []

    def tool(**arguments: str) -> str:
        ran.append(str(arguments))
        return "ran again"

    id = begun(store, events)
    with store.resume(id) as session:
        assert ids(recovery_of(session).retryable) == again
        for call in recovery_of(session).retryable:
            assert call.handle.run(tool) == "ran again"
            assert call.handle.run(tool) == "ran again"
        assert len(ran) == len(again)
        results = [message["content"] for message in session.history("openai_chat") if message["role"] == "tool"]
        assert results == ["report.txt"] * (2 - len(again)) + ["ran again"] * len(again)
        assert session.state.violation_count == 0
    with store.resume(id) as session:
        assert (ids(recovery_of(session).retryable), ids(recovery_of(session).reused)) == ([], ["c1", "c2"])


def test_hooks_are_called_with_the_report(store: Store) -> None:
    seen: list[Recovery] = []
    with store.resume(begun(store, 10), hooks=[seen.append, seen.append]) as session:
        assert seen == [recovery_of(session)] * 2


def test_a_hook_reaches_the_session_that_is_resumed(store: Store) -> None:
    titles: list[str] = []

    def hook(recovery: Recovery) -> None:
        recovery.handle.rename("taken up again")
        titles.append(recovery.handle.state.title)

    with store.resume(begun(store, 10), hooks=[hook]) as session:
        assert session.recovery is not None
        assert session.recovery.handle is session
        assert titles == [session.state.title] == ["taken up again"]


def test_a_hook_that_raises_leaves_the_session_closed_and_repaired(store: Store) -> None:
    def hook(_recovery: Recovery) -> None:
        raise RuntimeError("no")

    id = begun(store, 10)
    with pytest.raises(RuntimeError, match="no"):
        store.resume(id, hooks=[hook])
    with store.resume(id) as session:
        assert recovery_of(session).repaired == []


def test_a_session_that_is_open_here_is_not_resumed(store: Store) -> None:
    with store.create() as session:
        session.append("turn.started", {"turn": "t1"})
        with pytest.raises(Locked):
            store.resume(session.id)
        assert session.append("message.user", {"content": "still mine"}).ordinal == 3


def test_a_session_that_another_process_writes_is_not_resumed(store: Store, tmp_path: Path) -> None:
    with store.create() as session, Store.open(tmp_path / "store") as other, pytest.raises(Locked):
        other.resume(session.id)


@pytest.mark.usefixtures("often")
def test_a_fork_is_resumed_on_its_own(store: Store) -> None:
    id = begun(store, 10)
    head = store.session(id).head()
    child = store.fork(id, 11).id
    for snapshot in (0, 14):
        with store.resume(child) as session:
            assert ids(recovery_of(session).unknown) == ["c2"]
            assert recovery_of(session).snapshot_ordinal == snapshot
            assert all(problems(shape, session.history(shape)) == [] for shape in SHAPES)
            assert session.state == fold(session.events(), State(child))
    assert store.session(id).head() == head


# -- damage --------------------------------------------------------------------------------------------------------


def damage(store: Store, id: str, marker: bytes) -> None:
    """Flip a bit inside a payload that was promised."""
    folder = names.session_dir(store.path, id)
    (name,) = [name for name in os.listdir(folder) if name.endswith(".seg")]
    path = Path(folder, name)
    data = bytearray(path.read_bytes())
    data[data.index(marker)] ^= 1
    path.write_bytes(data)


def test_damage_is_refused_unless_it_is_accepted(store: Store) -> None:
    id = begun(store, len(TURN))
    damage(store, id, b"report.txt")
    with pytest.raises(ReadOnly) as caught:
        store.resume(id)
    assert "sessionctl repair" in " ".join(caught.value.next_commands())
    with store.resume(id, accept_damage=True) as session:
        recovery = recovery_of(session)
        assert (recovery.writable, recovery.damaged) == (False, [(9, 9)])
        assert recovery.as_json()["damaged"] == [[9, 9]]


def test_a_damaged_result_reads_as_unknown_when_damage_is_accepted(store: Store) -> None:
    id = begun(store, len(TURN))
    damage(store, id, b"report.txt")
    with store.resume(id, accept_damage=True) as session:
        for shape in SHAPES:
            assert problems(shape, session.history(shape)) == []
    with store.session(id) as session, pytest.raises(Damaged):
        list(session.history())


# -- snapshots -----------------------------------------------------------------------------------------------------


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a snapshot after every few events."""
    monkeypatch.setattr("turnlog.resume.snapshots.CLOSING_EVENTS", 4)


def snapshot_of(store: Store, id: str) -> Snapshot:
    found = store.index().snapshot(id, SNAPSHOT_SCHEMA, 1 << 62)
    assert found is not None
    return found


def resumed_state(store: Store, id: str) -> tuple[State, int]:
    with store.resume(id) as session:
        folded = fold(session.events(), State(id))
        taken = session.recovery
        assert taken is not None
        return folded, taken.snapshot_ordinal


@pytest.mark.usefixtures("often")
def test_a_snapshot_and_the_tail_equal_the_whole_fold(store: Store) -> None:
    id = begun(store, 8)
    store.resume(id).close()
    snapshot = snapshot_of(store, id)
    with store.session(id) as session:
        session.append("turn.started", {"turn": "t2"})
    with store.resume(id) as session:
        recovery = recovery_of(session)
        assert recovery.snapshot_ordinal == snapshot.ordinal
        assert recovery.events == 12
        assert unpack(snapshot) == fold(session.events(before=snapshot.ordinal + 1), State(id))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    "change",
    [
        lambda old: Snapshot(old.ordinal, old.schema, bytes(32), old.body),
        lambda old: Snapshot(old.ordinal, old.schema, old.chain, old.body[:-9]),
        lambda old: Snapshot(old.ordinal, old.schema, old.chain, b""),
        lambda old: Snapshot(old.ordinal - 1, old.schema, old.chain, old.body),
        lambda old: pack(State("another", ordinal=old.ordinal), old.chain),
    ],
    ids=["another chain", "cut", "empty", "another ordinal", "another session"],
)
def test_a_snapshot_that_the_log_does_not_confirm_is_not_used(store: Store, change: Any) -> None:
    id = begun(store, 8)
    store.resume(id).close()
    old = snapshot_of(store, id)
    assert resumed_state(store, id)[1] == old.ordinal
    connection = store.index()._database.writable()
    connection.execute("DELETE FROM snapshots")
    assert store.index().put_snapshot(id, change(old))
    assert resumed_state(store, id)[1] == 0


@pytest.mark.usefixtures("often")
def test_a_snapshot_of_another_schema_is_not_used(store: Store) -> None:
    id = begun(store, 8)
    store.resume(id).close()
    old = snapshot_of(store, id)
    store.index()._database.writable().execute("UPDATE snapshots SET schema = ?", (SNAPSHOT_SCHEMA + 1,))
    assert store.index().snapshot(id, SNAPSHOT_SCHEMA, old.ordinal) is None
    assert resumed_state(store, id)[1] == 0


@pytest.mark.usefixtures("often")
def test_a_lost_index_means_a_whole_fold(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with Store.open(folder) as store:
        id = begun(store, 8)
        store.resume(id).close()
    for path in folder.glob("index.db*"):
        path.unlink()
    with Store.open(folder) as store, store.resume(id) as session:
        assert recovery_of(session).snapshot_ordinal == 0
        assert ids(recovery_of(session).reused) == ["c1"]


@pytest.mark.usefixtures("often")
def test_snapshots_go_with_their_session(store: Store) -> None:
    id = begun(store, 8)
    store.resume(id).close()
    store.index().forget(id)
    assert store.index()._database.writable().execute("SELECT count(*) FROM snapshots").get == 0


@pytest.mark.usefixtures("often")
def test_only_the_newest_snapshots_are_kept(store: Store) -> None:
    id = begun(store, 2)
    for _ in range(5):
        store.resume(id).close()
        with store.session(id) as session:
            session.append_many([("acme.note", {"n": n}) for n in range(5)])
    assert store.index()._database.writable().execute("SELECT count(*) FROM snapshots").get == 2


def test_a_snapshot_that_is_taken_while_others_append_is_exact(store: Store) -> None:
    with store.create() as session:
        assert session.state.ordinal == 1
        store.index()

        enough = threading.Event()

        def work(name: str) -> None:
            number = 0
            while not enough.is_set():
                number += 1
                session.append("message.user", {"content": f"{name} {number}"}, durability="buffered")

        threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        taken: dict[int, Snapshot] = {}
        try:
            while len(taken) < 3:
                keep(store, session, every=1)
                if session._snapshot_ordinal:
                    found = snapshot_of(store, session.id)
                    taken[found.ordinal] = found
        finally:
            enough.set()
        for thread in threads:
            thread.join()
        session.flush()
        for ordinal, snapshot in taken.items():
            assert snapshot.chain == session.log().chain_at(ordinal)
            assert unpack(snapshot) == fold(session.events(before=ordinal + 1), State(session.id))


def test_an_ephemeral_session_leaves_no_snapshot() -> None:
    with Store.ephemeral() as memory, memory.create() as session:
        for _ in range(600):
            session.record("message.user", {"content": "x"})
        assert session.state.ordinal == 601
        session._keep_state()
        assert session._snapshot_ordinal == 0


def test_an_index_that_fails_does_not_keep_a_session_from_closing(
    store: Store, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_given: object) -> bool:
        raise IndexUnavailable("no")

    session = store.create()
    with session.turn("Go.") as turn:
        for number in range(5):
            turn.tool_call("bash", {}, call_id=f"c{number}").run(str)
        turn.complete()
    monkeypatch.setattr("turnlog.index.index.Index.put_snapshot", fails)
    session.close()
    assert isinstance(store.index_error, IndexUnavailable)


# -- imported sessions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_an_imported_session_is_resumed_with_a_valid_history(store: Store, name: str) -> None:
    (result,) = import_path(store, str(CORPUS / name))
    assert result.session is not None
    with store.resume(result.session) as session:
        recovery = recovery_of(session)
        assert {part["event"] for part in recovery.repaired} <= {"tool.outcome_unknown"}
        assert recovery.violations == 0
        for shape in SHAPES:
            messages = list(session.history(shape))
            assert problems(shape, messages) == []
            assert len(messages) > 1, SHAPE_OF[FILES[name]["kind"]]
        head = session.head()
    with store.resume(result.session) as session:
        assert session.head() == head


def test_an_imported_call_without_an_outcome_is_unknown(store: Store) -> None:
    unknown = []
    for name in FILES:
        (result,) = import_path(store, str(CORPUS / name))
        with store.resume(str(result.session)) as session:
            unknown += [call.standing for call in recovery_of(session).unknown]
            assert recovery_of(session).retryable == []
    assert unknown
    assert set(unknown) == {"unknown"}
