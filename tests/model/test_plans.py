"""Plans are approved by version, tasks wait for what they depend on, permissions hold until they are revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turnlog import InvalidTransition, NotFound, Session, State, Store
from turnlog.state.reduce import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(params=["disk", "memory"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = Store.open(tmp_path / "store") if request.param == "disk" else Store.ephemeral()
    with store, store.create() as made:
        yield made
        assert made.state.violation_count == 0
        assert fold(made.events(), State(made.id)).to_snapshot() == made.state.to_snapshot()


def test_an_approval_counts_for_the_version_it_was_given_to(session: Session) -> None:
    first = session.plan({"steps": ["reproduce", "fix"]}, by="model").approve(by="user")
    second = first.revise({"steps": ["reproduce", "bisect", "fix"]}, reason="it came with an upgrade")
    with pytest.raises(InvalidTransition, match="not the current one"):
        first.approve()
    with pytest.raises(InvalidTransition, match="not the current one"):
        first.revise("again")
    plan = session.state.plan
    assert plan is not None
    assert (plan.version, plan.state, second.version) == (2, "proposed", 2)
    second.approve(by="user")
    with pytest.raises(InvalidTransition):
        second.approve(by="user")
    assert [(item.version, item.state) for item in session.state.plan_versions] == [(1, "approved"), (2, "approved")]


def test_a_new_plan_begins_at_version_one_and_ends_the_old_one(session: Session) -> None:
    old = session.plan("old")
    new = session.plan("new", id="p2")
    with pytest.raises(InvalidTransition):
        old.approve()
    assert new.approve().id == "p2"


def test_a_task_is_ready_when_all_it_depends_on_is_completed(session: Session) -> None:
    tasks = session.tasks
    build, test = tasks.add("build", id="build"), tasks.add("test", id="test")
    ship = tasks.add("ship", id="ship", depends_on=[build, "test"])
    assert [task.id for task in tasks.ready] == ["build", "test"]
    with pytest.raises(InvalidTransition, match="depends on one that is not completed"):
        tasks.update(ship, state="running")
    tasks.update(build, state="completed")
    assert [task.id for task in tasks.ready] == ["test"]
    tasks.update(test, state="running")
    tasks.update(test, state="completed", title="test everything")
    assert [task.id for task in tasks.ready] == ["ship"]
    assert tasks["test"].title == "test everything"
    assert [task.id for task in tasks] == ["build", "test", "ship"]


@pytest.mark.parametrize("needs", [["a"], ["c"], ["b", "c"]])
def test_an_edge_that_closes_a_cycle_is_refused_before_anything_is_written(session: Session, needs: list[str]) -> None:
    tasks = session.tasks
    tasks.add("a", id="a")
    tasks.add("b", id="b", depends_on=["a"])
    tasks.add("c", id="c", depends_on=["b"])
    before = session.head()
    with pytest.raises(InvalidTransition, match="depend on itself") as refusal:
        tasks.update("a", depends_on=needs)
    assert refusal.value.rule == "task_cycle"
    assert session.head() == before
    assert tasks["a"].depends_on == ()


def test_what_is_unknown_or_taken_is_refused(session: Session) -> None:
    tasks = session.tasks
    tasks.add("a", id="a")
    ways: list[Callable[[], object]] = [
        lambda: tasks.add("again", id="a"),
        lambda: tasks.add("b", depends_on=["nothing"]),
        lambda: tasks.update("b", state="running"),
        lambda: tasks.update("a", state="perhaps"),
    ]
    for refused in ways:
        with pytest.raises(InvalidTransition):
            refused()
    with pytest.raises(NotFound):
        _ = tasks["b"]
    assert len(tasks) == 1


def test_a_permission_holds_until_it_is_revoked(session: Session) -> None:
    git = session.grant("bash", "git *", by="user")
    session.grant("edit", id="g2")
    assert [(grant.tool, grant.pattern) for grant in session.state.grants.values()] == [("bash", "git *"), ("edit", "")]
    session.revoke(git, "the task is done")
    session.revoke("g2")
    assert session.state.grants == {}
    with pytest.raises(InvalidTransition):
        session.revoke("g2")
