"""The session's state in memory, kept current: what a `Session` makes when the model is asked for the first time.

Owns: the order of an append (ordinal, durability, reducer, subscribers), the check before it, and what a restart must
find out again. Invariants: the state is reduced in the order of the ordinals, whichever thread comes first; when an
append of this process returns, the state holds it; a listener is told of nothing that is not in the log. Locks, always
taken in this order: `order` (what follows the state machines of session, turn, step, plan and task), the lock of one
tool call, `_guard` (the state, never held while waiting for a disk). Must not know: what a turn or a tool call is.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from turnlog import _core, events
from turnlog.arguments import require_function
from turnlog.artifacts.offload import offload, resolve
from turnlog.context.context import ContextTracker
from turnlog.context.read import NearbyEvents
from turnlog.decoding import decode
from turnlog.errors import Closed, InvalidInput, InvalidPayload, TurnlogError
from turnlog.ids import new_id, now_us, parse_id
from turnlog.memory import MemoryArtifacts
from turnlog.model.calls import CallBook
from turnlog.model.turn_ids import TurnIds
from turnlog.reference import Stored
from turnlog.state.reduce import RULES, check_transition, fold, lose, reduce, reduce_ephemeral
from turnlog.state.selectors import Watcher
from turnlog.state.state import State
from turnlog.state.transitions import CALL, NOT_EXECUTED, STARTED
from turnlog.store_model import in_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from turnlog._core import Event, Receipt
    from turnlog.artifacts.artifacts import ArtifactStore
    from turnlog.model.line import Worker
    from turnlog.model.turn import Turn
    from turnlog.session import Session

_PATIENCE_S = 0.05  # how long an append waits for an earlier one's thread before it looks into the log itself
_CALL_ENDS = frozenset({*CALL[STARTED], "tool.denied", "tool.resolved"}) - {"tool.outcome_unknown"}
_DEEP = frozenset(type for type, rule in RULES.items() if rule.fields is None or "usage" in rule.fields)
"""Types of whose payload the state keeps parts, or numbers: they are reduced in the form that a reader finds."""

_SETTINGS = frozenset({"session.created", "session.configured", "session.forked"})

_NEW_WORK = frozenset({"turn.started", "turn.input_queued", "step.started", "tool.proposed", "tool.started"})
"""What a session that closes takes no more; what ends something is taken until the writer is gone."""


class Live:
    """The state of one session and the way to change it. Thread-safe."""

    def __init__(self, session: Session, state: State | None = None) -> None:
        """Begin with `state`, such as a snapshot; the log after its ordinal is folded onto it when it is asked for."""
        self.session = session
        self.order = threading.Condition(threading.RLock())
        self.waiting: list[object] = []  # who asked for a turn while another one ran, first come first
        self.turn: Turn | None = None  # the latest one that this process began
        self.worker: Worker | None = None  # who began the running turn; None if another process did
        self.book = CallBook()
        self.turn_ids = TurnIds()
        self.known_from: int | None = None  # `finished` knows every call of a turn that began after this ordinal
        self.finished: dict[tuple[str, str], int] = {}  # of the running turn: call -> ordinal of its outcome
        self.closed = False
        self.ended_by: str | None = None  # the name of the signal that closes
        self.paused: Callable[[], None] = _nothing  # to be called when a turn has ended
        self.artifacts: ArtifactStore | MemoryArtifacts = (
            MemoryArtifacts() if session.is_ephemeral else session.artifacts
        )
        self._contexts: ContextTracker | None = None
        self._state = State(session.id) if state is None else state
        self._watcher = Watcher(self._state)
        self._guard = threading.RLock()
        self._reduced = threading.Condition(self._guard)
        self._waiters = 0
        self._pending: dict[int, tuple[str, int, object]] = {}  # came before their predecessors
        self._torn = False  # an exception such as KeyboardInterrupt came while the state was being changed
        self._doubted = False  # an append was interrupted: the log may hold an event that was not handed over
        self._following = False  # this process writes the session, so every event passes through `take`
        self._telling = threading.Lock()
        self._untold = False

    # -- reading ---------------------------------------------------------------------------------------------------

    def current(self) -> State:
        """Return the state, caught up with the log. Raises Damaged, StorageError, Closed."""
        if not self._following or self._torn:
            with self._guard:
                if self._doubted:  # what the interrupted append left is an event for good, before anything is decided
                    self.session.flush()
                    self._doubted = False
                if self._torn:
                    self._fold_again()
                self._fill()
                self._following = self.session.is_writing
        return self._state

    def check(self, type: str, payload: Mapping[str, Any]) -> None:
        """Raise InvalidTransition when an event is not legal now."""
        with self._guard:
            check_transition(self._state, type, payload)

    def select(self, selector: Callable[[State], Any]) -> Any:
        """Return what a function finds in the state while nothing changes it."""
        state = self.current()
        with self._guard:
            return selector(state)

    def watch(self, selector: Callable[[State], Any], callback: Callable[[Any, Any], Any], *, now: bool) -> Any:
        """Call back when the selected part of the state has changed; see `Watcher.subscribe`."""
        require_function("selector", selector, optional=False)
        self.current()

        def selected(state: State) -> Any:
            with self._guard:
                return selector(state)

        return self._watcher.subscribe(selected, callback, now=now)

    def stored_form(self, type: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the payload with its large strings put aside; settings stay whole, for the state holds them."""
        if type in _SETTINGS:
            return in_place(payload)
        if type == "turn.started" and payload.get("settings"):
            payload = {**payload, "settings": Stored(in_place(payload["settings"]))}
        form: dict[str, Any] = offload(payload, self.session.offload_bytes, put=self.artifacts.put)
        return form

    def payload(self, event: Event) -> Any:
        """Return the payload of an event as it was before its large strings were put aside."""
        stored = event.payload
        return stored if event.is_raw else resolve(stored, self.artifacts.read)

    def fields(self, event: Event) -> dict[str, Any] | None:
        """Return the same as today's version has it; None when this version does not understand it."""
        return events.understood(event.type, self.payload(event))

    def contexts(self) -> ContextTracker:
        """Return what is known of the contexts that steps were sent; the caller holds `order`."""
        if self._contexts is None:
            state, session = self.current(), self.session
            step = state.step or state.last_step
            self._contexts = ContextTracker(
                NearbyEvents(session.events),
                put=self.artifacts.put,
                fetch=self.artifacts.read,
                limit=session.offload_bytes,
                last=(step.context_ordinal or None) if step is not None else None,
            )
        return self._contexts

    # -- appending -------------------------------------------------------------------------------------------------

    def record(
        self, type: str, payload: dict[str, Any], *, durability: str | None = None, checked: bool = True
    ) -> Receipt:
        """Append an event if it is legal; long strings become artifacts. Raises InvalidTransition, and as `append`.

        The caller holds the lock that keeps the answer of the check true until the event is reduced. `checked=False`
        is for what has happened already, and must be kept whatever the state says.
        """
        self.ready()
        if self.closed and type in _NEW_WORK:
            raise Closed(f"{type}: the session is closing", session=self.session.id)
        payload = events.stamped(type, payload)
        if checked:
            _require_valid(type, payload)
            self.check(type, payload)
        known = events.TYPES.get(type)
        level = (events.DURABLE if known is None else known.durability) if durability is None else durability
        return self.session.append(type, self.stored_form(type, payload), durability=level)

    def record_group(self, items: list[tuple[str, dict[str, Any]]]) -> list[Receipt]:
        """Append several events durably and together or not at all; the caller has checked that they are legal."""
        self.ready()
        stamped = [(type, events.stamped(type, payload)) for type, payload in items]
        for type, payload in stamped:
            _require_valid(type, payload)
        stored = [(type, self.stored_form(type, payload)) for type, payload in stamped]
        return self.session.append_many(stored, atomic=len(items) > 1)

    def doubt(self) -> None:
        """Look into the log before the state is believed again: an append did not come back."""
        self._doubted, self._following = True, False

    def ready(self) -> None:
        """Become the session's writer and catch up, so that a check answers for the log's end. Raises Locked, ..."""
        if not self._following:
            self.session.open_for_writing()
            self.current()

    def take(self, receipt: Receipt, type: str, payload: object) -> None:
        """Reduce an event that has just been acknowledged, after all that come before it; then tell the listeners."""
        with self._guard:
            self._accept(receipt, type, payload)
        self._tell()

    def take_many(self, receipts: list[Receipt], items: list[tuple[str, object, bytes | None, bool]]) -> None:
        """Do the same for events appended together; no listener sees a part of them."""
        with self._guard:
            for receipt, (type, payload, _id, _raw) in zip(receipts, items, strict=True):
                self._accept(receipt, type, payload)
        self._tell()

    def _accept(self, receipt: Receipt, type: str, payload: object) -> None:
        ordinal, state = receipt.ordinal, self._state
        if self._torn:
            self._fold_again()
        if type in _DEEP and isinstance(payload, dict):
            payload = _as_read(type, payload)
        if ordinal == state.ordinal + 1 and not self._pending:
            self._reduce(ordinal, type, receipt.time_us, payload)
            if self._waiters:
                self._reduced.notify_all()
        elif ordinal > state.ordinal:
            self._pending[ordinal] = type, receipt.time_us, payload
            self._settle(ordinal)

    def show(self, type: str, payload: object, event_id: str | bytes | None) -> Receipt:
        """Give an event to the listeners only; it is never stored, so its receipt has the ordinal 0.

        Raises InvalidPayload, InvalidInput (no such ephemeral type).
        """
        known = events.TYPES.get(type)
        if known is not None and known.durability != events.EPHEMERAL:
            raise InvalidInput(f"{type} is part of the history and cannot be ephemeral", session=self.session.id)
        if not isinstance(payload, dict):
            raise InvalidPayload(f"the payload of an ephemeral event is an object, not {payload.__class__.__name__}")
        digest = _core.digest(_core.canonical(payload))
        time_us = now_us()
        with self._guard:
            reduce_ephemeral(self._state, type, time_us, payload)
        self._tell()
        return _core.Receipt(0, new_id() if event_id is None else parse_id(event_id), digest, time_us, False)

    def running_turn(self) -> Turn | None:
        """Return the turn that this process began and that has not ended; takes no lock."""
        turn, running = self.turn, self._state.turn
        return turn if turn is not None and running is not None and running.id == turn.id else None

    def close(self, ended_by: str | None = None) -> None:
        """Take no new work, ask the running turn to stop, wake everybody who waits for a turn: there will be none."""
        self.closed, self.ended_by = True, ended_by or self.ended_by
        if (running := self.running_turn()) is not None:
            running.cancel()
        with self.order:
            self.order.notify_all()

    # -- reducing --------------------------------------------------------------------------------------------------

    def _reduce(self, ordinal: int, type: str, time_us: int, payload: object) -> None:
        self._torn = True
        reduce(self._state, type, ordinal, time_us, payload)
        self._torn = False
        if type in _CALL_ENDS:
            self._note(type, payload, ordinal)
        elif type == "turn.started":
            self.finished.clear()

    def _note(self, type: str, payload: object, ordinal: int) -> None:
        fields = events.understood(type, payload)
        if fields is not None and not (type == "tool.resolved" and fields.get("outcome") == NOT_EXECUTED):
            self.finished.setdefault((str(fields.get("turn")), str(fields.get("call_id"))), ordinal)

    def _settle(self, ordinal: int) -> None:
        """Reduce up to `ordinal`: wait for the threads of earlier events, or read what they never handed over."""
        if not self._following:
            self._fill()
            self._following = self.session.is_writing
        while self._drain() < ordinal:
            self._waiters += 1
            arrived = self._reduced.wait(_PATIENCE_S)
            self._waiters -= 1
            if not arrived and self._drain() < ordinal:
                try:
                    self._fill()  # an appending thread was interrupted before it could hand its event over
                except TurnlogError:  # who reads the state meets the same error; the append itself was acknowledged
                    self._following = False
                    return
                if self._state.ordinal < ordinal and not self.session.is_writing:
                    return

    def _drain(self) -> int:
        state, pending = self._state, self._pending
        reduced = False
        while pending and (found := pending.pop(state.ordinal + 1, None)) is not None:
            type, time_us, payload = found
            self._reduce(state.ordinal + 1, type, time_us, payload)
            reduced = True
        if reduced:
            self._reduced.notify_all()
        return state.ordinal

    def _fill(self) -> None:
        """Fold what the log has beyond the state."""
        state, is_first = self._state, self.known_from is None
        last = self.session._settled_ordinal() if is_first else 0
        found = self.session.events(after=state.ordinal, on_damage=self.session._on_damage)
        fold(found if is_first else self._noted(found), state)
        if is_first:
            lose(state, last)
            self.known_from = state.ordinal
        for ordinal in [ordinal for ordinal in self._pending if ordinal <= state.ordinal]:
            del self._pending[ordinal]
        self._drain()

    def _fold_again(self) -> None:
        """Take the state from the log, which tells of no loss at its end, into the same object: callers hold it."""
        fresh = State(self.session.id, live=self._state.live)
        lose(fold(self.session.events(on_damage=self.session._on_damage), fresh), self._state.lost_ordinal)
        for name in State.__struct_fields__:
            setattr(self._state, name, getattr(fresh, name))
        self._torn = False

    def _noted(self, found: Iterable[Event]) -> Iterator[Event]:
        """Pass events on, and do what `_reduce` does beside the reducer."""
        for event in found:
            if event.type in _CALL_ENDS and not event.is_raw:
                self._note(event.type, event.payload, event.ordinal)
            yield event

    def _tell(self) -> None:
        """Call the listeners, outside the locks, in one thread at a time; a change meanwhile makes another round."""
        self._untold = self._watcher.has_listeners
        while self._untold and self._telling.acquire(blocking=False):
            try:
                self._untold = False
                self._watcher.notify()
            finally:
                self._telling.release()


def _nothing() -> None:
    """Do nothing: nobody keeps anything that a pause would save."""


def _require_valid(type: str, payload: dict[str, Any]) -> None:
    context = payload.get("context")
    events.require_valid(type, {**payload, "context": context.value} if isinstance(context, Stored) else payload)


def _as_read(type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload with those members as a reader finds them that the state keeps, or counts with."""
    if RULES[type].fields is None:
        return dict(decode(_core.canonical(payload)))
    return {**payload, "usage": decode(_core.canonical(payload.get("usage")))}
