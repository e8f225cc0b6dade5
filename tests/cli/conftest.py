"""Running `sessionctl` in tests: inside this process for answers and exit codes, as a program for pipes and signals.

Owns: the fixtures `run`, `program`, `golden`, `damaged` and `whole`, and the check of JSON against a schema. Must not
know: verbs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.cli.stores import DAMAGED, FLAKY, HOSTILE, NOW_US, make_store
from turnlog.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_OWN_VARIABLES = ("TURNLOG_STORE", "TURNLOG_TRACEBACK", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PAGER", "LESS")


class Done(NamedTuple):
    """What one run of sessionctl gave."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        """Stdout as text."""
        return self.raw.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        """Stdout as lines."""
        return self.out.splitlines()

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Stdout as JSON lines."""
        return [json.loads(line) for line in self.lines]

    @property
    def error(self) -> dict[str, Any]:
        """The last line of stderr as a JSON object."""
        found: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        return found


class Runner:
    """Calls `main` in this process and returns what it gave."""

    def __init__(self, capture: pytest.CaptureFixture[bytes]) -> None:
        """Keep the capture."""
        self._capture = capture

    def __call__(self, *words: str | os.PathLike[str]) -> Done:
        """Run one command line."""
        self._capture.readouterr()
        code = main([os.fspath(word) for word in words])
        out, err = self._capture.readouterr()
        return Done(code, out, err.decode("utf-8"))


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the settings and the data of whoever runs the tests out of them."""
    for name in _OWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Runner:
    """Return the runner."""
    return Runner(capsysbinary)


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store with FLAKY and HOSTILE, and stop the clock two hours after their events."""
    store = make_store(tmp_path / "golden", FLAKY, HOSTILE)
    monkeypatch.setenv("TURNLOG_STORE", str(store))
    monkeypatch.setattr(time, "time_ns", lambda: NOW_US * 1000)
    return store


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store with FLAKY alone."""
    store = make_store(tmp_path / "whole", FLAKY)
    monkeypatch.setenv("TURNLOG_STORE", str(store))
    return store


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a store with FLAKY and DAMAGED."""
    store = make_store(tmp_path / "damaged", FLAKY, DAMAGED)
    monkeypatch.setenv("TURNLOG_STORE", str(store))
    return store


Starter = "Callable[..., subprocess.Popen[bytes]]"


@pytest.fixture
def program() -> Callable[..., subprocess.Popen[bytes]]:
    """Return a function that starts sessionctl as a program of its own."""

    def start(*words: str, **options: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "turnlog", *words]
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        environment = {**os.environ, "PYTHONPATH": os.path.join(root, "python"), **options.pop("env", {})}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command,
            stdout=pipe,
            stderr=pipe,
            env=environment,
            preexec_fn=_hear_interrupts,  # noqa: PLW1509 - it only sets a signal handler
            **options,
        )

    return start


def _hear_interrupts() -> None:
    """A suite that a shell started in the background ignores SIGINT, and its children would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def violations(value: object, schema: dict[str, Any], path: str = "$") -> list[str]:
    """Return how a value breaks the part of JSON Schema that sessionctl uses."""
    if "oneOf" in schema:
        fitting = [part for part in schema["oneOf"] if not violations(value, part, path)]
        return [] if len(fitting) == 1 else [f"{path}: fits {len(fitting)} of the objects"]
    if "anyOf" in schema:
        tries = [violations(value, part, path) for part in schema["anyOf"]]
        return [] if [] in tries else tries[0]
    if "const" in schema:
        return [] if value == schema["const"] else [f"{path}: not {schema['const']}"]
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    wanted = schema.get("type")
    if wanted == "integer":
        return [] if isinstance(value, int) and not isinstance(value, bool) else [f"{path}: no integer"]
    if wanted is not None and not isinstance(value, kinds[wanted]):
        return [f"{path}: {value!r} is no {wanted}"]
    found: list[str] = []
    if isinstance(value, list) and "items" in schema:
        found += [
            text for place, item in enumerate(value) for text in violations(item, schema["items"], f"{path}[{place}]")
        ]
    if isinstance(value, dict):
        found += [f"{path}.{name}: missing" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            part = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if part is None and "properties" in schema:
                found.append(f"{path}.{name}: not in the schema")
            found += violations(item, part or {}, f"{path}.{name}")
    return found


def assert_fits_schema(run: Runner, verb: str, objects: list[dict[str, Any]]) -> None:
    """Assert that each object is one that `VERB --schema` describes."""
    assert objects
    schema = json.loads(run(verb, "--schema").out)
    assert {str(item): violations(item, schema) for item in objects if violations(item, schema)} == {}
