"""The part of a `Session` that knows what came before: what a resume found, and the history for a model provider.

Owns: the names and examples of that part of the API. Invariant: importing this costs next to nothing. Must not know:
how a session is resumed, how a history is made.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog.history.history import History
    from turnlog.log.appender import Appender
    from turnlog.model.live import Live
    from turnlog.model.plans import Plan
    from turnlog.model.session_files import SessionFiles
    from turnlog.model.step import Step
    from turnlog.model.turn import Turn
    from turnlog.model.turn_view import TurnView
    from turnlog.resume.recovered import Recovery
    from turnlog.session import Session
    from turnlog.state.state import State
    from turnlog.store import Store


CREATING = threading.Lock()
"""Held while a session gets its state keeper."""


class SessionHistory:
    """What a `Session` tells of its past."""

    recovery: Recovery | None = None
    """What `Store.resume` found and did; None for a session that was not resumed."""

    _on_damage: str = "raise"
    """What readers of the model do where events are lost: "skip" once the damage was accepted by a resume."""

    _snapshot_ordinal: int = 0
    """Up to which event the index holds the session's state, as far as is known here."""

    _id: str
    _store: Store
    _live: Live | None = None
    _files: SessionFiles | None = None
    _appender: Appender | None

    @property
    def id(self) -> str:
        """The session's id, a UUID: it never changes."""
        return self._id

    def _kept(self) -> Live | None:
        """Return the state keeper if there is one; unlike `_keeper`, this makes none (for the shutdown).

        >>> from turnlog import Store
        >>> Store.ephemeral().create()._kept() is None
        True
        """
        return self._live

    def _doubt(self, error: BaseException) -> None:
        """Note that an interrupt, or whatever else turnlog did not raise, left an append: its event may be there."""
        from turnlog.errors import TurnlogError

        if self._live is not None and not isinstance(error, TurnlogError):
            self._live.doubt()

    def _stop_writing(self) -> None:
        """Release the lock, and stay open for reading."""
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.close()
        if self._live is not None:
            self._live.doubt()

    def _keep_state(self) -> None:
        """Store the state in the index (for `close`), so that a resume has little to fold, unless it has little anyway.

        >>> from turnlog import Store
        >>> Store.ephemeral().create()._keep_state()
        """
        if self._live is None:
            return
        from typing import cast

        from turnlog.errors import TurnlogError
        from turnlog.resume.snapshots import CLOSING_EVENTS, keep

        session = cast("Session", self)  # the one class that has these methods
        try:
            keep(self._store, session, every=CLOSING_EVENTS)
        except TurnlogError as error:
            self._store.index_error = error  # a snapshot is a shortcut: the log holds everything

    def _begin_with(self, state: State) -> State:
        """Keep a state that was folded already (for `Store.resume`); return the one that counts: a session whose state
        is kept here goes on with that one.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session._begin_with(session.state) is session.state
        True
        """
        from typing import cast

        from turnlog.model.live import Live

        with CREATING:
            if self._live is None:
                self._live = Live(cast("Session", self), state)
                return state
        return self._live.current()

    def _settled_ordinal(self) -> int:
        """Return the last ordinal that can be read now if nothing is lost: where the writer took over, or the head, or
        what the index saw synced beyond it; that alone where the end is lost, and that was accepted.

        >>> from turnlog import Store
        >>> Store.ephemeral().create()._settled_ordinal()
        0
        """
        from typing import cast

        from turnlog.errors import Damaged

        if self._appender is not None:
            return self._appender.opened_ordinal
        promised = self._promised_ordinal()  # first: the log may grow meanwhile
        try:
            return max(promised, cast("Session", self).log().head()[0])
        except Damaged:
            if self._on_damage == "raise":
                raise
            return promised

    def _promised_ordinal(self) -> int:
        """Return the last ordinal that the index saw synced, 0 when it does not say.

        >>> from turnlog import Store
        >>> Store.ephemeral().create()._promised_ordinal()
        0
        """
        from typing import cast

        session = cast("Session", self)
        witness = None if session.is_ephemeral else session._store._witness(session.id)  # noqa: SLF001 - its parts
        return 0 if witness is None else int(witness["ordinal"])

    @property
    def files(self) -> SessionFiles:
        """What the agent knows of the files it read and wrote, as far as the log holds it; see `SessionFiles`.

        The first use reads the log's newest snapshot of it. Raises Damaged, StorageError, Closed.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create(cwd=".")
        >>> with open("notes.txt", "w") as file:
        ...     _ = file.write("one")
        >>> session.files.mark_read("notes.txt")
        >>> with open("notes.txt", "w") as file:
        ...     _ = file.write("two")
        >>> session.files.has_external_modification("notes.txt")
        'modified'
        """
        if self._files is None:
            from typing import cast

            from turnlog.model.session_files import SessionFiles

            live = cast("Session", self)._keeper()
            with CREATING:
                if self._files is None:
                    self._files = SessionFiles(live)
        return self._files

    def step(self, turn: str, step: str) -> Step:
        """Return a step of any turn, also of one that another process made: what it was sent, and how it ended.

        Raises NotFound, Damaged, StorageError.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> with session.turn("hello", id="t1") as turn:
        ...     turn.step(context=["hello"]).complete("hi")
        ...     turn.complete()
        >>> session.step("t1", "s1").context(), session.step("t1", "s1").outcome
        (['hello'], 'completed')
        """
        from typing import cast

        from turnlog.model.step import find_step

        return find_step(cast("Session", self)._keeper(), turn, step)

    @property
    def current_turn(self) -> Turn | None:
        """The turn that runs now, where this process began it: to steer or cancel it from anywhere. None when none
        runs, and for a turn of another process: a resume interrupts it, so that nobody goes on with it.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> with session.turn("hello") as turn:
        ...     session.current_turn is turn
        ...     turn.complete()
        True
        >>> session.current_turn is None
        True
        """
        from typing import cast

        live = cast("Session", self)._keeper()
        live.current()
        return live.running_turn()

    def turns(self, *, reverse: bool = False, on_damage: str | None = None) -> Iterator[TurnView]:
        """Iterate over the turns of the log as it stands, whoever began them: each with input, outcome, steps and
        calls; see `TurnView`. The running one has no outcome yet. `reverse` gives the newest first.

        Read lazily, one turn at a time. Raises InvalidInput, Damaged (`on_damage="skip"` goes on, which is the default
        once the session was resumed with `accept_damage=True`), StorageError.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> for goal in ("reproduce it", "fix it"):
        ...     with session.turn(goal) as turn:
        ...         turn.step().complete("done")
        ...         turn.complete()
        >>> for turn in session.turns(reverse=True):
        ...     print(turn.input, turn.outcome, [step.response for step in turn.steps()])
        fix it completed ['done']
        reproduce it completed ['done']
        """
        from typing import cast

        from turnlog.arguments import require_damage
        from turnlog.model.turn_view import turns_of

        require_damage(on_damage, optional=True)
        return turns_of(cast("Session", self)._keeper(), reverse=reverse, on_damage=on_damage)

    @property
    def current_plan(self) -> Plan | None:
        """The plan that holds now, to be approved or revised; None when there is none, or its content is lost.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> _ = session.plan("1. reproduce 2. fix")
        >>> session.current_plan.approve(by="user").content
        '1. reproduce 2. fix'
        """
        from typing import cast

        from turnlog.model.plans import current

        return current(cast("Session", self)._keeper())

    def _save_files(self) -> None:
        """Write the file-state cache into the log (for `close`), if the session is being written."""
        if self._files is not None and self._appender is not None:
            self._files.save()

    def history(self, shape: str = "anthropic", *, on_damage: str | None = None) -> History:
        """Return the messages that a model provider accepts, read lazily: every tool call has exactly one result.

        `shape` is anthropic, openai_responses or openai_chat. A call without a result in the log has one that says
        that it was not run, or that its outcome is unknown. Raises HistoryInvalid for another shape, and while it is
        read where no valid history can be made; Damaged at a lost event, unless `on_damage` is "skip", which is the
        default once the session was resumed with `accept_damage=True`: the history is then made of what is left.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> turn = session.turn("list the files")
        >>> _ = turn.tool_call("bash", {"cmd": "ls"}, call_id="c1")
        >>> [message["role"] for message in session.history("openai_chat")]
        ['user', 'assistant', 'tool']
        """
        from contextlib import suppress
        from typing import cast

        from turnlog.arguments import require_damage
        from turnlog.errors import Damaged
        from turnlog.history.history import History, PastDamage
        from turnlog.log.losses import newest_lost

        require_damage(on_damage, optional=True)
        session = cast("Session", self)  # the one class that has these methods
        how = on_damage or self._on_damage
        live, keeper = self._live, session._keeper()

        def lost_ordinal() -> int:
            if how == self._on_damage:
                return keeper.current().lost_ordinal
            return newest_lost(session.log(), self._promised_ordinal())

        state: State | None = None
        with suppress(Damaged):  # the history comes to it itself, or passes it over
            state = live.current() if live is not None and how == self._on_damage else None
        return History(
            PastDamage(session.events) if how == "skip" else session,
            shape,
            state=state,
            lost_ordinal=lost_ordinal,
            payload=keeper.payload,
        )
