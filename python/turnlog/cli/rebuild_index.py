"""`sessionctl rebuild-index`: the index anew, from the logs alone.

Owns: nothing but the report. Invariant: the old index serves until the new one is complete. Must not know: how an index
is built.
"""

from __future__ import annotations

import os
import time

from turnlog import names
from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.progress import Progress
from turnlog.cli.terminal import count, escape

OBJECTS = {
    "rebuilt": {"store": "string", "index": "string", "sessions": "integer", "damaged": "integer", "ms": "integer"}
}
_PAGE = 10_000


@verb("rebuild-index", OBJECTS)
def command(call: Invocation) -> int:
    """Build the index anew from the logs. Only speed depends on it, so it may be deleted or rebuilt at any time."""
    started_s = time.monotonic()
    with call.open(read_only=False) as store:
        with Progress("rebuilding", unit="sessions") as progress:
            index = store.index()
            index.rebuild(progress=progress)
        sessions = damaged = 0
        token: str | None = None
        while True:
            rows, token = index.list(limit=_PAGE, after=token)
            sessions += len(rows)
            damaged += sum(row["damaged"] for row in rows)
            if token is None:
                break
        path = os.path.join(store.path, names.INDEX)
    ms = round((time.monotonic() - started_s) * 1000)
    if call.json:
        answer = {"store": store.path, "index": path, "sessions": sessions, "damaged": damaged, "ms": ms}
        call.out.object("rebuilt", answer)
        return exits.OK
    call.out.line(f"rebuilt  {count(sessions, 'session')}  {escape(path)}  {ms / 1000:.1f} s")
    if damaged:
        call.out.note(f"{count(damaged, 'session')} with damage: sessionctl verify", "red")
    return exits.OK
