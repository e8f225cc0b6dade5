"""The feed of one session: its events as they become durable, each with the cursor to go on from.

Owns: what a feed hands out, the loop that waits, and the memory of a client that may be handed an event twice.
Invariants: gap-free, no repeats, from any process; nothing is handed out that a crash could take back; what is lost is
an error that says where to go on, or a mark that comes whatever types are asked for; the end of the log is announced
when everything before it was handed out. Must not know: where a log is, how it is read.
"""

from __future__ import annotations

import time

from turnlog.errors import CursorMismatch, Damaged
from turnlog.feed.cursors import (
    START,
    mark_of,
    parse_session_cursor,
    parse_store_cursor,
    session_cursor,
    store_cursor,
)
from turnlog.log.log import types_wanted
from turnlog.log.lost import LOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from turnlog._core import Event
    from turnlog.feed.cursors import Place
    from turnlog.log.lost import LostEvents
    from turnlog.log.tail import Tail

    Item = TypeVar("Item")

POLL_S = 0.02


class FeedEvent:
    """An event as a feed hands it out: everything that `event` has, with `session` and `cursor`.

    With `on_damage="skip"` one of type `feed.damaged` stands for events that cannot be read: its payload holds `first`
    and `last`, the lost ordinals (`last` is None where nobody knows how much is lost), and a `message`.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create(title="flaky test")
    >>> item = next(session.follow(timeout_ms=0))
    >>> item.type, item.payload, item.cursor.startswith(f"{session.id}:1:")
    ('session.created', {'title': 'flaky test'}, True)
    """

    __slots__ = ("event", "session")

    if TYPE_CHECKING:
        ordinal: int
        type: str
        time_us: int
        id: str
        event_id: bytes
        digest: bytes
        size: int
        is_raw: bool
        durable: bool
        raw: bytes
        payload: Any

    def __init__(self, event: Event | LostEvents, session: str) -> None:
        """Keep the event; made by `Session.follow` and `Store.follow`."""
        self.event = event
        self.session = session

    @property
    def cursor(self) -> str:
        """What to give to `follow(after=...)` so that it goes on behind this event."""
        return session_cursor(self.session, self.event.ordinal, mark_of(self.event.event_id))

    def __getattr__(self, name: str) -> object:
        """Find everything else in the event."""
        return getattr(self.event, name)

    def __repr__(self) -> str:
        """Name the session and the event in one line."""
        return f"<FeedEvent {self.session}:{self.event.ordinal} {self.event.type}>"


def with_marks(types: Iterable[str] | None) -> frozenset[str] | None:
    """Return the types that a caller names, None for all, with the mark of lost events. Raises InvalidInput.

    >>> sorted(with_marks(["tool.started"]))
    ['feed.damaged', 'tool.started']
    """
    wanted = types_wanted(types)
    return None if wanted is None else wanted | {LOST}


def behind(error: Damaged) -> int | None:
    """Return the ordinal behind which events can be read again, and say how to; None where nobody knows.

    >>> error = Damaged("events 4 to 9 cannot be read")
    >>> error.lost = 4, 9
    >>> behind(error), error.message
    (9, "events 4 to 9 cannot be read; on_damage='skip', or the error's `cursor`, goes on behind them")
    """
    ways = "on_damage='skip'"
    last = None if error.lost is None or error.is_open else error.lost[1]
    if last is not None:
        ways += ", or the error's `cursor`,"
    error.message = f"{error.message}; {ways} goes on behind them"
    return last


def waiting(steps: Iterator[Item | None]) -> Iterator[Item]:
    """Yield what comes; where there is nothing now, sleep a moment.

    >>> list(waiting(iter([1, None, 2])))
    [1, 2]
    """
    for item in steps:
        if item is None:
            time.sleep(POLL_S)
        else:
            yield item


def follow(
    place: Tail,
    session: str,
    types: frozenset[str] | None,
    *,
    ended: Callable[[], bool],
    timeout_ms: int | None,
    on_caught_up: Callable[[str], object] | None,
    begin: Place = START,
) -> Iterator[FeedEvent | None]:
    """Yield the events behind a place (`begin`) as they come, until `ended` or until none came for `timeout_ms`.

    None stands for a moment to wait.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> list(session.follow(timeout_ms=0, on_caught_up=lambda cursor: print("caught up at", cursor[36:38])))[0].ordinal
    caught up at :1
    1
    """
    idle_since = time.monotonic()
    last, told = begin, False
    try:
        while True:
            over = ended()  # asked before the look, so that what was appended before the end is handed out
            events = look(place, session)
            for event in events:
                if types is None or event.type in types:
                    yield FeedEvent(event, session)
            if events:
                idle_since, told = time.monotonic(), False
                last = events[-1].ordinal, mark_of(events[-1].event_id)
                continue
            if not told and on_caught_up is not None and not place.is_waiting:
                on_caught_up(session_cursor(session, *last))
            told = not place.is_waiting
            if over or (timeout_ms is not None and (time.monotonic() - idle_since) * 1000 >= timeout_ms):
                return
            yield None
    finally:
        place.close()


def look(place: Tail, session: str) -> list[Event | LostEvents]:
    """Return what is new in a session. Raises what `Tail.look` does, with the cursor that goes on behind damage, or
    begins the session anew where the log does not hold the event of the one that was given.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> [event.type for event in look(session._place(0), session.id)]
    ['session.created']
    """
    try:
        return place.look()
    except Damaged as error:
        last = behind(error)
        error.cursor = None if last is None else session_cursor(session, last)
        raise
    except CursorMismatch as error:
        error.cursor = session_cursor(session, 0)
        raise


class SeenEvents:
    """What a client has seen, so that an event that reaches it twice counts once: after a reconnect, or two feeds.

    Holds one ordinal per session. `cursor` covers all sessions; it can be given to `Store.follow`, and to a new
    `SeenEvents` after a restart.

    >>> seen = SeenEvents()
    >>> cursor = "019b76da-a800-7000-8000-000000000001:12"
    >>> seen.is_new(cursor), seen.is_new(cursor)
    (True, False)
    >>> SeenEvents(seen.cursor).is_new(cursor)
    False
    """

    def __init__(self, cursor: str | None = None) -> None:
        """Begin with nothing, or with all that a cursor of a store or of a session covers. Raises InvalidInput."""
        self._last: dict[str, Place] = {}
        if isinstance(cursor, str) and ":" in cursor:
            session, ordinal, mark = parse_session_cursor(cursor)
            self._last[session] = ordinal, mark
        elif cursor is not None:
            self._last = parse_store_cursor(cursor)

    def is_new(self, event: FeedEvent | str) -> bool:
        """Tell whether an event, or a session's cursor, is beyond all that was seen of its session, and note it.

        Raises InvalidInput for a text that is no cursor of a session.

        >>> seen = SeenEvents()
        >>> [seen.is_new(f"019b76da-a800-7000-8000-000000000001:{ordinal}") for ordinal in (1, 3, 2, 3, 4)]
        [True, True, False, False, True]
        """
        if isinstance(event, FeedEvent):
            session, ordinal, mark = event.session, event.ordinal, mark_of(event.event_id)
        else:
            session, ordinal, mark = parse_session_cursor(event)
        if ordinal <= self._last.get(session, START)[0]:
            return False
        self._last[session] = ordinal, mark
        return True

    @property
    def cursor(self) -> str:
        """The cursor of a store that covers everything that was seen."""
        return store_cursor(self._last)
