"""`sessionctl compact`: compresses the segments that are finished; logically their bytes stay the same.

Owns: the report. Invariants: a session that cannot be compacted is named with the reason and does not keep the others
from it; what a command leaves alone it says. Must not know: how a segment is compressed.
"""

from __future__ import annotations

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.failure import describe
from turnlog.cli.place import session_of
from turnlog.cli.progress import Progress
from turnlog.cli.terminal import count, escape, size
from turnlog.errors import TurnlogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("segments", "compacted", "raw_bytes", "compacted_bytes"), "integer"),
    "skipped": "[any]",
}
OBJECTS: dict[str, dict[str, Any]] = {
    "compacted": {"session": "string", **_FIELDS},
    "refused": {"session": "string", "code": "string", "message": "string"},
    "summary": {
        "store": "string",
        **dict.fromkeys(("sessions", "segments", "compacted", "raw_bytes", "compacted_bytes", "refused"), "integer"),
    },
}


@verb("compact", OBJECTS, [click.Argument(["session_ids"], metavar="[ID]...", nargs=-1)])
def command(call: Invocation, *, session_ids: tuple[str, ...]) -> int:
    """Compress the finished segments of sessions (default: all).

    Nothing is lost: `zstd -d` gives a segment back, and every event keeps its place. Segments that a writer still
    appends to, and sessions with damage, are left alone and named.
    """
    from turnlog.compact import compact_session

    out = call.out
    totals = dict.fromkeys(("sessions", "segments", "compacted", "raw_bytes", "compacted_bytes", "refused"), 0)
    codes: set[int] = set()
    with call.open() as store, Progress("compacting") as progress:
        wanted = [store.resolve(session_of(text)) for text in session_ids] or store.session_ids()
        for session_id in wanted:
            totals["sessions"] += 1
            try:
                done = compact_session(store.path, session_id, progress=progress.add)
            except TurnlogError as error:
                code, fields = describe(error)
                codes.add(code)
                totals["refused"] += 1
                progress.clear()
                if out.json:
                    refusal = {name: fields[name] for name in ("code", "message")}
                    out.object("refused", {**refusal, "session": session_id})
                else:
                    out.line(out.paint(f"{session_id}  refused: {escape(str(error))}", "red"))
                continue
            progress.clear()
            for name in ("segments", "compacted", "raw_bytes", "compacted_bytes"):
                totals[name] += done[name]
            if out.json:
                out.object("compacted", {**done, "session": session_id})
            elif done["compacted"] or done["skipped"]:
                out.line(_sentence(session_id, done))
        path = store.path
    if out.json:
        out.object("summary", {**totals, "store": path})
    else:
        freed = size(totals["raw_bytes"] - totals["compacted_bytes"])
        amounts = f"{count(totals['compacted'], 'segment')} of {count(totals['sessions'], 'session')}"
        out.line(f"compacted {amounts}, {freed} freed")
    if not codes:
        return exits.OK
    return codes.pop() if len(codes) == 1 and totals["refused"] == totals["sessions"] else exits.PARTIAL


def _sentence(session_id: str, done: dict[str, Any]) -> str:
    parts = []
    if done["compacted"]:
        change = f"{size(done['raw_bytes'])} -> {size(done['compacted_bytes'])}"
        parts.append(f"{count(done['compacted'], 'segment')} compacted, {change}")
    parts += [f"skipped {escape(part['segment'])}: {escape(part['reason'])}" for part in done["skipped"]]
    return f"{session_id}  {'; '.join(parts)}"
