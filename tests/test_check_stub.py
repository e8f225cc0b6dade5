"""The typed surface is the real one in both cores, and tools/check_stub.py sees where it is not."""

from __future__ import annotations

import ast
import importlib
import types

import pytest

from tools import check_stub

STUB = """
LEVEL: int
def digest(data: bytes) -> bytes: ...
def checksum(data: bytes, seed: int = 0) -> int: ...
class Reader:
    path: str
    def __init__(self, path: str) -> None: ...
    def read(self, offset: int, *, limit: int = 1) -> bytes: ...
    @property
    def size(self) -> int: ...
"""
MODULE = """
LEVEL = 1
def digest(data): ...
def checksum(data, seed=0): ...
class Reader:
    path = "x"
    def __init__(self, path): ...
    def read(self, offset, *, limit=1024): ...
    size = property(lambda self: 1)
"""


def differences(text: str) -> list[str]:
    module = types.ModuleType("sample._native")
    exec(text, vars(module))
    return list(check_stub.differences(ast.parse(STUB), module))


def test_a_module_that_keeps_its_stub_has_no_differences() -> None:
    assert differences(MODULE) == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("LEVEL = 1", "", "LEVEL is missing"),
        ("def digest(data)", "def digest(value)", "digest takes (value), the stub says (data)"),
        ("seed=0", "seed", "checksum takes (data, seed), the stub says (data, seed=)"),
        ("offset, *, ", "offset, ", "Reader.read takes (offset, limit=), the stub says (offset, *, limit=)"),
        ("(self, path)", "(self, path, mode)", "Reader takes (path, mode), the stub says (path)"),
        ("size = property(lambda self: 1)", "def size(self): ...", "Reader.size is a method, the stub says property"),
        ("def digest", "def new(): ...\ndef digest", "new is not in the stub"),
    ],
)
def test_a_difference_is_said(old: str, new: str, sentence: str) -> None:
    assert differences(MODULE.replace(old, new)) == [sentence]


@pytest.mark.parametrize("core", ["pure", "native"])
def test_a_core_is_what_the_stub_says(core: str) -> None:
    module = pytest.importorskip(f"turnlog._{core}")
    if not check_stub.STUB.exists():
        pytest.skip("no stub")
    tree = ast.parse(check_stub.STUB.read_text(encoding="utf-8"))
    assert list(check_stub.differences(tree, importlib.import_module(module.__name__))) == []
