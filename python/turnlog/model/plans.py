"""Plans with versions and approval, the task graph, and permissions that hold for a session.

Owns: the handles by which an application changes them. Invariants: an approval counts for the version it was given to;
an edge that would close a cycle is refused before anything is written. Must not know: turns, tool calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.arguments import id_of, ids_of, require_name, require_text
from turnlog.errors import InvalidTransition, NotFound
from turnlog.ids import format_id, new_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from turnlog.model.live import Live
    from turnlog.state.records import Grant, Task


class Plan:
    """One version of a plan; made by `Session.plan` and `Plan.revise`.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> first = session.plan("1. reproduce 2. fix").approve(by="user")
    >>> second = first.revise("1. reproduce 2. bisect 3. fix", reason="it came with an upgrade")
    >>> second.version, session.state.plan.state
    (2, 'proposed')
    """

    def __init__(self, live: Live, name: str, version: int, content: Any) -> None:
        """Use `Session.plan`."""
        self.id = name
        self.version = version
        self.content = content
        self._live = live

    def approve(self, *, by: str | None = None) -> Self:
        """Approve this version. Raises InvalidTransition when it is not the current one, or is approved.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> _ = session.plan("1. reproduce 2. fix").approve(by="user")
        >>> session.state.plan.approved_by
        'user'
        """
        payload = {"plan": self.id, "version": self.version} | ({} if by is None else {"by": by})
        with self._live.order:
            self._require_current("plan.approved")
            self._live.record("plan.approved", payload)
        return self

    def revise(self, content: Any, *, reason: str | None = None, by: str | None = None) -> Plan:
        """Replace this version by the next one, which needs a new approval. Raises InvalidTransition when this is not
        the current one.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session.plan("1. fix").revise("1. reproduce 2. fix").version
        2
        """
        payload = {"plan": self.id, "version": self.version + 1, "content": content, "reason": reason, "by": by}
        with self._live.order:
            self._require_current("plan.revised")
            self._live.record("plan.revised", {name: value for name, value in payload.items() if value is not None})
        return Plan(self._live, self.id, self.version + 1, content)

    def _require_current(self, type: str) -> None:
        self._live.ready()
        current = self._live.current().plan
        if current is None or (current.id, current.version) != (self.id, self.version):
            shown = "none" if current is None else f"version {current.version} of {current.id!r}"
            message = f"{type}: version {self.version} of plan {self.id!r} is not the current one, {shown} is"
            raise InvalidTransition(message, "plan_version", session=self._live.session.id)

    def __repr__(self) -> str:
        """Name the plan and its version."""
        return f"<Plan {self.id} version {self.version}>"


class Tasks:
    """The task graph of a session: `session.tasks`.

    >>> from turnlog import Store
    >>> tasks = Store.ephemeral().create().tasks
    >>> reproduce = tasks.add("reproduce it")
    >>> fix = tasks.add("fix it", depends_on=[reproduce])
    >>> [task.title for task in tasks.ready]
    ['reproduce it']
    >>> _ = tasks.update(reproduce, state="completed")
    >>> [task.title for task in tasks.ready], len(tasks)
    (['fix it'], 2)
    """

    def __init__(self, live: Live) -> None:
        """Use `Session.tasks`."""
        self._live = live

    def add(self, title: str, *, id: str | None = None, depends_on: Iterable[str | Task] = ()) -> Task:
        """Add a task that is ready when all it depends on are completed. Raises InvalidTransition when the id is taken
        or a dependency is unknown.

        >>> from turnlog import Store
        >>> Store.ephemeral().create().tasks.add("reproduce it", id="a").state
        'pending'
        """
        require_text("title", title)
        if id is not None:
            require_name("id", id)
        name = id or format_id(new_id())
        payload: dict[str, Any] = {"task": name, "title": title}
        needs = ids_of("depends_on", depends_on)
        if needs:
            payload["depends_on"] = needs
        with self._live.order:
            self._live.record("task.added", payload)
            return self[name]

    def update(
        self,
        task: str | Task,
        *,
        state: str | None = None,
        title: str | None = None,
        depends_on: Iterable[str | Task] | None = None,
    ) -> Task:
        """Change a task: its state is pending, running, completed, failed or cancelled. Raises InvalidTransition when
        that is not possible, such as running before what it depends on is completed, or a cycle.

        >>> from turnlog import Store
        >>> tasks = Store.ephemeral().create().tasks
        >>> first = tasks.add("first", id="a")
        >>> second = tasks.add("second", id="b", depends_on=["a"])
        >>> tasks.update("a", depends_on=["b"])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        turnlog.errors.InvalidTransition: task 'a' would depend on itself (session ...)
        """
        payload: dict[str, Any] = {"task": id_of("task", task), "state": state, "title": title}
        payload = {name: value for name, value in payload.items() if value is not None}
        if depends_on is not None:
            payload["depends_on"] = ids_of("depends_on", depends_on)
        with self._live.order:
            self._live.record("task.updated", payload)
            return self[payload["task"]]

    @property
    def ready(self) -> tuple[Task, ...]:
        """The pending tasks whose dependencies are all completed, in the order they were added."""
        found: tuple[Task, ...] = self._live.select(lambda state: state.ready)
        return found

    def __getitem__(self, name: str) -> Task:
        """Return a task. Raises NotFound."""
        task = self._live.current().tasks.get(name)
        if task is None:
            raise NotFound(f"there is no task {name!r}", session=self._live.session.id)
        return task

    def __iter__(self) -> Iterator[Task]:
        """Iterate over the tasks in the order they were added."""
        found: tuple[Task, ...] = self._live.select(lambda state: tuple(state.tasks.values()))
        return iter(found)

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self._live.current().tasks)


def propose(live: Live, content: Any, *, name: str | None, by: str | None) -> Plan:
    """Propose a new plan; see `Session.plan`.

    >>> from turnlog import Store
    >>> propose(Store.ephemeral().create()._keeper(), "1. fix", name="p1", by=None)
    <Plan p1 version 1>
    """
    plan = Plan(live, name or format_id(new_id()), 1, content)
    payload = {"plan": plan.id, "version": 1, "content": content} | ({} if by is None else {"by": by})
    with live.order:
        live.record("plan.proposed", payload)
    return plan


def current(live: Live) -> Plan | None:
    """Return the plan that holds now; see `Session.current_plan`.

    >>> from turnlog import Store
    >>> current(Store.ephemeral().create()._keeper()) is None
    True
    """
    record = live.current().plan
    if record is None:
        return None
    fields = live.fields(live.session.event(record.ordinal))
    return None if fields is None else Plan(live, record.id, record.version, fields.get("content"))


def grant(live: Live, tool: str, pattern: str | None, *, by: str | None, name: str | None) -> Grant:
    """Note an allowance; see `Session.grant`.

    >>> from turnlog import Store
    >>> grant(Store.ephemeral().create()._keeper(), "bash", "git *", by="user", name="g1").tool
    'bash'
    """
    require_name("tool", tool)
    payload = {"grant": name or format_id(new_id()), "tool": tool, "pattern": pattern, "by": by}
    with live.order:
        live.record("permission.granted", {key: value for key, value in payload.items() if value is not None})
        return live.current().grants[str(payload["grant"])]
