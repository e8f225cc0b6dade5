"""Which event may follow which: the state machines of a session, a turn, a step, a tool call, a plan and a task.

Theory of operation: each table maps a state to the events that are legal in it and the state each leads to; an event
that is not listed is illegal there. Everything that decides about order lives here or, where it depends on more than
one machine (a turn that ends while calls are open), in the `judge_` functions of the `reduce_` modules, which both the
fold and the check before an append ask. What is final has an empty row: the first outcome stands. A history that
another product wrote (payload field `source`) records only part of what happened and is not held to these tables.
Must not know: payloads, ordinals, how a state is kept.
"""

from __future__ import annotations

Table = dict[str, dict[str, str]]

ABSENT = "absent"
RUNNING, COMPLETED, FAILED, ABORTED, INTERRUPTED = "running", "completed", "failed", "aborted", "interrupted"
NEW, OPEN, CLOSED, DELETED = "new", "open", "closed", "deleted"
PROPOSED, APPROVAL_REQUESTED, APPROVED, DENIED = "proposed", "approval_requested", "approved", "denied"
STARTED, CANCELLED, OUTCOME_UNKNOWN, RESOLVED = "started", "cancelled", "outcome_unknown", "resolved"
PENDING = "pending"

NONE, IDEMPOTENT, EXTERNAL = "none", "idempotent", "external"
EFFECTS = (NONE, IDEMPOTENT, EXTERNAL)
NOT_EXECUTED = "not_executed"
OUTCOMES = (COMPLETED, FAILED, NOT_EXECUTED)

SESSION: Table = {
    NEW: {
        "session.created": OPEN,
        "session.forked": OPEN,
        "turn.started": OPEN,
        "session.closed": CLOSED,
        "session.deleted": DELETED,
    },
    OPEN: {"session.forked": OPEN, "turn.started": OPEN, "session.closed": CLOSED, "session.deleted": DELETED},
    CLOSED: {"session.forked": OPEN, "turn.started": OPEN, "session.closed": CLOSED, "session.deleted": DELETED},
    DELETED: {},
}

TURN: Table = {
    ABSENT: {"turn.started": RUNNING},
    RUNNING: {
        "turn.completed": COMPLETED,
        "turn.aborted": ABORTED,
        "turn.failed": FAILED,
        "turn.interrupted": INTERRUPTED,
    },
    COMPLETED: {},
    ABORTED: {},
    FAILED: {},
    INTERRUPTED: {},
}

STEP: Table = {
    ABSENT: {"step.started": RUNNING},
    RUNNING: {"step.completed": COMPLETED, "step.failed": FAILED},
}

_DECIDED = {"tool.approved": APPROVED, "tool.denied": DENIED, "tool.cancelled": CANCELLED}
_ENDED = {
    "tool.completed": COMPLETED,
    "tool.failed": FAILED,
    "tool.cancelled": CANCELLED,
    "tool.outcome_unknown": OUTCOME_UNKNOWN,
}
_WITHOUT_START = {"tool.failed": FAILED, "tool.outcome_unknown": OUTCOME_UNKNOWN}
CALL: Table = {
    ABSENT: {"tool.proposed": PROPOSED},
    # failed without a start: the call could not begin (no such tool, bad arguments);
    # outcome_unknown without a start: the event that told of it may be among those that are lost
    PROPOSED: {
        "tool.approval_requested": APPROVAL_REQUESTED,
        **_DECIDED,
        **_WITHOUT_START,
        "tool.started": STARTED,
    },
    APPROVAL_REQUESTED: {**_DECIDED, **_WITHOUT_START},
    APPROVED: {"tool.denied": DENIED, "tool.started": STARTED, "tool.cancelled": CANCELLED, **_WITHOUT_START},
    STARTED: _ENDED,
    OUTCOME_UNKNOWN: {"tool.resolved": RESOLVED},
    COMPLETED: {},
    FAILED: {},
    DENIED: {},
    CANCELLED: {},
    RESOLVED: {},
}
REPEATABLE_CALL: Table = {
    **CALL,
    STARTED: {**_ENDED, "tool.started": STARTED},
    OUTCOME_UNKNOWN: {"tool.resolved": RESOLVED, "tool.started": STARTED},
}
"""A call whose effect is none or idempotent may run again after a crash."""
PROVIDER_CALL: Table = {**CALL, PROPOSED: {**CALL[PROPOSED], **_ENDED}}
"""A call that the model's provider runs: nobody here starts it."""
CALL_TABLES = {EXTERNAL: CALL, NONE: REPEATABLE_CALL, IDEMPOTENT: REPEATABLE_CALL}
CALL_TARGETS = {type: state for row in CALL.values() for type, state in row.items()}
FINAL_CALL_STATES = frozenset(state for state, row in CALL.items() if not row)

PLAN: Table = {
    ABSENT: {"plan.proposed": PROPOSED},
    PROPOSED: {"plan.proposed": PROPOSED, "plan.approved": APPROVED, "plan.revised": PROPOSED},
    APPROVED: {"plan.proposed": PROPOSED, "plan.revised": PROPOSED},
}

TASK: dict[str, frozenset[str]] = {
    PENDING: frozenset({PENDING, RUNNING, COMPLETED, FAILED, CANCELLED}),
    RUNNING: frozenset({RUNNING, PENDING, COMPLETED, FAILED, CANCELLED}),
    COMPLETED: frozenset({COMPLETED, PENDING}),
    FAILED: frozenset({FAILED, PENDING, RUNNING}),
    CANCELLED: frozenset({CANCELLED, PENDING}),
}
"""The states that `task.updated` may give to a task, by the one it has."""
FINISHED_TASK_STATES = frozenset({COMPLETED, FAILED, CANCELLED})
