"""The examples in docstrings run, and every public function has one."""

from __future__ import annotations

import asyncio
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
NAMES = [name.removeprefix("turnlog.") for name in MODULES]
INTERNAL = {
    "artifacts.check": "part of verify",
    "artifacts.file": "one artifact's file; `ArtifactStore` opens and writes it",
    "artifacts.sweep": "the removal behind `ArtifactStore.sweep` and `Prune`",
    "compact.blockfile": "the file format behind `compact_session`",
    "context.draft": "half of `ContextTracker`",
    "context.read": "half of `ContextTracker`; what is public of it has its examples",
    "disk": "the operating system",
    "files.file_state": "the comparison behind `Files`",
    "history": "the steps behind `Session.history`; history.history is the view that it gives",
    "identity": "store.json, which `Store.open` reads and makes",
    "importers": "the mapping of single records; importers.importer and importers.result are what a caller meets",
    "index": "tables and statements; index.index is the projection that `Store.index` gives",
    "log": "segments and frames; log.log is the reader that `Session.log` gives",
    "lookup": "`Store.resolve`",
    "memory": "the log of an ephemeral session, used through `Session`",
    "model.call_view": "the properties of `ToolCall`",
    "model.calling": "the steps of `ToolCall.run`",
    "model.calls": "the calls that run in this process, used through `ToolCall`",
    "model.live": "the state behind a session, used through `Session`",
    "names": "the layout of a store's folder",
    "projector": "a thread of the store",
    "repair": "single steps of a plan; repair.repair makes and applies it",
    "resume.dangling": "the decision behind `Store.resume`",
    "resume.resume": "the steps of `Store.resume`",
    "resume.snapshots": "the states that `Store.resume` begins with",
    "sqlite": "the database behind the index",
    "state.reduce_calls": "rules of the reducer, which state.reduce applies",
    "state.reduce_live": "rules of the reducer",
    "state.reduce_plans": "rules of the reducer",
    "state.reduce_rules": "rules of the reducer",
    "state.reduce_session": "rules of the reducer",
    "state.reduce_turns": "rules of the reducer",
    "verify": "single checks; verify.verify makes them",
}
"""Modules, or families but for those in PUBLIC, that no application imports or is handed something of; and why."""

PUBLIC = (
    *("history.history", "importers.importer", "importers.result", "index.index", "log.log"),
    *("repair.repair", "verify.verify"),
)

FOR_THE_PACKAGE = {
    "importers.importer": ("Import.compare", "Import.run"),
    "log.log": (
        *(
            "Log.chain_at",
            "Log.inherited",
            "Log.origin_is_known",
            "Log.own_chain_at",
            "Log.peek",
            "Log.require_inherited",
        ),
        *("Log.own_link_at", "Log.shown_end", "Log.spans"),
    ),
    "session": ("require_level",),
}
"""What modules of the package call of each other, and no application: it needs no example."""


def is_internal(module: str) -> bool:
    """Tell whether a module, named below `turnlog`, is among the exceptions, or its family is."""
    within = (module == name or module.startswith((f"{name}.", f"{name}_")) for name in INTERNAL)
    return module not in PUBLIC and any(within)


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
    result = doctest.testmod(import_module(name), extraglobs={"asyncio": asyncio})
    assert result.failed == 0


@pytest.mark.parametrize("name", [name for name in NAMES if not is_internal(name)])
def test_every_public_function_has_an_example(name: str) -> None:
    assert set(without_example(name)) <= set(FOR_THE_PACKAGE.get(name, ()))


@pytest.mark.parametrize("name", sorted(turnlog.__all__))
def test_what_the_package_exports_is_of_a_public_module(name: str) -> None:
    module = getattr(getattr(turnlog, name), "__module__", "turnlog").removeprefix("turnlog.")
    assert module.startswith("_") or not is_internal(module)


def test_each_exception_is_a_module_or_a_family() -> None:
    known = {*NAMES, *(name.rpartition(".")[0] for name in NAMES)}
    assert INTERNAL.keys() | set(PUBLIC) | FOR_THE_PACKAGE.keys() <= known


def test_a_function_without_an_example_is_found() -> None:
    assert "list_segments" in without_example("log.segments")
    assert "Store.open" not in without_example("store")
