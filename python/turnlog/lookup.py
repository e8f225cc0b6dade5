"""Which session a word names: a full id, a prefix of one, or `latest`.

Owns: the forms, and the errors that say what else the word could mean. Invariant: a full id and a prefix are found
without the index too. Must not know: how sessions are opened.
"""

from __future__ import annotations

from turnlog import names
from turnlog.errors import AmbiguousId, IndexUnavailable, SessionNotFound
from turnlog.log import folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog.store import Store

_ID_DIGITS_MIN = 4


def resolve(store: Store, id: str) -> str:
    """Return the full id of the session that `id` names. Raises SessionNotFound, AmbiguousId, IndexUnavailable."""
    text = id.lower()
    if names.is_session_id(text):
        if not folders.has_session(store.path, text):
            message = f"there is no session {text}"
            raise SessionNotFound(message, session=text, store=store.path)
        return text
    if text == "latest":
        found = store.index().latest()
        if found is None:
            message = "the store has no sessions"
            raise SessionNotFound(message, store=store.path)
        return found
    matches = _with_prefix(store, text) if len(text) >= _ID_DIGITS_MIN else []
    if len(matches) > 1:
        message = f"{id} fits {len(matches)} sessions, such as {matches[0]} and {matches[1]}"
        raise AmbiguousId(message, store=store.path)
    if not matches:
        message = f"no session id starts with {id} (at least {_ID_DIGITS_MIN} characters)"
        raise SessionNotFound(message, store=store.path)
    return matches[0]


def _with_prefix(store: Store, prefix: str) -> list[str]:
    try:
        return store.index().find_prefix(prefix)
    except IndexUnavailable:
        return [session_id for session_id in store.session_ids() if session_id.startswith(prefix)]
