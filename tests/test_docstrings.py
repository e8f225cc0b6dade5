"""The examples in docstrings run, and every public function of the session model has one."""

from __future__ import annotations

import doctest
import inspect
import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

import turnlog

if TYPE_CHECKING:
    from pathlib import Path

PRIVATE = ("turnlog._", "turnlog.cli")
MODULES = sorted(
    found.name for found in pkgutil.walk_packages(turnlog.__path__, "turnlog.") if not found.name.startswith(PRIVATE)
)
MODEL = (
    "artifacts.artifacts",
    "artifacts.offload",
    "children",
    "context.context",
    "events",
    "feed.cursors",
    "feed.feed",
    "feed.sources",
    "feed.store_feed",
    "feed.subscribers",
    "files.files",
    "memory_store",
    "model.call_run",
    "model.plans",
    "model.step",
    "model.tools",
    "model.turn",
    "session_model",
    "session_watching",
    "shutdown",
    "state.reduce",
    "state.selectors",
    "state.state",
    "store_forks",
    "store_model",
    "store_watching",
)
"""Modules that applications use directly, beside the names that the package itself exports."""


def without_example(name: str) -> list[str]:
    """Return the public functions and methods of a module that show nothing."""
    module: Any = import_module(f"turnlog.{name}")
    bare = []
    for finding in doctest.DocTestFinder(exclude_empty=False).find(module):
        member = finding.name.removeprefix(f"turnlog.{name}").lstrip(".")
        value: Any = module
        for part in filter(None, member.split(".")):
            value = getattr(value, part)
        hidden = any(part.startswith("_") for part in member.split("."))
        if inspect.isroutine(value) and not hidden and not finding.examples:
            bare.append(member)
    return bare


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("name", MODEL)
def test_every_public_function_of_the_model_has_an_example(name: str) -> None:
    assert without_example(name) == []
