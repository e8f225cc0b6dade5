"""Where the store is looked for, and what an argument names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from turnlog.cli.place import find, parse_reference, session_of

if TYPE_CHECKING:
    from pathlib import Path


def test_the_nearest_folder_upward_is_found(tmp_path: Path) -> None:
    (tmp_path / ".turnlog").mkdir()
    (tmp_path / "a" / ".turnlog").mkdir(parents=True)
    (tmp_path / "a" / "b").mkdir()
    found = find(None, environment={}, cwd=str(tmp_path / "a" / "b"))
    assert (found.path, found.chosen_by) == (str(tmp_path / "a" / ".turnlog"), "folder")


def test_an_empty_variable_is_none(tmp_path: Path) -> None:
    found = find("", environment={"TURNLOG_STORE": "", "XDG_DATA_HOME": "/data"}, cwd=str(tmp_path))
    assert (found.path, found.chosen_by) == ("/data/turnlog", "user")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("latest", ("latest", None, None)),
        ("0196aaaa", ("0196aaaa", None, None)),
        ("0196:7", ("0196", 7, 7)),
        ("0196:7..9", ("0196", 7, 9)),
        ("0196:7..", ("0196", 7, None)),
        ("0196:..9", ("0196", None, 9)),
        ("0196:..", ("0196", None, None)),
    ],
)
def test_a_reference_has_a_session_and_perhaps_ordinals(text: str, parts: tuple[str, int | None, int | None]) -> None:
    found = parse_reference(text)
    assert (found.session, found.first, found.last) == parts


@pytest.mark.parametrize(
    "text", ["", ":3", "id:", "id:0", "id:-1", "id:x", "id:3..2", "id:1.5", "id:3:4", "id:٣", "id:" + "9" * 19]
)
def test_what_names_nothing_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_reference(text)


def test_a_whole_session_has_no_ordinals() -> None:
    assert session_of("latest") == "latest"
    with pytest.raises(click.UsageError):
        session_of("latest:3")
