"""Verify: what is told of a whole, a crashed and a live session; heads kept elsewhere; artifacts; not a byte written.

Each kind of damage is in tests/faults/test_damage_cases.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.faults import damage
from turnlog import Store, _core, names
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.compact.compact import compact_session
from turnlog.errors import InvalidInput, SessionNotFound
from turnlog.log.segments import list_segments
from turnlog.repair.repair import plan_session
from turnlog.verify import verify
from turnlog.verify.verify import check_session, check_store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.damage import Victim
    from turnlog.log.segments import SegmentFile


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return damage.Victim(tmp_path / "store")


def state_of(root: str) -> dict[str, tuple[int, int]]:
    """Return size and modification time of every file and folder below `root`."""
    paths = [os.path.join(folder, name) for folder, folders, found in os.walk(root) for name in [*folders, *found]]
    return {path: (os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in paths}


def test_a_check_tells_what_there_is(victim: Victim) -> None:
    read: list[int] = []
    check = check_session(victim.store, victim.session, full=True, progress=read.append)
    sizes = [os.path.getsize(path) for path in victim.segments()]
    assert (check.ok, check.verdict, check.findings) == (True, "CLEAN", [])
    assert (check.segments, check.events, check.bytes) == (len(sizes), damage.EVENTS, sum(sizes))
    assert read == sizes
    with Store.open(victim.store, read_only=True) as store:
        assert check.head == store.session(victim.session).head()
    assert check.as_json()["head"] == f"{victim.session}:{check.head[0]}:{check.head[1]}"


@pytest.mark.parametrize("injury", [None, damage.flipped_payload, damage.missing_middle, damage.degraded_header])
def test_checking_writes_not_a_byte(victim: Victim, injury: damage.Injury | None) -> None:
    if injury is not None:
        injury(victim)
    before = state_of(victim.store)
    check_session(victim.store, victim.session, full=True, witness=victim.witness())
    check_store(victim.store, full=True)
    plan_session(victim.store, victim.session)
    assert state_of(victim.store) == before


def test_the_order_of_segments_in_the_answer_is_theirs(victim: Victim) -> None:
    damage.flip(victim.segments()[3], 4096 + 150)
    damage.flip(victim.segments()[0], 4096 + 150)
    found = [finding["segment"] for finding in check_session(victim.store, victim.session).findings]
    assert found == [os.path.basename(victim.segments()[0]), os.path.basename(victim.segments()[3])]


def test_a_session_open_for_writing_is_fine(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        session.append("a.b", {"text": "x" * 3000})
        assert check_session(store.path, session.id).ok


def test_the_torn_end_of_a_live_writer_is_no_damage(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        session.append("a.b", {})
        (path,) = (file.path for file in list_segments(names.session_dir(store.path, session.id)))
        end = (len(damage.content(path).rstrip(b"\0")) + 7) // 8 * 8
        damage.edit(path, end, b"\xffTL1" + b"\x55" * 300)  # as a reader may see a write in progress
        check = check_session(store.path, session.id)
        assert (check.ok, [finding["code"] for finding in check.findings]) == (True, ["live"])
        damage.edit(path, end, bytes(304))


def test_a_zero_tail_is_clean(victim: Victim) -> None:
    path = victim.newest()
    with open(path, "ab") as file:
        file.write(bytes(65536))
    check = check_session(victim.store, victim.session, witness=victim.witness())
    assert (check.ok, check.verdict, check.findings) == (True, "CLEAN", [])


def test_an_unfinished_group_at_the_end_is_routine(tmp_path: Path) -> None:
    victim = damage.Victim(tmp_path / "store", events=3)
    path = victim.newest()
    with _core.SegmentReader(path) as reader:
        scan, fields = reader.scan(), reader.header["fields"]
    frame = _core.encode_frame(
        segment_id=fields["segment_id"],
        offset=scan["size"],
        kind=_core.KIND_EVENT,
        flags=0,
        epoch=1,
        ordinal=4,
        durable_off=scan["size"],
        event_id=bytes(16),
        time_us=1,
        type="a.b",
        payload=b"{}",
    )
    with open(path, "ab") as file:
        file.write(frame)
    check = check_session(victim.store, victim.session)
    assert (check.ok, check.verdict) == (True, "UNCOMMITTED")
    assert [finding["code"] for finding in check.findings] == ["group"]
    assert plan_session(victim.store, victim.session).apply().verdict == "CLEAN"


def test_damage_inside_a_group_is_not_called_an_unfinished_group(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        session.append_many([("note.written", {"n": number}) for number in range(9)], atomic=True)
        folder = names.session_dir(store.path, session.id)
        receipt = session.append("note.written", {"n": 9})
    damage.flip(list_segments(folder)[0].path, 4096 + 800)
    check = check_session(store.path, session.id)
    assert [finding["verdict"] for finding in check.findings] == ["CORRUPT"]
    assert receipt.ordinal == 11


def test_a_head_kept_elsewhere_proves_the_history(victim: Victim) -> None:
    chains: dict[int, bytes] = {}
    with Store.open(victim.store, read_only=True) as store:
        with _core.SegmentReader(victim.segments()[0]) as reader:
            chain = reader.header["fields"]["prev_chain"]
        for event in store.session(victim.session).events():
            chain = _core.chain_next(chain, event.ordinal, event.event_id, event.time_us, event.digest, event.type)
            chains[event.ordinal] = chain
    for ordinal in (1, 9, 10, 11, 25, damage.EVENTS):
        assert check_session(victim.store, victim.session, expect=f"{ordinal}:{chains[ordinal].hex()}").ok
        check = check_session(victim.store, victim.session, expect=f"{ordinal}:{'0' * 64}")
        assert (check.verdict, check.findings[0]["code"]) == ("TAMPERED", "expect")
    beyond = check_session(victim.store, victim.session, expect=f"{damage.EVENTS + 1}:{chains[1].hex()}")
    assert (beyond.verdict, beyond.findings[0]["code"]) == ("LOST_DATA", "expect")


def test_a_head_inside_an_atomic_group_is_proved(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        session.append_many([("a.b", {"n": n}) for n in range(5)], atomic=True)
        chain = session.log().head()[1]
        events = list(session.events())
        session_id = session.id
    with _core.SegmentReader(list_segments(names.session_dir(store.path, session_id))[0].path) as reader:
        chain = reader.header["fields"]["prev_chain"]
    for event in events[:4]:
        chain = _core.chain_next(chain, event.ordinal, event.event_id, event.time_us, event.digest, event.type)
    assert check_session(store.path, session_id, expect=f"4:{chain.hex()}").ok


def test_a_head_of_another_session_is_told_from_a_changed_history(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        first, second = store.create(), store.create()
        ordinal, chain = second.head()
        second.append("a.b", {"n": 1})
        fork = store.fork(second)
        fork.append("a.b", {"n": 2})
        path, ids = store.path, (first.id, fork.id)
    for other in ids:  # the fork has inherited that event: the head is its parent's all the same
        for given in (f"{ordinal}:{chain}", f"{second.id}:{ordinal}:{chain}"):
            with pytest.raises(InvalidInput, match=f"one of session {second.id}"):
                check_session(path, other, expect=given)
    check = check_session(path, first.id, expect=f"{ordinal}:{'0' * 64}")
    assert check.verdict == "TAMPERED"
    assert check_session(path, second.id, expect=f"{second.id}:{ordinal}:{chain}").ok


@pytest.mark.parametrize("expect", ["", "7", "7:abc", "x:" + "0" * 64, "7:" + "g" * 64])
def test_a_malformed_head_is_refused(victim: Victim, expect: str) -> None:
    with pytest.raises(InvalidInput, match="ORDINAL:CHAIN"):
        check_session(victim.store, victim.session, expect=expect)


def test_a_rewritten_history_is_seen_against_the_index(victim: Victim, tmp_path: Path) -> None:
    witness = victim.witness()
    assert witness is not None
    assert check_session(victim.store, victim.session, witness=witness).ok
    forged = {**witness, "chain": bytes(32)}
    check = check_session(victim.store, victim.session, witness=forged)  # type: ignore[arg-type]
    assert check.verdict == "TAMPERED"
    assert "by the index" in check.findings[0]["detail"]


def test_a_segment_exchanged_for_one_with_another_content_breaks_the_chain(tmp_path: Path) -> None:
    """Everything in the forged segment is sound by itself; only the next one's header tells."""
    victim = damage.Victim(tmp_path / "store")
    path = victim.middle()
    with _core.SegmentReader(path) as reader:
        fields = reader.header["fields"]
        events, *_ = reader.replay(4096, fields["first_ordinal"], limit=1000)
        rows = [(event.ordinal, event.event_id, event.time_us, event.type, event.raw) for event in events]
    data = bytearray(_core.encode_header(dict(fields)))
    for ordinal, event_id, time_us, type_, raw in rows:
        payload = raw.replace(b"xxx", b"yyy") if ordinal == rows[2][0] else raw
        data += _core.encode_frame(
            segment_id=fields["segment_id"],
            offset=len(data),
            kind=_core.KIND_EVENT,
            flags=_core.FLAG_COMMIT,
            epoch=1,
            ordinal=ordinal,
            durable_off=4096,
            event_id=event_id,
            time_us=time_us,
            type=type_,
            payload=payload,
        )
    damage.cut(path, 0)
    damage.edit(path, 0, bytes(data))
    check = check_session(victim.store, victim.session, full=True)
    assert (check.ok, check.verdict) == (False, "TAMPERED")
    assert [finding["code"] for finding in check.findings] == ["chain"]
    assert [verdict for verdict, _ in plan_session(victim.store, victim.session).refusals] == ["TAMPERED"]


def test_strays_are_told_and_are_no_damage(victim: Victim) -> None:
    with open(os.path.join(victim.folder, "notes.txt"), "w", encoding="utf-8") as file:
        file.write("mine")
    check = check_session(victim.store, victim.session)
    assert (check.ok, [finding["code"] for finding in check.findings]) == (True, ["stray"])
    assert plan_session(victim.store, victim.session).actions == []


def test_an_unknown_session_is_not_found(victim: Victim) -> None:
    with pytest.raises(SessionNotFound):
        check_session(victim.store, "00000000-0000-7000-8000-000000000000")


def test_artifacts_are_what_their_names_say(victim: Victim) -> None:
    artifacts = ArtifactStore(victim.store)
    plain = artifacts.put(b"plain").digest
    artifacts.put(b"packed" * 9999)
    assert check_store(victim.store, full=True).ok
    path = os.path.join(names.ARTIFACTS, plain[:2], plain)
    damage.edit(os.path.join(victim.store, path), 0, b"P")
    assert check_store(victim.store).ok, "only a full check reads them"
    check = check_store(victim.store, full=True)
    assert [(finding["code"], finding["segment"]) for finding in check.findings] == [("artifact", path)]
    os.rename(os.path.join(victim.store, path), os.path.join(victim.store, names.ARTIFACTS, "misplaced"))
    assert [finding["code"] for finding in check_store(victim.store).findings] == ["artifact"]


def test_a_segment_that_is_sealed_while_it_is_checked_has_not_lost_its_successor(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed_before(directory: str) -> list[SegmentFile]:
        return list_segments(directory)[:1]

    monkeypatch.setattr(verify, "list_segments", listed_before)
    check = check_session(victim.store, victim.session, full=True)
    assert (check.ok, check.segments) == (True, 1)


def test_a_folder_without_segments_is_damage_only_where_the_index_knew_the_session(victim: Victim) -> None:
    witness = victim.witness()
    for path in victim.segments():
        os.unlink(path)
    made = check_session(victim.store, victim.session)
    assert (made.ok, [finding["code"] for finding in made.findings]) == (True, ["empty"])
    assert not check_session(victim.store, victim.session, witness=witness).ok


def test_segments_that_are_compacted_while_they_are_checked_are_not_lost(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list_segments(victim.folder)
    compact_session(victim.store, victim.session)
    assert all(file.compacted for file in list_segments(victim.folder)[:-1])
    monkeypatch.setattr(verify, "list_segments", lambda _: before)
    check = check_session(victim.store, victim.session, full=True, expect=":".join(map(str, victim_head(victim))))
    assert (check.ok, check.findings) == (True, [])


def victim_head(victim: Victim) -> tuple[int, str]:
    with Store.open(victim.store, read_only=True) as store:
        return store.session(victim.session).head()
