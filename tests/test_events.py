"""The vocabulary: it covers what is written elsewhere, reads forward-compatibly, and is what EVENTS.md says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.histories import history
from turnlog import Store, events
from turnlog.errors import InvalidPayload, InvalidType
from turnlog.events import CUSTOM, EPHEMERAL, NEWER, TYPES, UNKNOWN, UPCASTERS, VERSIONS
from turnlog.importers.importer import import_path
from turnlog.index import projection
from turnlog.state.reduce import RULES, fold
from turnlog.state.state import State
from turnlog.state.transitions import CALL, PLAN, SESSION, STEP, TURN

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
CORPUS = sorted(path for path in (ROOT / "tests" / "corpus").rglob("*.jsonl"))


def test_the_document_holds_the_table_of_the_code() -> None:
    text = (ROOT / "EVENTS.md").read_text(encoding="utf-8")
    assert "\n".join(line for line in text.splitlines() if line.startswith("|")) == events.describe()


def test_every_type_is_listed_once_and_can_be_stored() -> None:
    assert len(TYPES) == events.describe().count("\n") - 1
    assert all(len(name) <= 64 and name.isascii() and name.count(".") == 1 for name in TYPES)
    assert all(item.meaning and item.payload.__doc__ and item.version >= 1 for item in TYPES.values())


def test_what_other_modules_know_is_in_the_list() -> None:
    machines = {type for table in (SESSION, TURN, STEP, CALL, PLAN) for row in table.values() for type in row}
    assert projection.TYPES | RULES.keys() | machines <= TYPES.keys()


def test_every_stored_type_but_the_importers_own_has_a_rule() -> None:
    stored = {name for name, item in TYPES.items() if item.durability != EPHEMERAL and item.family != "source"}
    assert stored == RULES.keys()


def test_the_fields_a_rule_reads_are_fields_of_the_payload() -> None:
    for name, rule in RULES.items():
        assert set(rule.fields or ()) <= set(TYPES[name].payload.__struct_fields__), name


def test_what_a_side_effect_hangs_on_is_durable() -> None:
    names = ("tool.started", "tool.completed", "tool.failed", "turn.started", "turn.completed", "tool.approved")
    assert {TYPES[name].durability for name in names} == {"durable"}


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem[-24:])
def test_what_importers_write_is_covered_and_reduces_without_violation(path: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store:
        for result in import_path(store, str(path)):
            if result.session is None:
                continue
            session = store.session(result.session)
            for event in session.events():
                if not event.is_raw:
                    assert events.read(event.type, event.payload).stored == event.payload
            state = fold(session.events(), State(session.id))
            assert (state.violations, state.unknown, state.custom) == ((), {}, {})
            assert state.events == session.head()[0]


def test_a_history_of_an_application_is_covered() -> None:
    for type, payload in history(Random(3), 2_000):
        if type != "acme.note":
            assert events.read(type, payload).stored is payload


def test_a_field_that_is_not_listed_survives_beside_the_known_ones() -> None:
    payload = {"turn": "t1", "call_id": "c1", "colour": {"deep": [1]}}
    reading = events.read("tool.approved", payload)
    assert (reading.extra, reading.stored) == ({"colour": {"deep": [1]}}, payload)
    assert events.make("tool.approved", **payload) == payload


@pytest.mark.parametrize(
    ("type", "payload", "part"),
    [
        ("tool.started", {"turn": "t1"}, "call_id"),
        ("turn.started", {"turn": 7}, "turn"),
        ("session.forked", {"parent": "p"}, "fork_ordinal"),
        ("task.added", {"task": "a", "depends_on": "b"}, "depends_on"),
    ],
)
def test_a_payload_that_does_not_fit_says_which_field(type: str, payload: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidPayload, match=part):
        events.read(type, payload)


@pytest.mark.parametrize(
    ("type", "version", "expected"),
    [
        ("turn.started", 2, NEWER),
        ("turn.paused", 1, UNKNOWN),
        ("turn.", 1, UNKNOWN),
        ("turn", 1, UNKNOWN),
        ("plain", 1, UNKNOWN),
        ("acme.", 1, UNKNOWN),
        ("acme.note", 7, CUSTOM),
        ("acme.turn.started", 1, CUSTOM),
    ],
)
def test_what_is_not_understood_is_told_apart_and_not_read(type: str, version: int, expected: str) -> None:
    assert events.status(type, version) == expected
    with pytest.raises(InvalidType):
        events.read(type, {"v": version, "turn": "t1"})


@pytest.mark.parametrize("version", [None, True, "2", 0, -1, 1.5, []])
def test_an_unusable_version_means_the_first(version: object) -> None:
    assert events.version_of({"v": version}) == 1


# -- versions: a made-up type that is at its third ---------------------------------------------------------------------


def split(old: dict[str, Any]) -> dict[str, Any]:
    first, last = old.pop("name").split()
    return {**old, "first": first, "last": last}


def lower(old: dict[str, Any]) -> dict[str, Any]:
    return {**old, "last": old["last"].lower()}


CHAIN = {("made.up", 1): split, ("made.up", 2): lower}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"name": "A B", "x": 1}, {"first": "A", "last": "b", "x": 1, "v": 3}),
        ({"first": "A", "last": "B", "v": 2}, {"first": "A", "last": "b", "v": 3}),
        ({"last": "B", "v": 3}, {"last": "B", "v": 3}),
        ({"other": 1, "v": 4}, {"other": 1, "v": 4}),
    ],
)
def test_upcasters_raise_a_payload_step_by_step(payload: dict[str, Any], expected: Mapping[str, Any]) -> None:
    before = dict(payload)
    assert events.upcast("made.up", payload, CHAIN, {"made.up": 3}) == expected
    assert payload == before


def test_a_missing_step_and_an_unreadable_old_payload_are_typed_errors() -> None:
    with pytest.raises(InvalidType, match="from version 2"):
        events.upcast("made.up", {"v": 2}, {("made.up", 1): split}, {"made.up": 3})
    with pytest.raises(InvalidPayload, match="KeyError"):
        events.upcast("made.up", {}, CHAIN, {"made.up": 3})


def test_every_version_below_the_current_has_an_upcaster() -> None:
    needed = {(name, version) for name, current in VERSIONS.items() for version in range(1, current)}
    assert UPCASTERS.keys() == needed


def test_the_raw_level_does_not_import_the_vocabulary() -> None:
    code = (
        "import sys, turnlog; sys.exit(bool({'turnlog.events', 'turnlog.state.reduce', 'msgspec'} & set(sys.modules)))"
    )
    place = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    assert subprocess.run([sys.executable, "-c", code], env=place, check=False).returncode == 0
