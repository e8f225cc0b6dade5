"""The questions the index answers, as SQL: lists in keyset pages, one session, prefixes.

Owns: every SELECT for a caller, the page token, which database index serves which filter. Invariants: a list is
newest first by (last_activity_us, id); each filter has a database index that gives this order, named in the statement
so that SQLite cannot choose a sort or a full scan. Must not know: how rows get there, how the file is opened, what to
do when it is broken.
"""

from __future__ import annotations

import apsw

from turnlog.arguments import require_text, require_whole
from turnlog.errors import InvalidInput
from turnlog.index.projection import COUNT_MAX, DELETED, RUNNING, STATES, stored_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

LIST_MAX = 10_000
INTERRUPTED = "interrupted"
"""The state shown of a session whose turn is open and that nobody writes; in the tables it is `running`."""

STATES_SHOWN = (*STATES[: STATES.index(RUNNING) + 1], INTERRUPTED, *STATES[STATES.index(RUNNING) + 1 :])
SHOWN = (
    *("id", "title", "cwd", "model", "state", "tags", "parent", "created_us", "last_activity_us"),
    *("events", "turns", "steps", "messages", "tool_calls"),
    *("tokens_input", "tokens_output", "tokens_cache_read", "tokens_cache_write"),
    *("bytes", "fork_ordinal", "head_ordinal", "head_chain", "damaged"),
)
_COMPUTED = {
    "events": "sessions.head_ordinal - sessions.fork_ordinal",  # its own ordinals: lost ones too, inherited ones not
    "head_chain": "lower(hex(sessions.head_chain))",
}
_SELECTED = ", ".join(_COMPUTED.get(name, f"sessions.{name}") for name in SHOWN)
_AFTER_ALL_IDS = "~"  # sorts behind every hexadecimal id

# The most selective filter that is given chooses the database index; the others are checked row by row.
_TAG_SOURCE = "tags CROSS JOIN sessions ON sessions.session = tags.session"
_SOURCES = {
    "parent": "sessions INDEXED BY sessions_parent",
    "cwd": "sessions INDEXED BY sessions_cwd",
    "state": "sessions INDEXED BY sessions_state",
    "model": "sessions INDEXED BY sessions_model",
}
_RECENT = "sessions INDEXED BY sessions_recent"


def list_statement(
    *,
    cwd: str | None = None,
    state: str | None = None,
    model: str | None = None,
    tag: str | None = None,
    parent: str | None = None,
    since_us: int | None = None,
    text: str | None = None,
    limit: int = 50,
    after: str | None = None,
) -> tuple[str, list[Any]]:
    """Return the statement and its values; it asks for one row more than `limit`, which tells whether there is a next
    page, or for all rows where only the locks tell which of them are meant.

    Raises InvalidInput for an unknown state, a limit outside 1..10,000 or a token that `page_token` did not make.
    """
    if state is not None and state not in STATES_SHOWN:
        raise InvalidInput(f"no such state: {state} (one of {', '.join(STATES_SHOWN)})")
    stored_state = RUNNING if state == INTERRUPTED else state
    require_whole("since_us", abs(since_us) if isinstance(since_us, int) else since_us, optional=True)
    require_text("after", after, optional=True)
    if not isinstance(limit, int) or not 1 <= limit <= LIST_MAX:
        raise InvalidInput(f"a page holds 1 to {LIST_MAX} sessions, not {limit}")
    equal = {"parent": parent, "cwd": cwd, "state": stored_state, "model": model}
    given = {name: stored_text(value) for name, value in equal.items() if value is not None}
    clauses = [f"sessions.{name} = ?" for name in given]
    values: list[Any] = list(given.values())
    if state == DELETED:
        source, key = _SOURCES["state"], "sessions"
    else:
        clauses.append("sessions.state <> 'deleted'")
        source, key = next((_SOURCES[name] for name in given), _RECENT), "sessions"
    if parent is not None:
        clauses.append("sessions.parent <> ''")
    if tag is not None:
        source, key = _TAG_SOURCE, "tags"
        clauses.append("tags.tag = ?")
        values.append(stored_text(tag))
    clauses.append(f"({key}.last_activity_us, {key}.id) < (?, ?)")
    values += parse_token(after) if after is not None else (COUNT_MAX, _AFTER_ALL_IDS)
    if since_us is not None:
        clauses.append(f"{key}.last_activity_us >= ?")
        values.append(max(-COUNT_MAX, min(since_us, COUNT_MAX)))
    if text is not None:
        clauses.append("sessions.title LIKE ? ESCAPE '\\'")
        values.append(f"%{_like(stored_text(text))}%")
    order = f"ORDER BY {key}.last_activity_us DESC, {key}.id DESC LIMIT ?"
    values.append(-1 if stored_state == RUNNING else limit + 1)
    # names and clauses come from this module, values are bound
    return f"SELECT {_SELECTED} FROM {source} WHERE {' AND '.join(clauses)} {order}", values  # noqa: S608


def list_rows(
    connection: apsw.Connection, limit: int, writes: Callable[[str], bool] = lambda _: True, **filters: Any
) -> tuple[list[dict[str, Any]], str | None]:
    """Return one page and the token of the next one, or None at the end; `writes` tells whether somebody writes a
    session. Raises InvalidInput, apsw.Error.
    """
    statement, values = list_statement(limit=limit, **filters)
    wanted = filters.get("state")
    rows: list[dict[str, Any]] = []
    for found in connection.execute(statement, values):
        row = _shown(found, writes)
        if wanted is None or row["state"] == wanted:
            rows.append(row)
            if len(rows) > limit:
                break
    if len(rows) <= limit:
        return rows, None
    del rows[limit:]
    return rows, page_token(rows[-1])


def page_token(row: dict[str, Any]) -> str:
    """Return the token that asks for the sessions behind `row`."""
    return f"{row['last_activity_us']}:{row['id']}"


def parse_token(token: str) -> tuple[int, str]:
    """Return (last_activity_us, id) of a token. Raises InvalidInput."""
    digits, colon, session_id = token.partition(":")
    if not colon or not digits.isascii() or not digits.isdigit() or int(digits) > COUNT_MAX:
        raise InvalidInput(f"not a page token: {token}")
    return int(digits), session_id


def get_row(
    connection: apsw.Connection, session_id: str, writes: Callable[[str], bool] = lambda _: True
) -> dict[str, Any] | None:
    """Return a session's row, deleted ones too, or None; `writes` as for `list_rows`."""
    for found in connection.execute(f"SELECT {_SELECTED} FROM sessions WHERE id = ?", (session_id,)):  # noqa: S608
        return _shown(found, writes)
    return None


def find_prefix(connection: apsw.Connection, prefix: str, limit: int) -> list[str]:
    """Return the ids that begin with `prefix`, in order of id, deleted ones left out."""
    statement = "SELECT id FROM sessions WHERE id >= ? AND id < ? AND state <> 'deleted' ORDER BY id LIMIT ?"
    prefix = stored_text(prefix).lower()
    return [found[0] for found in connection.execute(statement, (prefix, prefix + _AFTER_ALL_IDS, limit))]


def forks(connection: apsw.Connection, session_id: str) -> list[str]:
    """Return the ids of a session's forks, latest activity first, deleted ones left out."""
    where = "parent = ? AND parent <> '' AND state <> 'deleted' AND fork_ordinal > 0"
    order = "ORDER BY last_activity_us DESC, id DESC"
    statement = f"SELECT id FROM {_SOURCES['parent']} WHERE {where} {order}"  # noqa: S608 - names of this module
    return [found[0] for found in connection.execute(statement, (session_id,))]


def newest_witness(connection: apsw.Connection, session_id: str) -> dict[str, Any] | None:
    """Return the session's witness (what the log must still hold), or None when nothing was recorded."""
    statement = (
        "SELECT segment_id, durable_off, ordinal, chain, number FROM segments "
        "WHERE session = (SELECT session FROM sessions WHERE id = ?) ORDER BY number DESC LIMIT 1"
    )
    for segment_id, durable_off, ordinal, chain, number in connection.execute(statement, (session_id,)):
        return {
            "segment_id": segment_id,
            "segment_number": number,
            "durable_off": durable_off,
            "ordinal": ordinal,
            "chain": chain,
        }
    return None


def require_values(values: Sequence[Any]) -> None:
    """Raise apsw.CorruptError where a column that cannot be null is: SQLite reads a zeroed page as nulls."""
    if None in values:
        raise apsw.CorruptError("a row holds nulls where none were stored")


def _shown(values: Sequence[Any], writes: Callable[[str], bool]) -> dict[str, Any]:
    require_values(values)
    row = dict(zip(SHOWN, values, strict=True))
    row["tags"] = row["tags"].split("\n") if row["tags"] else []
    row["damaged"] = bool(row["damaged"])
    if row["state"] == RUNNING and not writes(row["id"]):
        row["state"] = INTERRUPTED
    return row


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
