"""The fold: events in, state out.

Owns: the dispatch by type, versions, what is unknown or custom, the check of an event before it is written.
Invariants: pure (no I/O, no clock): the same events give the same state, however they are cut into batches; an illegal
or malformed event is a violation in the state, never an exception; an event that is not understood changes nothing but
a counter. Must not know: where events come from, beyond the handle that `fold` reads.

>>> from turnlog.state.state import State
>>> state = State()
>>> reduce(state, "turn.started", 1, 0, {"turn": "t1"})
>>> reduce(state, "tool.proposed", 2, 0, {"turn": "t1", "call_id": "c1", "name": "bash"})
>>> state.turn.id, state.call("t1", "c1").state
('t1', 'proposed')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec

from turnlog import events
from turnlog.errors import InvalidTransition
from turnlog.state import reduce_calls, reduce_live, reduce_plans, reduce_session, reduce_turns
from turnlog.state.reduce_rules import SHARED_FIELDS, Refusal, Rule, count, is_observed, note
from turnlog.state.state import State

if TYPE_CHECKING:
    from turnlog.handle import StoredEvent

Payload = Mapping[str, Any]


RULES: dict[str, Rule] = {
    **reduce_session.RULES,
    **reduce_turns.RULES,
    **reduce_calls.RULES,
    **reduce_plans.RULES,
}
_APPLY = {type: rule.apply for type, rule in RULES.items()}
_VERSIONS = events.VERSIONS


def reduce(state: State, type: str, ordinal: int, time_us: int, payload: object) -> None:
    """Apply one event to the state. Never raises for what the event holds: see `state.violations`.

    >>> state = State()
    >>> reduce(state, "tool.completed", 1, 0, {"turn": "t1", "call_id": "c1"})
    >>> state.violations[0].code
    'call_unknown'
    """
    if ordinal <= state.ordinal:
        note(state, ordinal, Refusal("ordinal_order", f"ordinal {ordinal} after {state.ordinal}"))
        return
    lose(state, ordinal - 1)
    state.ordinal = ordinal
    state.time_us = time_us
    state.events += 1
    apply = _APPLY.get(type)
    if apply is None:
        _pass_by(state, type, ordinal)
        return
    if payload.__class__ is not dict:
        if not isinstance(payload, Mapping):
            note(state, ordinal, Refusal("payload_shape", f"the payload of {type} is no JSON object"))
            return
        payload = dict(payload)
    fields = cast("dict[str, Any]", payload)
    if "v" in fields or _VERSIONS[type] > 1:
        current = _current(state, type, ordinal, fields)
        if current is None:
            return
        fields = current
    apply(state, type, fields, ordinal, time_us)


def lose(state: State, ordinal: int) -> None:
    """Note that the events behind the state, up to `ordinal`, are lost, if there are any; ask before the next event.

    >>> state = State(ordinal=3)
    >>> lose(state, 3), lose(state, 5), state.lost_ordinal
    (None, None, 5)
    """
    if ordinal > state.ordinal:
        state.lost_ordinal = ordinal


def _current(state: State, type: str, ordinal: int, payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return the payload as the current version has it, None (and a note of it) when that cannot be had."""
    current = events.understood(type, payload)
    if current is None:
        version = events.version_of(payload)
        count(state.unknown, f"{type}@{version}")
        if version < _VERSIONS[type]:
            note(state, ordinal, Refusal("payload_version", events.why_not(type, payload)))
    return current


def _pass_by(state: State, type: str, ordinal: int) -> None:
    """Count what no rule is about."""
    known = events.TYPES.get(type)
    if known is None:
        count(state.custom if events.status(type) == events.CUSTOM else state.unknown, type)
    elif known.durability == events.EPHEMERAL:
        note(state, ordinal, Refusal("ephemeral_stored", f"{type} is never stored"))


def reduce_ephemeral(state: State, type: str, time_us: int, payload: object) -> None:
    """Apply an event that is never stored: what is on the screen changes (`state.live`), nothing else.

    >>> state = State()
    >>> reduce_ephemeral(state, "dialog.opened", 0, {"dialog": "d1", "text": "Run it?"})
    >>> state.live.dialogs["d1"].text
    'Run it?'
    """
    if isinstance(payload, Mapping):
        reduce_live.apply(state.live, type, time_us, payload)


def fold(stored: Iterable[StoredEvent], state: State | None = None) -> State:
    """Apply stored events, in order, to a state (a new one if there is none); return the state. Many of them at once:
    `turnlog.state.fold`, to which this is what it must come to.

    Raises Damaged or StorageError when a payload cannot be read.

    >>> fold([]).ordinal
    0
    """
    state = State() if state is None else state
    for event in stored:
        reduce_stored(state, event)
    return state


def reduce_stored(state: State, event: StoredEvent) -> None:
    """Apply one stored event, decoding only what its rule reads. Raises Damaged, StorageError.

    >>> from types import SimpleNamespace
    >>> state = State()
    >>> reduce_stored(state, SimpleNamespace(type="file.read", ordinal=1, time_us=0, is_raw=False, raw=b"{}"))
    >>> state.files.touched_since
    1
    """
    type = event.type
    decode = _DECODERS.get(type)
    reduce(state, type, event.ordinal, event.time_us, None if decode is None else _decoded(event, decode))


def _decoded(event: StoredEvent, decode: Callable[[bytes], Any]) -> Any:
    if event.is_raw:
        return None
    try:
        return decode(event.raw)
    except msgspec.DecodeError:  # no object, or what only the slow decoder reads; an empty payload was redacted
        return event.payload


def _decoder(fields: tuple[str, ...] | None) -> Callable[[bytes], Any]:
    """Return a decoder of JSON objects that builds only these members."""
    if fields is None:
        return msgspec.json.Decoder(dict[str, Any]).decode
    members = dict.fromkeys((*SHARED_FIELDS, *fields), Any)
    return msgspec.json.Decoder(TypedDict("Members", members, total=False)).decode  # type: ignore[operator]


# The fields of an older version are its upcaster's business, so all of them are read.
_DECODERS = {type: _decoder(rule.fields if _VERSIONS[type] == 1 else None) for type, rule in RULES.items()}


def refusal_of(state: State, type: str, payload: Payload) -> Refusal | None:
    """Return why an event is not legal in this state, None when it is.

    >>> refusal_of(State(), "turn.completed", {"turn": "t1"}).code
    'turn_unknown'
    """
    rule = RULES.get(type)
    if rule is None or is_observed(payload):
        return None
    if "v" in payload or _VERSIONS[type] > 1:
        if events.status(type, events.version_of(payload)) != events.KNOWN:
            return None
        payload = events.upcast(type, payload)
    return rule.judge(state, type, payload)


def check_transition(state: State, type: str, payload: Payload) -> None:
    """Raise InvalidTransition when an event is not legal in this state; nothing changes. Ask before an append.

    >>> check_transition(State(), "turn.started", {"turn": "t1"})
    """
    refusal = refusal_of(state, type, payload)
    if refusal is not None:
        raise InvalidTransition(refusal.detail, refusal.code, session=state.session_id or None)
