"""Contexts by reference: a step stores what is new in what it was sent, and where the rest stands already.

Owns: which earlier context is the base, which messages are known and where, when a context is written out anew.
Invariants: `decode` gives the messages to the byte of their canonical form; a message is stored once per session as
long as it is among the last KNOWN_MAX; the contexts read for one are at most about as many as the pieces it is made of.
Must not know: files, sessions; events come in by `read`, artifacts go out by `put` and come in by `fetch`.
"""

from __future__ import annotations

from turnlog import _core
from turnlog.artifacts.offload import LIMIT_BYTES, offload
from turnlog.context.draft import NEW, Draft, SentContext, common_prefix, pieces
from turnlog.context.read import ContextReader, decode_context
from turnlog.errors import Damaged, InvalidInput, NotFound
from turnlog.reference import Stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from turnlog.artifacts.offload import Put
    from turnlog.context.read import Fetch, Place, ReadEvent

KNOWN_MAX = 65_536
INLINE_MAX_BYTES = 4 * 1024 * 1024  # of new messages inside one event; the rest goes into batches
_BATCH_BYTES = 8 * 1024 * 1024
_RECENT_MAX = 8  # contexts that can be a base: agents of one session may take turns
_REFERENCE_BYTES = 400  # a generous guess


class ContextTracker:
    """What one session's steps were sent. Not thread-safe: one writer encodes, appends, records.

    `last` is the ordinal of the newest step event of a session that goes on; it is read when the first context is
    encoded. `read_error` then says why it could not be; nothing is lost by that but the saving.

    >>> events = {}
    >>> tracker = ContextTracker(events.__getitem__, put=None, fetch=None)
    >>> history = [{"role": "user", "content": "hello"}]
    >>> events[1] = {"context": tracker.encode(history).value}
    >>> tracker.recorded(1)
    >>> history += [{"role": "assistant", "content": "hi"}]
    >>> events[2] = {"context": tracker.encode(history).value}
    >>> events[2]["context"]
    {'base': 1, 'kept': 1, 'added': [{'role': 'assistant', 'content': 'hi'}], 'count': 2}
    >>> tracker.decode(2) == history
    True
    """

    def __init__(
        self, read: ReadEvent, *, put: Put, fetch: Fetch, limit: int | None = LIMIT_BYTES, last: int | None = None
    ) -> None:
        """Keep the ways in and out; see `decode_context` and `offload`."""
        self.read_error: Damaged | NotFound | None = None
        self._read = read
        self._put = put
        self._fetch = fetch
        self._limit = limit
        self._last = last
        self._known: dict[bytes, Place] = {}  # by digest of the message, the oldest first
        self._recent: list[SentContext] = []  # the newest last
        self._pending: SentContext | None = None

    def encode(self, messages: Iterable[Any]) -> Stored:
        """Return the context to store in a step's event; then append the event and call `recorded`.

        Raises InvalidPayload when a message is not canonical JSON, and what `put` raises.

        >>> tracker = ContextTracker({}.__getitem__, put=None, fetch=None)
        >>> tracker.encode([{"role": "user"}]).value
        {'base': None, 'kept': 0, 'added': [{'role': 'user'}], 'count': 1}
        """
        if self._last is not None:
            self._restore(self._last)
        given = list(messages)
        digests: list[bytes] = []
        sizes: list[int] = []
        for message in given:
            form = _core.canonical(message)
            digests.append(_core.digest(form))
            sizes.append(len(form))
        base, kept = self._best_base(digests)
        draft = Draft(base, kept, self._known)
        for at in range(kept, len(given)):
            draft.add(at, digests[at])
        context = SentContext(digests, draft.places, fresh_from=kept)
        base_ordinal = base.ordinal if base is not None and draft.uses_base else None
        if base is not None and base_ordinal is not None:
            context.depth = base.depth + 1
            if context.is_too_deep():
                context.depth, base_ordinal = 0, None
        if base_ordinal is None:
            parts: list[Any] = list(pieces(context.places))
            kept = 0
        else:
            parts = draft.parts
        added = self._stored(parts, [(given[at], sizes[at]) for at in draft.new])
        self._pending = context
        return Stored({"base": base_ordinal, "kept": kept, "added": added, "count": len(given)})

    def recorded(self, ordinal: int) -> None:
        """Say that the context encoded last is in the event `ordinal`. Raises InvalidInput when there is none.

        >>> tracker = ContextTracker({}.__getitem__, put=None, fetch=None)
        >>> _ = tracker.encode([{"role": "user"}])
        >>> tracker.recorded(7)
        >>> tracker.encode([{"role": "user"}]).value
        {'base': 7, 'kept': 1, 'added': [], 'count': 1}
        """
        context, self._pending = self._pending, None
        if context is None:
            raise InvalidInput("no context was encoded since the last one was recorded", ordinal=ordinal)
        context.ordinal = ordinal
        context.places = [(place[0] or ordinal, place[1]) for place in context.places]
        self._remember(context)

    def learn(self, message: Any, ordinal: int, path: tuple[str | int, ...]) -> None:
        """Say that a message stands in an event already, at a path into its stored payload.

        A step whose context holds an equal message then refers to it, as to the response of the step before.

        >>> events = {1: {"response": {"role": "assistant", "content": "hi"}}}
        >>> tracker = ContextTracker(events.__getitem__, put=None, fetch=None)
        >>> tracker.learn(events[1]["response"], 1, ("response",))
        >>> tracker.encode([{"role": "assistant", "content": "hi"}]).value["added"]
        [['in', 1, ['response']]]
        """
        self._know(_core.digest(_core.canonical(message)), (ordinal, path))

    def decode(self, ordinal: int) -> list[Any]:
        """Return exactly the messages that the step event `ordinal` was sent; raises as `decode_context`.

        >>> events = {7: {"context": {"base": None, "kept": 0, "added": [{"role": "user"}], "count": 1}}}
        >>> ContextTracker(events.__getitem__, put=None, fetch=None).decode(7)
        [{'role': 'user'}]
        """
        return decode_context(ordinal, self._read, self._fetch)

    # -- what is known ---------------------------------------------------------------------------------------------

    def _restore(self, ordinal: int) -> None:
        """Take up the newest context of a session that goes on."""
        self._last = None
        reader = ContextReader(self._read, self._fetch)
        try:
            places, read = reader.places(ordinal)
            messages = reader.messages(places)
        except (Damaged, NotFound) as error:
            self.read_error = error
            return
        context = SentContext([_core.digest(_core.canonical(message)) for message in messages], places)
        context.ordinal, context.depth = ordinal, read - 1
        self._remember(context)

    def _remember(self, context: SentContext) -> None:
        fresh = slice(context.fresh_from, None)
        for digest, place in zip(context.digests[fresh], context.places[fresh], strict=True):
            self._know(digest, place)
        self._recent.append(context)
        if len(self._recent) > _RECENT_MAX:
            del self._recent[0]

    def _know(self, digest: bytes, place: Place) -> None:
        place = self._known.pop(digest, place)  # the first place stays: runs of neighbours stay runs
        self._known[digest] = place
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def _best_base(self, digests: list[bytes]) -> tuple[SentContext | None, int]:
        """Return the context that begins most like this one, the newest of equals, and the length of that."""
        best, kept = None, -1
        for context in reversed(self._recent):
            same = common_prefix(context.digests, digests)
            if same > kept:
                best, kept = context, same
            if same == len(digests):
                break
        return best, max(kept, 0)

    # -- the stored form -------------------------------------------------------------------------------------------

    def _stored(self, parts: list[Any], new: list[tuple[Any, int]]) -> list[Any]:
        """Put the new messages where the parts say NEW, those that are too many into batches."""
        stored: list[Any] = []
        news = iter(new)
        room = INLINE_MAX_BYTES
        batch: list[bytes] = []
        batch_bytes = 0
        for part in parts:
            if part is not NEW:
                stored += self._batch(batch)
                stored.append(part)
                continue
            message, size = next(news)
            stored_bytes = self._stored_bytes(message, size)
            if stored_bytes <= room:
                room -= stored_bytes
                stored += self._batch(batch)
                kept = offload(message, self._limit, put=self._put)
                stored.append(kept if isinstance(message, dict) else ["value", kept])
                continue
            batch_bytes = size + (batch_bytes if batch else 0)
            batch.append(_core.canonical(message))
            if batch_bytes > _BATCH_BYTES:
                stored += self._batch(batch)
        return stored + self._batch(batch)

    def _stored_bytes(self, message: Any, size: int) -> int:
        """Return about how many bytes a message of `size` takes in the event, its long strings put aside."""
        if self._limit is None or size <= self._limit:
            return size
        saved = sum(length - _REFERENCE_BYTES for length in _long_strings(message, self._limit))
        return max(0, size - saved)

    def _batch(self, batch: list[bytes]) -> list[Any]:
        """Return the part for these messages, none for none, and begin the next batch."""
        if not batch:
            return []
        content = b"[" + b",".join(batch) + b"]"
        reference = self._put(content, media_type="application/json", summary=f"{len(batch)} messages")
        part = ["batch", offload(reference, put=self._put), len(batch)]
        batch.clear()
        return [part]


def _long_strings(value: Any, limit: int) -> Iterator[int]:
    """Yield the length of each string that is certainly put aside."""
    if isinstance(value, str):
        if len(value) > limit:
            yield len(value)
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _long_strings(item, limit)
