"""`sessionctl compact`: compresses the segments that are finished; logically their bytes stay the same.

Owns: the report. Invariants: a session that cannot be compacted is named with the reason and does not keep the others
from it; what is left alone is listed. Must not know: how a segment is compressed.
"""

from __future__ import annotations

import click

from turnlog import names
from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.failure import describe
from turnlog.cli.place import session_of
from turnlog.cli.progress import Progress
from turnlog.cli.terminal import count, escape, size
from turnlog.errors import TurnlogError
from turnlog.log.lock import is_locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.cli.output import Output

_SUMS = ("segments", "compacted", "raw_bytes", "compacted_bytes")
OBJECTS: dict[str, dict[str, Any]] = {
    "compacted": {
        "session": "string",
        **dict.fromkeys(_SUMS, "integer"),
        "skipped": [{"segment": "string", "reason": "string"}],
    },
    "refused": {"session": "string", "code": "string", "message": "string"},
    "summary": {"store": "string", **dict.fromkeys(("sessions", *_SUMS, "skipped", "refused"), "integer")},
}


@verb("compact", OBJECTS, [click.Argument(["session_ids"], metavar="[ID]...", nargs=-1)])
def command(call: Invocation, *, session_ids: tuple[str, ...]) -> int:
    """Compress the finished segments of sessions (default: all).

    Nothing is lost: `zstd -d` gives a segment back, and every event keeps its place. What a writer is at work on, and
    what is damaged, is left alone and listed.
    """
    from turnlog.compact.compact import compact_session

    totals = dict.fromkeys(("sessions", *_SUMS, "skipped", "refused"), 0)
    codes: set[int] = set()
    with call.open() as store, Progress("compacting") as progress:
        wanted = [store.resolve(session_of(text)) for text in session_ids] or store.session_ids()
        for session_id in wanted:
            totals["sessions"] += 1
            try:
                done = compact_session(store.path, session_id, progress=progress.add)
            except TurnlogError as error:
                progress.clear()
                totals["refused"] += 1
                codes.add(_refused(call.out, session_id, error))
                continue
            progress.clear()
            for name in _SUMS:
                totals[name] += done[name]
            totals["skipped"] += len(done["skipped"])
            if done["skipped"]:
                live = not done["compacted"] and is_locked(names.session_dir(store.path, session_id))
                codes.add(exits.LOCKED if live else exits.PARTIAL)
            _report(call.out, done)
        path = store.path
    _summarize(call.out, path, totals)
    if not codes:
        return exits.OK
    return codes.pop() if len(session_ids) == 1 else exits.PARTIAL


def _refused(out: Output, session_id: str, error: TurnlogError) -> int:
    code, fields = describe(error)
    if out.json:
        out.object("refused", {"session": session_id, "code": fields["code"], "message": fields["message"]})
    else:
        out.line(out.paint(f"{session_id}  refused: {escape(str(error))}", "red"))
    return code


def _report(out: Output, done: dict[str, Any]) -> None:
    if out.json:
        out.object("compacted", done)
        return
    if done["compacted"]:
        change = f"{size(done['raw_bytes'])} to {size(done['compacted_bytes'])}"
        out.line(f"{done['session']}  {count(done['compacted'], 'segment')} compacted, {change}")
    for skipped in done["skipped"]:
        out.line(f"{done['session']}  skipped {skipped['segment']}: {escape(skipped['reason'])}")


def _summarize(out: Output, store: str, totals: dict[str, int]) -> None:
    if out.json:
        out.object("summary", {**totals, "store": store})
        return
    amounts = f"{totals['compacted']:,} of {count(totals['segments'], 'segment')}"
    freed = size(totals["raw_bytes"] - totals["compacted_bytes"])
    out.line(f"compacted {amounts} in {count(totals['sessions'], 'session')}, {freed} freed")
