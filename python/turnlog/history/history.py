"""The history a model provider accepts, from a session's events.

Owns: `History`, a view that is read lazily and checked while it is read. Invariants: every tool call has exactly one
result, directly behind it; where the log holds none, the result says that the call was not run or that its outcome is
unknown; nothing is empty; what cannot be made valid is `HistoryInvalid` with the reason, never a request that the
provider refuses. Must not know: files, sessions beyond a source of events.

>>> sorted(SHAPES)
['anthropic', 'openai_chat', 'openai_responses']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.errors import Damaged, HistoryInvalid
from turnlog.history.anthropic import anthropic_messages
from turnlog.history.check import CHECKS
from turnlog.history.conversation import Conversation, Standing
from turnlog.history.extent import Extent, Source, extent_of
from turnlog.history.openai import completion_messages, response_items
from turnlog.history.rounds import Item, Key, Said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from turnlog.handle import Event
    from turnlog.state.state import State

Message = dict[str, Any]
SHAPES: dict[str, Callable[[Iterator[Item]], Iterator[Message]]] = {
    "anthropic": anthropic_messages,
    "openai_responses": response_items,
    "openai_chat": completion_messages,
}


class PastDamage:
    """The readable events of a session: what was lost is passed over."""

    def __init__(self, events: Callable[..., Iterator[Event]]) -> None:
        """Keep what reads the events, `Session.events`."""
        self._events = events

    def events(self, **window: Any) -> Iterator[Event]:
        """Yield events as `Session.events` does, without raising Damaged.

        >>> from turnlog import Store
        >>> [event.type for event in PastDamage(Store.ephemeral().create().events).events()]
        ['session.created']
        """
        return self._events(on_damage="skip", **window)


class History:
    """The messages of a session in the shape of one provider; each iteration reads the log anew, in bounded memory."""

    def __init__(
        self,
        source: Source,
        shape: str,
        *,
        state: State | None = None,
        lost_ordinal: Callable[[], int] = lambda: 0,
        payload: Callable[[Any], Any] = lambda event: event.payload,
    ) -> None:
        """`shape` is anthropic, openai_responses or openai_chat; `state`, when at hand, saves looking ahead;
        `lost_ordinal` returns the newest ordinal that is lost, 0: none; `payload` reads an event's payload, with the
        content of artifacts in its place.

        Raises HistoryInvalid for an unknown shape.
        """
        if not isinstance(shape, str) or shape not in SHAPES:
            message = f"no such shape of a history: {shape} (one of {', '.join(sorted(SHAPES))})"
            raise HistoryInvalid(message)
        self.shape = shape
        self._source = source
        self._state = state
        self._lost_ordinal = lost_ordinal
        self._payload = payload
        self._extent: Extent | None = None

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages, oldest first.

        Raises HistoryInvalid when one would be refused, Damaged where an event cannot be served.
        """
        check = CHECKS[self.shape]()
        try:
            for message in SHAPES[self.shape](self._items()):
                check.take(message)
                yield message
        except Damaged as error:
            error.message = f"{error.message}; history(on_damage='skip') is made of what is left"
            raise
        check.end()

    @property
    def system(self) -> str:
        """What the program said before the conversation began; the Anthropic shape has it beside the messages."""
        from turnlog.history.content import text_of

        texts = []
        for item in self._items():
            if not isinstance(item, Said) or item.role != "system":
                break
            texts.append(text_of(item.parts))
        return "\n\n".join(texts)

    def _items(self) -> Iterator[Item]:
        if self._extent is None:
            self._extent = extent_of(self._source, self._state)
        open_calls: Mapping[Key, Standing] | None = None if self._state is None else self._state.open_calls
        found = Conversation(
            self._source, self._extent, open_calls=open_calls, lost_ordinal=self._lost_ordinal, payload=self._payload
        )
        return iter(found)

    def __repr__(self) -> str:
        """Show the shape."""
        return f"<History {self.shape}>"
