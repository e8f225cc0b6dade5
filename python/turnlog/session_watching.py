"""The part of a `Session` for what runs beside it: following its events, subscribing, child processes.

Owns: the names and examples of that part of the API. Invariant: importing this costs next to nothing. Must not know:
how a log is read, how a subscriber is told.
"""

from __future__ import annotations

import threading

from turnlog import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from turnlog._core import Receipt
    from turnlog.children import Children
    from turnlog.feed.feed import FeedEvent
    from turnlog.feed.subscribers import Subscriber
    from turnlog.log.log import Log
    from turnlog.log.tail import Tail
    from turnlog.memory import MemoryAppender
    from turnlog.model.live import Live

_CHANGING = threading.Lock()  # held while a session's subscribers change, or its children are made


class SessionWatching:
    """The methods of a `Session` for those who watch it."""

    _closed: bool
    _memory: MemoryAppender | None
    _subscribers: tuple[Subscriber, ...] = ()
    _children: Children | None = None

    if TYPE_CHECKING:

        @property
        def id(self) -> str: ...  # noqa: D102 - documented there
        def log(self, *, durable: bool = False) -> Log: ...  # noqa: D102 - documented there
        def _keeper(self) -> Live: ...
        def _written_head(self) -> dict[str, Any] | None: ...

    def follow(
        self,
        *,
        after: int | str = 0,
        types: Iterable[str] | None = None,
        timeout_ms: int | None = None,
        on_caught_up: Callable[[str], object] | None = None,
        on_damage: str = "raise",
    ) -> Iterator[FeedEvent]:
        """Iterate over the events after an ordinal or a cursor, and go on with new ones as they become durable, from
        any process: gap-free, each once. Each has a `cursor` to go on from later, also after a crash: a buffered event
        comes once it is synced, which `subscribe` does not wait for.

        `on_caught_up(cursor)` is called whenever everything that was there has been handed out. Ends when the session
        or store is closed in this process, or when nothing came for `timeout_ms`. At events that cannot be served
        Damaged is raised, and its `cursor` goes on behind them; with `on_damage="skip"` one event `feed.damaged` stands
        for them, also where `types` are given; see `FeedEvent`. Raises CursorMismatch where the log does not hold the
        event of the cursor (it lost its end, is a restored backup): at once, but for a log that ends below it while
        another process writes it, who may have more than is durable; that is waited for. Raises InvalidInput (no cursor
        of this session), StorageError, Closed.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     _ = session.append("note.written", {"text": "hello"})
        ...     for event in session.follow(timeout_ms=0):
        ...         cursor = event.cursor
        ...     _ = session.append("note.written", {"text": "there"})
        ...     [event.payload["text"] for event in session.follow(after=cursor, timeout_ms=0)]
        ['there']
        """
        from turnlog.feed.feed import waiting

        steps = self._steps(
            after=after, types=types, timeout_ms=timeout_ms, on_caught_up=on_caught_up, on_damage=on_damage
        )
        return waiting(steps)

    def _steps(
        self,
        *,
        after: int | str = 0,
        types: Iterable[str] | None = None,
        timeout_ms: int | None = None,
        on_caught_up: Callable[[str], object] | None = None,
        on_damage: str = "raise",
    ) -> Iterator[FeedEvent | None]:
        """Do as `follow` does, but yield None instead of waiting for a moment (for who waits otherwise).

        >>> from turnlog import Store
        >>> steps = Store.ephemeral().create()._steps()
        >>> next(steps).type, next(steps)
        ('session.created', None)
        """
        from turnlog.arguments import require_damage, require_function, require_whole
        from turnlog.feed.cursors import place_after
        from turnlog.feed.feed import follow, with_marks

        require_whole("timeout_ms", timeout_ms, optional=True)
        require_function("on_caught_up", on_caught_up)
        require_damage(on_damage)
        ordinal, mark = place_after(after, self.id)
        wanted = with_marks(types)
        return follow(
            self._place(ordinal, durable=True, mark=mark, on_damage=on_damage),
            self.id,
            wanted,
            ended=lambda: self._closed,
            timeout_ms=timeout_ms,
            on_caught_up=on_caught_up,
            begin=(ordinal, mark),
        )

    @property
    def children(self) -> Children:
        """The child processes that are stopped when the session closes.

        >>> from turnlog import Store
        >>> Store.ephemeral().create().children.names()
        []
        """
        with _CHANGING:
            if self._children is None:
                from turnlog.children import Children

                self._children = Children()
            return self._children

    def _kept_children(self) -> Children | None:
        """Return the registry if there is one; unlike `children`, this makes none (for the shutdown).

        >>> from turnlog import Store
        >>> Store.ephemeral().create()._kept_children() is None
        True
        """
        return self._children

    def _place(self, after: int, *, durable: bool = False, mark: bytes | None = None, on_damage: str = "raise") -> Tail:
        """Return a place in the session's log behind an ordinal, which moves forward (for feeds); a `durable` one never
        comes to what a crash could take back. See `Tail` for the rest.

        >>> from turnlog import Store
        >>> [event.type for event in Store.ephemeral().create()._place(0).look()]
        ['session.created']
        """
        from turnlog.log.tail import Tail

        if self._memory is not None:
            return self._memory.tail(after, mark)

        def newest() -> int | None:
            head = self._written_head()
            return None if head is None else int(head["ordinal"])

        return Tail(self.log(durable=durable), after, mark=mark, newest=newest, on_damage=on_damage)

    def subscribe(
        self,
        callback: Callable[[Any], object] | None = None,
        *,
        after: int | str | None = None,
        types: Iterable[str] | None = None,
        capacity: int = 1024,
        on_damage: str = "raise",
    ) -> Subscriber:
        """Hear what this process appends to the session, ephemeral events included; from now on, or from `after` on.

        With `callback`, a thread calls it with each event; an exception of it is logged, kept in `failures`, and the
        next event follows. Without, iterate over what is returned, or `read` it. A stored event comes when it has the
        durability it was appended with, and is never missed. Of ephemeral ones at most `capacity` wait: a slow
        subscriber misses the oldest and is told how many by one `feed.lagged` event; the writer never waits. Cursors
        and `on_damage` are those of `follow`. Ends with the session, or by `close()` or a `with` block.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> with session.subscribe() as subscriber:
        ...     _ = session.append("progress.updated", {"done": 1, "total": 2}, durability="ephemeral")
        ...     _ = session.append("message.user", {"content": "hello"})
        ...     [(event.type, event.ordinal) for event in subscriber.read()]
        [('progress.updated', 0), ('message.user', 2)]
        """
        from turnlog.arguments import require_damage
        from turnlog.feed.cursors import place_after
        from turnlog.feed.subscribers import Subscriber

        require_damage(on_damage)
        begin, mark = (self._newest(), None) if after is None else place_after(after, self.id)
        subscriber = Subscriber(callback, types=types, capacity=capacity, detach=self._detach)
        subscriber.add(self.id, self._place(begin, mark=mark, on_damage=on_damage), begin)
        self._join(subscriber)
        if self._closed:
            subscriber.end(self.id)
        return subscriber

    def _newest(self) -> int:
        """Return the ordinal of the newest event: the writer's, or one that can be read (for subscribers).

        >>> from turnlog import Store
        >>> Store.ephemeral().create()._newest()
        1
        """
        if self._memory is not None:
            return int(self._memory.head()["ordinal"])
        head = self._written_head()
        return self.log().head()[0] if head is None else int(head["ordinal"])

    def _join(self, subscriber: Subscriber) -> None:
        """Tell a subscriber of appends from now on (for `Store.subscribe`).

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session._join(session.subscribe())
        """
        with _CHANGING:
            if subscriber not in self._subscribers:
                self._subscribers = (*self._subscribers, subscriber)
        subscriber.wake(self.id)

    def _detach(self, subscriber: Subscriber) -> None:
        """Tell a subscriber no more (for its `close`).

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> session._detach(session.subscribe())
        """
        with _CHANGING:
            self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

    def _show(self, type: str, payload: object, receipt: Receipt) -> None:
        """Hand an ephemeral event to the subscribers."""
        from turnlog.feed.ephemeral import EphemeralEvent

        after = self._keeper().current().ordinal
        event = EphemeralEvent(self.id, type, _core.canonical(payload), receipt, after)
        for subscriber in self._subscribers:
            subscriber.show(event)

    def _wake(self) -> None:
        """Tell the subscribers that the log has grown."""
        for subscriber in self._subscribers:
            subscriber.wake(self.id)

    def _end_subscribers(self) -> None:
        """Tell the subscribers that nothing more comes from this session."""
        for subscriber in self._subscribers:
            subscriber.end(self.id)
