"""`sessionctl path`: which store, why, and where a session's files are; it never writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import Runner, assert_fits_schema
from tests.cli.stores import FLAKY, fingerprint, make_store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_option_wins_over_the_variable_the_folder_and_the_user(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    option, variable = (make_store(tmp_path / name) for name in ("option", "variable"))
    folder = make_store(tmp_path / "project" / ".turnlog")
    user = make_store(tmp_path / "data" / "turnlog")
    inside = tmp_path / "project" / "src" / "deep"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    monkeypatch.setenv("TURNLOG_STORE", str(variable))
    seen = [run("path", "--store", option, "--json").objects[0], run("path", "--json").objects[0]]
    monkeypatch.delenv("TURNLOG_STORE")
    seen.append(run("path", "--json").objects[0])
    monkeypatch.chdir(tmp_path)
    seen.append(run("path", "--json").objects[0])
    assert [(item["chosen_by"], item["store"]) for item in seen] == [
        ("option", str(option)),
        ("environment", str(variable)),
        ("folder", str(folder)),
        ("user", str(user)),
    ]
    assert_fits_schema(run, "path", seen)


def test_the_option_may_stand_before_the_verb(run: Runner, tmp_path: Path) -> None:
    store = make_store(tmp_path / "before")
    assert run("--store", store, "path").out == f"{store}\n"


def test_the_reason_is_on_stderr_so_that_stdout_is_the_path(run: Runner, whole: Path) -> None:
    done = run("path")
    assert (done.code, done.out, done.err) == (0, f"{whole}\n", "TURNLOG_STORE names it\n")


def test_no_store_is_exit_10_and_nothing_is_made(run: Runner, tmp_path: Path) -> None:
    done = run("path")
    assert (done.code, done.out) == (10, f"{tmp_path / 'data' / 'turnlog'}\n")
    assert "the user's data folder" in done.err
    assert not (tmp_path / "data").exists()


def test_a_session_has_a_folder_and_segments(run: Runner, whole: Path) -> None:
    folder = whole / "sessions" / "0a" / FLAKY
    segments = sorted(str(path) for path in folder.glob("*.seg"))
    assert run("path", "latest").lines == [str(folder), *segments]
    answer = run("path", FLAKY[:8], "--json").objects
    assert (answer[0]["session"], answer[0]["segments"]) == (FLAKY, segments)
    assert_fits_schema(run, "path", answer)


def test_path_writes_no_byte(run: Runner, whole: Path) -> None:
    before = fingerprint(whole)
    run("path")
    run("path", FLAKY)
    assert fingerprint(whole) == before
