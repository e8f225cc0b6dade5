"""The part of a `Store` about forks: making them, lineage from both sides, taking away what has none.

Owns: the names and examples of that part of the API. Invariant: importing this costs next to nothing. Must not know:
how a fork is made, what a log is.
"""

from __future__ import annotations

from turnlog.arguments import id_of, listed_texts, require_text, require_whole
from turnlog.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Unpack

    from turnlog.index.index import Index
    from turnlog.log.lineage import Origin
    from turnlog.session import Session
    from turnlog.settings import ForkSettings


class StoreForks:
    """The methods of a `Store` about forks."""

    path: str

    def fork(
        self,
        parent: Session | str,
        at: int | None = None,
        *,
        turn: str | None = None,
        id: str | None = None,
        title: str | None = None,
        tags: Iterable[str] = (),
        custom: Mapping[str, Any] | None = None,
        **settings: Unpack[ForkSettings],
    ) -> Session:
        """Make a session that goes on from another one's history: after its event `at`, after the end of a `turn`, or
        by default after its last event.

        Nothing is copied: what came before is read from the parent, and the fork's own ordinals go on from there. The
        parent may be open for writing here or elsewhere; only what is durable is inherited. `settings` and `custom`, as
        in `Session.configure`, replace the parent's. The fork is whole on disk on return; its first append opens it.

        Raises SessionNotFound, NotFound (no such event or finished turn), InvalidInput, Conflict, Damaged, NoSpace,
        ReadOnly, SyncFailed, StorageError.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create(title="flaky test") as session:
        ...     _ = session.append("note.written", {"text": "one way"})
        ...     child = store.fork(session, 1, title="another way")
        ...     child.append("note.written", {"text": "the other way"}).ordinal
        ...     [event.type for event in child.events()]
        3
        ['session.created', 'session.forked', 'note.written']
        """
        from turnlog.fork import end_of_turn, fork_point, make_fork
        from turnlog.settings import FIRST, OF_FORK, checked
        from turnlog.store_model import in_place

        require_text("title", title, optional=True)
        require_whole("at", at, least=1, optional=True)
        require_text("turn", turn, optional=True)
        given = in_place(checked(settings, custom, FIRST, OF_FORK))
        tags = listed_texts("tags", tags)
        source = self.session(id_of("parent", parent))
        self._check_writable(source.id)
        if source.is_ephemeral:
            message = "an ephemeral session is not on disk, so nothing can be inherited from it"
            raise InvalidInput(message, session=source.id)
        if turn is not None:
            if at is not None:
                message = "a fork begins after an event or after a turn, not after both"
                raise InvalidInput(message, session=source.id)
            at = end_of_turn(source, turn)
        point = fork_point(source, at)
        return self.session(make_fork(self.path, point, title=title, tags=tags, settings=given, id=id))

    def parent(self, id: str) -> Origin | None:
        """Return where a session was forked (session, ordinal and chain of its parent), None when it is no fork.

        Read from the session's log. Raises SessionNotFound, AmbiguousId, StorageError.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create(title="flaky test") as session:
        ...     origin = store.parent(store.fork(session).id)
        ...     origin.session == session.id, origin.ordinal
        (True, 1)
        """
        from turnlog.fork import parent_of

        return parent_of(self.path, self.resolve(id))

    def children(self, id: str) -> list[str]:
        """Return the ids of a session's forks, latest activity first. Asks the index.

        Raises SessionNotFound, AmbiguousId, IndexUnavailable.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create(title="flaky test") as session:
        ...     child = store.fork(session)
        ...     store.children(session.id) == [child.id]
        True
        """
        return self.index().forks(self.resolve(id))

    def forget(self, id: str) -> str:
        """Take a session out of the store: its folder goes to `quarantine/`, whose path is returned. Nothing is erased.

        Raises Conflict (forks inherit from it), Locked (somebody writes it, also here), SessionNotFound, AmbiguousId,
        ReadOnly, Damaged (a session's lineage cannot be read), IndexUnavailable, NoSpace, StorageError; then nothing
        was moved.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     store.create(id="019b76da-a800-7000-8000-000000000001").close()
        ...     kept = store.forget("019b76da-a800-7000-8000-000000000001")
        ...     store.session_exists("019b76da-a800-7000-8000-000000000001")
        False
        """
        from typing import cast

        from turnlog.forget import forget

        session_id = self.resolve(id)
        self._check_writable(session_id)
        return forget(cast("Any", self), session_id)

    if TYPE_CHECKING:  # what `Store` has

        def session(self, id: str) -> Session: ...  # noqa: D102 - documented there
        def resolve(self, id: str) -> str: ...  # noqa: D102 - documented there
        def index(self) -> Index: ...  # noqa: D102 - documented there
        def _check_writable(self, session_id: str) -> None: ...
