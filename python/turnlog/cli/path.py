"""`sessionctl path`: which store is used and why; with an ID, where that session is.

Owns: nothing but the answer. Invariant: writes nothing. Must not know: what the files hold.
"""

from __future__ import annotations

import os

import click

from turnlog import names
from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.place import session_of
from turnlog.cli.terminal import escape

OBJECTS = {
    "path": {
        "store": "string",
        "chosen_by": "string",
        "why": "string",
        "exists": "boolean",
        "index": "string",
        "session": "string-",
        "folder": "string-",
        "segments": "[string]-",
    }
}


@verb("path", OBJECTS, [click.Argument(["session_id"], metavar="[ID]", required=False)])
def command(call: Invocation, session_id: str | None) -> int:
    """Print the store's folder, and on stderr why it is this one; with an ID, the session's folder and segments.

    Writes nothing, and exits 10 when there is no store at that place.
    """
    place = call.place()
    answer: dict[str, object] = {
        "store": place.path,
        "chosen_by": place.chosen_by,
        "why": place.why,
        "exists": place.exists(),
        "index": os.path.join(place.path, names.INDEX),
    }
    lines = [place.path]
    if session_id is not None:
        from turnlog.log.segments import list_segments

        with call.open() as store:
            found = store.resolve(session_of(session_id))
            folder = names.session_dir(store.path, found)
            segments = [file.path for file in list_segments(folder)]
        answer |= {"session": found, "folder": folder, "segments": segments}
        lines = [folder, *segments]
    if call.json:
        call.out.object("path", answer)
    else:
        for line in lines:
            call.out.line(escape(line))
        call.out.note(f"store: {escape(place.path)}: {place.why}" if session_id else place.why, "dim")
    if not place.exists():
        if not call.json:
            call.out.note("there is no store yet; `sessionctl import` creates it")
        return exits.NOT_FOUND
    return exits.OK
