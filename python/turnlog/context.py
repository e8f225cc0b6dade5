"""Contexts by reference: a step stores what is new in what it was sent, and where the rest stands already.

Owns: which earlier context is the base, which messages are known and where, when a context is written out anew.
Invariants: `decode` gives the messages to the byte of their canonical form; a message is stored once per session as
long as it is among the last KNOWN_MAX; the contexts read for one are at most about as many as the pieces it is made of.
Must not know: files, sessions; events come in by `read`, artifacts go out by `put` and come in by `fetch`.
"""

from __future__ import annotations

from itertools import groupby

from turnlog import _core
from turnlog.context_read import ContextReader, decode_context
from turnlog.errors import Damaged, InvalidInput, NotFound
from turnlog.offload import LIMIT_BYTES, offload
from turnlog.reference import Stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from turnlog.context_read import Fetch, Place, ReadEvent
    from turnlog.offload import Put

KNOWN_MAX = 65_536
INLINE_MAX_BYTES = 4 * 1024 * 1024  # of new messages inside one event; the rest goes into batches
_BATCH_BYTES = 8 * 1024 * 1024
_RECENT_MAX = 8  # contexts that can be a base: agents of one session may take turns
_CHAIN_MIN = 32
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
        self._recent: list[_Context] = []  # the newest last
        self._pending: _Context | None = None

    def encode(self, messages: Iterable[Any]) -> Stored:
        """Return the context to store in a step's event; then append the event and call `recorded`.

        Raises InvalidPayload when a message is not canonical JSON, and what `put` raises.
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
        draft = _Draft(base, kept, self._known)
        for at in range(kept, len(given)):
            draft.add(at, digests[at])
        context = _Context(digests, draft.places, fresh_from=kept)
        base_ordinal = base.ordinal if base is not None and draft.uses_base else None
        if base is not None and base_ordinal is not None:
            context.depth = base.depth + 1
            if context.is_too_deep():
                context.depth, base_ordinal = 0, None
        if base_ordinal is None:
            parts: list[Any] = list(_pieces(context.places))
            kept = 0
        else:
            parts = draft.parts
        added = self._stored(parts, [(given[at], sizes[at]) for at in draft.new])
        self._pending = context
        return Stored({"base": base_ordinal, "kept": kept, "added": added, "count": len(given)})

    def recorded(self, ordinal: int) -> None:
        """Say that the context encoded last is in the event `ordinal`. Raises InvalidInput when there is none."""
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
        """Return exactly the messages that the step event `ordinal` was sent; raises as `decode_context`."""
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
        context = _Context([_core.digest(_core.canonical(message)) for message in messages], places)
        context.ordinal, context.depth = ordinal, read - 1
        self._remember(context)

    def _remember(self, context: _Context) -> None:
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

    def _best_base(self, digests: list[bytes]) -> tuple[_Context | None, int]:
        """Return the context that begins most like this one, the newest of equals, and the length of that."""
        best, kept = None, -1
        for context in reversed(self._recent):
            same = _common_prefix(context.digests, digests)
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
            if part is not _NEW:
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


_NEW = object()


class _Context:
    """One context: the digest and the place of each message; a place in this very event has ordinal 0."""

    def __init__(self, digests: list[bytes], places: list[Place], fresh_from: int = 0) -> None:
        self.ordinal = 0
        self.digests = digests
        self.places = places
        self.fresh_from = fresh_from  # the messages before are the base's
        self.depth = 0  # contexts to read before this one
        self._index: dict[bytes, int] | None = None

    def index(self) -> dict[bytes, int]:
        """Return the first position of each message."""
        if self._index is None:
            self._index = {digest: at for at, digest in reversed(list(enumerate(self.digests)))}
        return self._index

    def is_too_deep(self) -> bool:
        """Tell whether writing it out anew costs little beside the steps since that was done."""
        if self.depth < _CHAIN_MIN:
            return False
        return self.depth >= sum(1 for _ in _runs(self.places)) / 2


class _Draft:
    """A context on its way into parts: runs of the base, known places, new messages."""

    def __init__(self, base: _Context | None, kept: int, known: dict[bytes, Place]) -> None:
        self.places: list[Place] = base.places[:kept] if base is not None else []
        self.parts: list[Any] = []
        self.new: list[int] = []  # positions of the messages that nothing holds yet
        self.uses_base = kept > 0
        self._base = base
        self._known = known
        self._own: dict[bytes, Place] = {}

    def add(self, at: int, digest: bytes) -> None:
        place = self._known.get(digest) or self._own.get(digest)
        if place is None:
            place = self._own[digest] = (0, len(self.new))
            self.new.append(at)
            self.parts.append(_NEW)
        elif not self._extend_base(digest):
            self._extend_run(place)
        self.places.append(place)

    def _extend_base(self, digest: bytes) -> bool:
        """Take the message from the base, next to the one before if that came from there; False: it is not there."""
        if self._base is None:
            return False
        last = self.parts[-1] if self.parts else None
        if isinstance(last, list) and last[0] == "base":
            end = last[2]
            if end < len(self._base.digests) and self._base.digests[end] == digest:
                last[2] = end + 1
                return True
        at = self._base.index().get(digest)
        if at is None:
            return False
        self.parts.append(["base", at, at + 1])
        self.uses_base = True
        return True

    def _extend_run(self, place: Place) -> None:
        last = self.parts[-1] if self.parts else None
        ordinal, where = place
        if isinstance(last, list) and last[0] == "at" and (last[1], last[2] + last[3]) == place:
            last[3] += 1
        elif isinstance(where, int):
            self.parts.append(["at", ordinal, where, 1])
        else:
            self.parts.append(["in", ordinal, list(where)])


def _runs(places: list[Place]) -> Iterator[list[Place]]:
    """Yield the runs of neighbours: new messages of one event in their order, a place in a payload alone."""

    def key(numbered: tuple[int, Place]) -> object:
        at, (ordinal, where) = numbered
        return (ordinal, where - at) if isinstance(where, int) else (ordinal, where, at)

    for _, run in groupby(enumerate(places), key):
        yield [place for _, place in run]


def _pieces(places: list[Place]) -> Iterator[Any]:
    """Yield the parts of a context that needs no base."""
    unwritten = 0
    for run in _runs(places):
        ordinal, where = run[0]
        if not isinstance(where, int):
            yield ["in", ordinal, list(where)]
        elif ordinal > 0:
            yield ["at", ordinal, where, len(run)]
        else:
            for place in run:  # the first time a new message, later a reference to it
                if place[1] == unwritten:
                    unwritten += 1
                    yield _NEW
                else:
                    yield ["at", *place, 1]


def _common_prefix(one: list[bytes], other: list[bytes]) -> int:
    """Return how many first items are equal; lists that begin alike are compared by doubling, not item by item."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:  # the first `low` are equal, the first `high` + 1 are not
        middle = (low + high) // 2
        if one[low : middle + 1] == other[low : middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low


def _long_strings(value: Any, limit: int) -> Iterator[int]:
    """Yield the length of each string that is certainly put aside."""
    if isinstance(value, str):
        if len(value) > limit:
            yield len(value)
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _long_strings(item, limit)
