"""Repair: plans that write nothing, refusals, and a crash at every step.

What repair makes of each kind of damage is in tests/faults/test_damage_cases.py.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.faults import damage
from tests.faults.powercut import until_done
from turnlog import Store, _core, names
from turnlog.errors import Conflict, Locked, NewerFormat, ReadOnly, SessionNotFound
from turnlog.log.lock import SessionLock
from turnlog.log.notes import gap_chain, lost_in_note, note_payload
from turnlog.log.segments import first_fields, list_segments
from turnlog.repair.repair import plan_session
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.damage import Injury, Victim


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return damage.Victim(tmp_path / "store")


CRASH_CASES = [
    damage.flipped_payload,
    damage.flipped_in_the_newest,
    damage.truncated_to_nothing,
    damage.missing_first,
    damage.two_missing,
    damage.missing_newest,
    damage.renamed_segment,
    damage.foreign_segment,
    damage.lost_header,
    damage.degraded_header,
    damage.degraded_second_copy,
]


@pytest.mark.parametrize("injury", CRASH_CASES, ids=[case.__name__ for case in CRASH_CASES])
def test_a_crash_at_any_step_is_finished_by_the_next_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, injury: Injury
) -> None:
    victim = damage.Victim(tmp_path / "store")
    lost = injury(victim)
    left = {ordinal: fact for ordinal, fact in victim.facts.items() if ordinal not in lost}
    spare = tmp_path / "spare"
    shutil.copytree(victim.store, spare)
    witness = victim.witness()
    steps = 0
    for _ in until_done(monkeypatch, lambda: plan_session(victim.store, victim.session, witness=witness).apply()):
        steps += 1
        check = plan_session(victim.store, victim.session, witness=witness).apply()
        assert check.ok, check.findings
        assert victim.read() == left
        assert not [name for name in os.listdir(victim.folder) if name.endswith(".tmp")]
        shutil.rmtree(victim.store)
        shutil.copytree(spare, victim.store)
    assert steps >= 2
    assert victim.read() == left


def test_a_crash_in_the_repair_of_a_crashed_repair_is_finished_too(
    victim: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = damage.two_missing(victim) | damage.flipped_in_the_newest(victim)
    left = {ordinal: fact for ordinal, fact in victim.facts.items() if ordinal not in lost}
    for _ in until_done(monkeypatch, lambda: plan_session(victim.store, victim.session).apply()):
        assert set(victim.read("skip")) <= set(left)  # the same store each time: every attempt goes on from a crash
    assert check_session(victim.store, victim.session).ok
    assert victim.read() == left


def test_a_torn_tail_is_cut_after_a_copy_went_to_quarantine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    with Store.open(store) as opened:
        session = opened.create()
        session.append("note.written", {"n": 1})
        segment = list_segments(names.session_dir(str(store), session.id))[0].path
        data = damage.content(segment)
        session_id = session.id
    end = (len(data.rstrip(b"\0")) + 7) // 8 * 8
    frame = _core.encode_frame(
        segment_id=data[40:56],
        offset=end,
        kind=_core.KIND_EVENT,
        flags=_core.FLAG_COMMIT,
        epoch=1,
        ordinal=3,
        durable_off=4096,
        event_id=bytes(16),
        time_us=1,
        type="note.written",
        payload=b"x" * 2000,
    )
    torn = data[:end] + frame[:700]
    with open(segment, "wb") as file:
        file.write(torn)
    check = check_session(str(store), session_id)
    assert (check.ok, check.verdict) == (True, "TORN_TAIL")
    for _ in until_done(monkeypatch, lambda: plan_session(str(store), session_id).apply()):
        plan_session(str(store), session_id).apply()
        assert damage.content(segment) == data[:end]
        with open(segment, "wb") as file:
            file.write(torn)
    kept = [damage.content(os.path.join(f, n)) for f, _, found in os.walk(store / "quarantine") for n in found]
    assert set(kept) == {frame[:700]}
    assert len(kept) == 1, "the same bytes are kept once, however often repair crashes"
    assert plan_session(str(store), session_id).actions == []


def test_an_unreadable_end_that_is_no_unfinished_write_needs_consent(victim: Victim) -> None:
    path = victim.newest()
    held = sorted(victim.held_by(path).items())
    damage.cut(path, held[-1][1])  # without CLOSE: the last batch is vouched for by nothing
    victim.forget()
    damage.flip(path, held[-2][1] + 150)
    assert check_session(victim.store, victim.session).verdict == "SUSPECT_TAIL"
    plan = plan_session(victim.store, victim.session)
    assert [verdict for verdict, _ in plan.refusals] == ["SUSPECT_TAIL"]
    assert plan.actions == []
    with pytest.raises(ReadOnly, match="--accept-tail"):
        plan.apply()
    assert plan_session(victim.store, victim.session, accept_tail=True).apply().ok
    assert max(victim.read()) == held[-3][0]


def test_a_changed_payload_with_a_matching_checksum_is_reported_and_never_rewritten(victim: Victim) -> None:
    path = victim.middle()
    held = sorted(victim.held_by(path).items())
    data = damage.content(path)
    frame = data[held[1][1] : held[2][1]]
    forged = _forge(frame, data[40:56])
    damage.edit(path, held[1][1], forged)
    assert check_session(victim.store, victim.session).ok, "only the digest tells"
    check = check_session(victim.store, victim.session, full=True)
    assert (check.ok, check.verdict) == (False, "TAMPERED")
    damage.flip(path, held[4][1] + 150)
    plan = plan_session(victim.store, victim.session)
    assert [verdict for verdict, _ in plan.refusals] == ["TAMPERED"]
    with pytest.raises(ReadOnly, match="TAMPERED"):
        plan.apply()


def _forge(frame: bytes, segment_id: bytes) -> bytes:
    """Change a payload and its checksum, as somebody would who does not know of the digest; the header's own
    checksum is left out on purpose by taking it from a frame built anew.
    """
    header_bytes = frame[4] * 8
    length = int.from_bytes(frame[8:12], "little")
    payload = bytearray(frame[header_bytes : header_bytes + length])
    payload[-3] ^= 1
    checksum = _core.checksum(bytes(payload), int.from_bytes(segment_id[:8], "little"))
    head = bytearray(frame[:header_bytes])
    head[80:88] = checksum.to_bytes(8, "little")
    offset = next(offset for offset in range(4096, 1 << 20, 8) if _salted(head, segment_id, offset, frame))
    salted = segment_id + offset.to_bytes(8, "little") + bytes(head[:96]) + bytes(head[104:])
    head[96:104] = _core.checksum(salted).to_bytes(8, "little")
    return bytes(head) + bytes(payload) + frame[header_bytes + length :]


def _salted(head: bytearray, segment_id: bytes, offset: int, frame: bytes) -> bool:
    salted = segment_id + offset.to_bytes(8, "little") + frame[:96] + frame[104 : len(head)]
    return _core.checksum(salted).to_bytes(8, "little") == frame[96:104]


def test_a_newer_segment_is_refused(victim: Victim) -> None:
    path = victim.middle()
    block = bytearray(damage.content(path)[:1024])
    block[8:10] = (2).to_bytes(2, "little")
    block[1016:1024] = _core.checksum(bytes(block[:1016])).to_bytes(8, "little")
    damage.edit(path, 0, bytes(block))
    damage.edit(path, 2048, bytes(block))
    plan = plan_session(victim.store, victim.session)
    assert [verdict for verdict, _ in plan.refusals] == ["UNSUPPORTED"]
    with pytest.raises(NewerFormat):
        plan.apply()
    assert damage.content(path)[:1024] == bytes(block)


def test_a_live_writer_is_never_repaired_under(victim: Victim) -> None:
    damage.flipped_payload(victim)
    plan = plan_session(victim.store, victim.session)
    lock = SessionLock(victim.folder)
    with pytest.raises(Locked):
        plan.apply()
    lock.release()
    assert plan.apply().ok


def test_a_plan_is_not_carried_out_on_a_session_that_changed(victim: Victim) -> None:
    damage.flipped_payload(victim)
    plan = plan_session(victim.store, victim.session)
    damage.flipped_in_the_newest(victim)
    with pytest.raises(Conflict, match="plan again"):
        plan.apply()


def test_an_unknown_session_is_not_found(victim: Victim) -> None:
    with pytest.raises(SessionNotFound):
        plan_session(victim.store, "00000000-0000-7000-8000-000000000000")


def test_a_repaired_segment_can_be_damaged_and_repaired_again(victim: Victim) -> None:
    lost = damage.flipped_payload(victim)
    assert plan_session(victim.store, victim.session).apply().ok
    held = sorted(victim.held_by(victim.middle()).items())
    damage.flip(victim.middle(), held[-1][1] + 150)
    lost |= {held[-1][0]}
    assert plan_session(victim.store, victim.session).apply().ok
    assert set(victim.facts) - set(victim.read()) == lost


def test_a_damaged_note_is_written_anew(victim: Victim) -> None:
    lost = damage.flipped_header(victim)
    assert plan_session(victim.store, victim.session).apply().ok
    with _core.SegmentReader(victim.middle()) as reader:
        note = reader.scan()["notes"][0]
    damage.flip(victim.middle(), note["offset"] + 20)
    assert not check_session(victim.store, victim.session).ok
    check = plan_session(victim.store, victim.session).apply()
    assert check.ok, check.findings
    assert set(victim.facts) - set(victim.read()) == lost


def test_where_headers_survive_the_chain_goes_on_as_if_nothing_were_lost(victim: Victim) -> None:
    head = check_session(victim.store, victim.session).head
    held = sorted(victim.held_by(victim.newest()).items())
    damage.flip(victim.newest(), held[1][1] + 150)
    check = plan_session(victim.store, victim.session).apply()
    assert check.head == head
    assert check_session(victim.store, victim.session, expect=f"{head[0]}:{head[1]}").ok


def test_where_headers_are_lost_the_next_segment_gives_the_chain_back(victim: Victim) -> None:
    head = check_session(victim.store, victim.session).head
    damage.zeroed_frames(victim)
    assert plan_session(victim.store, victim.session).apply().head == head


def test_survivors_of_an_atomic_group_are_kept(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Store.open(store) as opened:
        session = opened.create()
        session.append_many([("a.b", {"n": n, "text": "x" * 200}) for n in range(4)], atomic=True)
        session.append("a.b", {"n": 4})
        session_id = session.id
    path = list_segments(names.session_dir(str(store), session_id))[0].path
    with _core.SegmentReader(path) as reader:
        events, *_ = reader.replay(4096, 1)
        offset = events[4].offset  # the one that closes the group
    damage.flip(path, offset + 150)
    check = plan_session(str(store), session_id).apply()
    assert check.ok, check.findings
    with Store.open(store) as opened:
        assert [event.ordinal for event in opened.session(session_id).events()] == [1, 2, 3, 4, 6]


def test_a_note_gives_its_range_back() -> None:
    chain = bytes(range(32))
    payload = note_payload(chain, (3, 9), {"verdict": "CORRUPT"})
    assert payload[:32] == chain
    assert lost_in_note(payload) == (3, 9)
    assert lost_in_note(note_payload(chain, None, {})) is None
    assert lost_in_note(b"short") is None
    assert gap_chain(chain, (3, 9)) != gap_chain(chain, (3, 8))


def test_a_session_without_any_readable_segment_begins_behind_what_is_known(victim: Victim) -> None:
    witness = victim.witness()
    for path in victim.segments():
        damage.edit(path, 0, bytes(os.path.getsize(path)))
    check = plan_session(victim.store, victim.session, witness=witness).apply()
    assert check.ok, check.findings
    assert check.head[0] == damage.EVENTS
    with Store.open(victim.store) as store:
        assert store.session(victim.session).append("a.b", {}).ordinal == damage.EVENTS + 1


def test_header_fields_of_a_first_segment_are_complete() -> None:
    fields = first_fields("00000000-0000-7000-8000-000000000000")
    assert _core.decode_header(_core.encode_header(fields))["fault"] is None
