"""A store that never touches the disk, for tries and tests.

Owns: what differs from a store on disk: every session is ephemeral, there is no index and no folder. Invariants: no
file is opened or made; what needs a file or the index says so. Must not know: how sessions in memory work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.arguments import require_text
from turnlog.errors import Closed, IndexUnavailable, SessionNotFound, Unsupported
from turnlog.store import Store

if TYPE_CHECKING:
    from turnlog.artifacts.artifacts import ArtifactStore
    from turnlog.index.index import Index
    from turnlog.log.appender import Appender
    from turnlog.session import Session


class MemoryStore(Store):
    """Use `Store.ephemeral`.

    >>> from turnlog import Store
    >>> store = Store.ephemeral()
    >>> session = store.create(title="a try")
    >>> store.session(session.id) is session, len(store.session_ids())
    (True, 1)
    >>> store.close()
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        super().__init__("")

    def create(self, **fields: Any) -> Session:
        """Make a new session in memory; see `Store.create`.

        >>> from turnlog import Store
        >>> Store.ephemeral().create(title="a try").state.title
        'a try'
        """
        if self._closed:
            raise Closed("the store is closed")
        return super().create(**{**fields, "ephemeral": True})

    def session_exists(self, session_id: str) -> bool:
        """Tell whether a session with this id is open.

        >>> from turnlog import Store
        >>> Store.ephemeral().session_exists("019b76da-a800-7000-8000-000000000001")
        False
        """
        require_text("id", session_id)
        return session_id in self._sessions

    def session_ids(self) -> list[str]:
        """Return the ids of the sessions that are open.

        >>> from turnlog import Store
        >>> Store.ephemeral().session_ids()
        []
        """
        return sorted(self._sessions)

    def resolve(self, id: str) -> str:
        """Return the full id for a full id, a prefix, or "latest". Raises SessionNotFound, AmbiguousId.

        >>> from turnlog import Store
        >>> store = Store.ephemeral()
        >>> store.resolve("latest") == store.create().id
        Traceback (most recent call last):
        turnlog.errors.SessionNotFound: the store has no sessions
        """
        if id == "latest":
            if not self._sessions:
                raise SessionNotFound("the store has no sessions")
            return max(self._sessions.values(), key=lambda session: session.state.time_us).id
        return super().resolve(id)

    def index(self) -> Index:
        """Raise IndexUnavailable: there is none.

        >>> from turnlog import Store
        >>> Store.ephemeral().index()
        Traceback (most recent call last):
        turnlog.errors.IndexUnavailable: an ephemeral store has no index
        """
        raise IndexUnavailable("an ephemeral store has no index")

    @property
    def artifacts(self) -> ArtifactStore:
        """Raise Unsupported: each session has its own, `Session.artifacts`."""
        raise Unsupported("an ephemeral store has no artifacts: they are kept with their session")

    def _appender(self, session_id: str, *, new: bool) -> Appender:
        _ = new
        raise SessionNotFound("an ephemeral session is gone when it is closed", session=session_id)
