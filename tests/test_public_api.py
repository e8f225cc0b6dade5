"""The public names are one sorted list, equal to what is exported, and each says what it is."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import turnlog

INIT = Path(turnlog.__file__)
LATE = {  # modules whose import alone costs more than `import turnlog` may
    "asyncio",
    "dataclasses",
    "enum",
    "json",
    "logging",
    "pathlib",
    "subprocess",
    "tempfile",
    "typing",
    "uuid",
}


def exported_names() -> set[str]:
    """Return the public names that the text of `__init__` imports or assigns."""
    names: set[str] = set()
    for node in ast.parse(INIT.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")} - {"TYPE_CHECKING"}


def test_the_list_of_public_names_is_sorted_and_has_no_twins() -> None:
    assert sorted(set(turnlog.__all__)) == list(turnlog.__all__)


def test_what_the_module_binds_is_what_it_lists() -> None:
    assert exported_names() - set(turnlog.__all__) == set()


@pytest.mark.parametrize("name", turnlog.__all__)
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    value = getattr(turnlog, name)
    if inspect.isclass(value) or callable(value):
        assert (inspect.getdoc(value) or "").strip(), f"{name} has no docstring"


@pytest.mark.parametrize("name", turnlog.__all__)
def test_every_public_method_is_documented(name: str) -> None:
    value = getattr(turnlog, name)
    members = vars(value) if inspect.isclass(value) and value.__module__.startswith("turnlog") else {}
    bare = [
        member
        for member, thing in members.items()
        if not member.startswith("_")
        and (inspect.isfunction(thing) or isinstance(thing, property | classmethod | staticmethod))
        and not inspect.getdoc(thing)
    ]
    assert bare == []


def test_the_import_stays_light() -> None:
    code = "import sys; before = set(sys.modules); import turnlog; print(*sorted(set(sys.modules) - before))"
    place = {**os.environ, "PYTHONPATH": str(INIT.parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=place, capture_output=True, text=True, check=True)
    needed = {"enum", "json"} if turnlog.IMPLEMENTATION == "pure" else set()  # by the canonical form in Python
    assert LATE & set(done.stdout.split()) <= needed


def test_an_interactive_python_is_told_names_that_were_not_imported_yet() -> None:
    assert set(turnlog.__all__) <= set(dir(turnlog))


def documented_names() -> dict[str, set[str]]:
    """Return the names that API.md lists for each class."""
    text = (INIT.parents[2] / "API.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", text, re.MULTILINE)
    return {name: set(re.findall(r"`(\w+)`", cells)) for name, cells in rows}


def names_of(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_what_completion_shows_is_what_is_documented(tmp_path: Path, place: str) -> None:
    with turnlog.Store.open(tmp_path) if place == "disk" else turnlog.Store.ephemeral() as store:
        session = store.create()
        turn = session.turn("a goal")
        things = {
            "Store": store,
            "Session": session,
            "Turn": turn,
            "TurnView": next(session.turns()),
            "Step": turn.step(),
            "ToolCall": turn.tool_call("bash"),
            "Plan": session.plan("1. look"),
            "Tasks": session.tasks,
        }
        assert {name: names_of(thing) for name, thing in things.items()} == documented_names()
