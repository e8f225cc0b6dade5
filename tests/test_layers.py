"""Imports only point down: the floors, the one switch between the cores, the one file that names pyo3.

A new module at the top, or a new family (a folder), gets its floor here. A floor may import itself and what is below
it, at run time and for types alike.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "turnlog"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("arguments", "decoding", "errors", "events", "handle", "ids", "names", "payloads", "reference", "settings"),
    ("_core", "_native", "_pure", "disk", "sqlite"),
    ("artifacts", "children", "files", "identity", "log", "state"),
    ("context", "history", "index", "memory"),
    (
        *("session", "session_history", "session_model", "session_watching"),
        *("store", "store_forks", "store_lookup", "store_model", "store_watching"),
        *("diff", "feed", "forget", "fork", "lookup", "memory_store", "model", "projector", "resume"),
        *("shutdown", "signals"),
    ),
    ("__init__", "aio"),
    ("verify",),
    ("repair",),
    ("compact", "importers", "prune"),
    ("__main__", "cli"),
)
PURE = ("context/", "history/", "state/", "index/projection", "log/recovery", "resume/dangling")
OUTSIDE = {"disk", "io", "os", "pathlib", "socket", "sqlite", "subprocess", "time"}
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
MODULES = sorted(path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    """Return the name that stands in the table: that of the module, or of the folder it is in."""
    return module.split("/", 1)[0]


def imports_of(module: str) -> Iterator[str]:
    """Yield the modules of the package that `module` imports, as `folder/name`, wherever in the file it does so."""
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (inside(alias.name) for alias in node.names if alias.name.split(".")[0] == "turnlog")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "turnlog":
            yield from (inside(f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"turnlog(\.\w+)+", str(node.value)):
            yield inside(str(node.value))  # import_module("turnlog.x")


def foreign_of(module: str) -> Iterator[str]:
    """Yield what `module` imports from outside the package."""
    for node in ast.walk(ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)


def inside(dotted: str) -> str:
    """Turn `turnlog.a.b` into the longest module that exists: `a/b`, `a`, or the package's `__init__`."""
    parts = dotted.split(".")[1:]
    while parts:
        path = PACKAGE.joinpath(*parts)
        if path.with_suffix(".py").exists() or path.is_dir() or parts == ["_native"]:
            return "/".join(parts)
        parts.pop()
    return "__init__"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_stands_on_a_floor(module: str) -> None:
    assert part_of(module) in FLOOR, f"{module} is not in the table of tests/test_layers.py"


def test_no_module_stands_on_two_floors() -> None:
    assert sorted(FLOOR) == sorted(name for names in FLOORS for name in names)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    floor = FLOOR.get(part_of(module), len(FLOORS))
    upward = {name for name in imports_of(module) if FLOOR.get(part_of(name), len(FLOORS)) > floor}
    assert upward == set()


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith(PURE)])
def test_a_pure_module_reaches_neither_files_nor_clocks(module: str) -> None:
    assert {name.split(".")[0] for name in foreign_of(module)} & OUTSIDE == set()
    assert set(imports_of(module)) & OUTSIDE == set()


@pytest.mark.parametrize("module", [module for module in MODULES if part_of(module) == "_pure"])
def test_the_pure_core_knows_only_the_errors(module: str) -> None:
    assert {part_of(name) for name in imports_of(module)} <= {"_pure", "errors"}


@pytest.mark.parametrize("core", ["_native", "_pure"])
def test_only_the_switch_names_a_core(core: str) -> None:
    outside = [module for module in MODULES if part_of(module) != "_pure"]
    assert [module for module in outside if core in map(part_of, imports_of(module))] == ["_core"]


def test_an_import_inside_a_function_or_by_text_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "low.py").write_text('def f():\n    from turnlog.high import x\n    g("turnlog._native")\n', "utf-8")
    (tmp_path / "high.py").write_text("import os\n", "utf-8")
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    assert set(imports_of("low")) == {"high", "_native"}


def test_only_the_binding_names_pyo3() -> None:
    sources = [path.relative_to(ROOT / "rust") for path in (ROOT / "rust").rglob("*.rs")]
    outside = [path for path in sources if path.parts[0] not in ("py", "py.rs")]
    code = {path: re.sub(r"//.*", "", (ROOT / "rust" / path).read_text(encoding="utf-8")) for path in outside}
    assert [path.as_posix() for path, text in code.items() if "pyo3" in text] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_native_core_builds_without_python() -> None:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("no cargo on PATH")
    command = [cargo, "check", "--quiet", "--locked", "--no-default-features"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
