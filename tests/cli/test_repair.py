"""`sessionctl repair`: a plan first, then --apply; the original bytes stay in quarantine; twice changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import DAMAGED, FLAKY, fingerprint
from turnlog import Store

if TYPE_CHECKING:
    from pathlib import Path


def test_a_sound_store_needs_nothing(run: Runner, whole: Path) -> None:
    before = fingerprint(whole)
    done = run("repair")
    assert (done.code, done.out, done.err) == (0, "nothing to repair in 1 session\n", "")
    assert run("repair", "--apply").code == 0
    assert fingerprint(whole) == before


def test_a_plan_is_printed_and_nothing_written(run: Runner, damaged: Path) -> None:
    before = fingerprint(damaged)
    done = run("repair")
    assert done.code == 1
    assert all(line.startswith(DAMAGED) for line in done.lines[:-1])
    assert done.lines[-1].endswith("planned, nothing written")
    assert done.err == "  next   sessionctl repair --apply\n"
    assert f"next   sessionctl repair --apply {DAMAGED}" in run("repair", DAMAGED).err
    assert fingerprint(damaged) == before


def test_applying_makes_the_session_verify_and_keeps_what_was_there(run: Runner, damaged: Path) -> None:
    (segment,) = (damaged / "sessions" / "0c").rglob("*.seg")
    original = segment.read_bytes()
    assert run("rebuild-index").code == 0
    done = run("repair", DAMAGED, "--apply")
    assert done.code == 0, done.out
    assert done.lines[-1].endswith("done, 1 session repaired")
    kept = [path.read_bytes() for path in (damaged / "quarantine").rglob("*") if path.is_file()]
    assert any(b"chAnged" in content for content in kept)
    assert b"chAnged" in original
    assert run("verify").code == 0
    assert [item["ordinal"] for item in run("cat", DAMAGED, "--json").objects if item["type"] == "event"] == [1, 2, 4]
    assert run("repair").out == "nothing to repair in 2 sessions\n"
    assert [row["damaged"] for row in run("list", "--json").objects if row["id"] == FLAKY] == [False]


def test_json_fits_the_schema_before_and_after(run: Runner, damaged: Path) -> None:
    plan = run("repair", "--json")
    assert plan.objects[-1]["next"] == ["sessionctl repair --apply"]
    assert {item["applied"] for item in plan.objects if item["type"] == "action"} == {False}
    assert_fits_schema(run, "repair", plan.objects)
    done = run("repair", "--apply", "--json")
    assert done.objects[-1]["repaired"] == 1
    assert_fits_schema(run, "repair", done.objects)


def test_a_lost_identity_is_written_anew(run: Runner, whole: Path) -> None:
    (whole / "store.json").unlink()
    assert run("list").code == 1
    assert run("repair").code == 1
    assert run("repair", "--apply").code == 0
    assert run("list").code == 0


def test_a_session_that_a_live_writer_holds_is_left_alone(run: Runner, damaged: Path) -> None:
    with Store.open(damaged) as store, store.create(title="live") as session:
        done = run("repair", session.id, "--apply")
        assert done.code == 11
        assert "a live writer holds the session" in done.out
        assert run("repair", "--apply", "--json").code == 3
    assert run("verify").code == 0
