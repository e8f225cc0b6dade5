"""A session: append events to it, read them back.

Owns: the raw level of the API - what an application calls with any event type; `session_model.py` holds the level above
it. Invariants: an append returns only when the event has the durability asked for, and when the state, if there is one,
holds it; readers need no lock. Must not know: frames, segments, SQL.
"""

from __future__ import annotations

import sys
import threading
from itertools import islice

from turnlog import names
from turnlog.arguments import (
    EPHEMERAL,
    EPHEMERAL_TYPES,
    LEVELS,
    full_items,
    refuse_to_store,
    require_damage,
    require_level,
    require_whole,
    unknown_level,
)
from turnlog.errors import Closed, Locked
from turnlog.ids import parse_id
from turnlog.log.log import Log, Window, types_wanted
from turnlog.session_model import SessionModel
from turnlog.session_watching import SessionWatching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Any, Self

    from turnlog._core import Event, Receipt
    from turnlog.errors import TurnlogError
    from turnlog.log.appender import Appender
    from turnlog.memory import MemoryAppender
    from turnlog.store import Store

DURABLE = "durable"
BUFFERED = "buffered"


class Session(SessionModel, SessionWatching):
    """One agent session of a store. Thread-safe."""

    def __init__(self, store: Store, session_id: str) -> None:
        """Use `Store.create` or `Store.session`."""
        self._id = session_id
        self._store = store
        self._guard = threading.RLock()  # a signal may close the session in the thread that holds it
        self._ending = threading.RLock()  # so may it here
        self._appender: Appender | None = None
        self._memory: MemoryAppender | None = None  # of an ephemeral session
        self._lock_error: Locked | None = None
        self._closed = False

    # -- appending -------------------------------------------------------------------------------------------------

    def append(
        self, type: str, payload: object, *, id: str | bytes | None = None, durability: str = DURABLE, raw: bool = False
    ) -> Receipt:
        """Append one event and return its receipt.

        `type` is a short dotted ASCII name, `payload` anything canonical JSON can hold, or bytes with `raw=True`.
        `durability="durable"` returns after the event and all before it were synced; `"buffered"` after the operating
        system has it (synced within 100 ms); `"ephemeral"` tells only those who watch, and its receipt has ordinal 0.
        An `id` (UUID) makes a retry safe: the same id with equal content returns the first receipt, with other
        content raises Conflict; the events that a fork inherits count too.

        Raises InvalidPayload, InvalidType, InvalidInput (a type that is never stored), InvalidId, PayloadTooLarge (all:
        nothing was written), NoSpace (rolled back, retry later), SyncFailed (reopen the session), Locked, ReadOnly,
        Closed, WrongProcess.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> first = session.append("note.written", {"text": "hello"}, id="01890a5d-ac96-774b-bcce-b302099a8057")
        >>> session.append("note.written", {"text": "hello"}, id="01890a5d-ac96-774b-bcce-b302099a8057") == first
        True
        """
        appender = self._appender or self._open_appender()
        durable = LEVELS.get(durability) if isinstance(durability, str) else None
        if durable is None:
            if durability == EPHEMERAL:
                receipt = self._keeper().show(type, payload, id)
                if self._subscribers:
                    self._show(type, payload, receipt)
                return receipt
            raise unknown_level(durability)
        if type.__class__ is str and type in EPHEMERAL_TYPES:
            raise refuse_to_store(type)
        try:
            receipt = appender.append(
                type, payload, None if id is None else parse_id(id), durable=durable, raw=bool(raw)
            )
            if self._live is not None:
                self._live.take(receipt, type, payload)
        except Closed:
            raise self._why_closed() from None
        except BaseException as error:
            self._doubt(error)
            raise
        if self._subscribers:
            self._wake()
        return receipt

    def append_many(
        self,
        items: Iterable[
            tuple[str, object] | tuple[str, object, str | bytes | None] | tuple[str, object, str | bytes | None, bool]
        ],
        *,
        atomic: bool = False,
        durability: str = DURABLE,
    ) -> list[Receipt]:
        """Append several events with one write and one sync; each item is (type, payload[, id[, raw]]).

        With `atomic=True` they become visible together or not at all, also after a crash. One invalid item means
        nothing is written. Raises what `append` raises.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> [receipt.ordinal for receipt in session.append_many([("note.written", {})] * 3, atomic=True)]
        [2, 3, 4]
        """
        appender = self._appender or self._open_appender()
        require_level(durability)
        full = full_items(items)
        if not full:
            return []
        try:
            receipts = appender.append_many(full, durable=LEVELS[durability], atomic=atomic)
            if self._live is not None:
                self._live.take_many(receipts, full)
        except Closed:
            raise self._why_closed() from None
        except BaseException as error:
            self._doubt(error)
            raise
        if self._subscribers:
            self._wake()
        return receipts

    def flush(self) -> None:
        """Return when everything appended so far is durable.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     receipt = session.append("note.written", {}, durability="buffered")
        ...     session.flush()
        """
        if self._appender is not None:
            self._appender.flush()

    # -- reading ---------------------------------------------------------------------------------------------------

    def events(
        self,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        reverse: bool = False,
        types: Iterable[str] | None = None,
        on_damage: str = "raise",
    ) -> Iterator[Event]:
        """Iterate over the events with after < ordinal < before, as lazily decoded handles.

        `reverse` gives the newest first, `types` only those types, `limit` at most so many. At an ordinal that cannot
        be served Damaged is raised; with `on_damage="skip"` iteration goes on behind the damage and `damage()` of the
        log names it. Raises InvalidInput for a window that cannot be meant.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create(title="flaky test")
        >>> [event.payload for event in session.events(types=["session.created"], limit=1)]
        [{'title': 'flaky test'}]
        """
        require_whole("limit", limit, optional=True)
        require_whole("after", after)
        require_whole("before", before, optional=True)
        require_damage(on_damage)
        log = self.log()
        wanted = types_wanted(types)
        read = log.events_reversed if reverse else log.events
        found = read(Window(after, before, wanted, on_damage))
        return found if limit is None else islice(found, min(limit, sys.maxsize))

    def event(self, ordinal: int) -> Event:
        """Return one event. Raises NotFound beyond the head, Damaged when it was lost.

        >>> from turnlog import Store
        >>> Store.ephemeral().create().event(1).type
        'session.created'
        """
        require_whole("ordinal", max(0, ordinal) if ordinal.__class__ is int else ordinal)
        for found in self.events(after=max(0, ordinal - 1), before=max(0, ordinal) + 1):
            return found
        raise self.log().why_absent(ordinal)

    def head(self) -> tuple[int, str]:
        """Return (last ordinal, chain as hex): keep it elsewhere and `verify --expect` proves the history against
        it.

        >>> from turnlog import Store
        >>> Store.ephemeral().create().head()[0]
        1
        """
        appender = self._appender
        if appender is not None:
            appender.flush()
        ordinal, chain = self.log().head()
        return ordinal, chain.hex()

    def log(self, *, durable: bool = False) -> Log:
        """Return a reader over the segments (for feeds, repair and such); a `durable` one shows what no crash takes.

        >>> from turnlog import Store
        >>> Store.ephemeral().create().log().head()[0]
        1
        """
        if self._closed:
            raise self._why_closed()
        if self._memory is not None:
            return self._memory.log()
        end = self._durable_end if durable else self._visible
        return Log(names.session_dir(self._store.path, self.id), self.id, end)

    def _visible(self) -> tuple[str, int] | None:
        """Return the segment this object writes and where its acknowledged part ends (for `Log`); else None."""
        appender = self._appender
        return None if appender is None else appender.visible()

    def _durable_end(self) -> tuple[str, int] | None:
        """Return the same with the end of what no crash can take back (for feeds)."""
        appender = self._appender
        return None if appender is None else appender.durable_end()

    def _shown(self) -> tuple[object, ...] | None:
        """Return what changes when a feed has more to hand out (for feeds); None when this object does not write."""
        return self._durable_end() if self._memory is None else (self._memory.head()["ordinal"],)

    # -- for the store ---------------------------------------------------------------------------------------------

    def _attach(self, appender: Appender, memory: MemoryAppender | None = None) -> None:
        """Give the session its open writer (for `Store`); `memory` is the same one if the session is ephemeral."""
        self._appender, self._memory = appender, memory
        self._store._greet(self)

    def _give_up(self) -> None:
        """Close after a failure that the caller is told: what is on disk stays as it is (for `Store`)."""
        with self._guard:
            self._closed = True
            appender, self._appender = self._appender, None
        self._store._drop(self)
        if appender is not None:
            appender.abandon()
        self._end_subscribers()

    def _written_head(self) -> dict[str, Any] | None:
        """Return the writer's numbers, None when the session is not open for writing here (for `Store`)."""
        appender = self._appender
        return None if appender is None or self._memory is not None else appender.head()

    def _check_lock(self) -> None:
        """Stop writing when the lock file was replaced behind our back (for `Projector`)."""
        appender = self._appender
        if appender is None:
            return
        try:
            appender.check()
        except Locked as error:
            self._lock_error = error
            self._appender = None
            appender.abandon()

    def _open_appender(self) -> Appender:
        with self._guard:
            if self._closed:
                raise self._why_closed()
            if self._lock_error is not None:
                raise self._lock_error
            if self._appender is None:
                self._appender = self._store._writer_of(self.id)
                self._store._greet(self)
            return self._appender

    def _why_closed(self) -> TurnlogError:
        """Return the reason the writer is gone: a lock that was lost, or an orderly close."""
        return self._lock_error or Closed("the session is closed", session=self.id)

    def close(self, *, deadline_ms: int = 10_000) -> None:
        """End in order; idempotent.

        New turns, steps and calls are refused, the running turn is asked to stop (`Turn.cancelled`) and waited for if
        another thread works on it, `children` are stopped: all that within `deadline_ms`. Then the state is kept, what
        was appended is flushed, the segment marked as ended and cut to its length, the lock released. A turn without an
        outcome is interrupted when the session is resumed. Raises SyncFailed, NoSpace, StorageError.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     store.create().close(deadline_ms=500)
        """
        if not self._closed and (self._live is not None or self._kept_children() is not None):
            from turnlog.shutdown import stop_work

            stop_work([self], deadline_ms)
        self._finish()

    def _finish(self) -> None:
        """Do the part of `close` that waits for nobody but who does it already (for `Store.close`)."""
        with self._ending:
            try:
                self._save_files()
            finally:
                self._end()

    def _end(self) -> None:
        self._keep_state()
        with self._guard:
            if self._closed:
                return
            self._closed = True
            appender, self._appender = self._appender, None
        if self._live is not None:
            self._live.close()
        self._store._drop(self, leaving=True)
        try:
            if appender is not None:
                appender.close()
        finally:
            self._store._left(self)
            self._end_subscribers()

    def __enter__(self) -> Self:
        """Return the session."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the session."""
        self.close()

    def __repr__(self) -> str:
        """Show the id."""
        return f"<Session {self.id}>"
