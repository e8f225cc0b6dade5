"""`sessionctl stats`: what a store or a session holds, in events and in bytes.

Owns: what is counted. Invariants: writes nothing; the store's numbers come from the index and the file sizes, so no log
is read; a session's numbers come from its log, in bounded memory. Must not know: how either is stored.
"""

from __future__ import annotations

import os
from stat import S_ISDIR

import click

from turnlog import names
from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.events import Losses
from turnlog.cli.place import session_of
from turnlog.cli.schema import LOST
from turnlog.cli.terminal import count, cut, escape, pad, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from turnlog.cli.output import Output
    from turnlog.session import Session
    from turnlog.store import Store

_PAGE = 10_000
_SUMS = ("events", "turns", "steps", "messages", "tool_calls")
_TOKENS = ("input", "output", "cache_read", "cache_write")
_TITLE_COLUMNS = 60
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own block is

OBJECTS: dict[str, dict[str, Any]] = {
    "store_stats": {
        "store": "string",
        **dict.fromkeys(("sessions", "damaged", "bytes", "disk_bytes", *_SUMS), "integer"),
        "states": "{integer}",
        "tokens": "{integer}",
        "disk": "{integer}",
        "largest": [{"session": "string", "title": "string", "bytes": "integer"}],
    },
    "session_stats": {
        "session": "string",
        **dict.fromkeys(("events", "payload_bytes", "disk_bytes"), "integer"),
        "segments": [{"name": "string", "bytes": "integer", "disk_bytes": "integer"}],
        "types": "{any}",
    },
    "lost": LOST,
}


@verb(
    "stats",
    OBJECTS,
    [
        click.Argument(["session_id"], metavar="[ID]", required=False),
        click.Option(
            ["--largest"],
            type=click.IntRange(0, 1000),
            default=5,
            show_default=True,
            metavar="N",
            help="How many of the largest.",
        ),
    ],
)
def command(call: Invocation, session_id: str | None, largest: int) -> int:
    """Count what the store holds, or with an ID what that session holds by event type. Writes nothing."""
    with call.open() as store:
        if session_id is None:
            _store(call.out, store, largest)
            return exits.OK
        session = store.session(session_of(session_id))
        losses = _session(call.out, store, session)
    losses.advise()
    return exits.PARTIAL if losses else exits.OK


# -- a store -------------------------------------------------------------------------------------------------------


def _rows(store: Store) -> Iterator[dict[str, Any]]:
    token: str | None = None
    while True:
        rows, token = store.list(limit=_PAGE, after=token)
        yield from rows
        if token is None:
            return


def _store(out: Output, store: Store, largest: int) -> None:
    totals: dict[str, Any] = dict.fromkeys(("sessions", "damaged", "bytes", *_SUMS), 0)
    tokens = dict.fromkeys(_TOKENS, 0)
    states: dict[str, int] = {}
    biggest: list[tuple[int, str, str]] = []
    for row in _rows(store):
        totals["sessions"] += 1
        totals["damaged"] += row["damaged"]
        states[row["state"]] = states.get(row["state"], 0) + 1
        for name in ("bytes", *_SUMS):
            totals[name] += row[name]
        for name in _TOKENS:
            tokens[name] += row[f"tokens_{name}"]
        biggest.append((row["bytes"], row["id"], row["title"]))
        if len(biggest) > 2 * largest + 100:
            biggest = sorted(biggest, reverse=True)[:largest]
    disk = _disk(store.path)
    answer = {
        **totals,
        "store": store.path,
        "states": states,
        "tokens": tokens,
        "disk": disk,
        "disk_bytes": sum(disk.values()),
        "largest": [
            {"session": session_id, "title": title, "bytes": size_bytes}
            for size_bytes, session_id, title in sorted(biggest, reverse=True)[:largest]
        ],
    }
    if out.json:
        out.object("store_stats", answer)
    else:
        _print_store(out, answer)


def _print_store(out: Output, answer: dict[str, Any]) -> None:
    states = ", ".join(f"{number:,} {state}" for state, number in sorted(answer["states"].items()))
    facts = {
        "store": escape(answer["store"]),
        "sessions": f"{count(answer['sessions'])}{f' ({states})' if states else ''}",
        "damaged": count(answer["damaged"]) if answer["damaged"] else "",
        "events": count(answer["events"]),
        "turns": f"{count(answer['turns'], 'turn')}, {count(answer['steps'], 'step')}, "
        f"{count(answer['messages'], 'message')}, {count(answer['tool_calls'], 'tool call')}",
        "tokens": ", ".join(f"{count(number)} {kind.replace('_', ' ')}" for kind, number in answer["tokens"].items()),
        "logs": f"{size(answer['bytes'])} before compression",
        "on disk": f"{size(answer['disk_bytes'])}: "
        + ", ".join(f"{size(number)} {part}" for part, number in answer["disk"].items() if number),
    }
    for name, value in facts.items():
        if value:
            out.line(f"{out.paint(f'{name:<8}', 'dim')}  {value}")
    if answer["largest"]:
        out.line()
        out.line(out.paint("LARGEST", "bold"))
        for item in answer["largest"]:
            title = cut(escape(item["title"]), _TITLE_COLUMNS)
            out.line(f"{pad(size(item['bytes']), 10, right=True)}  {item['session']}  {title}".rstrip())


def _disk(root: str) -> dict[str, int]:
    """Return the bytes that the file system gives each part of the store."""
    parts = {"segments": 0, "compacted": 0, "artifacts": 0, "quarantine": 0, "index": 0, "other": 0}
    for top, name, size_bytes in _files(root, ""):
        if top == names.SESSIONS:
            parsed = names.parse_segment_name(name)
            part = "other" if parsed is None else "compacted" if parsed[2] else "segments"
        elif top in parts:
            part = top
        else:
            part = "index" if name in {names.INDEX, *names.INDEX_SIDE_FILES} else "other"
        parts[part] += size_bytes
    return parts


def _files(folder: str, top: str) -> Iterator[tuple[str, str, int]]:
    """Yield (folder below the store, name, allocated bytes) of every file; what vanishes meanwhile is not counted."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if S_ISDIR(found.st_mode):
                    yield from _files(entry.path, top or entry.name)
                else:
                    yield top, entry.name, found.st_blocks * _BLOCK_BYTES
    except FileNotFoundError:
        return


# -- a session -----------------------------------------------------------------------------------------------------


def _session(out: Output, store: Store, session: Session) -> Losses:
    from turnlog.log.log import Window
    from turnlog.log.segments import list_segments

    log = session.log()
    types: dict[str, list[int]] = {}
    for batch in log.batches(Window(on_damage="skip")):
        for event in batch:
            of_type = types.setdefault(event.type, [0, 0])
            of_type[0] += 1
            of_type[1] += event.size
    segments: list[dict[str, Any]] = []
    for file in list_segments(names.session_dir(store.path, session.id)):
        found = os.stat(file.path)
        logical = log.open_reader(file).size()
        segments.append({"name": file.name, "bytes": logical, "disk_bytes": found.st_blocks * _BLOCK_BYTES})
    losses = Losses(out, session.id)
    losses.tell(log.damage)
    log.close()
    ranked = sorted(types.items(), key=lambda item: (-item[1][1], item[0]))
    answer = {
        "session": session.id,
        "events": sum(number for number, _ in types.values()),
        "payload_bytes": sum(size_bytes for _, size_bytes in types.values()),
        "disk_bytes": sum(segment["disk_bytes"] for segment in segments),
        "segments": segments,
        "types": {kind: {"events": number, "payload_bytes": size_bytes} for kind, (number, size_bytes) in ranked},
    }
    if out.json:
        out.object("session_stats", answer)
    else:
        _print_session(out, answer)
    return losses


def _print_session(out: Output, answer: dict[str, Any]) -> None:
    out.line(f"session   {answer['session']}")
    out.line(f"events    {count(answer['events'])}, {size(answer['payload_bytes'])} of payload")
    out.line(f"on disk   {size(answer['disk_bytes'])} in {count(len(answer['segments']), 'segment')}")
    out.line()
    out.line(out.paint("    EVENTS     PAYLOAD  TYPE", "bold"))
    for kind, numbers in answer["types"].items():
        out.line(f"{numbers['events']:>10,}  {pad(size(numbers['payload_bytes']), 10, right=True)}  {kind}")
