"""The log of one session, for reading: what it inherits and what it holds, as one sequence of events.

Owns: crossing from a fork to its ancestors. Invariants: an ancestor is read up to the ordinal at which it was forked
and no further; one that is missing, cut short or has another history now is damage of the inherited part alone, and is
named; any number of generations is read without recursion. Must not know: who writes, what events mean, the index.
"""

from __future__ import annotations

import os
from functools import partial

from turnlog import _core, names
from turnlog.errors import Damaged, NotFound
from turnlog.log.chain_walk import link_at, nearest_mark
from turnlog.log.lineage import FORKED, Origin, last_inherited_id, origin_of
from turnlog.log.own_log import OwnLog, Window, types_wanted
from turnlog.log.segments import list_segments

__all__ = ["Log", "Window", "types_wanted"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from turnlog._core import Event, SegmentReader
    from turnlog.log.chain_walk import Link
    from turnlog.log.segments import SegmentFile

    Span = tuple["Log", Window]

_FORKED = frozenset({FORKED})


class Log(OwnLog):
    """Reads the segments of one session folder, and below its fork ordinal those of its ancestors."""

    def __init__(
        self, directory: str, session_id: str, visible: Callable[[], tuple[str, int] | None] = lambda: None
    ) -> None:
        """Remember where the session is; nothing is opened yet."""
        super().__init__(directory, session_id, visible)
        self._origin: Origin | None = None
        self._origin_known = False
        self._ancestors: list[Log] = []
        self._proved_after: int | None = None  # above this ordinal, ancestors are known to hold what was forked

    # -- windows ---------------------------------------------------------------------------------------------------

    def events(self, window: Window) -> Iterator[Event]:
        """Yield the events of the window, oldest first.

        Raises Damaged at the first ordinal that cannot be served (or notes it in `damage` and goes on), NewerFormat,
        StorageError.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = session.log()
        ...     [event.type for event in log.events(Window())]
        ['session.created']
        """
        for batch in self.batches(window):
            yield from batch

    def batches(self, window: Window) -> Iterator[Sequence[Event]]:
        """Yield the same events in batches, as the core hands them over.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = session.log()
        ...     [len(batch) for batch in log.batches(Window())]
        [1]
        """
        yield from self.inherited(window)
        own = self._own_part(window)
        if not own.is_empty():
            yield from self.own_batches(own)

    def inherited(self, window: Window) -> Iterator[Sequence[Event]]:
        """Yield those events of the window that ancestors hold."""
        for log, part in reversed(self.spans(window)):
            yield from log.own_batches(part)

    def events_reversed(self, window: Window) -> Iterator[Event]:
        """Yield the same events as `events`, newest first; memory is bounded by a step of 64 KiB and one frame.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = store.fork(session).log()
        ...     [event.ordinal for event in log.events_reversed(Window())]
        [2, 1]
        """
        own = self._own_part(window)
        if not own.is_empty():
            yield from self.own_reversed(own)
        for log, part in self.spans(window):
            yield from log.own_reversed(part)

    # -- lineage ---------------------------------------------------------------------------------------------------

    def origin(self) -> Origin | None:
        """Return where the session was forked, None when it is no fork or no header can be read.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = store.fork(session).log()
        ...     log.origin().ordinal, session.log().origin()
        (1, None)
        """
        if not self._origin_known:
            for file in list_segments(self.directory):
                try:
                    fields = self.open_reader(file).header["fields"] if self.is_true(file) else None
                except Damaged:
                    continue  # nothing of this one can be read; every segment states the origin
                if fields is not None:
                    self._origin, self._origin_known = origin_of(fields), True
                    break
        return self._origin

    def origin_is_known(self) -> bool:
        """Tell whether a header could be read, so that no origin means no fork."""
        self.origin()
        return self._origin_known

    def ancestors(self, after: int = 0) -> Iterator[Log]:
        """Yield the logs of the parent, its parent and so on, as long as ordinals above `after` are inherited.

        Raises Damaged at one that is not in the store.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = store.fork(session).log()
        ...     [ancestor.session_id for ancestor in log.ancestors()] == [session.id]
        True
        """
        current, index = self, 0
        while (origin := current.origin()) is not None and origin.ordinal > after:
            if index == len(self._ancestors):
                self._ancestors.append(self._parent(current, origin))
            current, index = self._ancestors[index], index + 1
            yield current

    def _parent(self, child: Log, origin: Origin) -> Log:
        """Return the log of a child's parent, to be read up to what this session inherits of it."""
        if origin.session in {self.session_id, *(log.session_id for log in self._ancestors)}:
            message = f"the lineage runs in a circle: {origin.session} is its own ancestor"
            raise Damaged(message, session=self.session_id)
        directory = names.session_dir(names.store_of(self.directory), origin.session)
        if not os.path.isdir(directory):
            what = "parent" if child is self else "ancestor"
            message = f"the {what} {origin.session} of this fork is not in the store"
            raise Damaged(message, session=self.session_id)
        parent = Log(directory, origin.session)
        parent.promised = min(child.promised or origin.ordinal, origin.ordinal)
        parent.damage = self.damage
        return parent

    def chain_at(self, ordinal: int) -> bytes | None:
        """Return the chain of `link_at`."""
        link = self.link_at(ordinal)
        return None if link is None else link[0]

    def link_at(self, ordinal: int) -> Link | None:
        """Return the chain after an own or inherited ordinal, and its event where that was read on the way; None when
        the chain cannot be computed from what is left.

        At the fork ordinal that is chain 0 of the fork; below it, the chain of the ancestor that holds the event.
        Raises Damaged when that ancestor is missing, StorageError.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = session.log()
        ...     log.chain_at(1) == log.head()[1]
        True
        """
        log: Log = self
        ancestors = self.ancestors()
        while (origin := log.origin()) is not None and ordinal < origin.ordinal:
            log = next(ancestors)
        return log.own_link_at(ordinal)

    def own_link_at(self, ordinal: int) -> Link | None:
        """Do the same for an ordinal of the session's own, or the one before its first. Raises StorageError."""
        files = list_segments(self.directory)
        for file in reversed(files[: self.position(files, ordinal + 1) + 1]):
            reader = self.open_reader(file) if self.is_true(file) else None
            fields = None if reader is None else reader.header["fields"]
            if reader is not None and fields is not None and fields["prev_last_ordinal"] <= ordinal:
                header = _core.HEADER_BYTES, fields["first_ordinal"], fields["prev_chain"]
                near = nearest_mark(reader, partial(self.seek, file, reader), header, ordinal)
                return link_at(reader, near, ordinal)
        return None

    def head(self) -> tuple[int, bytes]:
        """Return (last ordinal, chain) of what is readable; ordinal 0 for a session without events.

        Raises Damaged when the newest segment's header cannot be read.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = session.log()
        ...     log.head()[0]
        1
        """
        newest = self.newest_true()
        reader = None if newest is None else self.open_reader(newest)
        fields = None if reader is None else reader.header["fields"]
        if newest is None or reader is None or fields is None:
            message = "the newest segment's header cannot be read" if newest else "the session has no segments"
            raise Damaged(message, session=self.session_id, segment=newest.name if newest else None)
        unsettled = not self.promised and self.written_elsewhere(newest)
        end = self.shown_end(newest, reader)
        offset, ordinal, chain = _core.HEADER_BYTES, fields["first_ordinal"], fields["prev_chain"]
        while True:
            start = offset
            _, offset, ordinal, chain, _, fault = reader.replay(
                start, ordinal, end=end, limit=1 << 16, types=frozenset(), chain=chain
            )
            if fault is not None or offset == start:
                if unsettled:
                    self.settle(newest, reader)
                return ordinal - 1, chain or bytes(fields["prev_chain"])

    def why_absent(self, ordinal: int) -> Damaged | NotFound:
        """Return the error for an ordinal at which no event was found: lost and repaired since, or beyond the head.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     session.log().why_absent(7).code
        'not_found'
        """
        if not 0 < ordinal <= self.head()[0]:
            return NotFound(f"the session has no event {ordinal}", session=self.session_id, ordinal=ordinal)
        message = f"event {ordinal} cannot be read: it was lost, and a repair has noted that"
        error = Damaged(message, session=self.session_id, ordinal=ordinal)
        error.lost = ordinal, ordinal
        return error

    def shown_end(self, file: SegmentFile, reader: SegmentReader) -> int | None:
        """Return up to where the newest segment may be shown; what a fork inherits was durable when it was made."""
        return None if self.promised else super().shown_end(file, reader)

    def close(self) -> None:
        """Close the readers; event handles stay usable.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = session.log()
        ...     log.close()
        ...     log.head()[0]
        1
        """
        super().close()
        for log in self._ancestors:
            log.close()

    # -- reading ancestors -----------------------------------------------------------------------------------------

    def _own_part(self, window: Window) -> Window:
        origin = self._origin_below(window.after)
        return window if origin is None else window.above(origin.ordinal)

    def _origin_below(self, after: int) -> Origin | None:
        """Return the origin when ordinals above `after` are inherited; no header is read when the file names say no."""
        if not self._origin_known:
            files = list_segments(self.directory)
            if not files or files[0].first_ordinal <= after + 1:
                return None
        origin = self.origin()
        return origin if origin is not None and origin.ordinal > after else None

    def spans(self, window: Window) -> list[Span]:
        """Return which ancestor serves which part of the window, nearest first. Raises as `events`."""
        origin = self._origin_below(window.after)
        if origin is None or window.is_empty():
            return []
        found: list[Span] = []
        missing = origin.ordinal  # up to here no ancestor is known yet
        try:
            for log in self._proved(window.after):
                begin = log.origin()
                missing = 0 if begin is None else min(log.promised, begin.ordinal)
                part = window.above(missing).below(log.promised + 1)
                if not part.is_empty():
                    found.append((log, part))
        except Damaged as error:
            lost = window.below(missing + 1)
            if lost.is_empty():
                return found
            error.message = f"{error.message}; events {lost.after + 1} to {(lost.before or 0) - 1} cannot be read"
            error.ordinal = lost.after + 1
            self.note_lost(window, error, (lost.after + 1, (lost.before or 0) - 1))
        return found

    def _proved(self, after: int) -> Iterator[Log]:
        """Yield the ancestors above an ordinal, each once what was forked from it is known to be there still."""
        done = self._proved_after is not None and self._proved_after <= after
        unproved = [] if done else [self]
        for log in self.ancestors(after):
            begin = log.origin()
            for child in list(unproved):
                if child.fork_ordinal() > (0 if begin is None else begin.ordinal):  # the event itself is in this log
                    child.require_inherited(log)
                    unproved.remove(child)
            if not done:
                unproved.append(log)
            yield log
        self._proved_after = after if self._proved_after is None else min(after, self._proved_after)

    def fork_ordinal(self) -> int:
        """Return the last inherited ordinal, 0 for a session that is no fork.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     log = store.fork(session).log()
        ...     log.fork_ordinal(), session.log().fork_ordinal()
        (1, 0)
        """
        origin = self.origin()
        return 0 if origin is None else origin.ordinal

    def require_inherited(self, holder: Log) -> None:
        """Raise Damaged when the ancestor that holds the last inherited event has another one in its place now."""
        ordinal = self.fork_ordinal()
        forked = self.peek(Window(ordinal, ordinal + 2, _FORKED))
        stated = None if forked is None else last_inherited_id(forked)
        found = holder.peek(Window(ordinal - 1, ordinal + 1))
        if stated is not None and found is not None and found.id != stated:
            message = f"{holder.session_id} has another history than the one that was forked, at event {ordinal}"
            raise Damaged(message, session=self.session_id)

    def peek(self, window: Window) -> Event | None:
        """Return the first own event of a window; None when there is none that can be read."""
        noted = len(self.damage)
        skipping = Window(window.after, window.before, window.types, "skip")
        try:
            return next((event for batch in self.own_batches(skipping) for event in batch), None)
        finally:
            del self.damage[noted:]
