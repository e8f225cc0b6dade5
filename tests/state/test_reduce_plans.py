"""What an event does to plans and to the graph of tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.state.folding import codes, reduced
from turnlog.state.state import FINISHED_TASKS_MAX, PLAN_VERSIONS_MAX

if TYPE_CHECKING:
    from tests.histories import Item


def test_an_approval_counts_for_the_current_version_only() -> None:
    state = reduced(
        *(("plan.proposed", {"plan": "p"}), ("plan.revised", {}), ("plan.approved", {"version": 2, "by": "user"})),
        ("plan.revised", {"version": 3}),
    )
    assert [(plan.version, plan.state, plan.approved_by) for plan in state.plan_versions] == [
        *[(1, "proposed", ""), (2, "approved", "user"), (3, "proposed", "")],
    ]


def test_a_task_is_ready_when_all_it_depends_on_is_completed() -> None:
    tasks: list[Item] = [("task.added", {"task": "a"}), ("task.added", {"task": "b"})]
    tasks.append(("task.added", {"task": "c", "depends_on": ["a", "b"]}))
    done: list[Item] = [("task.updated", {"task": name, "state": "completed"}) for name in ("a", "b")]
    assert [task.id for task in reduced(*tasks).ready] == ["a", "b"]
    assert [task.id for task in reduced(*tasks, *done[:1]).ready] == ["b"]
    assert [task.id for task in reduced(*tasks, *done).ready] == ["c"]


def test_an_edge_that_closes_a_cycle_is_refused_and_left_out() -> None:
    tasks: list[Item] = [("task.added", {"task": "a"}), ("task.added", {"task": "b", "depends_on": ["a"]})]
    state = reduced(*tasks, ("task.updated", {"task": "a", "depends_on": ["b"], "title": "A"}))
    assert codes(state) == ["task_cycle"]
    assert (state.tasks["a"].depends_on, state.tasks["a"].title) == ((), "A")


def test_a_cycle_through_other_tasks_is_refused_and_a_diamond_is_not() -> None:
    tasks: list[Item] = [("task.added", {"task": "a"})]
    tasks += [("task.added", {"task": name, "depends_on": ["a"]}) for name in ("b", "c")]
    tasks.append(("task.added", {"task": "d", "depends_on": ["b", "c"]}))
    assert codes(reduced(*tasks)) == []
    state = reduced(*tasks, ("task.updated", {"task": "a", "depends_on": ["d"]}))
    assert (codes(state), state.tasks["a"].depends_on) == (["task_cycle"], ())


def test_a_task_that_is_not_ready_cannot_run_before_what_it_depends_on() -> None:
    tasks: list[Item] = [("task.added", {"task": "a"}), ("task.added", {"task": "b", "depends_on": ["a"]})]
    assert codes(reduced(*tasks, ("task.updated", {"task": "b", "state": "running"}))) == ["task_not_ready"]
    done: list[Item] = [("task.updated", {"task": "a", "state": state}) for state in ("running", "completed")]
    assert codes(reduced(*tasks, *done, ("task.updated", {"task": "b", "state": "running"}))) == []


def test_an_approval_of_another_version_than_the_shown_one_approves_nothing() -> None:
    state = reduced(("plan.proposed", {"plan": "p"}), ("plan.revised", {}), ("plan.approved", {"version": 1}))
    assert codes(state) == ["plan_version"]
    assert state.plan is not None
    assert (state.plan.version, state.plan.state, state.plan.approved_ordinal) == (2, "proposed", 0)


def test_a_revision_keeps_the_plans_id_and_a_new_proposal_begins_at_version_1() -> None:
    state = reduced(*[("plan.proposed", {"plan": "p"}), ("plan.revised", {}), ("plan.proposed", {"plan": "q"})])
    assert [(plan.id, plan.version) for plan in state.plan_versions] == [("p", 1), ("p", 2), ("q", 1)]


def test_of_many_versions_the_last_are_kept() -> None:
    state = reduced(("plan.proposed", {"plan": "p"}), *[("plan.revised", {})] * (PLAN_VERSIONS_MAX + 4))
    assert [plan.version for plan in state.plan_versions] == list(range(6, PLAN_VERSIONS_MAX + 6))


def test_the_older_half_of_many_finished_tasks_is_let_go_but_not_what_others_need() -> None:
    tasks: list[Item] = []
    for number in range(FINISHED_TASKS_MAX + 1):
        tasks.append(("task.added", {"task": f"a{number}"}))
        if number == 0:
            tasks.append(("task.added", {"task": "open", "depends_on": ["a0"]}))
        tasks.append(("task.updated", {"task": f"a{number}", "state": "completed"}))
    state = reduced(*tasks)
    assert codes(state) == []
    assert {"a0", "open", f"a{FINISHED_TASKS_MAX}"} <= state.tasks.keys()
    assert "a1" not in state.tasks
    assert (state.tasks_folded, len(state.tasks)) == (FINISHED_TASKS_MAX // 2, FINISHED_TASKS_MAX // 2 + 2)
    assert [task.id for task in state.ready] == ["open"]


def test_a_goal_is_a_change_of_no_task() -> None:
    state = reduced(("task.updated", {"goal": "ship it"}), ("task.updated", {}))
    assert (state.goal_ordinal, codes(state)) == (1, ["field_missing"])
