"""What happens to plans and tasks: versions and their approval, the graph of dependencies.

Owns: the rules of the families plan and task. Invariants: only the current version of a plan can be approved; the graph
never has a cycle, an edge that would close one is refused; a task runs only when what it depends on is completed. Must
not know: turns, tool calls.
"""

from __future__ import annotations

from msgspec.structs import replace

from turnlog.state.records import PREVIEW_CHARACTERS_MAX, Plan, Task
from turnlog.state.reduce_rules import (
    Payload,
    Refusal,
    Rule,
    is_observed,
    missing,
    note,
    positive,
    preview,
    text,
    texts,
)
from turnlog.state.state import FINISHED_TASKS_MAX, PLAN_VERSIONS_MAX, State
from turnlog.state.transitions import ABSENT, FINISHED_TASK_STATES, PENDING, PLAN, PROPOSED, RUNNING, TASK


def judge_plan(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge an event of the plan."""
    plan = state.plan
    if type not in PLAN[ABSENT if plan is None else plan.state]:
        return Refusal("plan_order", f"{type}: the plan is {ABSENT if plan is None else plan.state}")
    version = positive(payload, "version")
    expected = _version(plan, type)
    if version and version != expected:
        return Refusal("plan_version", f"{type} of version {version}, expected {expected}")
    return None


def _version(plan: Plan | None, type: str) -> int:
    """Return the version that an event is about."""
    if plan is None or type == "plan.proposed":
        return 1
    return plan.version + (type == "plan.revised")


def _plan(state: State, type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    refusal = judge_plan(state, type, payload)
    if refusal is not None and not is_observed(payload):
        note(state, ordinal, refusal)
    plan = state.plan
    if type == "plan.approved":
        if plan is None or refusal is not None:  # an approval counts for exactly what was shown
            return
        by = text(payload, "by")[:PREVIEW_CHARACTERS_MAX]
        state.plan = replace(plan, state=PLAN[PROPOSED][type], approved_ordinal=ordinal, approved_by=by)
        state.plan_versions = (*state.plan_versions[:-1], state.plan)
        return
    name = text(payload, "plan") or (plan.id if plan is not None and type == "plan.revised" else "")
    state.plan = Plan(name, _version(plan, type), ordinal)
    state.plan_versions = (*state.plan_versions, state.plan)[-PLAN_VERSIONS_MAX:]


def judge_task(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge a change of the task graph."""
    name, task = text(payload, "task"), state.tasks.get(text(payload, "task"))
    target = payload.get("state")
    if not name:
        return None if type == "task.updated" and "goal" in payload else missing(type, "task")
    if type == "task.added" and task is not None:
        return Refusal("task_order", f"task {name!r} was added already")
    if type == "task.updated" and task is None:
        return Refusal("task_unknown", f"{type}: no task {name!r}")
    if target is not None and (not isinstance(target, str) or target not in TASK):
        return Refusal("field_invalid", f"{type}: state is one of {', '.join(TASK)}")
    current = PENDING if task is None else task.state
    if target is not None and target not in TASK[current]:
        return Refusal("task_order", f"{type}: task {name!r} is {current}, it cannot become {target}")
    needs = texts(payload, "depends_on") if "depends_on" in payload else () if task is None else task.depends_on
    if "depends_on" in payload and (refusal := _judge_edges(state, name, needs)) is not None:
        return refusal
    if target == RUNNING and not state.is_ready(Task(name, 0, depends_on=needs)):
        return Refusal("task_not_ready", f"{type}: task {name!r} depends on one that is not completed")
    return None


def _judge_edges(state: State, name: str, needs: tuple[str, ...]) -> Refusal | None:
    """Refuse edges to nowhere and edges that close a cycle."""
    unknown = next((other for other in needs if other not in state.tasks and other != name), None)
    if unknown is not None and not state.tasks_folded:
        return Refusal("dependency_unknown", f"task {name!r} depends on {unknown!r}, which was not added")
    seen, waiting = set(), list(needs)
    while waiting:
        other = waiting.pop()
        if other == name:
            return Refusal("task_cycle", f"task {name!r} would depend on itself")
        if other not in seen and other in state.tasks:
            seen.add(other)
            waiting.extend(state.tasks[other].depends_on)
    return None


def _task(state: State, type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    refusal = judge_task(state, type, payload)
    if refusal is not None and not is_observed(payload):
        note(state, ordinal, refusal)
    name = text(payload, "task")
    if not name:
        if refusal is None:
            state.goal_ordinal = ordinal
        return
    old = state.tasks.get(name)
    target = text(payload, "state")
    if type == "task.added" and old is not None:
        return
    task = old or Task(name, ordinal)
    needs = task.depends_on
    if "depends_on" in payload and _judge_edges(state, name, texts(payload, "depends_on")) is None:
        needs = texts(payload, "depends_on")
    title = preview(payload.get("title")) or task.title
    task = replace(task, title=title, depends_on=needs, state=target if target in TASK else task.state)
    state.tasks[name] = task
    was, now = old is not None and old.state in FINISHED_TASK_STATES, task.state in FINISHED_TASK_STATES
    state.tasks_finished += now - was
    if state.tasks_finished > FINISHED_TASKS_MAX:
        _fold_finished(state)


def _fold_finished(state: State) -> None:
    """Let go of the older half of the finished tasks, except of those that unfinished ones depend on."""
    needed = {name for task in state.unfinished_tasks for name in task.depends_on}
    finished = [task.id for task in state.tasks.values() if task.state in FINISHED_TASK_STATES]
    for name in [name for name in finished if name not in needed][: FINISHED_TASKS_MAX // 2]:
        del state.tasks[name]
        state.tasks_finished -= 1
        state.tasks_folded += 1


_TASK_FIELDS = ("task", "title", "depends_on", "state")
RULES = {
    **dict.fromkeys(("plan.proposed", "plan.approved", "plan.revised"), Rule(judge_plan, _plan, ("plan", "version"))),
    "task.added": Rule(judge_task, _task, _TASK_FIELDS),
    "task.updated": Rule(judge_task, _task, (*_TASK_FIELDS, "goal")),
}
