"""Reading a context back: which messages a step was sent, from references to earlier events (EVENTS.md, Contexts).

Owns: the parts of a stored context and what each stands for. Invariants: a part refers to earlier events only, so
reading ends; a context that cannot be read exactly is Damaged (NewerFormat if a newer version wrote it), never shorter;
a path into another event is one into its stored payload, whatever its version. Must not know: files, sessions; events
come in by `read`, artifacts by `fetch`.
"""

from __future__ import annotations

from copy import deepcopy

from turnlog.artifacts.offload import resolve
from turnlog.errors import Damaged, NewerFormat, NotFound
from turnlog.events import understood, why_not
from turnlog.reference import Reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeAlias

    from turnlog._core import Event

    ReadEvent: TypeAlias = Callable[[int], Mapping[str, Any]]  # the stored payload of the event with that ordinal
    Fetch: TypeAlias = Callable[[Reference], bytes]
    Where: TypeAlias = int | tuple[str | int, ...]  # the n-th new message of a context, or a path into a payload
    Place: TypeAlias = tuple[int, Where]  # ordinal, where in the event

_WINDOW = 256  # on both sides: bases are followed back, messages are read forward
_HANDLES_MAX = 16_384
_STEP = "step.started"  # the type that has a context
CONTEXT = "context"  # the member of a payload that holds a context


def decode_context(ordinal: int, read: ReadEvent, fetch: Fetch) -> list[Any]:
    """Return exactly the messages that the step event `ordinal` was sent.

    `read` gives the stored payload of an event, `fetch` the content of an artifact (`ArtifactStore.read`); what they
    raise comes through. Raises Damaged when the stored context makes no sense, NewerFormat.

    >>> events = {1: {"context": {"base": None, "kept": 0, "added": [{"role": "user"}], "count": 1}}}
    >>> events[2] = {"context": {"base": 1, "kept": 1, "added": [{"role": "assistant"}], "count": 2}}
    >>> decode_context(2, events.__getitem__, lambda reference: b"")
    [{'role': 'user'}, {'role': 'assistant'}]
    """
    reader = ContextReader(read, fetch)
    return reader.messages(reader.places(ordinal)[0])


class NearbyEvents:
    """Stored payloads of a session's events by ordinal, found a window at a time: what a context is made of lies close
    together. Give it to `decode_context` as `read`, with `Session.events`.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create(title="flaky test") as session:
    ...     NearbyEvents(session.events)(1)["title"]
    'flaky test'
    """

    def __init__(self, events: Callable[..., Iterable[Event]]) -> None:
        """`events` gives the events with `after` < ordinal < `before`."""
        self._events = events
        self._found: dict[int, Event] = {}  # handles, which hold no payload

    def __call__(self, ordinal: int) -> Mapping[str, Any]:
        """Return the payload of one event. Raises NotFound, and what `events` raises for this event."""
        if ordinal not in self._found:
            if len(self._found) > _HANDLES_MAX:
                self._found.clear()
            try:
                self._look(ordinal - _WINDOW, ordinal + _WINDOW)
            except Damaged:
                self._look(ordinal - 1, ordinal + 1)  # a neighbour is lost, perhaps not this one
        event = self._found.get(ordinal)
        if event is None:
            raise NotFound(f"the session has no event {ordinal}", ordinal=ordinal)
        payload: Mapping[str, Any] = event.payload
        return payload

    def _look(self, after: int, before: int) -> None:
        for event in self._events(after=max(0, after), before=before):
            self._found[event.ordinal] = event


class ContextReader:
    """Reads contexts; what it has read of events it keeps, so use one for one question."""

    def __init__(self, read: ReadEvent, fetch: Fetch) -> None:
        """Keep the two ways in."""
        self._read = read
        self._fetch = fetch
        self._payloads: dict[int, Mapping[str, Any]] = {}
        self._news: dict[int, list[Any]] = {}
        self._used: set[Place] = set()
        self._asked = 0

    def places(self, ordinal: int) -> tuple[list[Place], int]:
        """Return the place of each message of a context, and how many contexts were read for that."""
        self._asked = ordinal
        chain: list[tuple[int, Mapping[str, Any]]] = []
        at: int | None = ordinal
        while at is not None:
            stored = self._context(at)
            chain.append((at, stored))
            base = stored.get("base")
            if base is not None and not (_is_count(base) and 0 < base < at):
                raise _damaged(at, f"its base is {base!r}")
            at = base
        places: list[Place] = []
        for at, stored in reversed(chain):
            places = _apply(at, stored, places)
        return places, len(chain)

    def messages(self, places: list[Place]) -> list[Any]:
        """Return the message at each place; none is the same object as another."""
        return [self._message(place) for place in places]

    def _message(self, place: Place) -> Any:
        ordinal, where = place
        try:
            if isinstance(where, int):
                message = self._new_messages(ordinal)[where]
            else:
                found: Any = self._payload(ordinal)
                for step in where:
                    found = found[step]
                message = resolve(found, self._fetch)
        except (KeyError, IndexError, TypeError) as error:
            raise _damaged(ordinal, f"it has no message at {where!r}") from error
        if place in self._used:
            return deepcopy(message)
        self._used.add(place)
        return message

    def _new_messages(self, ordinal: int) -> list[Any]:
        """Return the messages that an event's context holds itself, in order."""
        found = self._news.get(ordinal)
        if found is None:
            found = self._news[ordinal] = []
            for part in self._context(ordinal)["added"]:
                if isinstance(part, dict):
                    found.append(resolve(part, self._fetch))
                elif part[0] == "value":
                    found.append(resolve(part[1], self._fetch))
                elif part[0] == "batch":
                    found += self._batch(ordinal, part)
        return found

    def _batch(self, ordinal: int, part: list[Any]) -> list[Any]:
        import json  # only here: start-up counts

        reference = resolve(part[1], self._fetch)
        if not isinstance(reference, Reference):
            raise _damaged(ordinal, "a batch of messages names no artifact")
        messages = json.loads(self._fetch(reference))
        if not isinstance(messages, list) or len(messages) != part[2]:
            raise _damaged(ordinal, f"artifact {reference.digest} does not hold {part[2]} messages")
        return messages

    def _context(self, ordinal: int) -> Mapping[str, Any]:
        payload = self._payload(ordinal)
        fields = understood(_STEP, payload)
        if fields is None:
            message = f"the context of event {ordinal} cannot be read: {why_not(_STEP, payload)}"
            raise NewerFormat(message, ordinal=ordinal)
        stored = fields.get(CONTEXT)
        if not isinstance(stored, dict) or not isinstance(stored.get("added"), list):
            raise _damaged(ordinal, "the event holds none")
        return stored

    def _payload(self, ordinal: int) -> Mapping[str, Any]:
        found = self._payloads.get(ordinal)
        if found is None:
            try:
                found = self._payloads[ordinal] = self._read(ordinal)
            except (Damaged, NotFound) as error:
                if ordinal == self._asked:
                    raise
                raise _damaged(self._asked, f"event {ordinal}, which it builds on, is lost") from error
        return found


def _apply(ordinal: int, stored: Mapping[str, Any], base: list[Place]) -> list[Place]:
    """Return the places of a context, given those of its base."""
    kept = stored.get("kept", 0)
    if not _is_count(kept) or kept > len(base):
        raise _damaged(ordinal, f"it keeps {kept!r} of {len(base)} messages")
    places = base[:kept]
    new = 0
    for part in stored["added"]:
        match part:
            case dict() | ["value", _]:
                places.append((ordinal, new))
                new += 1
            case ["batch", _, int(count)]:
                places += [(ordinal, new + step) for step in range(count)]
                new += count
            case ["base", int(start), int(end)] if 0 <= start <= end <= len(base):
                places += base[start:end]
            case ["at", int(other), int(index), int(count)] if 0 <= other < ordinal and index >= 0:
                places += [(other or ordinal, index + step) for step in range(count)]
            case ["in", int(other), list(path)] if 0 < other < ordinal:
                places.append((other, tuple(path)))
            case _:
                raise _damaged(ordinal, f"it has a part that this turnlog does not know: {str(part)[:80]}")
    if len(places) != stored.get("count"):
        raise _damaged(ordinal, f"it has {len(places)} messages, not {stored.get('count')!r}")
    return places


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _damaged(ordinal: int, why: str) -> Damaged:
    return Damaged(f"the context of event {ordinal} cannot be read: {why}", ordinal=ordinal)
