"""Subscribers inside the writing process: they hear of stored events and of ephemeral ones, each at their own pace.

Owns: the queue of ephemeral events, the wake-up, the thread of a callback. Invariants: the writer never waits for a
subscriber; stored events are read from the log, so none comes before it has its durability and none is missed; of
ephemeral ones only so many are kept, and one notice per session says how many were dropped; what one subscriber does,
raises or does not read touches neither the log nor the others; a session that cannot be read takes nothing from the
others. Must not know: sessions, stores, what events mean.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from turnlog.arguments import require_function, require_whole
from turnlog.errors import TurnlogError
from turnlog.feed.ephemeral import EphemeralEvent, lagged
from turnlog.feed.feed import FeedEvent, look, with_marks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from turnlog._core import Event
    from turnlog.log.lost import LostEvents
    from turnlog.log.tail import Tail

FAILURES_MAX = 16
_GATHER_S = 0.001  # after a wake-up: what comes meanwhile is read in one go, and the writer is interrupted less
_PACE_S, _BATCH_EVENTS = 0.003, 64  # a thread rests after a smaller batch, or a busy writer is interrupted for each
_LOOKS_AGAIN_S = 0.5  # also without a wake-up, for a session that another process writes


class Subscriber:
    """One subscriber; made by `Session.subscribe` and `Store.subscribe`. Reading is for one thread at a time.

    `failures` keeps the latest exceptions of the callback, `missed` counts the ephemeral events it never saw.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> with session.subscribe(capacity=2) as subscriber:
    ...     for done in range(5):
    ...         _ = session.append("progress.updated", {"done": done}, durability="ephemeral")
    ...     [event.payload for event in subscriber.read()]
    [{'missed': 3}, {'done': 3}, {'done': 4}]
    """

    def __init__(
        self,
        callback: Callable[[Any], object] | None,
        *,
        types: Iterable[str] | None,
        capacity: int,
        detach: Callable[[Subscriber], object],
        single: bool = True,
        on_damage: str = "raise",
    ) -> None:
        """Start the thread if there is a callback. A `single` one ends with the session that it follows.

        Raises InvalidInput for a capacity below 1.
        """
        require_whole("capacity", capacity, least=1)
        require_function("callback", callback)
        self.callback = callback
        self._on_damage = on_damage  # of the sessions that come later (for `Store`)
        self.failures: list[BaseException] = []
        self.missed = 0
        self.closed = False
        self._types = with_marks(types)
        self._detach = detach
        self._single = single
        self._reading = threading.Lock()  # held while places are read, so that nobody closes them meanwhile
        self._capacity = capacity
        self._changed = threading.Condition()
        self._places: dict[str, Tail] = {}
        self._positions: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._shown: deque[EphemeralEvent] = deque()
        self._untold: dict[str, int] = {}  # by session: dropped since the last notice
        self._failure: TurnlogError | None = None  # of a session, to be raised when the others' events were returned
        self._ended: set[str] = set()
        self._ending = False
        self._thread: threading.Thread | None = None
        if callback is not None:
            self._thread = threading.Thread(target=self._run, name="turnlog-subscriber", daemon=True)
            self._thread.start()

    # -- for the writer --------------------------------------------------------------------------------------------

    def add(self, session: str, place: Tail, after: int) -> None:
        """Follow a session from a place on, unless it is followed already (for the writer).

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> subscriber = session.subscribe()
        >>> subscriber.add(session.id, session._place(0), 0)
        """
        with self._changed:
            self._ended.discard(session)
            if session not in self._places:
                self._places[session] = place
                self._positions[session] = after
                self._dirty.add(session)
                self._changed.notify_all()

    def wake(self, session: str) -> None:
        """Note that a log has grown (for the writer); costs next to nothing until the subscriber has looked.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> subscriber = session.subscribe()
        >>> subscriber.wake(session.id)
        """
        if session not in self._dirty:
            with self._changed:
                self._dirty.add(session)
                self._changed.notify_all()

    def show(self, event: EphemeralEvent) -> None:
        """Queue an ephemeral event (for the writer); where the queue is full, its oldest is dropped.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> subscriber = session.subscribe()
        >>> subscriber.show(EphemeralEvent(session.id, "acme.tick", b"{}", None, 1))
        >>> [event.type for event in subscriber.read()]
        ['acme.tick']
        """
        if self._types is not None and event.type not in self._types:
            return
        with self._changed:
            if len(self._shown) >= self._capacity:
                dropped = self._shown.popleft().session
                self._untold[dropped] = self._untold.get(dropped, 0) + 1
                self.missed += 1
            self._shown.append(event)
            self._changed.notify_all()

    def end(self, session: str | None = None) -> None:
        """Note that nothing comes any more (for the writer): from one session, or (None) at all.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> subscriber = session.subscribe()
        >>> subscriber.end()
        >>> subscriber.read(), subscriber.closed
        ([], True)
        """
        with self._changed:
            if session is None:
                self._ending = True
            else:
                self._ended.add(session)
                self._dirty.add(session)
            self._changed.notify_all()

    # -- for the reader --------------------------------------------------------------------------------------------

    def read(self, timeout_ms: int | None = 0) -> list[FeedEvent | EphemeralEvent]:
        """Return what came, in order; wait up to `timeout_ms` (None: without limit) when there is nothing.

        An empty list means that nothing came in time or, once `closed` is set, that nothing will. Raises Damaged,
        CursorMismatch, StorageError, in a call of its own: what other sessions have comes before and after.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> [event.type for event in session.subscribe(after=0).read()]
        ['session.created']
        """
        require_whole("timeout_ms", timeout_ms, optional=True)
        deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        self._raise_failure()
        while not self.closed:
            over, waited = self._ending, False
            with self._reading:
                found = self._look()
            if found:
                return found
            self._raise_failure()
            if over and not self._dirty:
                self.close()
            with self._changed:
                left = _LOOKS_AGAIN_S if deadline is None else deadline - time.monotonic()
                if self.closed or left <= 0:
                    break
                if not self._dirty and not self._shown and self._ending == over:
                    self._changed.wait(min(left, _LOOKS_AGAIN_S))
                    if not self._dirty and not self._shown:
                        self._dirty.update(self._places)
                    waited = True
            if waited:
                time.sleep(_GATHER_S)
        return []

    def __iter__(self) -> Iterator[FeedEvent | EphemeralEvent]:
        """Yield what comes until the subscriber is closed, or what it follows."""
        while not self.closed:
            yield from self.read(None)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _look(self) -> list[FeedEvent | EphemeralEvent]:
        """Return a batch of each session that has grown, with the ephemeral events in their places."""
        with self._changed:
            dirty, self._dirty = self._dirty, set()
            ended = set(self._ended)
            dirty |= {event.session for event in self._shown} & self._places.keys()
        found: dict[str, list[Event | LostEvents]] = {}
        failed: set[str] = set()
        for session in dirty:
            place = self._places.get(session)
            try:
                events = [] if place is None else look(place, session)
            except TurnlogError as error:
                self._failure = self._failure or error
                failed.add(session)
                events = []
            if events:
                found[session] = events
                self._positions[session] = events[-1].ordinal
            elif session in ended:
                failed.discard(session)
                self._leave(session)
        with self._changed:
            self._dirty |= found.keys() | failed  # a batch may have been cut short, a failure is raised each time
            ready, waiting = list[EphemeralEvent](), deque[EphemeralEvent]()
            for event in self._shown:
                behind = event.session in found and event.after > self._positions[event.session]
                (waiting if behind else ready).append(event)
            self._shown = waiting
            missed, self._untold = self._untold, {}
        return self._in_order(found, ready, missed)

    def _in_order(
        self, found: dict[str, list[Event | LostEvents]], shown: list[EphemeralEvent], missed: dict[str, int]
    ) -> list[FeedEvent | EphemeralEvent]:
        out: list[FeedEvent | EphemeralEvent] = [lagged(session, count) for session, count in missed.items()]
        for session, events in found.items():
            own = deque(event for event in shown if event.session == session)
            for event in events:
                while own and own[0].after < event.ordinal:
                    out.append(own.popleft())
                if self._types is None or event.type in self._types:
                    out.append(FeedEvent(event, session))
            out.extend(own)
        out.extend(event for event in shown if event.session not in found)
        return out

    def _leave(self, session: str) -> None:
        place = self._places.pop(session, None)
        if place is not None:
            place.close()
        self._ended.discard(session)
        self._ending |= self._single

    # -- the callback and the end ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self.closed:
            try:
                found = self.read(None)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a thread has nobody to raise to
                self._report(error)
                self.close()
                return
            for event in found:
                if not self.closed:
                    self._call(event)
            if len(found) < _BATCH_EVENTS:
                time.sleep(_PACE_S)

    def _call(self, event: FeedEvent | EphemeralEvent) -> None:
        try:
            if self.callback is not None:
                self.callback(event)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it is reported, and is not the writer's
            self._report(error)

    def _report(self, error: BaseException) -> None:
        import logging

        self.failures = [*self.failures, error][-FAILURES_MAX:]
        logging.getLogger("turnlog").error("a subscriber failed: %r", self, exc_info=error)

    def close(self) -> None:
        """Hear nothing more; idempotent, also from inside the callback.

        >>> from turnlog import Store
        >>> subscriber = Store.ephemeral().create().subscribe()
        >>> subscriber.close()
        >>> subscriber.closed
        True
        """
        if self.closed:
            return
        self._detach(self)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        with self._reading:
            for place in self._places.values():
                place.close()

    def __enter__(self) -> Self:
        """Return the subscriber."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hear nothing more."""
        self.close()

    def __repr__(self) -> str:
        """Name the callback."""
        return f"<Subscriber {getattr(self.callback, '__qualname__', self.callback)}>"
