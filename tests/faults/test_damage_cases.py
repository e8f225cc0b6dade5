"""Goal: no damage is silent, none takes more than it hit, and repair brings the session back. Method: each injury of
damage.py is done to a session whose events are known; verify, reading, writing and repair are compared with the
design. Controls: an undamaged session, and a damage that is hidden from the check's eyes, are told apart.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.faults import damage
from turnlog import Store, names
from turnlog._core import HEADER_BYTES
from turnlog.errors import Damaged, NewerFormat, ReadOnly
from turnlog.log.recovery import ROUTINE
from turnlog.repair.repair import plan_session, plan_store
from turnlog.verify.verify import check_session, check_store

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.faults.damage import Injury, Victim

CASES: list[tuple[Injury, str, set[str]]] = [
    (damage.flipped_payload, "CORRUPT", {"payload"}),
    (damage.flipped_header, "CORRUPT", {"header"}),
    (damage.flipped_trailer, "CORRUPT", {"trailer"}),
    (damage.flipped_in_the_newest, "CORRUPT", {"payload"}),
    (damage.zeroed_frames, "CORRUPT", {"header"}),
    (damage.zeroed_sector, "CORRUPT", {"payload", "header", "trailer"}),
    (damage.truncated_middle, "CORRUPT", {"header", "payload"}),
    (damage.truncated_at_a_frame, "LOST_DATA", {"end"}),
    (damage.truncated_to_nothing, "LOST_DATA", {"missing"}),
    (damage.zeroed_file, "LOST_DATA", {"missing"}),
    (damage.missing_middle, "LOST_DATA", {"hole"}),
    (damage.missing_first, "LOST_DATA", {"hole"}),
    (damage.two_missing, "LOST_DATA", {"hole"}),
    (damage.missing_newest, "LOST_DATA", {"end"}),
    (damage.moved_frame, "MISDIRECTED", {"misplaced"}),
    (damage.swapped_frames, "MISDIRECTED", {"misplaced"}),
    (damage.frames_of_another_segment, "MISDIRECTED", {"misplaced"}),
    (damage.duplicated_file, "MISDIRECTED", {"name"}),
    (damage.renamed_segment, "MISDIRECTED", {"name"}),
    (damage.hidden_segment, "LOST_DATA", {"hole"}),
    (damage.foreign_segment, "MISDIRECTED", {"name"}),
    (damage.line_ends_doubled, "CORRUPT", {"text_mode"}),
    (damage.line_ends_halved, "CORRUPT", {"text_mode"}),
    (damage.lost_header, "LOST_DATA", {"missing"}),
    (damage.lost_first_header, "CORRUPT", {"not_a_segment"}),
    (damage.degraded_header, "DEGRADED", {"header_copy"}),
    (damage.degraded_second_copy, "DEGRADED", {"header_copy"}),
    (damage.dirt_between_the_copies, "DEGRADED", {"header_copy"}),
]
every_case = pytest.mark.parametrize(("injury", "verdict", "codes"), CASES, ids=[case[0].__name__ for case in CASES])


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return damage.Victim(tmp_path / "store")


UNTIL_REPAIR = {damage.renamed_segment, damage.hidden_segment}  # nothing is lost, but the name is


def ordinals(finding: dict[str, Any]) -> set[int]:
    return set(range(finding["lost"][0], finding["lost"][1] + 1)) if finding["lost"] else set()


@every_case
def test_damage_is_found_with_its_place_and_what_to_do(
    victim: Victim, injury: Injury, verdict: str, codes: set[str]
) -> None:
    lost = injury(victim)
    check = check_session(victim.store, victim.session, witness=victim.witness())
    found = [finding for finding in check.findings if finding["verdict"] not in ROUTINE]
    assert not check.ok
    assert check.verdict == verdict
    assert codes & {finding["code"] for finding in found}
    assert all(finding["segment"] and finding["detail"] for finding in found)
    assert {step for finding in found for step in finding["next"]} == {f"sessionctl repair {victim.session}"}
    named = set().union(*map(ordinals, found))
    assert named == lost or injury in UNTIL_REPAIR


@every_case
def test_what_is_undamaged_is_served_and_what_is_lost_is_named(
    victim: Victim, injury: Injury, verdict: str, codes: set[str]
) -> None:
    lost = injury(victim)
    if injury in UNTIL_REPAIR:
        lost = set(range(11, 20))
    if injury is damage.missing_newest:
        lost = set(range(min(lost), max(lost) + 1))
    assert victim.read("skip") == {ordinal: fact for ordinal, fact in victim.facts.items() if ordinal not in lost}
    if not lost:
        assert victim.read() == victim.facts
        return
    with pytest.raises(Damaged) as caught:
        victim.read()
    assert caught.value.lost is not None
    assert caught.value.lost[0] == min(lost)
    assert caught.value.lost[1] in lost


@every_case
def test_repair_brings_it_back_and_twice_changes_nothing(
    victim: Victim, injury: Injury, verdict: str, codes: set[str]
) -> None:
    lost = injury(victim)
    left = {ordinal: fact for ordinal, fact in victim.facts.items() if ordinal not in lost}
    before = victim.files()
    plan = plan_session(victim.store, victim.session, witness=victim.witness())
    assert victim.files() == before
    check = plan.apply()
    assert plan.actions
    assert check.ok, check.findings
    assert {o for finding in check.findings if finding["code"] == "repaired" for o in ordinals(finding)} == lost
    assert victim.read() == left
    assert plan_session(victim.store, victim.session, witness=victim.witness()).actions == []
    with Store.open(victim.store) as store:
        assert store.session(victim.session).append("note.written", {}).ordinal == damage.EVENTS + 1
    assert check_session(victim.store, victim.session, witness=victim.witness(), full=True).ok


@every_case
def test_bytes_taken_out_of_the_way_are_kept(victim: Victim, injury: Injury, verdict: str, codes: set[str]) -> None:
    injury(victim)
    before = victim.files()
    plan_session(victim.store, victim.session, witness=victim.witness()).apply()
    after = victim.files().values()
    kept = [damage.content(path) for path in victim.quarantined()]
    headers = [data[:HEADER_BYTES] for data in before.values()]
    assert all(
        data in after or data in kept or header in kept for data, header in zip(before.values(), headers, strict=True)
    )


def test_an_undamaged_session_has_no_finding_and_no_plan(victim: Victim) -> None:
    check = check_session(victim.store, victim.session, witness=victim.witness(), full=True)
    assert (check.ok, check.verdict, check.findings) == (True, "CLEAN", [])
    assert (check.events, check.head[0]) == (damage.EVENTS, damage.EVENTS)
    assert plan_session(victim.store, victim.session).actions == []


def test_without_the_index_the_seal_still_tells_that_the_end_is_missing(victim: Victim) -> None:
    lost = damage.missing_newest(victim)
    victim.forget()
    check = check_session(victim.store, victim.session)
    assert check.verdict == "LOST_DATA"
    assert plan_session(victim.store, victim.session).apply().ok
    with Store.open(victim.store) as store:
        assert store.session(victim.session).append("note.written", {}).ordinal == min(lost)


def test_a_whole_batch_cut_at_a_frame_is_known_to_the_witness_alone(victim: Victim) -> None:
    """The control of what no local rule can see."""
    path = victim.newest()
    held = sorted(victim.held_by(path).items())
    witness = victim.witness()
    damage.cut(path, held[-2][1])
    assert check_session(victim.store, victim.session).ok
    check = check_session(victim.store, victim.session, witness=witness)
    assert check.verdict == "LOST_DATA"
    with Store.open(victim.store) as store, pytest.raises(ReadOnly, match="LOST_DATA"):
        store.session(victim.session).append("note.written", {})
    assert plan_session(victim.store, victim.session, witness=witness).apply().ok
    assert set(victim.facts) - set(victim.read()) == {held[-2][0], held[-1][0]}


def test_damage_in_the_newest_segment_makes_the_session_read_only(victim: Victim) -> None:
    lost = damage.flipped_in_the_newest(victim)
    with Store.open(victim.store) as store:
        session = store.session(victim.session)
        with pytest.raises(ReadOnly) as caught:
            session.append("note.written", {})
        assert caught.value.lost == (min(lost), max(lost))
        assert len(list(session.events(on_damage="skip"))) == damage.EVENTS - 1


@pytest.mark.parametrize("text", [None, b"", b"garbage", b'{"format":"one"}', b"[]", bytes(60)])
def test_a_store_without_its_identity_is_repaired(victim: Victim, text: bytes | None) -> None:
    path = os.path.join(victim.store, names.STORE_FILE)
    os.unlink(path)
    if text is not None:
        with open(path, "wb") as file:
            file.write(text)
    check = check_store(victim.store)
    assert not check.ok
    assert [(finding["code"], finding["verdict"]) for finding in check.findings] == [("identity", "CORRUPT")]
    assert check.findings[0]["next"] == [f"sessionctl repair --store {victim.store}"]
    with pytest.raises(Damaged):
        Store.open(victim.store)
    plan_store(victim.store).apply()
    assert plan_store(victim.store).actions == []
    assert check_store(victim.store).ok
    assert victim.read() == victim.facts


def test_a_newer_store_is_refused_and_left_alone(victim: Victim) -> None:
    path = os.path.join(victim.store, names.STORE_FILE)
    with open(path, "wb") as file:
        file.write(b'{"created_us":1,"format":2,"store_id":"x"}')
    with pytest.raises(NewerFormat):
        check_store(victim.store)
    with pytest.raises(NewerFormat):
        plan_store(victim.store)
    assert damage.content(path).startswith(b'{"created_us":1,"format":2')


def test_a_store_check_covers_every_session_and_names_strays(victim: Victim) -> None:
    with Store.open(victim.store) as store:
        store.create().close()
    damage.flipped_payload(victim)
    os.mkdir(os.path.join(victim.store, names.SESSIONS, "not-a-shard"))
    shutil.copytree(victim.folder, os.path.join(os.path.dirname(victim.folder), "copy"))
    check = check_store(victim.store)
    assert (check.ok, check.verdict, len(check.sessions)) == (False, "CORRUPT", 2)
    assert sorted(finding["code"] for finding in check.findings) == ["stray", "stray"]
