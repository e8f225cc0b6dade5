"""`sessionctl fork`: a new session behind an event of another one; the parent stays as it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import FLAKY, fingerprint
from turnlog import Store, names

if TYPE_CHECKING:
    from pathlib import Path


def parent_folder(store: Path) -> Path:
    return store / names.SESSIONS / names.shard(FLAKY) / FLAKY


def test_the_new_id_is_the_answer_and_the_session_goes_on_there(run: Runner, whole: Path) -> None:
    before = fingerprint(parent_folder(whole))
    done = run("fork", f"{FLAKY}:4", "--title", "another way", "--model", "provider/y", "--cwd", "/other")
    assert done.code == 0
    (child,) = done.lines
    assert done.err == f"goes on from {FLAKY} after event 4\n"
    assert fingerprint(parent_folder(whole)) == before
    with Store.open(whole, read_only=True) as store:
        session = store.session(child)
        assert [event.ordinal for event in session.events()] == [1, 2, 3, 4, 5, 6]
        assert session.event(6).payload == {"model": "provider/y", "cwd": "/other"}
        rows = store.list(parent=FLAKY)[0]
        assert [(row["id"], row["title"], row["model"]) for row in rows] == [(child, "another way", "provider/y")]
    assert run("verify", child, "--full").code == 0
    assert f"{FLAKY} up to event 4" in run("show", child).out


def test_without_an_ordinal_everything_is_inherited(run: Runner, whole: Path) -> None:
    done = run("fork", "latest", "--json")
    assert_fits_schema(run, "fork", done.objects)
    (answer,) = done.objects
    with Store.open(whole, read_only=True) as store:
        assert (answer["parent"], answer["fork_ordinal"]) == (FLAKY, store.session(FLAKY).head()[0])
        assert answer["parent_chain"] == store.session(FLAKY).head()[1]
        assert store.session(answer["session"]).event(1).id == store.session(FLAKY).event(1).id


@pytest.mark.parametrize("reference", ["FLAKY:2..5", "FLAKY:..5", "FLAKY:3.."])
def test_a_range_is_wrong_usage(run: Runner, whole: Path, reference: str) -> None:
    assert run("fork", reference.replace("FLAKY", FLAKY)).code == 2


def test_an_event_that_does_not_exist_is_exit_10_and_makes_nothing(run: Runner, whole: Path) -> None:
    done = run("fork", f"{FLAKY}:999", "--json")
    assert (done.code, done.out, done.error["code"], done.error["ordinal"]) == (10, "", "not_found", 999)
    with Store.open(whole, read_only=True) as store:
        assert store.session_ids() == [FLAKY]


def test_a_session_that_is_being_written_can_be_forked(run: Runner, tmp_path: Path) -> None:
    with Store.open(tmp_path / "live") as store, store.create(title="at work") as session:
        session.append("note.written", {"text": "durable"})
        done = run("fork", session.id, "--store", tmp_path / "live", "--json")
        assert (done.code, done.objects[0]["fork_ordinal"]) == (0, 2)
        assert session.append("note.written", {}).ordinal == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_that_cannot_be_written_is_refused(run: Runner, whole: Path) -> None:
    (whole / names.SESSIONS).chmod(0o500)
    try:
        assert run("fork", FLAKY).code == 4
    finally:
        (whole / names.SESSIONS).chmod(0o700)
