"""The part of a `Store` for what runs beside it: following all sessions, subscribing, closing at exit and at signals.

Owns: the names and examples of that part of the API. Invariant: importing this costs next to nothing. Must not know:
how sessions are merged, how a subscriber is told, how work is stopped.
"""

from __future__ import annotations

from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from turnlog.errors import TurnlogError
    from turnlog.feed.store_feed import StoreEvent
    from turnlog.feed.subscribers import Subscriber
    from turnlog.session import Session
    from turnlog.signals import SignalClose

_CHANGING = allocate_lock()  # held while a store's subscribers change


class StoreWatching:
    """The methods of a `Store` for those who watch it."""

    _closed: bool
    _subscribers: tuple[Subscriber, ...] = ()
    _signal_close: SignalClose | None = None

    if TYPE_CHECKING:

        def _open_sessions(self) -> list[Session]: ...
        def session_ids(self) -> list[str]: ...  # noqa: D102 - documented there
        def session(self, id: str) -> Session: ...  # noqa: D102 - documented there

    def follow(
        self,
        *,
        after: str | None = None,
        types: Iterable[str] | None = None,
        timeout_ms: int | None = None,
        on_caught_up: Callable[[str], object] | None = None,
        on_failure: Callable[[str, TurnlogError], object] | None = None,
        on_damage: str = "raise",
    ) -> Iterator[StoreEvent]:
        """Iterate over the events of all sessions, from any process, and go on with what comes, also in new sessions.

        `after` is the `cursor` of an event of an earlier `follow`, or that of `Store.cursor`; None begins at the
        beginning. Of each session the events come in order, gap-free and once; a fork begins behind what it inherits.
        `on_caught_up(cursor)` is called whenever everything that was there has been handed out. Ends when the store is
        closed in this process, or when nothing came for `timeout_ms`.

        At events that cannot be served Damaged is raised, once the other sessions had their say: it names the session,
        and its `cursor` goes on behind the damage and in all others. With `on_damage="skip"` one event `feed.damaged`
        stands for them, and nothing is raised; see `Session.follow`, also for CursorMismatch, whose `cursor` begins
        that session anew. With `on_failure(session_id, error)` a session that cannot be read is left out instead, and
        the others go on. A session of the cursor that is not in the store is passed over. Raises InvalidInput (no store
        cursor), StorageError.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     first, second = store.create(), store.create()
        ...     for event in store.follow(timeout_ms=0):
        ...         cursor = event.cursor
        ...     _ = second.append("note.written", {"text": "hello"})
        ...     [event.session == second.id for event in store.follow(after=cursor, timeout_ms=0)]
        [True]
        """
        from turnlog.feed.feed import waiting

        steps = self._steps(
            after=after,
            types=types,
            timeout_ms=timeout_ms,
            on_caught_up=on_caught_up,
            on_failure=on_failure,
            on_damage=on_damage,
        )
        return waiting(steps)

    def _steps(
        self,
        *,
        after: str | None = None,
        types: Iterable[str] | None = None,
        timeout_ms: int | None = None,
        on_caught_up: Callable[[str], object] | None = None,
        on_failure: Callable[[str, TurnlogError], object] | None = None,
        on_damage: str = "raise",
    ) -> Iterator[StoreEvent | None]:
        """Do as `follow` does, but yield None instead of waiting for a moment (for who waits otherwise).

        >>> from turnlog import Store
        >>> next(Store.ephemeral()._steps()) is None
        True
        """
        from typing import cast

        from turnlog.arguments import require_damage, require_function, require_whole
        from turnlog.feed.cursors import parse_store_cursor
        from turnlog.feed.feed import with_marks
        from turnlog.feed.store_feed import StoreFeed, follow_store

        require_whole("timeout_ms", timeout_ms, optional=True)
        require_function("on_caught_up", on_caught_up)
        require_function("on_failure", on_failure)
        require_damage(on_damage)
        wanted = with_marks(types)
        places = {} if after is None else parse_store_cursor(after)
        feed = StoreFeed(cast("Any", self), places, wanted, on_damage)
        return follow_store(
            feed,
            ended=lambda: self._closed,
            timeout_ms=timeout_ms,
            on_caught_up=on_caught_up,
            on_failure=on_failure,
        )

    def cursor(self) -> str:
        """Return the cursor behind everything that is durable now: looks into the newest segment of every session.

        Raises Damaged, StorageError.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     cursor = store.cursor()
        ...     _ = session.append("note.written", {"text": "hello"})
        ...     [event.type for event in store.follow(after=cursor, timeout_ms=0)]
        ['note.written']
        """
        from turnlog.feed.cursors import mark_of, store_cursor
        from turnlog.log.log import Window

        places = {}
        for session_id in {*self.session_ids(), *(session.id for session in self._open_sessions())}:
            log = self.session(session_id).log(durable=True)
            try:
                newest = next(log.events_reversed(Window()), None)
                if newest is not None:
                    places[session_id] = newest.ordinal, mark_of(newest.event_id)
            finally:
                log.close()
        return store_cursor(places)

    def subscribe(
        self,
        callback: Callable[[Any], object] | None = None,
        *,
        types: Iterable[str] | None = None,
        capacity: int = 1024,
        on_damage: str = "raise",
    ) -> Subscriber:
        """Hear what this process appends from now on to any session of the store; see `Session.subscribe`.

        >>> from turnlog import Store
        >>> store = Store.ephemeral()
        >>> with store.subscribe() as subscriber:
        ...     session = store.create()
        ...     [(event.session == session.id, event.type) for event in subscriber.read()]
        [(True, 'session.created')]
        """
        from turnlog.arguments import require_damage
        from turnlog.feed.subscribers import Subscriber

        require_damage(on_damage)
        subscriber = Subscriber(
            callback, types=types, capacity=capacity, detach=self._detach, single=False, on_damage=on_damage
        )
        with _CHANGING:
            self._subscribers = (*self._subscribers, subscriber)
        for session in self._open_sessions():
            self._greet(session)
        if self._closed:
            subscriber.end()
        return subscriber

    def _greet(self, session: Session) -> None:
        """Let the store's subscribers hear of a session, if it is open for writing here (for `Session`).

        >>> from turnlog import Store
        >>> store = Store.ephemeral()
        >>> store._greet(store.create())
        """
        if self._subscribers and session._shown() is not None:
            newest = session._newest()
            for subscriber in self._subscribers:
                subscriber.add(session.id, session._place(newest, on_damage=subscriber._on_damage), newest)
                session._join(subscriber)

    def _detach(self, subscriber: Subscriber) -> None:
        with _CHANGING:
            self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)
        for session in self._open_sessions():
            session._detach(subscriber)

    def _end_subscribers(self) -> None:
        for subscriber in self._subscribers:
            subscriber.end()

    # -- the end ---------------------------------------------------------------------------------------------------

    def close_on_signals(self, *signals: int, deadline_ms: int = 10_000) -> SignalClose:
        """Close the store in order when the process is told to end: at SIGTERM, or at the signals given.

        Turns are asked to stop (`Turn.cancelled`). If the main thread began one and has not ended it after a fifth of
        the deadline, `SignalExit` is raised in it, so that `with` blocks abort the turn and close what they opened.
        Then the store is closed in the main thread, as soon as that is not inside turnlog, and the signal does what it
        would have done before: a handler that was there is called, else the process ends by the signal (after
        `SignalExit` when the interpreter exits, at the deadline at the latest). Handlers are put back by `restore()`, a
        `with` block or `close`. Call it in the main thread. Raises Closed, ValueError.

        >>> import signal
        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.close_on_signals(signal.SIGTERM, signal.SIGHUP):
        ...     session = store.create(title="a service")
        """
        from signal import SIGTERM
        from typing import cast

        from turnlog.signals import SignalClose

        self._refuse_closed()
        self._signal_close = SignalClose(cast("Any", self), signals or (SIGTERM,), deadline_ms)
        return self._signal_close

    def _refuse_closed(self) -> None:
        """Raise Closed when the store is closed (for `close_on_signals`, also that of the async facade).

        >>> from turnlog import Store
        >>> Store.ephemeral()._refuse_closed()
        """
        from turnlog.errors import Closed

        if self._closed:
            raise Closed("the store is closed")

    def _close_at_exit(self) -> None:
        from typing import cast

        from turnlog.shutdown import close_at_exit

        close_at_exit(cast("Any", self))

    def _forget_endings(self) -> None:
        """Undo what would close the store at exit or at a signal."""
        from typing import cast

        from turnlog.shutdown import forget

        forget(cast("Any", self))
        if self._signal_close is not None:
            self._signal_close.store_closed()
