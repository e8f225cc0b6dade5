"""`sessionctl prune`: says what it would remove, asks, removes; without a yes, or beside damage, nothing goes."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

import click
import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import DAMAGED, fingerprint
from turnlog import Store, names
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.cli import prune

if TYPE_CHECKING:
    from pathlib import Path


def leave(store: Path, *, days: float = 30) -> str:
    """Put an artifact that nothing refers to, so many days ago; return its digest."""
    digest = ArtifactStore(store).put(b"left over").digest
    then_s = time.time() - days * 86_400
    os.utime(names.artifact_path(str(store), digest), (then_s, then_s))
    return digest


def keep(store: Path) -> str:
    with Store.open(store) as opened, opened.create() as session:
        reference = session.artifacts.put(b"referred to")
        session.append("report.written", {"file": {"$artifact": reference.as_payload()}})
    then_s = time.time() - 30 * 86_400
    os.utime(names.artifact_path(str(store), reference.digest), (then_s, then_s))
    return reference.digest


def is_there(store: Path, digest: str) -> bool:
    return os.path.exists(names.artifact_path(str(store), digest))


def test_without_a_yes_it_only_says_what_would_go(run: Runner, whole: Path) -> None:
    kept, left = keep(whole), leave(whole)
    before = fingerprint(whole)
    done = run("prune")
    assert done.code == 1
    assert done.lines[0] == left
    assert re.fullmatch(r"would remove 1 artifact, [\d.]+ K?i?B; 1 referred to; 0 put within 14d", done.lines[1])
    assert done.err == "  next   sessionctl prune --grace 14d --yes\n"
    assert run("prune", "--dry-run").code == 0
    assert run("prune", "--dry-run", "--yes").code == 0
    assert fingerprint(whole) == before
    assert is_there(whole, kept)


def test_with_a_yes_it_goes_and_the_rest_stays_readable(run: Runner, whole: Path) -> None:
    kept, left = keep(whole), leave(whole)
    done = run("prune", "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == left
    assert re.fullmatch(r"removed 1 artifact, [\d.]+ K?i?B; 1 referred to; 0 put within 14d", done.lines[1])
    assert (is_there(whole, kept), is_there(whole, left)) == (True, False)
    assert run("verify", "--full").code == 0
    assert run("prune").out == "would remove 0 artifacts, 0 B; 1 referred to; 0 put within 14d\n"
    assert run("prune").code == 0


@pytest.mark.parametrize(("grace", "goes"), [("1h", True), ("9d", True), ("11d", False), ("2w", False)])
def test_what_was_put_within_the_grace_period_stays(run: Runner, whole: Path, grace: str, goes: bool) -> None:
    left = leave(whole, days=10)
    assert run("prune", "--grace", grace, "--yes").code == 0
    assert is_there(whole, left) is not goes


@pytest.mark.parametrize("grace", ["7", "d", "-1d", "week", ""])
def test_a_grace_period_without_form_is_wrong_usage(run: Runner, whole: Path, grace: str) -> None:
    done = run("prune", "--grace", grace)
    assert (done.code, done.out) == (2, "")
    assert "give a span such as 12h, 7d or 2w" in done.err


def test_a_damaged_session_forbids_it_and_is_named(run: Runner, damaged: Path) -> None:
    left = leave(damaged)
    done = run("prune", "--yes")
    assert done.code == 4
    assert done.lines[0].startswith(f"{DAMAGED}  refused: CORRUPT: ")
    assert done.lines[-1] == "nothing removed: 1 damaged session"
    assert done.err == f"  next   sessionctl verify {DAMAGED}\n"
    assert is_there(damaged, left)
    answer = run("prune", "--yes", "--json")
    assert (answer.code, [item["type"] for item in answer.objects]) == (4, ["refused", "summary"])
    assert_fits_schema(run, "prune", answer.objects)


@pytest.mark.parametrize("words", [[], ["--dry-run"], ["--yes"]])
def test_json_gives_each_artifact_and_a_summary(run: Runner, whole: Path, words: list[str]) -> None:
    keep(whole)
    left = leave(whole)
    objects = run("prune", "--json", *words).objects
    assert [item["type"] for item in objects] == ["artifact", "summary"]
    assert objects[0] == {"type": "artifact", "digest": left, "removed": words == ["--yes"]}
    summary = objects[-1]
    assert (summary["artifacts"], summary["kept"], summary["young"], summary["grace_s"]) == (1, 1, 0, 14 * 86_400)
    assert summary["applied"] is (words == ["--yes"])
    assert_fits_schema(run, "prune", objects)


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 1)])
def test_at_a_terminal_it_asks(
    run: Runner, whole: Path, monkeypatch: pytest.MonkeyPatch, answer: bool, code: int
) -> None:
    left = leave(whole)
    asked: list[str] = []

    def confirm(question: str, *, default: bool) -> bool:
        asked.append(f"{question} {default}")
        return answer

    monkeypatch.setattr(prune, "is_terminal", lambda _: True)
    monkeypatch.setattr("turnlog.cli.output.is_terminal", lambda _: True)
    monkeypatch.setattr(click, "confirm", confirm)
    assert run("prune").code == code
    assert asked == ["Remove? False"]
    assert is_there(whole, left) is not answer
    assert run("prune", "--dry-run").code == 0
    assert len(asked) == 1
