"""The state machines, cell by cell: after each path, exactly these events are legal and each leads where it says.

Method: every state is reached by a path of events; then each event of its family is tried. What is expected is written
here a second time on purpose: a changed cell must be changed twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog.state.reduce import reduce, refusal_of
from turnlog.state.state import State
from turnlog.state.transitions import CALL, CALL_TABLES, EFFECTS, PLAN, PROVIDER_CALL, SESSION, STEP, TASK, TURN

if TYPE_CHECKING:
    from collections.abc import Callable

IDS = {"turn": "t1", "step": "s1", "call_id": "c1"}
PAYLOAD: dict[str, Any] = {**IDS, "parent": "p", "fork_ordinal": 1, "outcome": "completed"}


def played(types: list[str], **more: Any) -> State:
    state = State()
    for type in types:
        reduce(state, type, state.ordinal + 1, 0, {**PAYLOAD, **more})
    assert state.violations == ()
    return state


def outcome(types: list[str], type: str, look: Callable[[State], str], **more: Any) -> str | None:
    """Return the state that an event leads to, None when it is refused."""
    state = played(types, **more)
    if refusal_of(state, type, {**PAYLOAD, **more}) is not None:
        return None
    reduce(state, type, state.ordinal + 1, 0, {**PAYLOAD, **more})
    return look(state)


def row(family: str, names: str, **others: str) -> dict[str, str]:
    """Return what is legal: each of these events leads to the state of its own name, the others to the one given."""
    return {f"{family}.{name}": others.get(name, name) for name in (names + " " + " ".join(others)).split()}


def compare(
    types: list[str], family: set[str], look: Callable[[State], str], legal: dict[str, str], **more: Any
) -> None:
    found = {type: outcome(types, type, look, **more) for type in family}
    assert {type: target for type, target in found.items() if target is not None} == legal


def family_of(table: dict[str, dict[str, str]]) -> set[str]:
    return {type for cells in table.values() for type in cells}


OPEN = row("session", "", forked="open", closed="closed", deleted="deleted") | {"turn.started": "open"}


@pytest.mark.parametrize(
    ("path", "legal"),
    [
        ("", OPEN | {"session.created": "open"}),
        ("session.created", OPEN),
        ("session.forked", OPEN),
        ("session.closed", OPEN),
        ("session.deleted", {}),
    ],
)
def test_the_cells_of_a_session(path: str, legal: dict[str, str]) -> None:
    compare(path.split(), family_of(SESSION), lambda state: state.phase, legal)


ENDS = row("turn", "completed aborted failed interrupted")


def turn_state(state: State) -> str:
    return state.turn.state if state.turn is not None else next(iter(state.recent_turns.values())).state


@pytest.mark.parametrize(
    ("path", "legal"),
    [
        ("", {"turn.started": "running"}),
        ("turn.started", ENDS),
        *[(f"turn.started {end}", {}) for end in ENDS],
    ],
)
def test_the_cells_of_a_turn(path: str, legal: dict[str, str]) -> None:
    compare(path.split(), family_of(TURN), turn_state, legal)


@pytest.mark.parametrize(
    ("path", "legal"),
    [
        ("turn.started", {"step.started": "running"}),
        ("turn.started step.started", {"step.completed": "ended", "step.failed": "ended"}),
        ("turn.started step.started step.completed", {"step.started": "running"}),
        ("turn.started step.started step.failed", {"step.started": "running"}),
    ],
)
def test_the_cells_of_a_step(path: str, legal: dict[str, str]) -> None:
    compare(path.split(), family_of(STEP), lambda state: "ended" if state.step is None else "running", legal)


def call_state(state: State) -> str:
    found = state.call("t1", "c1")
    assert found is not None
    return found.state


ENDED = row("tool", "completed failed cancelled outcome_unknown")
CALL_CELLS = {
    "": row("tool", "proposed"),
    "proposed": row("tool", "approval_requested approved denied started cancelled failed outcome_unknown"),
    "proposed approval_requested": row("tool", "approved denied cancelled failed outcome_unknown"),
    "proposed approved": row("tool", "denied started cancelled failed outcome_unknown"),
    "proposed started": ENDED,
    "proposed started outcome_unknown": row("tool", "resolved"),
    "proposed started completed": {},
    "proposed started failed": {},
    "proposed started cancelled": {},
    "proposed failed": {},
    "proposed denied": {},
    "proposed cancelled": {},
    "proposed started outcome_unknown resolved": {},
}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("path", CALL_CELLS)
def test_the_cells_of_a_call(path: str, effect: str) -> None:
    types = ["turn.started", *[f"tool.{name}" for name in path.split()]]
    legal = dict(CALL_CELLS[path])
    if effect != "external" and path.endswith(("started", "outcome_unknown")):
        legal["tool.started"] = "started"
    compare(types, family_of(CALL), call_state, legal, effect=effect)


def test_a_call_that_the_provider_runs_needs_no_start() -> None:
    types = ["turn.started", "tool.proposed"]
    compare(types, family_of(CALL), call_state, CALL_CELLS["proposed"] | ENDED, by="provider")


@pytest.mark.parametrize(
    ("path", "legal"),
    [
        ("", row("plan", "proposed")),
        ("plan.proposed", row("plan", "proposed approved", revised="proposed")),
        ("plan.proposed plan.approved", row("plan", "proposed", revised="proposed")),
        ("plan.proposed plan.approved plan.revised", row("plan", "proposed approved", revised="proposed")),
    ],
)
def test_the_cells_of_a_plan(path: str, legal: dict[str, str]) -> None:
    def look(state: State) -> str:
        return "" if state.plan is None else state.plan.state

    compare(path.split(), family_of(PLAN), look, legal)


@pytest.mark.parametrize(
    ("current", "legal"),
    [
        ("pending", "pending running completed failed cancelled"),
        ("running", "pending running completed failed cancelled"),
        ("completed", "completed pending"),
        ("failed", "failed pending running"),
        ("cancelled", "cancelled pending"),
    ],
)
def test_the_cells_of_a_task(current: str, legal: str) -> None:
    state = State()
    reduce(state, "task.added", 1, 0, {"task": "a"})
    reduce(state, "task.updated", 2, 0, {"task": "a", "state": current})
    wanted = {name: refusal_of(state, "task.updated", {"task": "a", "state": name}) is None for name in TASK}
    assert {name for name, allowed in wanted.items() if allowed} == set(legal.split())


def test_every_target_is_a_state_of_its_machine() -> None:
    for table in (SESSION, TURN, CALL, PLAN, PROVIDER_CALL, *CALL_TABLES.values()):
        assert {target for cells in table.values() for target in cells.values()} <= table.keys()
