"""`sessionctl verify`: sound stores, damage of each kind, heads kept elsewhere; it never writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import DAMAGED, FLAKY, FLAKY_EVENTS, HOSTILE, build, fingerprint
from turnlog import Store, names
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.reference import Reference


def test_a_sound_store_is_ok_on_one_line(run: Runner, golden: Path) -> None:
    done = run("verify")
    line = re.sub(r"\d+\.\d s", "TIME", done.out)
    expected = "ok  2 sessions  12 events  10.6 KiB  (quick; --full adds the digest of every payload)  TIME\n"
    assert (done.code, line, done.err) == (0, expected, "")
    assert "(full)" in run("verify", "--full").out


@pytest.mark.parametrize("full", [[], ["--full"]])
def test_json_gives_each_session_and_a_summary(run: Runner, golden: Path, full: list[str]) -> None:
    objects = run("verify", "--json", *full).objects
    assert [item["type"] for item in objects] == ["check", "check", "summary"]
    assert objects[-1]["full"] is bool(full)
    assert_fits_schema(run, "verify", objects)


def test_damage_is_exit_1_with_its_place_and_the_next_command(run: Runner, damaged: Path) -> None:
    done = run("verify")
    assert done.code == 1
    assert re.search(rf"^{DAMAGED}  CORRUPT  \d{{20}}-\w{{8}}\.seg, offset \d+, lost 3: ", done.lines[0])
    assert done.lines[-1].startswith("damaged  1 of 2 sessions  ")
    assert done.err == f"  next   sessionctl repair {DAMAGED}\n"
    assert run("verify", FLAKY).code == 0


def test_damage_in_json_fits_the_schema(run: Runner, damaged: Path) -> None:
    done = run("verify", "--json")
    assert [item["type"] for item in done.objects] == ["check", "finding", "check", "summary"]
    assert done.objects[-1]["next"] == [f"sessionctl repair {DAMAGED}"]
    assert_fits_schema(run, "verify", done.objects)


def test_a_head_kept_elsewhere_proves_the_history(run: Runner, golden: Path) -> None:
    head = run("verify", FLAKY, "--json").objects[0]["head"]
    assert re.fullmatch(FLAKY + r":9:[0-9a-f]{64}", head)
    assert f"head      {head}\n" in run("show", FLAKY).out
    bare = head.removeprefix(f"{FLAKY}:")
    for good in (head, bare, head.upper()):
        assert run("verify", FLAKY, "--expect", good).code == 0
    for bad in (head[:-2] + "00", bare[:-2] + "00", f"{FLAKY}:10{bare[1:]}", f"10{bare[1:]}"):
        assert run("verify", FLAKY, "--expect", bad).code == 1


@pytest.mark.parametrize("named", [True, False])
def test_a_head_of_another_session_is_wrong_input_and_not_damage(run: Runner, golden: Path, *, named: bool) -> None:
    head: str = run("verify", HOSTILE, "--json").objects[0]["head"]
    given = head if named else head.removeprefix(f"{HOSTILE}:")
    done = run("verify", FLAKY, "--expect", given)
    assert done.code == 2
    assert f"error[invalid_input]: the head is one of session {HOSTILE}\n" in done.err
    (command,) = re.findall("next   sessionctl (.*)", done.err)
    assert run(*command.split()).code == 0
    assert "TAMPERED" not in run("verify", FLAKY, "--expect", given, "--json").out


@pytest.mark.parametrize(
    "words", [["--expect", "9:00"], [FLAKY, "--expect", "nonsense"], ["--expect", "9:" + "0" * 64]]
)
def test_a_head_without_form_or_session_is_wrong_usage(run: Runner, golden: Path, words: list[str]) -> None:
    assert run("verify", *words).code == 2


def test_a_lost_identity_is_a_finding_and_sessions_are_checked_all_the_same(run: Runner, whole: Path) -> None:
    (whole / "store.json").write_bytes(b"not json")
    done = run("verify")
    assert done.code == 1
    assert "store.json" in done.out
    assert "1 session" in done.lines[-1]


def test_a_segment_cut_below_its_promise_is_lost_data(run: Runner, whole: Path) -> None:
    (segment,) = whole.rglob("*.seg")
    assert run("rebuild-index").code == 0
    segment.write_bytes(segment.read_bytes()[: build(FLAKY, FLAKY_EVENTS).starts[5]])
    done = run("verify", FLAKY, "--json")
    assert done.code == 1
    assert "LOST_DATA" in {item["verdict"] for item in done.objects if item["type"] == "finding"}


@pytest.mark.parametrize("index", ["missing", "garbage", "current"])
def test_verify_writes_no_byte(run: Runner, damaged: Path, index: str) -> None:
    if index != "missing":
        assert run("rebuild-index").code == 0
    if index == "garbage":
        (damaged / "index.db").write_bytes(b"garbage" * 1000)
    before = fingerprint(damaged)
    for words in ([], ["--full"], [DAMAGED, "--json"], [FLAKY]):
        run("verify", *words)
    assert fingerprint(damaged) == before


def test_a_reference_to_what_is_not_there_is_exit_1_and_fits_the_schema(run: Runner, whole: Path) -> None:
    with Store.open(whole) as store, store.create() as session:
        session.append("note.written", {"output": Reference("0" * 64, 3).as_payload()})
        receipt = session.append("note.written", {"output": {"$artifact": Reference("0" * 64, 3).as_payload()}})
    assert run("verify").code == 0
    done = run("verify", "--full", "--json")
    finding = next(item for item in done.objects if item["type"] == "finding")
    assert (done.code, finding["ordinal"], finding["digest"]) == (1, receipt.ordinal, "0" * 64)
    assert_fits_schema(run, "verify", done.objects)
    done = run("verify", "--full")
    assert done.lines[-1].startswith("damaged  1 of 2 sessions")
    assert done.err == f"  next   sessionctl show {session.id}:{receipt.ordinal}\n"
    assert run("show", f"{session.id}:{receipt.ordinal}").code == 0


def test_an_artifact_that_does_not_hold_what_its_name_says_is_exit_1(run: Runner, whole: Path) -> None:
    digest = ArtifactStore(whole).put(b"content").digest
    path = Path(names.artifact_path(str(whole), digest))
    path.write_bytes(b"changed")
    assert run("verify").code == 0
    done = run("verify", "--full", "--json")
    assert (done.code, done.objects[-1]["ok"]) == (1, False)
    assert_fits_schema(run, "verify", done.objects)
