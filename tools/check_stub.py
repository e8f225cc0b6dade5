"""Compare `_native.pyi` with the cores: tools/check_stub.py turnlog._native turnlog._pure.

Owns: the check that the typed surface is the real one. Invariant: every name, method, property and parameter of the
stub (name, kind, whether it has a default) is in the module; the native module has no public name beyond the stub.
Must not know: types, which mypy takes from the stub, and behaviour, which the contract tests compare.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

STUB = Path(__file__).resolve().parents[1] / "python" / "turnlog" / "_native.pyi"

Parameters = list[tuple[str, str, bool]]  # name, kind, whether it may be left out
Definition = ast.FunctionDef | ast.AsyncFunctionDef
OWN = ("self", "cls")
_PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD


def stub_parameters(definition: Definition) -> Parameters:
    """Return the parameters that the stub promises, without the bound one."""
    spec = definition.args
    plain = [*spec.posonlyargs, *spec.args]
    optional = [False] * (len(plain) - len(spec.defaults)) + [True] * len(spec.defaults)
    found: Parameters = []
    for argument, may_be_left_out in zip(plain, optional, strict=True):
        kind = inspect.Parameter.POSITIONAL_ONLY if argument in spec.posonlyargs else _PLAIN
        found.append((argument.arg, kind.name, may_be_left_out))
    for argument, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        found.append((argument.arg, inspect.Parameter.KEYWORD_ONLY.name, default is not None))
    return _unbound(found)


def real_parameters(value: Any) -> Parameters:
    """Return the parameters that the object itself declares, without the bound one."""
    signature = inspect.signature(value)
    return _unbound(
        [
            (name, parameter.kind.name, parameter.default is not inspect.Parameter.empty)
            for name, parameter in signature.parameters.items()
        ]
    )


def _unbound(parameters: Parameters) -> Parameters:
    return parameters[1:] if parameters and parameters[0][0] in OWN else parameters


def differences(tree: ast.Module, module: Any) -> Iterator[str]:
    """Yield a sentence for each place where the module is not what the stub says."""
    promised: set[str] = set()
    is_native = module.__name__.endswith("._native")
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) if name.startswith("_") and not is_native:
                continue  # what the native core alone offers to the tests
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                promised.add(name)
                yield from _compare(node, module, name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                promised.add(name)
                if not hasattr(module, name):
                    yield f"{name} is missing"
    if is_native:
        yield from (f"{name} is not in the stub" for name in sorted(_public(vars(module)) - promised))


def _compare(node: ast.FunctionDef | ast.ClassDef, owner: Any, name: str) -> Iterator[str]:
    value = getattr(owner, node.name, None)
    if value is None:
        if not _is_set_by_init(owner, node.name):
            yield f"{name} is missing"
    elif isinstance(node, ast.ClassDef):
        yield from _compare_class(node, value)
    elif "property" in (getattr(decorator, "id", "") for decorator in node.decorator_list):
        if callable(value):
            yield f"{name} is a method, the stub says property"
    elif not node.name.startswith("__"):
        yield from _compare_parameters(name, stub_parameters(node), value)


def _is_set_by_init(owner: Any, name: str) -> bool:
    """Tell whether a class written in Python gives its instances the attribute."""
    code = getattr(owner.__init__, "__code__", None)
    return code is not None and name in code.co_names


def _compare_class(node: ast.ClassDef, value: Any) -> Iterator[str]:
    promised: set[str] = set()
    for member in node.body:
        match member:
            case ast.FunctionDef(name="__init__" | "__new__"):
                yield from _compare_parameters(node.name, stub_parameters(member), value)
            case ast.FunctionDef(name=name):
                promised.add(name)
                yield from _compare(member, value, f"{node.name}.{name}")
            case ast.AnnAssign(target=ast.Name(id=name)):
                promised.add(name)
                if value.__module__.endswith("_native") and not hasattr(value, name):
                    yield f"{node.name}.{name} is missing"
    if value.__module__.endswith("_native") or not inspect.getmodule(value):
        extra = _public(vars(value)) - promised
        yield from (f"{node.name}.{name} is not in the stub" for name in sorted(extra))


def _compare_parameters(name: str, promised: Parameters, value: Any) -> Iterator[str]:
    try:
        real = real_parameters(value)
    except (TypeError, ValueError) as error:
        yield f"{name} does not say its parameters: {error}"
        return
    if real != promised:
        yield f"{name} takes {_shown(real)}, the stub says {_shown(promised)}"


def _shown(parameters: Parameters) -> str:
    marks = {"KEYWORD_ONLY": "*, ", "POSITIONAL_ONLY": "/, "}
    return f"({', '.join(marks.get(kind, '') + name + ('=' if rest else '') for name, kind, rest in parameters)})"


def _public(names: Any) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def main(modules: list[str]) -> int:
    """Print the differences of the given modules; return the exit code."""
    tree = ast.parse(STUB.read_text(encoding="utf-8"))
    found = [
        f"{name}: {sentence}"
        for name in modules or ["turnlog._native", "turnlog._pure"]
        for sentence in differences(tree, importlib.import_module(name))
    ]
    for line in found:
        print(line)
    print(f"stub: {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
