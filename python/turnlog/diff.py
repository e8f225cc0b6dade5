"""The difference of two sessions: their common point, and what each holds behind it.

Owns: finding the point, first by lineage, then by content: sessions of one import, or of no common ancestor, may
begin with equal events. Invariants: events are equal when type and digest are; memory does not grow with the
sessions. Must not know: how a difference is shown.
"""

from __future__ import annotations

from turnlog import names
from turnlog.log.log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog._core import Event
    from turnlog.session import Session
    from turnlog.store import Store

_END = 1 << 62


class Difference:
    """Two sessions and their common point: `ancestor` (None: they share no history) and `ordinal` (0: nothing).

    Both sessions hold equal events up to `ordinal`; `equal` says that neither holds another one.
    """

    def __init__(self, a: Session, b: Session, ancestor: str | None, ordinal: int) -> None:
        """Use `diff`."""
        self.a = a
        self.b = b
        self.ancestor = ancestor
        self.ordinal = ordinal

    def only_a(self) -> Iterator[Event]:
        """Iterate over the events of the first session behind the common point.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     other = store.fork(session)
        ...     _ = session.append("note.written", {"n": 1})
        ...     [event.ordinal for event in diff(store, session.id, other.id).only_a()]
        [2]
        """
        return self.a.events(after=self.ordinal)

    def only_b(self) -> Iterator[Event]:
        """Iterate over the events of the second session behind the common point.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     other = store.fork(session)
        ...     [event.type for event in diff(store, session.id, other.id).only_b()]
        ['session.forked']
        """
        return self.b.events(after=self.ordinal)

    @property
    def equal(self) -> bool:
        """Tell whether the sessions hold the same events. Raises Damaged, StorageError."""
        return next(self.only_a(), None) is None and next(self.only_b(), None) is None

    def __repr__(self) -> str:
        """Show the ids and the point."""
        return f"<Difference {self.a.id} {self.b.id} from {self.ancestor}:{self.ordinal}>"


def diff(store: Store, a: str, b: str) -> Difference:
    """Return the difference of two sessions of a store, each named as for `Store.session`.

    Reads the events from the point that the lineage states up to the first unequal ones. Raises SessionNotFound,
    AmbiguousId, Damaged (an event, or an ancestor, cannot be read), StorageError.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create() as session:
    ...     difference = diff(store, session.id, store.fork(session).id)
    ...     difference.ordinal, difference.ancestor == session.id, difference.equal
    (1, True, False)
    """
    first, second = store.session(a), store.session(b)
    if first.id == second.id:
        return Difference(first, second, first.id, first.head()[0])
    ancestor, ordinal = _common_ancestor(store.path, first.id, second.id)
    for ours, theirs in zip(first.events(after=ordinal), second.events(after=ordinal), strict=False):
        if (ours.ordinal, ours.type, ours.digest) != (theirs.ordinal, theirs.type, theirs.digest):
            break
        ordinal = ours.ordinal
    return Difference(first, second, ancestor, ordinal)


def _common_ancestor(store: str, a: str, b: str) -> tuple[str | None, int]:
    """Return the nearest session that is, or is an ancestor of, both, and the last ordinal that both have from it."""
    theirs = dict(_line(store, b))
    for session, upto in _line(store, a):
        if session in theirs:
            return session, min(upto, theirs[session])
    return None, 0


def _line(store: str, session_id: str) -> Iterator[tuple[str, int]]:
    """Yield a session and its ancestors, each with the last ordinal that the session has from it."""
    log = Log(names.session_dir(store, session_id), session_id)
    try:
        yield session_id, _END
        for ancestor in log.ancestors():
            yield ancestor.session_id, ancestor.promised
    finally:
        log.close()
