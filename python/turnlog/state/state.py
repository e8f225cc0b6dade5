"""The state of a session in memory: what the fold of its events has come to.

Owns: the fields, their bounds, views over them, snapshots. Invariants: everything here is derived from the log and can
be folded again; texts stay in the log; what is finished is kept in counters and a bounded window, so the state of a
session of a million events is as small as that of a short one; what is still open is never forgotten. Must not know:
how an event changes it (`reduce.py`), files, clocks.

>>> state = State("019b76da-a800-7000-8000-000000000001")
>>> state.turn, state.open_calls, state.ready
(None, {}, ())
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any

import msgspec

from turnlog.errors import InvalidInput
from turnlog.state.records import (
    Call,
    Context,
    Files,
    Grant,
    Identity,
    Messages,
    Notice,
    Origin,
    Plan,
    QueuedInput,
    Step,
    Task,
    Turn,
    Usage,
    Violation,
)
from turnlog.state.transitions import COMPLETED, EXTERNAL, FINISHED_TASK_STATES, NEW, PENDING

SNAPSHOT_SCHEMA = 2
"""Grows with every change of a field, a record, the vocabulary or what an event does; older snapshots go unused."""

RECENT_TURNS_MAX = 64
RECENT_CALLS_MAX = 256
RECENT_INPUTS_MAX = 16
FINISHED_TASKS_MAX = 1024
PLAN_VERSIONS_MAX = 32
VIOLATIONS_MAX = 100
NOTICES_MAX = 64
NAMES_MAX = 256  # of settings, models, types: the part of a state that a hostile history could blow up


class Live(msgspec.Struct):
    """What is on the screen now; it comes from ephemeral events only and is in no snapshot."""

    notifications: dict[str, Notice] = {}
    dialogs: dict[str, Notice] = {}
    progress: dict[str, Notice] = {}


class State(msgspec.Struct):
    """What a session's events have come to. Change it with `turnlog.state.reduce` only, one thread at a time.

    Records are immutable; the dicts are changed in place, so keep a copy of one to compare with later. `ordinal` is the
    last event's, `events` says how many there were, `lost_ordinal` is the newest one that is known to be lost.
    """

    session_id: str = ""
    ordinal: int = 0
    time_us: int = 0
    events: int = 0
    lost_ordinal: int = 0
    phase: str = NEW
    archived: bool = False
    identity: Identity | None = None
    lineage: tuple[Origin, ...] = ()
    title: str = ""
    tags: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    configured_ordinal: int = 0

    turn: Turn | None = None
    recent_turns: dict[str, Turn] = {}
    turn_counts: dict[str, int] = {}
    queued: dict[str, QueuedInput] = {}
    consumed: tuple[QueuedInput, ...] = ()
    step: Step | None = None
    last_step: Step | None = None
    step_counts: dict[str, int] = {}
    usage: Usage = Usage()
    usage_by_model: dict[str, Usage] = {}

    open_calls: dict[tuple[str, str], Call] = {}
    recent_calls: dict[tuple[str, str], Call] = {}
    call_counts: dict[str, int] = {}
    calls_folded: int = 0

    plan: Plan | None = None
    plan_versions: tuple[Plan, ...] = ()
    tasks: dict[str, Task] = {}
    tasks_finished: int = 0
    tasks_folded: int = 0
    goal_ordinal: int = 0
    grants: dict[str, Grant] = {}
    files: Files = Files()
    context: Context = Context()
    messages: Messages = Messages()

    unknown: dict[str, int] = {}
    custom: dict[str, int] = {}
    violations: tuple[Violation, ...] = ()
    violation_count: int = 0
    live: Live = msgspec.field(default_factory=Live)

    # -- views -----------------------------------------------------------------------------------------------------

    def call(self, turn: str, call_id: str) -> Call | None:
        """Return a tool call that is open, or that finished lately; `calls_folded` says how many were let go.

        >>> State().call("t1", "c1") is None
        True
        """
        key = turn, call_id
        return self.open_calls.get(key) or self.recent_calls.get(key)

    def may_have_started(self, call: Call) -> bool:
        """Tell whether an open call that must not run twice was perhaps started by an event that is lost.

        >>> State(lost_ordinal=4).may_have_started(Call("t1", "c1", "bash", ordinal=3))
        True
        """
        is_behind = call.ordinal < self.lost_ordinal and not call.by_provider
        return is_behind and call.standing == "not_started" and call.effect == EXTERNAL

    def standing(self, call: Call) -> str:
        """Return where a crash leaves a call: `Call.standing`, and unknown where a lost event may have started it.

        >>> State(lost_ordinal=4).standing(Call("t1", "c1", "bash", ordinal=3))
        'unknown'
        """
        return "unknown" if self.may_have_started(call) else call.standing

    @property
    def model(self) -> str:
        """The model in use, "" when none was named."""
        return self._text("model")

    @property
    def effort(self) -> str:
        """How hard the model shall think, "" when nothing was said."""
        return self._text("effort")

    @property
    def cwd(self) -> str:
        """The folder the session works in, "" when none was named."""
        return self._text("cwd")

    @property
    def permission_mode(self) -> str:
        """The permission mode, "" when none was named."""
        return self._text("permission_mode")

    def _text(self, name: str) -> str:
        value = self.settings.get(name)
        return value if isinstance(value, str) else ""

    @property
    def ready(self) -> tuple[Task, ...]:
        """The pending tasks whose dependencies are all completed, in the order they were added."""
        return tuple(task for task in self.tasks.values() if task.state == PENDING and self.is_ready(task))

    def is_ready(self, task: Task) -> bool:
        """Tell whether everything a task depends on is completed; what was let go had finished.

        >>> State().is_ready(Task("a", 1))
        True
        """
        found = (self.tasks.get(name) for name in task.depends_on)
        return all(other is None or other.state == COMPLETED for other in found)

    @property
    def unfinished_tasks(self) -> tuple[Task, ...]:
        """The tasks that are pending or running."""
        return tuple(task for task in self.tasks.values() if task.state not in FINISHED_TASK_STATES)

    @property
    def is_complete(self) -> bool:
        """Whether every event was understood; if not, a newer version wrote some of them (`unknown`)."""
        return not self.unknown

    # -- snapshots -------------------------------------------------------------------------------------------------

    def to_snapshot(self) -> dict[str, Any]:
        """Return the state as a JSON-able dict; folding the events after `ordinal` onto it gives the full state.

        >>> State("s").to_snapshot()["schema"] == SNAPSHOT_SCHEMA
        True
        """
        snapshot: dict[str, Any] = {"schema": SNAPSHOT_SCHEMA}
        for name in State.__struct_fields__:
            value = getattr(self, name)
            if name in _KEYED:
                value = list(value.values())
            if name != "live":
                snapshot[name] = msgspec.to_builtins(value)
        return snapshot

    @classmethod
    def from_snapshot(cls, snapshot: dict[str, Any]) -> State:
        """Return the state a snapshot was made of. Raises InvalidInput when another schema or damage makes it useless:
        fold the whole log then.

        >>> State.from_snapshot(State("s").to_snapshot()) == State("s")
        True
        """
        given = dict(snapshot)
        schema = given.pop("schema", None)
        if schema != SNAPSHOT_SCHEMA:
            message = f"snapshot of schema {schema!r}, this version reads {SNAPSHOT_SCHEMA}"
            raise InvalidInput(message)
        try:
            values = {name: msgspec.convert(value, _TYPES[name]) for name, value in given.items()}
        except (KeyError, msgspec.ValidationError) as cause:
            message = f"the snapshot is not one of a state: {cause}"
            raise InvalidInput(message) from cause
        for name in _KEYED:
            if name in values:
                values[name] = {_key(record): record for record in values[name]}
        return cls(**values)


# Stored as lists: the order of a JSON object's members means nothing, that of these does.
_KEYED: dict[str, type] = {
    "recent_turns": Turn,
    "queued": QueuedInput,
    "open_calls": Call,
    "recent_calls": Call,
    "tasks": Task,
    "grants": Grant,
}
_TYPES: dict[str, Any] = {
    **{field.name: field.type for field in msgspec.structs.fields(State) if field.name != "live"},
    **{name: GenericAlias(list, (kind,)) for name, kind in _KEYED.items()},
}


def _key(record: Any) -> Any:
    return record.key if isinstance(record, Call) else record.id
