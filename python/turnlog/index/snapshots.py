"""The table of snapshots: states of sessions, kept so that a resume folds only what came after.

Owns: how many are kept, the two statements. Invariants: a snapshot is stored only for a session that the tables know,
and goes with it; the newest few of a session are kept, because the log may have lost the end of what the newest has
seen. Must not know: what a state is, whether a snapshot may be trusted.
"""

from __future__ import annotations

from turnlog import sqlite
from turnlog.index.query import require_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    import apsw

KEPT = 2

_PUT = (
    "INSERT OR REPLACE INTO snapshots (session, ordinal, schema, chain, body) "
    "SELECT session, ?, ?, ?, ? FROM sessions WHERE id = ?"
)
_OF_SESSION = "session = (SELECT session FROM sessions WHERE id = ?)"
_NEWEST = (
    f"SELECT ordinal, schema, chain, body FROM snapshots WHERE {_OF_SESSION} "  # noqa: S608 - text of this module
    "AND schema = ? AND ordinal <= ? ORDER BY ordinal DESC LIMIT 1"
)
_DROP_OLDER = (
    f"DELETE FROM snapshots WHERE {_OF_SESSION} AND ordinal NOT IN "  # noqa: S608 - text of this module
    f"(SELECT ordinal FROM snapshots WHERE {_OF_SESSION} ORDER BY ordinal DESC LIMIT {KEPT})"
)


class Snapshot:
    """A state up to `ordinal`; `chain` is that of the log there, `body` the packed state of schema number `schema`."""

    __slots__ = ("body", "chain", "ordinal", "schema")

    def __init__(self, ordinal: int, schema: int, chain: bytes, body: bytes) -> None:
        """Keep the columns."""
        self.ordinal = ordinal
        self.schema = schema
        self.chain = chain
        self.body = body


def newest(connection: apsw.Connection, session_id: str, schema: int, last: int) -> Snapshot | None:
    """Return the newest snapshot of a schema up to the ordinal `last`, None when there is none. Raises apsw.Error."""
    for values in connection.execute(_NEWEST, (session_id, schema, last)):
        require_values(values)
        return Snapshot(*values)
    return None


def put(connection: apsw.Connection, session_id: str, snapshot: Snapshot) -> bool:
    """Store a snapshot and drop the oldest; False for an unknown session. Raises apsw.Error."""
    columns = (snapshot.ordinal, snapshot.schema, snapshot.chain, snapshot.body)
    with sqlite.Immediate(connection):
        connection.execute(_PUT, (*columns, session_id))
        stored = bool(connection.changes())
        connection.execute(_DROP_OLDER, (session_id, session_id))
    return stored
