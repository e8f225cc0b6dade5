"""The feed of a whole store: the events of all its sessions, those that come later included.

Owns: the merge, the cursor that covers all sessions, and how many files stay open. Invariants: of each session, events
come in order, gap-free and once; the cursor of an event covers exactly what was handed out up to it, whenever it is
asked for; a session that cannot be read is an error only when the others' events of that look were handed out; at most
a few dozen sessions have open files. Must not know: which sessions changed (sources.py), who asks.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from turnlog import names
from turnlog.errors import CursorMismatch, Damaged, StorageError, TurnlogError
from turnlog.feed.cursors import NO_MARK, START, mark_of, session_cursor, store_cursor
from turnlog.feed.feed import FeedEvent, behind
from turnlog.feed.sources import Sources
from turnlog.log.log import Log
from turnlog.log.tail import Tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnlog._core import Event
    from turnlog.feed.cursors import Place
    from turnlog.log.lost import LostEvents
    from turnlog.store import Store

_OPEN_MAX = 32
_TRAIL_STEPS = 1024


class Trail:
    """Places in all sessions after each of some steps: a copy of where they began, and the steps since."""

    __slots__ = ("begin", "steps")

    def __init__(self, begin: dict[str, Place]) -> None:
        """Begin at some places."""
        self.begin = dict(begin)
        self.steps: list[tuple[str, Place]] = []

    def cursor(self, steps: int) -> str:
        """Return the cursor after so many steps.

        >>> trail = Trail({})
        >>> trail.steps.append(("019b76da-a800-7000-8000-000000000001", (1, NO_MARK)))
        >>> trail.cursor(0) == Trail({}).cursor(0), trail.cursor(1) == trail.cursor(0)
        (True, False)
        """
        return store_cursor(self.begin | dict(self.steps[:steps]))


class StoreEvent(FeedEvent):
    """An event of `Store.follow`: `cursor` covers all sessions, `session_cursor` this one.

    >>> from turnlog import Store
    >>> store = Store.ephemeral()
    >>> session = store.create()
    >>> item = next(store.follow(timeout_ms=0))
    >>> item.session_cursor.startswith(f"{session.id}:1:"), list(store.follow(after=item.cursor, timeout_ms=0))
    (True, [])
    """

    __slots__ = ("_steps", "_trail")

    def __init__(self, event: Event | LostEvents, session: str, trail: Trail) -> None:
        """Keep the event and the step that it is."""
        super().__init__(event, session)
        self._trail = trail
        self._steps = len(trail.steps)

    @property
    def cursor(self) -> str:
        """What to give to `Store.follow(after=...)`; made when asked for, its length grows with the sessions."""
        return self._trail.cursor(self._steps)

    @property
    def session_cursor(self) -> str:
        """What to give to `Session.follow(after=...)` of this session."""
        return session_cursor(self.session, self.event.ordinal, mark_of(self.event.event_id))


class StoreFeed:
    """Reads what is new in a store; one thread at a time."""

    def __init__(
        self, store: Store, places: dict[str, Place], types: frozenset[str] | None, on_damage: str = "raise"
    ) -> None:
        """Begin behind some places; a session without one is read from its first own event."""
        self.places = places
        self._unconfirmed = {session_id: mark for session_id, (_, mark) in places.items()}
        self._on_damage = on_damage
        self._store = store
        self._types = types
        self._trail = Trail(places)
        self._sources = Sources(store, places)
        self._tails: dict[str, Tail] = {}  # the last used ones, the oldest first
        self._failed: set[str] = set()

    def look(
        self, on_failure: Callable[[str, TurnlogError], object] | None = None, *, everything: bool = False
    ) -> Iterator[StoreEvent | None]:
        """Yield what is new, at most a batch of each session; None stands for events of other types.

        >>> from turnlog import Store
        >>> store = Store.ephemeral()
        >>> session = store.create()
        >>> [item.type for item in StoreFeed(store, {}, None).look()]
        ['session.created']
        """
        failure: TurnlogError | None = None
        for session_id in self._sources.due(everything=everything):
            if session_id in self._failed:
                continue
            mark = self._sources.mark(session_id)
            try:
                events = self._read(session_id)
            except TurnlogError as error:
                if on_failure is None:
                    failure = failure or error
                else:
                    self._failed.add(session_id)
                    on_failure(session_id, error)
                continue
            is_settled = not events and session_id not in self._unconfirmed
            self._sources.marks[session_id] = mark if is_settled else None
            for event in events:
                yield self._step(session_id, event)
        if failure is not None:
            raise self._leading_on(failure)

    def _leading_on(self, failure: TurnlogError) -> TurnlogError:
        """Return an error of one session with the cursor that goes on behind it, and where they were in the others."""
        session_id = failure.session or ""
        if isinstance(failure, Damaged):
            last = behind(failure)
            failure.cursor = None if last is None else store_cursor({**self.places, session_id: (last, NO_MARK)})
        elif isinstance(failure, CursorMismatch):
            failure.cursor = store_cursor({**self.places, session_id: START})
        return failure

    def _step(self, session_id: str, event: Event | LostEvents) -> StoreEvent | None:
        if len(self._trail.steps) >= max(_TRAIL_STEPS, len(self._trail.begin)):
            self._trail = Trail(self.places)
        place = self.places[session_id] = event.ordinal, mark_of(event.event_id)
        self._trail.steps.append((session_id, place))
        return StoreEvent(event, session_id, self._trail) if self._types is None or event.type in self._types else None

    def _read(self, session_id: str) -> list[Event | LostEvents]:
        tail = self._tails.pop(session_id, None) or self._open(session_id)
        if tail is None:
            self._unconfirmed.pop(session_id, None)
            return []
        self._tails[session_id] = tail
        while len(self._tails) > _OPEN_MAX:
            self._tails.pop(next(iter(self._tails))).close()
        try:
            events = tail.look()
        except StorageError:
            if self._is_there(session_id):
                raise
            del self._tails[session_id]  # taken away by hand: there is nothing more to hand out
            return []
        self._sources.paths[session_id] = tail.path
        if not tail.is_waiting:
            self._unconfirmed.pop(session_id, None)
        return events

    def _is_there(self, session_id: str) -> bool:
        return bool(self._store.path) and os.path.isdir(names.session_dir(self._store.path, session_id))

    def _open(self, session_id: str) -> Tail | None:
        """Return the place to go on from in a session; None when its folder is gone, or holds nothing yet."""
        session = self._store._opened(session_id)
        after, mark = self.places.get(session_id, START)[0], self._unconfirmed.get(session_id)
        if session is not None and session.is_ephemeral:
            return session._place(after, mark=mark)
        if not self._is_there(session_id):
            return None
        store = self._store

        def durable_end() -> tuple[str, int] | None:
            writing = store._opened(session_id)
            return None if writing is None else writing._durable_end()

        def newest() -> int | None:
            writing = store._opened(session_id)
            head = None if writing is None else writing._written_head()
            return None if head is None else int(head["ordinal"])

        log = Log(names.session_dir(store.path, session_id), session_id, durable_end)
        begin = max(after, log.fork_ordinal())
        expected = mark if begin == after else None
        return Tail(log, begin, mark=expected, newest=newest, on_damage=self._on_damage)

    def close(self) -> None:
        """Close the files.

        >>> from turnlog import Store
        >>> StoreFeed(Store.ephemeral(), {}, None).close()
        """
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()


def follow_store(
    feed: StoreFeed,
    *,
    ended: Callable[[], bool],
    timeout_ms: int | None,
    on_caught_up: Callable[[str], object] | None,
    on_failure: Callable[[str, TurnlogError], object] | None,
) -> Iterator[StoreEvent | None]:
    """Yield what comes, until `ended` or until nothing came for `timeout_ms`; see `Store.follow`.

    None stands for a moment to wait.

    >>> from turnlog import Store
    >>> feed = StoreFeed(Store.ephemeral(), {}, None)
    >>> list(follow_store(feed, ended=lambda: True, timeout_ms=None, on_caught_up=None, on_failure=None))
    []
    """
    idle_since, told = time.monotonic(), False
    try:
        while True:
            over, some = ended(), False
            for everything in (False, True):  # before an end is announced, new sessions are looked for too
                idle_ms = (time.monotonic() - idle_since) * 1000
                ending = over or (timeout_ms is not None and idle_ms >= timeout_ms)
                if everything and (some or (told and not ending)):
                    break
                for item in feed.look(on_failure, everything=everything):
                    some = True
                    if item is not None:
                        yield item
            if some:
                idle_since, told = time.monotonic(), False
                continue
            if not told and on_caught_up is not None:
                on_caught_up(store_cursor(feed.places))
            told = True
            if ending:
                return
            yield None
    finally:
        feed.close()
