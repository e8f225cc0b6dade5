"""`sessionctl forget`: a session goes to the quarantine whole, or stays; nothing is erased."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import FLAKY, HOSTILE, fingerprint
from turnlog import Conflict, Locked, ReadOnly, SessionNotFound, Store

if TYPE_CHECKING:
    from pathlib import Path


def test_without_a_yes_it_says_what_would_go_and_moves_nothing(run: Runner, golden: Path) -> None:
    before = fingerprint(golden)
    done = run("forget", FLAKY)
    assert (done.code, done.err) == (1, f"nothing was moved\n  next   sessionctl forget {FLAKY} --yes\n")
    assert done.out == f"{FLAKY}  9 events  5.7 KiB  flaky test\n"
    assert fingerprint(golden) == before


def test_a_forgotten_session_is_gone_and_its_bytes_are_in_quarantine(run: Runner, golden: Path) -> None:
    (segment,) = (golden / "sessions" / FLAKY[-2:] / FLAKY).glob("*.seg")
    data = segment.read_bytes()
    planned, done = run("forget", FLAKY, "--json"), run("forget", FLAKY, "--yes", "--json")
    assert (planned.code, done.code) == (1, 0)
    assert_fits_schema(run, "forget", [*planned.objects, *done.objects])
    assert [row["id"] for row in run("list", "--json").objects] == [HOSTILE]
    assert run("show", FLAKY).code == 10
    (kept,) = (golden / "quarantine" / FLAKY).iterdir()
    assert done.objects[0]["quarantined"] == str(kept)
    assert (kept / segment.name).read_bytes() == data
    assert run("verify", "--full").code == 0
    kept.rename(golden / "sessions" / FLAKY[-2:] / FLAKY)  # and back by hand
    assert run("verify", FLAKY, "--full").code == 0
    assert len(run("list", "--json").objects) == 2


def test_a_session_with_forks_stays_until_they_went(run: Runner, golden: Path) -> None:
    fork = run("fork", FLAKY).out.strip()
    refused = run("forget", FLAKY, "--yes")
    assert refused.code == 4
    assert f"next   sessionctl list --parent {FLAKY}" in refused.err
    assert run("show", fork).code == 0
    assert run("forget", fork, FLAKY, "--yes").code == 0
    assert [row["id"] for row in run("list", "--json").objects] == [HOSTILE]


def test_an_id_may_be_used_again_without_being_taken_for_a_loss(run: Runner, golden: Path) -> None:
    assert run("rebuild-index").code == 0
    assert run("forget", FLAKY, "--yes").code == 0
    with Store.open(golden) as store, store.create(id=FLAKY) as session:
        session.append("note.written", {"n": 1})
    assert run("verify", FLAKY).code == 0
    assert run("forget", FLAKY, "--yes").code == 0
    assert len(list((golden / "quarantine" / FLAKY).iterdir())) == 2


def test_a_session_that_is_written_and_a_store_that_is_not_are_left_alone(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        session = store.create()
        with pytest.raises(Locked):
            store.forget(session.id)
        assert session.append("note.written", {"n": 1}).ordinal == 2
        child = store.fork(session)
        session.close()
        with pytest.raises(Conflict, match=child.id):
            store.forget(session.id)
        parent = session.id
    with Store.open(tmp_path, read_only=True) as store, pytest.raises(ReadOnly):
        store.forget(child.id)
    with Store.open(tmp_path) as store:
        assert store.session_exists(parent)
        reading = store.session(child.id)
        assert len(list(reading.events())) == 3
        store.forget(child.id)  # one that is only read here is closed
        with pytest.raises(SessionNotFound):
            store.session(child.id)
        store.forget(parent)
        assert store.session_ids() == []
