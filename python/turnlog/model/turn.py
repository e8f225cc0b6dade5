"""A turn: one goal, from its start to exactly one outcome.

Owns: the start, the outcome, input that arrives meanwhile, the wish to stop. Invariants: one turn of a session runs at
a time; a turn is completed only by `complete`, never because a block was left; when a turn ends otherwise, the calls
that had not been started are cancelled, and what still runs may still bring its outcome. Must not know: what a step or
a tool call does, who waits for a turn (line.py).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from turnlog.arguments import require_name, require_text
from turnlog.errors import Closed, InvalidInput, InvalidTransition, TurnlogError
from turnlog.ids import format_id, new_id
from turnlog.model.calling import interrupted_by, was_cancelled
from turnlog.model.calls import told
from turnlog.model.line import Worker, wait_in_line
from turnlog.model.step import Step, begin_step
from turnlog.model.tools import ToolCall, propose

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

    from turnlog.model.live import Live
    from turnlog.state.records import Call
    from turnlog.state.state import State

REFUSE, QUEUE = "refuse", "queue"
_LEFT = "the block was left without complete()"


class Turn:
    """One goal; made by `Session.turn`. Thread-safe.

    As a `with` block it ends when the block does: with the outcome it was given; failed, with the error, when an
    exception leaves the block; aborted by KeyboardInterrupt, SystemExit, GeneratorExit, a cancellation or because the
    session closes, and also when the block is left without any outcome: nothing said that the goal was handled.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> with session.turn("Why does test_retry fail?") as turn:
    ...     with turn.step(context=[{"role": "user", "content": "Why does test_retry fail?"}]) as step:
    ...         step.complete("The retry sleeps too long.", usage={"input": 12, "output": 7})
    ...     turn.complete()
    >>> turn.outcome, session.state.usage.output
    ('completed', 7)
    """

    def __init__(self, live: Live, name: str, input: Any, settings: dict[str, Any]) -> None:
        """Use `Session.turn`."""
        self.id = name
        self.input = input
        self.cancelled = threading.Event()
        self._live = live
        self._settings = settings

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the session, with those that were given for this turn."""
        return {**self._live.current().settings, **self._settings}

    @property
    def outcome(self) -> str | None:
        """completed, aborted, failed or interrupted; None while the turn runs."""
        state = self._live.current()
        if state.turn is not None and state.turn.id == self.id:
            return None
        ended = state.recent_turns.get(self.id)
        return self._outcome if ended is None else ended.state

    _outcome: str | None = None

    # -- what happens in it ----------------------------------------------------------------------------------------

    def step(
        self, context: Iterable[Any] | None = None, *, model: str | None = None, effort: str | None = None
    ) -> Step:
        """Begin a model call that is sent `context`: a list of messages, in whatever form the provider takes.

        Only what is new in it is stored, see `Step.context`. `model` and `effort` are by default the turn's. Raises
        InvalidTransition while another step runs, InvalidPayload for a message that is no JSON.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create(model="provider/model-x").turn("hello")
        >>> with turn.step(context=[{"role": "user", "content": "hello"}]) as step:
        ...     step.complete({"role": "assistant", "content": "hi"}, stop_reason="end_turn")
        >>> step.context()
        [{'content': 'hello', 'role': 'user'}]
        """
        settings = self.settings
        return begin_step(
            self._live,
            self.id,
            context,
            model=settings.get("model") if model is None else model,
            effort=settings.get("effort") if effort is None else effort,
        )

    def tool_call(
        self,
        name: str,
        arguments: Any = None,
        *,
        call_id: str | None = None,
        effect: str = "external",
        by: str | None = None,
    ) -> ToolCall:
        """Return the tool call that the model asks for; (turn, call id) names it, and asking again gives the same one.

        `effect` says what a repetition would do: "external" (the default) is never run again when nobody knows how it
        ended, "idempotent" and "none" may be. Without `call_id` a new one is made. Raises Conflict when the call was
        proposed with another tool or arguments, InvalidTransition when the turn does not run.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("run the tests")
        >>> call = turn.tool_call("bash", {"cmd": "pytest -x"}, call_id="c1", effect="idempotent")
        >>> call.approve(by="user").run(lambda cmd: f"ran {cmd}")
        'ran pytest -x'
        """
        return propose(self._live, self.id, name, arguments, call_id=call_id, effect=effect, by=by)

    def call(self, call_id: str) -> ToolCall:
        """Return a call of this turn that was proposed. Raises NotFound.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("run the tests")
        >>> _ = turn.tool_call("bash", {"cmd": "pytest -x"}, call_id="c1")
        >>> turn.call("c1").arguments
        {'cmd': 'pytest -x'}
        """
        return self._live.session.call(self.id, call_id)

    def steer(self, input: Any, *, by: str | None = None) -> str:
        """Queue input for the running turn, from any thread; return its id. The turn meets it at its next
        `take_input`; what it never takes is left for the next turn. Raises InvalidTransition when the turn has ended.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("fix the test")
        >>> _ = turn.steer("do not touch the fixtures")
        >>> turn.take_input(), turn.take_input()
        (['do not touch the fixtures'], [])
        """
        payload = {"turn": self.id, "input_id": format_id(new_id()), "content": input}
        if by is not None:
            payload["by"] = by
        with self._live.order:
            self._live.ready()
            self._require_running("turn.input_queued")
            self._live.record("turn.input_queued", payload)
        return str(payload["input_id"])

    def take_input(self) -> list[Any]:
        """Return the input that waits, oldest first, and note that it was taken: call it where the turn can use it.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("fix the test")
        >>> turn.take_input()
        []
        """
        live = self._live
        with live.order:
            live.ready()
            self._require_running("turn.input_consumed")
            waiting = list(live.current().queued.values())
            read = [live.fields(live.session.event(item.ordinal)) or {} for item in waiting]
            found = [fields.get("content") for fields in read]
            if waiting:
                live.record_group([("turn.input_consumed", {"turn": self.id, "input_id": i.id}) for i in waiting])
        return found

    def cancel(self) -> None:
        """Ask whoever works on the turn to stop: sets `cancelled`, an Event to check or wait for; nothing is stored.

        The outcome is recorded by the block that sees it, with `abort`.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("fix the test")
        >>> turn.cancel()
        >>> turn.cancelled.wait(timeout=0)
        True
        """
        if not self.cancelled.is_set():  # a handler of a signal may be here, inside a wait for it, which holds its lock
            self.cancelled.set()

    def _require_running(self, what: str) -> None:
        running = self._live.current().turn
        if running is None or running.id != self.id:
            message = f"{what}: turn {self.id!r} does not run"
            raise InvalidTransition(message, "turn_not_running", session=self._live.session.id)

    # -- its end ---------------------------------------------------------------------------------------------------

    def complete(self) -> None:
        """Note that the goal was handled. Raises InvalidTransition when a step or a tool call is still open, or when
        the turn has ended.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("hello")
        >>> turn.complete()
        >>> turn.complete()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        turnlog.errors.InvalidTransition: turn.completed: turn '...' is completed (session ...)
        """
        self._end("turn.completed", {})

    def abort(self, reason: str | None = None) -> None:
        """Note that it was stopped on request; calls that were not started are cancelled. Raises InvalidTransition.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("hello")
        >>> turn.abort("the user pressed escape")
        >>> turn.outcome
        'aborted'
        """
        require_text("reason", reason, optional=True)
        self._end("turn.aborted", {} if reason is None else {"reason": reason})

    def fail(self, error: BaseException | str) -> None:
        """Note that an error ended it; calls that were not started are cancelled. Raises InvalidTransition.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("hello")
        >>> turn.fail("the provider is down")
        >>> turn.outcome
        'failed'
        """
        kept = told(error)
        self._end("turn.failed", {"error": kept})

    def _end(self, type: str, fields: dict[str, Any]) -> None:
        live, payload = self._live, {"turn": self.id, **fields}
        live.ready()
        while True:
            if type != "turn.completed":
                for call in live.select(self._not_started):
                    self._cancel_call(call, type)
            with live.order:
                live.check(type, payload)
                if type != "turn.completed" and live.select(self._not_started):
                    continue  # proposed since; such a call is cancelled without holding `order`
                live.record(type, payload)
                self._outcome = type.removeprefix("turn.")
                live.worker = None
                live.order.notify_all()
            live.paused()
            return

    def _not_started(self, state: State) -> list[Call]:
        """Return the calls of the running turn that nobody has begun to run."""
        if state.turn is None or state.turn.id != self.id:
            return []
        return [call for call in state.open_calls.values() if call.turn == self.id and call.standing == "not_started"]

    def _cancel_call(self, call: Call, type: str) -> None:
        payload = {"turn": self.id, "call_id": call.call_id, "reason": f"the turn was {type.removeprefix('turn.')}"}
        with self._live.book.entry(call.key).deciding:
            now = self._live.current().call(*call.key)
            if now is not None and now.standing == "not_started":
                self._live.record("tool.cancelled", payload, durability="buffered")  # the turn's end is durable

    def __enter__(self) -> Self:
        """Return the turn."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the outcome that fits the way the block was left, if it has none."""
        if error is None:
            if self.outcome is None:
                self.abort(_LEFT)
            return
        try:
            if self.outcome is not None:
                return
            if was_cancelled(error) or (self._live.closed and isinstance(error, Closed)):
                self.abort(interrupted_by(error, self._live.ended_by))
            else:
                self.fail(error)
        except Exception as cause:  # noqa: BLE001 - the exception that left the block is the one to see
            error.add_note(f"turnlog could not record the outcome of turn {self.id}: {cause}")

    def __repr__(self) -> str:
        """Name the turn and its state."""
        return f"<Turn {self.id} {self.outcome or 'running'}>"


def begin(
    live: Live,
    input: Any,
    *,
    name: str | None,
    on_running: str,
    timeout_ms: int | None,
    settings: dict[str, Any],
    worker: Worker | None = None,
) -> Turn:
    """Start a turn, now or when those before it have ended; see `Session.turn`. `worker`: the calling thread.

    >>> from turnlog import Store
    >>> live = Store.ephemeral().create()._keeper()
    >>> begin(live, "hello", name="t1", on_running="refuse", timeout_ms=None, settings={})
    <Turn t1 running>
    """
    if on_running not in (REFUSE, QUEUE):  # a tuple: what cannot be in a set is refused, too
        raise InvalidInput(f"on_running is {REFUSE!r} or {QUEUE!r}, not {on_running!r}", session=live.session.id)
    if name is not None:
        require_name("id", name)
    worker = worker or Worker()
    turn = Turn(live, name or format_id(new_id()), input, settings)
    payload: dict[str, Any] = {"turn": turn.id}
    if input is not None:
        payload["input"] = input
    if settings:
        payload["settings"] = settings
    with live.order:
        live.ready()
        if on_running == QUEUE:
            wait_in_line(live, turn.id, timeout_ms, worker)
        elif live.waiting:
            message = f"turn.started {turn.id!r} while {len(live.waiting)} others wait for their turn"
            raise InvalidTransition(message, "turn_order", session=live.session.id)
        try:
            if name is not None:
                live.turn_ids.refuse_used(name, live.session, live.current())
            live.record("turn.started", payload)
            live.turn, live.worker = turn, worker
        except BaseException as error:
            _end_unborn(live, turn, error)
            raise
    return turn


def _end_unborn(live: Live, turn: Turn, error: BaseException) -> None:
    """End a turn that nobody gets: an interrupt came when its start was in the log already."""
    if isinstance(error, TurnlogError):
        return
    try:
        if live.current().turn is not None and turn.outcome is None:
            turn.abort(f"{interrupted_by(error, live.ended_by)} as it began")
    except Exception as cause:  # noqa: BLE001 - the exception that stopped the start is the one to see
        error.add_note(f"turnlog could not end turn {turn.id}: {cause}")
