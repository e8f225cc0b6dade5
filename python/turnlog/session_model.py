"""The part of a `Session` that knows what sessions are about: state, settings, turns, plans, tasks, permissions.

Owns: the names and examples of that part of the API. Invariants: importing this costs next to nothing, since the model
is loaded when it is asked for the first time; what a method here appends is legal in the session's state, or it raises
InvalidTransition and nothing is written. Must not know: how a log is written, how a state is reduced.
"""

from __future__ import annotations

from turnlog.arguments import id_of, listed_texts, require_event, require_text
from turnlog.errors import InvalidPayload, NotFound
from turnlog.session_history import CREATING, SessionHistory
from turnlog.settings import OF_TURN, checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar, Unpack

    from turnlog._core import Event, Receipt
    from turnlog.artifacts.artifacts import ArtifactStore
    from turnlog.log.appender import Appender
    from turnlog.memory import MemoryAppender, MemoryArtifacts
    from turnlog.model.live import Live
    from turnlog.model.plans import Plan, Tasks
    from turnlog.model.tools import ToolCall
    from turnlog.model.turn import Turn
    from turnlog.session import Session
    from turnlog.settings import Settings
    from turnlog.state.records import Grant
    from turnlog.state.selectors import Subscription
    from turnlog.state.state import State
    from turnlog.store import Store

    Part = TypeVar("Part")


class SessionModel(SessionHistory):
    """The session model's methods of a `Session`.

    They check what they append against `state`, and turn strings beyond the store's `offload_bytes` into artifacts.
    Each appends with the durability that EVENTS.md names for its type.
    """

    _store: Store
    _appender: Appender | None
    _memory: MemoryAppender | None

    def _keeper(self) -> Live:
        """Return the state keeper, made at the first call (for the session model).

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session._keeper().current() is session.state
        True
        """
        live = self._live
        if live is None:
            from typing import cast

            from turnlog.model.live import Live

            with CREATING:
                if self._live is None:
                    self._live = Live(cast("Session", self))  # the one class that has these methods
                live = self._live
        return live

    @property
    def state(self) -> State:
        """What the session's events have come to, kept current; read-only, and it changes as events are appended.

        The first use folds the log. Raises Damaged, StorageError, Closed.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create(title="flaky test", model="provider/model-x")
        >>> session.state.title, session.state.model, session.state.ordinal
        ('flaky test', 'provider/model-x', 1)
        """
        return self._keeper().current()

    def watch(
        self, selector: Callable[[State], Part], callback: Callable[[Part, Part], object], *, now: bool = False
    ) -> Subscription:
        """Call `callback(new, old)` in the appending thread whenever the part that `selector` returns has changed.

        It is called after the event behind the change has the durability it was appended with: of a durable append it
        hears once no crash can take it back; of a buffered one at once, before its sync, so a crash of the system (not
        of the process) may take back what it was told. `now` calls it at once. An exception of it is logged and kept
        from the appender. End it by `close()` or a `with` block.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> with session.watch(lambda state: state.title, lambda new, old: print("now", new)):
        ...     _ = session.rename("flaky test")
        now flaky test
        """
        subscription: Subscription = self._keeper().watch(selector, callback, now=now)
        return subscription

    def record(self, type: str, payload: dict[str, Any], *, durability: str | None = None) -> Receipt:
        """Append an event after checking its payload and whether it is legal now; long strings become artifacts.

        `durability` is by default that of the type in EVENTS.md. For what has no method of its own, such as messages
        and compactions. Raises InvalidPayload, InvalidTransition, and what `append` raises.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session.record("message.user", {"content": "Why does test_retry fail?"}).ordinal
        2
        >>> session.record("turn.completed", {"turn": "t1"})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        turnlog.errors.InvalidTransition: turn.completed: turn 't1' is absent (session ...)
        """
        require_text("type", type)
        given: object = payload  # whatever the annotation says
        if not isinstance(given, dict):
            message = f"the payload of {type} is an object, not {given.__class__.__name__}"
            raise InvalidPayload(message, session=self.id)
        live = self._keeper()
        with live.order:
            return live.record(type, payload, durability=durability)

    def payload(self, event: Event) -> Any:
        """Return an event's payload with the strings that became artifacts in their places.

        Raises Damaged, ArtifactNotFound, StorageError.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> receipt = session.record("message.user", {"content": "x" * 100_000})
        >>> len(session.payload(session.event(receipt.ordinal))["content"])
        100000
        """
        require_event("event", event)
        return self._keeper().payload(event)

    @property
    def is_writing(self) -> bool:
        """Whether this object writes the session now, so that nobody else can."""
        appender = self._appender
        return appender is not None and not appender.head()["poisoned"]

    @property
    def artifacts(self) -> ArtifactStore | MemoryArtifacts:
        """Where large parts of the session's payloads are kept: the store's artifacts, in memory for an ephemeral one.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session.artifacts.read(session.artifacts.put(b"a screenshot", media_type="image/png"))
        b'a screenshot'
        """
        return self._keeper().artifacts if self.is_ephemeral else self._store.artifacts

    @property
    def offload_bytes(self) -> int | None:
        """Strings of more bytes become artifacts; None: never."""
        return self._store.offload_bytes

    @property
    def is_ephemeral(self) -> bool:
        """Whether the session never touches the disk."""
        return self._memory is not None

    def open_for_writing(self) -> None:
        """Become the session's one writer now, rather than at the first append. Raises as `append`.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     session = store.session(store.create().id)
        ...     session.open_for_writing()
        ...     session.is_writing
        True
        """
        if self._appender is None:
            self._open_appender()

    def _open_appender(self) -> Appender:
        raise NotImplementedError  # `Session` has it

    # -- the session itself ----------------------------------------------------------------------------------------

    def configure(self, *, custom: Mapping[str, Any] | None = None, **settings: Unpack[Settings]) -> Receipt:
        """Change settings from here on: model, effort, cwd, permission_profile, permission_mode, tools, environment;
        None takes one back. What is not named stays.

        `custom` holds settings of your own; give them names that a later version will not take, such as `acme.theme`.
        All are kept whole in the log and in `state.settings`, whatever their size. Raises InvalidInput for any other
        keyword, and what `record` raises.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create(model="provider/model-x")
        >>> _ = session.configure(effort="high", custom={"acme.theme": "dark"})
        >>> session.state.settings == {"model": "provider/model-x", "effort": "high", "acme.theme": "dark"}
        True
        """
        return self.record("session.configured", checked(settings, custom))

    def rename(self, title: str | None) -> Receipt:
        """Give the session a title; None takes it away.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session.rename("flaky test").ordinal, session.state.title
        (2, 'flaky test')
        """
        return self.record("session.renamed", {"title": title})

    def tag(self, *tags: str, remove: tuple[str, ...] | list[str] = ()) -> Receipt:
        """Add tags, and take others away.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create(tags=["ci"])
        >>> _ = session.tag("flaky", remove=["ci"])
        >>> session.state.tags
        ('flaky',)
        """
        given = (("tags", list(tags)), ("tags_removed", listed_texts("remove", remove)))
        return self.record("session.tagged", {name: value for name, value in given if value})

    def archive(self, reason: str | None = None) -> Receipt:
        """Set the session aside: lists show it as archived; it stays as it is.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> _ = session.archive()
        >>> session.state.archived
        True
        """
        return self.record("session.archived", {} if reason is None else {"reason": reason})

    def unarchive(self) -> Receipt:
        """Take the session up again after `archive`.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> _ = session.archive(), session.unarchive()
        >>> session.state.archived
        False
        """
        return self.record("session.unarchived", {})

    # -- work ------------------------------------------------------------------------------------------------------

    def turn(
        self,
        input: Any = None,
        *,
        id: str | None = None,
        on_running: str = "refuse",
        timeout_ms: int | None = None,
        custom: Mapping[str, Any] | None = None,
        **settings: Unpack[Settings],
    ) -> Turn:
        """Begin a turn: one goal, and all that is done for it. Use it as a `with` block; see `Turn`.

        While another turn runs, `on_running="refuse"` raises InvalidTransition and `"queue"` waits: those who wait are
        served in the order they came, InvalidTransition after `timeout_ms`. `settings` and `custom` (as in `configure`)
        hold for this turn only: they are in its first event, not in `state`. An `id` that an earlier turn had raises
        InvalidTransition. Raises Closed when the session is closed meanwhile.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create(model="provider/model-x")
        >>> with session.turn("Why does test_retry fail?", effort="high") as turn:
        ...     turn.complete()
        >>> turn.outcome, turn.settings["effort"], session.state.effort
        ('completed', 'high', '')
        """
        from turnlog.model.turn import begin

        return begin(
            self._keeper(),
            input,
            name=id,
            on_running=on_running,
            timeout_ms=timeout_ms,
            settings=checked(settings, custom, others=OF_TURN),
        )

    def call(self, turn: str, call_id: str) -> ToolCall:
        """Return a tool call of any turn of the session, also of one that a dead process left behind.

        Raises NotFound.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> turn = session.turn("list the files", id="t1")
        >>> _ = turn.tool_call("bash", {"cmd": "ls"}, call_id="c1")
        >>> session.call("t1", "c1").state
        'proposed'
        """
        from turnlog.model.tools import find_call

        found = find_call(self._keeper(), turn, call_id)
        if found is None:
            raise NotFound(f"there is no tool call {call_id!r} of turn {turn!r}", session=self.id)
        return found

    def grant(self, tool: str, pattern: str | None = None, *, by: str | None = None, id: str | None = None) -> Grant:
        """Note an allowance for the rest of the session, such as `bash` for `git *`; what it means is the program's.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> grant = session.grant("bash", "git *", by="user")
        >>> session.state.grants[grant.id].pattern
        'git *'
        """
        from turnlog.model.plans import grant

        return grant(self._keeper(), tool, pattern, by=by, name=id)

    def revoke(self, grant: str | Grant, reason: str | None = None) -> Receipt:
        """Take an allowance back. Raises InvalidTransition when there is none.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> _ = session.revoke(session.grant("bash", "git *"))
        >>> session.state.grants
        {}
        """
        name = id_of("grant", grant)
        return self.record("permission.revoked", {"grant": name} | ({} if reason is None else {"reason": reason}))

    def plan(self, content: Any, *, id: str | None = None, by: str | None = None) -> Plan:
        """Propose a new plan; it replaces the current one. See `Plan` for approving and revising it.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> plan = session.plan("1. reproduce 2. fix").approve(by="user")
        >>> session.state.plan.version, session.state.plan.state
        (1, 'approved')
        """
        from turnlog.model.plans import propose

        return propose(self._keeper(), content, name=id, by=by)

    @property
    def tasks(self) -> Tasks:
        """The task graph: add, update, what is ready.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> fix = session.tasks.add("fix it")
        >>> [task.title for task in session.tasks.ready]
        ['fix it']
        """
        from turnlog.model.plans import Tasks

        return Tasks(self._keeper())
