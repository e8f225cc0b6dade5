"""A session's events as a conversation: what was said, and every tool call with its one result.

Owns: which events are part of the model's history; rounds (what the assistant said and asked for, with the results);
the pairing of a call and its outcome by (turn, call id). Invariants: pure over a source of events, and lazy: it holds
one round at a time; every call of a round has a result, made up and marked as such where the log holds none; a result
without a call in sight is left out. A result that comes after something else was said is looked for ahead, so that it
stands where providers want it. Must not know: what any provider's messages look like, files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from turnlog.history.content import CALL, Part, parts_of
from turnlog.history.extent import fields_of
from turnlog.history.rounds import (
    ANSWERED,
    ASSISTANT,
    ENDS,
    NOT_RUN,
    SYSTEM,
    UNKNOWN,
    USER,
    Asked,
    Item,
    Key,
    Round,
    Said,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from turnlog.history.extent import Extent, Source


class Standing(Protocol):
    """What the fold knows of an open call: `Call` of the state."""

    @property
    def standing(self) -> str:
        """Where a crash leaves the call: not_started or unknown."""

    @property
    def ordinal(self) -> int:
        """Its latest event."""


_CALL_TYPES = ENDS | {"tool.started", "tool.outcome_unknown", "tool.proposed"}
_QUEUED = frozenset({"turn.input_queued"})
_SYSTEM_ROLES = frozenset({"system", "developer"})


class Conversation:
    """Iterate over it for the items of the conversation, as often as wanted; each time the log is read anew."""

    def __init__(
        self,
        source: Source,
        extent: Extent,
        *,
        open_calls: Mapping[Key, Standing] | None = None,
        lost_ordinal: Callable[[], int] = lambda: 0,
        payload: Callable[[Any], Any] = lambda event: event.payload,
    ) -> None:
        """`open_calls` are those without an outcome, where that is known (else each is looked for to the end of the
        log); `lost_ordinal` returns the newest that is lost, and is asked only if a call has no outcome: of one before
        it nobody can say that it was not run; `payload` reads an event's payload, with artifacts in place.
        """
        self._source = source
        self._extent = extent
        self._open_calls = open_calls
        self._lost_ordinal = lost_ordinal
        self._payload = payload

    def __iter__(self) -> Iterator[Item]:
        """Yield the items, oldest first. Raises Damaged where an event cannot be served, and what `payload` raises."""
        return _Walk(self._source, self._extent, self._open_calls, self._lost_ordinal, self._payload).items()


class _Walk:
    """One pass over the events."""

    def __init__(
        self,
        source: Source,
        extent: Extent,
        open_calls: Mapping[Key, Standing] | None,
        lost_ordinal: Callable[[], int],
        payload: Callable[[Any], Any],
    ) -> None:
        self._source = source
        self._extent = extent
        self._open_calls = open_calls
        self._lost_ordinal = lost_ordinal
        self._payload = payload
        self._round: Round | None = None
        self._input: tuple[str, Any] | None = None  # of a turn that has said nothing yet
        self._response: tuple[str, Any] | None = None  # of a step whose message may still come
        self._turn = ""
        self._ordinal = 0
        self._proposed: set[Key] = set()  # of the running turn: what a response names again is the same call

    def items(self) -> Iterator[Item]:
        for event in self._extent.replay(self._source, TYPES):
            self._ordinal = event.ordinal
            payload = fields_of(event, self._payload(event))
            if payload is not None and not (payload.get("sidechain") and not self._extent.sidechain):
                yield from HANDLERS[event.type](self, event.type, payload)
        yield from self._flush_all()

    # -- messages --------------------------------------------------------------------------------------------------

    def turn_started(self, _type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        yield from self._flush_all()
        self._turn = _text(payload, "turn")
        self._proposed.clear()
        if not _observed(payload) and payload.get("input") is not None:
            self._input = self._turn, payload["input"]

    def input_consumed(self, _type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        """Take input where the turn took it; an imported history has it as a message of its own."""
        if not _observed(payload):
            content = payload.get("content")
            yield from self._say(USER, self._queued(_text(payload, "input_id")) if content is None else content)

    def _queued(self, input_id: str) -> object:
        """Return the content of waiting input, None when the log does not hold it."""
        for event in self._source.events(before=self._ordinal, types=_QUEUED, reverse=True):
            payload = fields_of(event, self._payload(event))
            if payload is not None and payload.get("input_id") == input_id:
                return payload.get("content")
        return None

    def user(self, _type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        if self._input is not None and _text(payload, "turn") in ("", self._input[0]):
            self._input = None  # this is the turn's input
        yield from self._say(USER, payload.get("content"))

    def system(self, _type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        if not _observed(payload) or payload.get("kind") in _SYSTEM_ROLES:
            yield from self._say(SYSTEM, payload.get("content"))

    def summary(self, _type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        """Take what stands for events that a compaction replaced."""
        for item in payload["items"]:
            handler = _ITEMS.get(str(item.get("type")))
            if handler is not None:
                yield from handler(self, item)
        yield from self._say(USER, payload.get("summary"))

    def assistant(self, _type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        if payload.get("synthetic") or payload.get("api_error") or payload.get("kind") == "reasoning":
            return
        if self._response is not None and _text(payload, "step") in ("", self._response[0]):
            self._response = None  # the message is the response
        yield from self._flush_waiting()
        yield from self._speak(payload, parts_of(payload.get("content")))

    def step_completed(self, _type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        if payload.get("response") is not None:
            yield from self._flush_waiting()
            self._response = _text(payload, "step"), payload

    def _say(self, role: str, content: object) -> Iterator[Item]:
        parts = _without_calls(content)
        if parts:
            yield from self._flush_all()
            yield Said(role, parts)

    def _speak(self, payload: Mapping[str, Any], parts: list[Part]) -> Iterator[Item]:
        """Add to what the assistant says; calls inside become calls of the round."""
        said = [part for part in parts if part.kind != CALL]
        if said:
            if self._round is not None and self._round.calls:
                yield from self._flush_round()
            self._round = self._round or Round()
            self._round.parts += said
        for part in parts:
            if part.kind == CALL:
                block = part.value
                given = block.get("arguments", block.get("input"))
                fields = {**payload, "call_id": str(block.get("call_id") or block.get("id") or "")}
                yield from self._ask({**fields, "name": block.get("name"), "arguments": given})

    # -- calls -----------------------------------------------------------------------------------------------------

    def proposed(self, _type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        if payload.get("by") == "provider":  # the provider keeps its own calls together; the answer builds on them
            return
        yield from self._flush_waiting()
        yield from self._ask(payload)

    def _ask(self, payload: Mapping[str, Any]) -> Iterator[Item]:
        key = _text(payload, "turn") or self._turn, _text(payload, "call_id")
        current, observed = self._round, _observed(payload)
        again = key in self._proposed and not observed
        if current is not None and key in current.calls and again:
            known = current.calls[key]  # the response named it, its own event may know more
            known.name = known.name or _text(payload, "name")
            known.ordinal = self._ordinal
            return
        if again:
            return
        if current is not None and (current.is_answered or key in current.calls):
            yield from self._flush_round()
        self._round = self._round or Round()
        kind = _text(payload, "kind")
        asked = Asked(key, _text(payload, "name"), payload.get("arguments"), kind, self._ordinal, observed=observed)
        self._round.calls[key] = asked
        self._proposed.add(key)

    def moved(self, type: str, payload: Mapping[str, Any]) -> Iterator[Item]:
        """Follow an event of a call of the round; any other was answered already, or has no call in sight."""
        if self._response is not None and self._find(payload) is None:
            yield from self._flush_waiting()
        call = self._find(payload)
        if call is not None:
            call.take(type, payload, self._ordinal)

    def _find(self, payload: Mapping[str, Any]) -> Asked | None:
        calls = {} if self._round is None else self._round.calls
        turn, call_id = _text(payload, "turn"), _text(payload, "call_id")
        exact = calls.get((turn or self._turn, call_id))
        if exact is not None or (turn and not _observed(payload)):
            return exact
        return next((call for call in calls.values() if call.call_id == call_id), None)

    # -- ends ------------------------------------------------------------------------------------------------------

    def _flush_waiting(self) -> Iterator[Item]:
        """Let the input of a turn or the response of a step count, now that no message of its own came."""
        if self._input is not None:
            given, self._input = self._input[1], None
            parts = _without_calls(given)
            if parts:
                yield from self._flush_round()
                yield Said(USER, parts)
        if self._response is not None:
            payload, self._response = self._response[1], None
            yield from self._speak(payload, parts_of(payload["response"]))

    def _flush_all(self) -> Iterator[Item]:
        yield from self._flush_waiting()
        yield from self._flush_round()

    def _flush_round(self) -> Iterator[Item]:
        done, self._round = self._round, None
        if done is None:
            return
        for call in done.calls.values():
            if call.status != ANSWERED:
                self._look_ahead(call)
                call.settle()
        yield done

    def _look_ahead(self, call: Asked) -> None:
        """Find the result of a call that comes later in the log than something else that was said.

        What a compaction replaced or a rollback took out counts here, too: the call itself is still told, and it ran.
        """
        known = None if self._open_calls is None else self._open_calls.get(call.key)
        if known is not None:
            is_unknown = known.standing == "unknown" or known.ordinal < self._lost_ordinal()
            call.status = UNKNOWN if is_unknown or call.observed else NOT_RUN
            return
        for event in self._source.events(after=call.ordinal, types=_CALL_TYPES):
            payload = fields_of(event, event.payload)
            if payload is None or payload.get("call_id") != call.call_id:
                continue
            turn = _text(payload, "turn")
            if turn not in ("", call.key[0]) and not _observed(payload):
                continue
            if event.type == "tool.proposed":
                break
            call.take(event.type, fields_of(event, self._payload(event)) or {}, event.ordinal)
            if call.status == ANSWERED:
                return
        if call.ordinal < self._lost_ordinal():
            call.status = UNKNOWN


def _without_calls(content: object) -> list[Part]:
    """Return the parts of what a user or a system said, who call no tools."""
    return [part for part in parts_of(content) if part.kind != CALL]


def _message_item(walk: _Walk, item: Mapping[str, Any]) -> Iterator[Item]:
    role = item.get("role")
    if role == ASSISTANT:
        yield from walk.assistant("", {"content": item.get("content"), "source": {}})
    else:
        yield from walk._say(SYSTEM if role in _SYSTEM_ROLES else USER, item.get("content"))  # noqa: SLF001


def _call_item(walk: _Walk, item: Mapping[str, Any]) -> Iterator[Item]:
    arguments = item.get("arguments", item.get("input"))
    yield from walk.proposed("", {**item, "kind": item.get("type"), "arguments": arguments, "source": {}})


def _output_item(walk: _Walk, item: Mapping[str, Any]) -> Iterator[Item]:
    yield from walk.moved("tool.completed", {**item, "content": item.get("output"), "source": {}})


_ITEMS: dict[str, Callable[[_Walk, Mapping[str, Any]], Iterator[Item]]] = {
    "message": _message_item,
    "function_call": _call_item,
    "custom_tool_call": _call_item,
    "function_call_output": _output_item,
    "custom_tool_call_output": _output_item,
}

HANDLERS: dict[str, Callable[[_Walk, str, Mapping[str, Any]], Iterator[Item]]] = {
    "turn.started": _Walk.turn_started,
    "turn.input_consumed": _Walk.input_consumed,
    "message.user": _Walk.user,
    "message.assistant": _Walk.assistant,
    "message.system": _Walk.system,
    "step.completed": _Walk.step_completed,
    "context.compacted": _Walk.summary,
    **dict.fromkeys(_CALL_TYPES, _Walk.moved),
    "tool.proposed": _Walk.proposed,
}
TYPES = frozenset(HANDLERS)


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def _observed(payload: Mapping[str, Any]) -> bool:
    return payload.get("source") is not None
