"""One tool call as this process knows it: who runs it, what came out of it, and whether that is in the log.

Owns: the bookkeeping beside the state - locks, outcomes kept for a replay, results that could not be stored yet - and
the forms in which results and errors are kept. Invariants: one thread runs a call at a time; a result is never lost
while the process lives: if the log cannot take it, it waits here; what cannot be encoded is kept as its repr.
Must not know: approval, turns, how a function is called.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from msgspec.structs import replace

from turnlog import _core
from turnlog.arguments import require_text
from turnlog.decoding import decode
from turnlog.errors import InvalidInput, InvalidTransition, PayloadTooLarge, ToolFailed, TurnlogError
from turnlog.events import understood
from turnlog.ids import derive_id, format_id
from turnlog.reference import Reference
from turnlog.state.records import PREVIEW_CHARACTERS_MAX, Call
from turnlog.state.transitions import (
    CALL_TARGETS,
    COMPLETED,
    EFFECTS,
    EXTERNAL,
    FINAL_CALL_STATES,
    NOT_EXECUTED,
    RESOLVED,
)

if TYPE_CHECKING:
    from turnlog._core import Event
    from turnlog.model.live import Live
    from turnlog.state.state import State

ENTRIES_MAX = 1024
KEPT_BYTES_MAX = 64 * 1024  # of an outcome kept for a replay; larger ones are read from the log again
SUMMARY_CHARACTERS = 120
_ENDS = frozenset(type for type, state in CALL_TARGETS.items() if state in FINAL_CALL_STATES)
Key = tuple[str, str]


class Outcome(NamedTuple):
    """What a finished call came to: the value of a completed one, the error of a failed one."""

    completed: bool
    content: Any = None
    error: Any = None

    def value(self, call: Key, session: str) -> Any:
        """Return the value. Raises ToolFailed."""
        if self.completed:
            return self.content
        error = self.error if isinstance(self.error, dict) else {"message": str(self.error)}
        raise ToolFailed(
            f"tool call {call[1]!r} of turn {call[0]!r} failed: {error.get('type', 'error')}: {error.get('message')}",
            error=self.error,
            session=session,
        )


class CallEntry:
    """What a process keeps of a tool call; `deciding` is held while an event of the call is checked and appended."""

    __slots__ = ("__weakref__", "deciding", "identity", "kept", "running", "thread", "unsaved")

    def __init__(self) -> None:
        """Know nothing yet."""
        self.deciding = threading.RLock()
        self.running = threading.Lock()
        self.thread: int | None = None  # that runs the call; None while it runs elsewhere, between `start` and its end
        self.identity: tuple[str, bytes] | None = None  # name and digest of the arguments
        self.kept: tuple[bool, bytes] | None = None  # whether it completed, and its value or error in canonical form
        self.unsaved: tuple[str, dict[str, Any]] | None = None  # an outcome that the log did not take

    def try_enter(self, key: Key) -> bool:
        """Become the one who runs the call if nobody does. Raises InvalidTransition when it was begun by `start`."""
        if not self.running.acquire(blocking=False):
            if self.thread is None:
                raise _running(key)
            return False
        self.thread = threading.get_ident()
        return True

    def enter(self, key: Key) -> None:
        """Become the one who runs the call, after whoever does. Raises InvalidTransition where that would never end."""
        if not self.try_enter(key):
            if self.thread == threading.get_ident():
                raise _running(key)
            self.running.acquire()
            self.thread = threading.get_ident()

    def leave(self) -> None:
        """Let the next one in."""
        self.thread = None
        self.running.release()

    def keep(self, outcome: Outcome) -> None:
        """Keep a small outcome for a replay, in a form that nobody can change."""
        try:
            data = _core.canonical(outcome.content if outcome.completed else outcome.error)
        except InvalidInput:
            return
        if len(data) <= KEPT_BYTES_MAX:
            self.kept = outcome.completed, data

    def outcome(self) -> Outcome | None:
        """Return the outcome that was kept."""
        if self.kept is None:
            return None
        completed, data = self.kept
        value = decode(data)
        return Outcome(completed, value) if completed else Outcome(completed, error=value)


class CallBook:
    """The entries of a session's calls: one for each call that somebody holds, that ran lately, or that is unsaved."""

    def __init__(self) -> None:
        """Start empty."""
        self._guard = threading.Lock()
        self._entries: WeakValueDictionary[Key, CallEntry] = WeakValueDictionary()
        self._recent: deque[CallEntry] = deque(maxlen=ENTRIES_MAX)
        self.unsaved: set[CallEntry] = set()

    def runs_elsewhere(self) -> bool:
        """Tell whether another thread runs a call now: its outcome is still to be stored."""
        with self._guard:
            threads = {entry.thread for entry in self._entries.values()}
        return bool(threads - {None, threading.get_ident()})

    def entry(self, key: Key) -> CallEntry:
        """Return the one entry of a call."""
        entry = self._entries.get(key)
        if entry is None:
            with self._guard:
                entry = self._entries.get(key)
                if entry is None:
                    entry = self._entries[key] = CallEntry()
                self._recent.append(entry)
        return entry


def key_of(session: str, call: Key) -> str:
    """Return the idempotency key of a call: it follows from what names the call, so it can be found out again."""
    return format_id(derive_id("tool call", session, *call))


def is_of_namesake(state: State, call: Call) -> bool:
    """Tell whether a call is of an earlier turn that had the running turn's id: its outcome is not the new one's."""
    turn = state.turn
    return turn is not None and turn.id == call.turn and call.ordinal < turn.ordinal


def find_record(live: Live, key: Key) -> Call | None:
    """Return what is known of a call: from the state, or from the log when the state has let go of it."""
    state = live.current()
    call = state.call(*key)
    if call is not None and is_of_namesake(state, call):
        return None
    if call is not None or not state.calls_folded:
        return call
    turn = state.turn if state.turn is not None and state.turn.id == key[0] else state.recent_turns.get(key[0])
    if turn is not None and turn is state.turn and turn.ordinal > (live.known_from or 0):
        ordinal = live.finished.get(key)
        return None if ordinal is None else _ended(live, key, live.session.event(ordinal))
    after = 0 if turn is None else turn.ordinal
    found = live.session.events(after=after, types=_ENDS, on_damage=live.session._on_damage)
    ends = [event for event in found if _is_about(understood(event.type, event.payload), key)]
    return _ended(live, key, ends[-1]) if ends else None


def _is_about(fields: dict[str, Any] | None, key: Key) -> bool:
    return fields is not None and (fields.get("turn"), fields.get("call_id")) == key


def _ended(live: Live, key: Key, event: Event) -> Call | None:
    """Return a finished call that the state has let go of, by its outcome and its proposal."""
    fields = understood(event.type, event.payload) or {}
    if event.type == "tool.resolved" and fields.get("outcome") == NOT_EXECUTED:
        return None
    call = Call(*key, "", CALL_TARGETS[event.type], ordinal=event.ordinal, outcome_ordinal=event.ordinal)
    before = live.session.events(before=event.ordinal, types=["tool.proposed"], reverse=True, on_damage="skip")
    for proposed in before:  # it lies close
        given = understood(proposed.type, proposed.payload)
        if given is not None and _is_about(given, key):
            effect = given.get("effect")
            return replace(
                call,
                name=str(given.get("name") or "")[:PREVIEW_CHARACTERS_MAX],
                effect=effect if isinstance(effect, str) and effect in EFFECTS else EXTERNAL,
                by_provider=given.get("by") == "provider",
                proposed_ordinal=proposed.ordinal,
            )
    return call


def read_outcome(live: Live, call: Call, entry: CallEntry) -> Outcome | None:
    """Return the outcome of a finished call, None when it came to nothing: denied or cancelled."""
    known = entry.outcome()
    if known is not None:
        return known
    payload = live.fields(live.session.event(call.outcome_ordinal))
    if call.state in {"denied", "cancelled"} or payload is None:
        return None
    completed = (payload.get("outcome") if call.state == RESOLVED else call.state) == COMPLETED
    content, reference = payload.get("content"), payload.get("artifact")
    if content is None and isinstance(reference, Reference):
        data = live.artifacts.read(reference)
        is_json = reference.media_type == "application/json"
        content = decode(data) if is_json else data.decode("utf-8", "surrogatepass")
    outcome = Outcome(completed, content, payload.get("error"))
    entry.keep(outcome)
    return outcome


def save(live: Live, entry: CallEntry, type: str, payload: dict[str, Any]) -> None:
    """Append the outcome of a call, in whatever form the log takes it. Raises when the log takes nothing: the outcome
    then waits in the entry, and the next look at the call tries again.
    """
    entry.unsaved = type, payload
    live.book.unsaved.add(entry)
    try:
        try:
            live.record(type, payload, checked=False)
        except PayloadTooLarge:
            live.record(type, _aside(live, payload), checked=False)
        except Exception as cause:
            if isinstance(cause, TurnlogError) and not isinstance(cause, InvalidInput):
                raise
            live.record(type, _as_text(live, payload), checked=False)
    except TurnlogError as error:
        raise error.at(session=live.session.id) from None
    entry.unsaved = None
    live.book.unsaved.discard(entry)


def _aside(live: Live, payload: dict[str, Any]) -> dict[str, Any]:
    """Put a value that no frame can hold into an artifact of its JSON."""
    rest, content = dict(payload), payload.get("content")
    del rest["content"]
    rest["artifact"] = live.artifacts.put(_core.canonical(content), media_type="application/json")
    return rest


def _as_text(live: Live, payload: dict[str, Any]) -> dict[str, Any]:
    """Keep the repr of a value that cannot be encoded, and say what it was."""
    rest, content = dict(payload), payload.get("content")
    rest.pop("content", None)
    rest["unencodable"] = kind_of(content)
    text = text_of(repr, content)
    data = text.encode("utf-8", "surrogatepass")
    rest["artifact"] = live.artifacts.put(data, media_type="text/plain", summary=text[:SUMMARY_CHARACTERS])
    return rest


def describe(error: BaseException) -> dict[str, str]:
    """Return what an event keeps of an exception."""
    return {"type": kind_of(error), "message": text_of(str, error)}


def told(error: BaseException | str) -> dict[str, str]:
    """Return what an event keeps of an error that a caller names. Raises InvalidInput for what is none."""
    if isinstance(error, BaseException):
        return describe(error)
    require_text("error", error)
    return {"message": error}


def kind_of(value: object) -> str:
    """Return the name of a value's class, with its module unless it is built in."""
    kind = value.__class__
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def text_of(make: type[str] | Any, value: object) -> str:
    """Return `make(value)`; a class whose own method fails is shown without it."""
    try:
        return str(make(value))
    except Exception:  # noqa: BLE001 - whatever it raises, the outcome must be kept
        return object.__repr__(value)


def _running(key: Key) -> InvalidTransition:
    return InvalidTransition(f"tool call {key[1]!r} of turn {key[0]!r} is running already", "call_running")
