"""Compaction: same logical bytes, one generation counted, harmless crashes, nothing taken from a live writer."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
import zstandard

from tests.faults import damage
from tests.faults.powercut import until_done
from turnlog import Store, _core, names
from turnlog.compact.compact import compact_session
from turnlog.errors import Damaged, SessionNotFound
from turnlog.log.segments import list_segments
from turnlog.repair.repair import plan_session
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.damage import Victim


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return damage.Victim(tmp_path / "store")


def logical(path: str) -> bytes:
    with _core.SegmentReader(path) as reader:
        return reader.read(0, reader.size())


def test_every_segment_of_a_closed_session_keeps_its_bytes(victim: Victim) -> None:
    before = [damage.content(path) for path in victim.segments()]
    seen: list[int] = []
    done = compact_session(victim.store, victim.session, progress=seen.append)
    after = victim.segments()
    assert all(path.endswith(".seg.zst") for path in after)
    assert [logical(path) for path in after] == before
    assert (done["segments"], done["compacted"], done["skipped"]) == (len(before), len(before), [])
    assert done["raw_bytes"] == sum(map(len, before)) == sum(seen)
    assert done["compacted_bytes"] == sum(map(os.path.getsize, after)) < done["raw_bytes"]
    assert victim.read() == victim.facts


def test_plain_zstd_gives_the_raw_segment_back(victim: Victim) -> None:
    before = damage.content(victim.segments()[0])
    compact_session(victim.store, victim.session)
    with (
        open(victim.segments()[0], "rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream,
    ):
        assert stream.read() == before


def test_a_compacted_session_verifies_is_written_to_and_compacts_again(victim: Victim) -> None:
    compact_session(victim.store, victim.session)
    assert check_session(victim.store, victim.session, full=True, witness=victim.witness()).findings == []
    with Store.open(victim.store) as store:
        assert store.session(victim.session).append("a.b", {}).ordinal == damage.EVENTS + 1
    done = compact_session(victim.store, victim.session)
    assert (done["compacted"], done["skipped"]) == (1, [])
    assert compact_session(victim.store, victim.session)["compacted"] == 0
    assert len(victim.read()) == damage.EVENTS + 1


def test_several_blocks_are_written_and_found(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store.open(path) as store:
        session = store.create()
        for number in range(40):
            session.append("blob.kept", os.urandom(240_000), raw=True, durability="buffered")
            session.append("note.written", {"n": number}, durability="buffered")
        session_id = session.id
    segment = list_segments(names.session_dir(str(path), session_id))[0].path
    before = damage.content(segment)
    assert len(before) > 8 * _core.BLOCK_BYTES
    done = compact_session(str(path), session_id)
    assert done["compacted"] == 1
    assert logical(segment + ".zst") == before
    with Store.open(path) as store:
        assert len(list(store.session(session_id).events())) == 81


def test_a_live_writer_keeps_its_segment_and_loses_none_of_the_older_ones(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store.open(path, roll_bytes=damage.ROLL_BYTES) as store:
        session = store.create()
        for number in range(40):
            session.append("note.written", {"n": number, "text": "x" * 300})
        done = compact_session(str(path), session.id)
        assert done["compacted"] == done["segments"] - 1
        assert [part["reason"] for part in done["skipped"]] == ["a writer is at work on it"]
        session.append("note.written", {"n": 40})
        assert len(list(session.events())) == 42
        assert len(list(session.events(reverse=True))) == 42


def test_a_damaged_segment_is_skipped_with_the_next_command(victim: Victim) -> None:
    damage.flipped_payload(victim)
    done = compact_session(victim.store, victim.session)
    assert done["compacted"] == done["segments"] - 1
    assert "CORRUPT" in done["skipped"][0]["reason"]
    assert f"sessionctl repair {victim.session}" in done["skipped"][0]["reason"]
    assert plan_session(victim.store, victim.session).apply().ok
    assert compact_session(victim.store, victim.session)["compacted"] == 1


def test_a_segment_that_its_writer_left_open_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Store.open(path) as store:
        session = store.create()
        live = names.session_dir(str(path), session.id)
        shutil.copytree(live, tmp_path / "left")
        session_id = session.id
    shutil.rmtree(live)
    shutil.copytree(tmp_path / "left", live)  # as a killed writer leaves it
    done = compact_session(str(path), session_id)
    assert done["compacted"] == 0
    assert [part["reason"] for part in done["skipped"]] == ["its writer did not close it; the next one will"]


def test_a_crash_at_any_step_leaves_every_event_and_is_finished(
    victim: Victim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = tmp_path / "spare"
    shutil.copytree(victim.store, spare)
    deaths = 0
    for _ in until_done(monkeypatch, lambda: compact_session(victim.store, victim.session)):
        deaths += 1
        assert victim.read() == victim.facts
        check = check_session(victim.store, victim.session)
        assert check.ok, check.findings
        assert check.events == damage.EVENTS, "a segment of two generations is counted once"
        compact_session(victim.store, victim.session)
        assert all(name.endswith((".seg.zst", "LOCK")) for name in os.listdir(victim.folder))
        assert victim.read() == victim.facts
        shutil.rmtree(victim.store)
        shutil.copytree(spare, victim.store)
    assert deaths > len(victim.segments()) * 5


def test_both_generations_after_a_crash_count_once_and_the_raw_one_goes(victim: Victim, tmp_path: Path) -> None:
    shutil.copytree(victim.folder, tmp_path / "raw")
    compact_session(victim.store, victim.session)
    for name in os.listdir(tmp_path / "raw"):
        shutil.copy(tmp_path / "raw" / name, victim.folder)
    check = check_session(victim.store, victim.session)
    assert (check.ok, check.events) == (True, damage.EVENTS)
    assert {finding["code"] for finding in check.findings} == {"twin"}
    assert victim.read() == victim.facts
    compact_session(victim.store, victim.session)
    assert check_session(victim.store, victim.session).findings == []


def test_a_damaged_compacted_file_beside_its_raw_one_is_no_loss(victim: Victim, tmp_path: Path) -> None:
    raw = victim.middle()
    shutil.copy(raw, tmp_path / "raw")
    compact_session(victim.store, victim.session)
    shutil.copy(tmp_path / "raw", raw)
    damage.edit(raw + ".zst", 200, bytes(40))
    done = compact_session(victim.store, victim.session)
    assert "differs" in done["skipped"][0]["reason"]
    assert plan_session(victim.store, victim.session).apply().ok
    assert victim.read() == victim.facts


def test_a_damaged_block_is_repaired_into_a_raw_segment(victim: Victim) -> None:
    compact_session(victim.store, victim.session)
    path = victim.middle()
    held = set(victim.held_by(path))
    damage.edit(path, 200, bytes(40))
    check = check_session(victim.store, victim.session)
    assert check.verdict == "CORRUPT"
    assert victim.read("skip") == {o: fact for o, fact in victim.facts.items() if o not in held}
    check = plan_session(victim.store, victim.session).apply()
    assert check.ok, check.findings
    assert set(victim.facts) - set(victim.read()) == held


def test_a_damaged_seek_table_copy_is_unpacked(victim: Victim) -> None:
    compact_session(victim.store, victim.session)
    path = victim.middle()
    damage.flip(path, os.path.getsize(path) - 3)
    check = check_session(victim.store, victim.session)
    assert (check.ok, check.verdict) == (False, "DEGRADED")
    assert victim.read() == victim.facts
    assert plan_session(victim.store, victim.session).apply().ok
    assert victim.middle() == path.removesuffix(".zst")
    assert victim.read() == victim.facts


def test_a_compacted_file_that_reads_back_otherwise_never_replaces_the_raw_one(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_table = _core.encode_table
    monkeypatch.setattr(_core, "encode_table", lambda entries: true_table([(c, r, x ^ 1) for c, r, x in entries]))
    with pytest.raises(Damaged, match="does not read back"):
        compact_session(victim.store, victim.session)
    assert all(name.endswith((".seg", "LOCK")) for name in os.listdir(victim.folder))
    assert victim.read() == victim.facts


def test_an_unknown_session_is_not_found(victim: Victim) -> None:
    with pytest.raises(SessionNotFound):
        compact_session(victim.store, "00000000-0000-7000-8000-000000000000")
