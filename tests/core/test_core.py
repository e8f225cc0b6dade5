"""Goal: the switch gives the core that was asked for, or an error; it never falls back because something is broken.

Method: each case runs in a process of its own, in which the native core is absent, broken, stale or sound.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import turnlog._pure

if TYPE_CHECKING:
    from types import ModuleType

PYTHON = Path(__file__).parents[2] / "python"
ABSENT = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "turnlog._native":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Finder())
"""
PRESENT = """
import sys
from importlib.machinery import ModuleSpec
class Finder:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "turnlog._native" else None
    def create_module(self, spec):
        return None
    def exec_module(self, native):
        import turnlog._pure
        for name in turnlog._pure.__all__:
            setattr(native, name, getattr(turnlog._pure, name))
        native.IMPLEMENTATION = "native"
        native.CONTRACT += 0
sys.meta_path.insert(0, Finder())
"""
STALE = PRESENT.replace("native.CONTRACT += 0", "native.CONTRACT = 0")
OLDER = PRESENT.replace("native.CONTRACT += 0", "del native.canonical")
UNLINKED = ABSENT.replace("ModuleNotFoundError", "ImportError")
WITHOUT_DEPENDENCY = ABSENT.replace("name=name", "name='absent_dependency'")


def run(setup: str, wanted: str | None) -> tuple[str, str]:
    """Import the switch in a new process; return the implementation's name and the last line of the error."""
    environment = {name: value for name, value in os.environ.items() if name != "TURNLOG_CORE"}
    environment |= {"PYTHONPATH": str(PYTHON)} | ({} if wanted is None else {"TURNLOG_CORE": wanted})
    code = f"{setup}\nfrom turnlog import _core\nprint(_core.IMPLEMENTATION, _core.canonical(1).decode())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip(), (done.stderr.strip().splitlines() or [""])[-1]


@pytest.mark.parametrize(
    ("setup", "wanted", "implementation"),
    [
        (PRESENT, None, "native 1"),
        (PRESENT, "native", "native 1"),
        (PRESENT, "pure", "pure 1"),
        (PRESENT, "", "native 1"),
        (ABSENT, None, "pure 1"),
        (ABSENT, "pure", "pure 1"),
        (STALE, "pure", "pure 1"),
    ],
)
def test_the_core_that_was_asked_for_serves(setup: str, wanted: str | None, implementation: str) -> None:
    assert run(setup, wanted) == (implementation, "")


@pytest.mark.parametrize(
    ("setup", "wanted", "error"),
    [
        (ABSENT, "native", "ModuleNotFoundError: No module named 'turnlog._native'"),
        (STALE, None, "ImportError: the native core is stale, it has contract 0, not 1; build it again"),
        (STALE, "native", "ImportError: the native core is stale, it has contract 0, not 1; build it again"),
        (OLDER, None, "ImportError: the native core is stale, it lacks canonical; build it again"),
        (UNLINKED, None, "ImportError: No module named 'turnlog._native'"),
        (WITHOUT_DEPENDENCY, None, "ModuleNotFoundError: No module named 'turnlog._native'"),
        (PRESENT, "rust", "ImportError: TURNLOG_CORE is 'rust'; it can be 'native', 'pure' or unset"),
    ],
)
def test_what_was_asked_for_and_is_not_sound_is_an_error(setup: str, wanted: str | None, error: str) -> None:
    output, last_line = run(setup, wanted)
    assert output == ""
    assert last_line.startswith(error)


def test_every_name_of_the_contract_is_in_each_core(core: ModuleType) -> None:
    assert set(turnlog._pure.__all__) <= set(dir(core)) | set(turnlog._pure._HOMES)
    for name in turnlog._pure.__all__:
        assert getattr(core, name) is not None


def test_both_cores_take_the_same_arguments(native: ModuleType) -> None:
    for name in turnlog._pure.__all__:
        ours, theirs = getattr(turnlog._pure, name), getattr(native, name)
        if inspect.isfunction(ours):
            expected, found = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
            assert [(one.name, one.kind) for one in found.values()] == [
                (one.name, one.kind) for one in expected.values()
            ], name


def test_an_unknown_name_is_no_part_of_the_reference_core() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = turnlog._pure.nothing  # type: ignore[attr-defined]


def test_the_native_core_costs_no_import_of_the_reference() -> None:
    code = PRESENT.replace("getattr(turnlog._pure, name)", "len").replace("CONTRACT += 0", "CONTRACT = 1")
    code += (
        "from turnlog import _core\nprint(sorted(name for name in sys.modules if name.startswith('turnlog._pure.')))"
    )
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), "TURNLOG_CORE": "native"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['turnlog._pure.format']"
