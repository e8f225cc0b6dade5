"""The part of a `Store` that finds sessions: by id on disk, in lists through the index.

Owns: the names and examples of that part of the API. Invariant: ids are found without an index; only lists, `latest`
and prefixes ask it. Must not know: how the index is kept, how a session is opened.
"""

from __future__ import annotations

import os

from turnlog import lookup
from turnlog.arguments import require_path, require_text
from turnlog.log import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from typing import Any

    from turnlog.index.index import Index
    from turnlog.session import Session
    from turnlog.store import Store


class StoreLookup:
    """The methods of a `Store` that find sessions."""

    path: str
    _sessions: dict[str, Session]

    if TYPE_CHECKING:

        def index(self) -> Index: ...  # noqa: D102 - documented there

    def session_exists(self, session_id: str) -> bool:
        """Tell whether the store holds a session with exactly this id (no prefix).

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     store.session_exists(session.id), store.session_exists(session.id[:8])
        (True, False)
        """
        require_text("id", session_id)
        return folders.has_session(self.path, session_id)

    def resolve(self, id: str) -> str:
        """Return the full id for a full id, a unique prefix of at least four characters, or `"latest"`.

        Raises SessionNotFound, AmbiguousId.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     store.resolve("latest") == store.resolve(session.id[:30]) == session.id
        True
        """
        from typing import cast

        require_text("id", id)
        store = cast("Store", self)  # the one class that has these methods
        return id.lower() if id.lower() in self._sessions else lookup.resolve(store, id)

    def session_ids(self) -> builtins.list[str]:
        """Return the ids of all sessions, found on disk, in order of id; needs no index.

        >>> from turnlog import Store
        >>> with Store.open("one session") as store, store.create() as session:
        ...     store.session_ids() == [session.id]
        True
        """
        return folders.session_ids(self.path)

    def list(self, **filters: Any) -> tuple[builtins.list[dict[str, Any]], str | None]:
        """Return (rows, token of the next page, None at the end), newest activity first.

        `filters`: cwd, state, model, tag, parent (a full id), since_us, text (in the title), limit (50), after (a
        token). Deleted sessions come only with `state="deleted"`. Raises InvalidInput, IndexUnavailable.

        >>> from turnlog import Store
        >>> with Store.open("listed") as store, store.create(title="flaky test", tags=["ci"]):
        ...     rows, token = store.list(tag="ci", limit=10)
        >>> [row["title"] for row in rows], token
        (['flaky test'], None)
        """
        require_path("cwd", filters.get("cwd"), optional=True)
        if filters.get("cwd") is not None:  # as a session keeps it
            filters["cwd"] = os.path.abspath(os.fspath(filters["cwd"]))
        return self.index().list(**filters)
