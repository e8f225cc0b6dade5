"""`sessionctl list`: one line per session, newest activity first.

Owns: the filters, the table and its fit to the terminal's width. Invariants: writes nothing; a short id shown is one
that the other verbs accept. Must not know: how the index finds the rows.
"""

from __future__ import annotations

import os
import time

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.output import terminal_width
from turnlog.cli.terminal import age, cut, escape, pad, parse_moment, short_count, size, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from turnlog.cli.output import Output
    from turnlog.store import Store

    Row = dict[str, Any]

SHORT_ID_CHARACTERS = 8
_HEADER = ("ID", "AGE", "STATE", "TURNS", "EVENTS", "TOKENS", "SIZE", "CWD", "TITLE")
_RIGHT = frozenset({"AGE", "TURNS", "EVENTS", "TOKENS", "SIZE"})
_CWD_MAX, _CWD_MIN, _TITLE_MIN = 32, 12, 16
_GAP = "  "

SESSION: dict[str, Any] = {
    **dict.fromkeys(("id", "title", "cwd", "model", "state", "parent", "head_chain"), "string"),
    **dict.fromkeys(("created_us", "last_activity_us", "events", "turns", "steps", "messages"), "integer"),
    **dict.fromkeys(("tool_calls", "tokens_input", "tokens_output", "tokens_cache_read"), "integer"),
    **dict.fromkeys(("tokens_cache_write", "bytes", "fork_ordinal", "head_ordinal"), "integer"),
    "tags": "[string]",
    "damaged": "boolean",
}
OBJECTS = {"session": SESSION, "page": {"count": "integer", "next": "string"}}


@verb(
    "list",
    OBJECTS,
    [
        click.Option(["--cwd"], metavar="PATH", help="Only sessions of this working directory."),
        click.Option(
            ["--state"],
            help="Only sessions in this state: open, running (a process is at work in a turn), interrupted (its "
            "process is gone), closed, archived, deleted.",
        ),
        click.Option(["--model"], help="Only sessions of this model."),
        click.Option(["--tag"], help="Only sessions with this tag."),
        click.Option(["--parent"], metavar="ID", help="Only sessions that belong to this one."),
        click.Option(["--since"], metavar="WHEN", help="Only sessions active since: 90m, 2d, 1w, or an ISO date."),
        click.Option(["--text"], metavar="WORDS", help="Only sessions with this in their title."),
        click.Option(
            ["-n", "--limit"],
            type=click.IntRange(1, 10_000),
            default=50,
            show_default=True,
            help="At most so many sessions.",
        ),
        click.Option(["--after"], metavar="TOKEN", help="The page behind a token that an earlier list gave."),
    ],
)
def command(
    call: Invocation, *, cwd: str | None, parent: str | None, since: str | None, limit: int, **same: str | None
) -> int:
    """List sessions, newest activity first. Writes nothing."""
    now_us = time.time_ns() // 1000
    filters: dict[str, Any] = {**same, "limit": limit, "cwd": None if cwd is None else os.path.abspath(cwd)}
    if since is not None:
        try:
            filters["since_us"] = parse_moment(since, now_us)
        except ValueError as error:
            raise click.UsageError(f"--since {since}: give a span such as 90m, 2d or 1w, or an ISO date") from error
    with call.open() as store:
        filters["parent"] = None if parent is None else store.resolve(parent)
        rows, following = store.list(**filters)
        if call.json:
            for row in rows:
                call.out.object("session", row)
            if following is not None:
                call.out.object("page", {"count": len(rows), "next": following})
        elif rows:
            _table(call.out, rows, short_ids(store, rows), now_us)
    if not call.json and following is not None:
        call.out.note(f"more: add --after {following}")
    if not rows:
        narrowed = any(value is not None for name, value in filters.items() if name != "limit")
        call.out.note("no session matches" if narrowed else f"the store {store.path} has no sessions")
        return exits.NO
    return exits.OK


def short_ids(store: Store, rows: Sequence[Row]) -> list[str]:
    """Return for each row the shortest prefix of its id, 8 characters or more, that fits no other session."""
    index = store.index()
    short = []
    for row in rows:
        session_id: str = row["id"]
        others = [other for other in index.find_prefix(session_id[:SHORT_ID_CHARACTERS]) if other != session_id]
        shared = max((_shared(session_id, other) for other in others), default=0)
        short.append(session_id[: max(SHORT_ID_CHARACTERS, shared + 1)])
    return short


def _shared(one: str, other: str) -> int:
    return next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def _table(out: Output, rows: Sequence[Row], ids: Sequence[str], now_us: int) -> None:
    lines = [_HEADER, *(_cells(row, short, now_us) for row, short in zip(rows, ids, strict=True))]
    widths = _fit([max(map(width, column)) for column in zip(*lines, strict=True)], terminal_width())
    for place, cells in enumerate(lines):
        shown = [
            pad(cut(cell, columns, keep_end=name == "CWD"), columns, right=name in _RIGHT)
            for name, cell, columns in zip(_HEADER, cells, widths, strict=True)
            if columns
        ]
        text = _GAP.join(shown).rstrip()
        if place == 0:
            text = out.paint(text, "bold")
        elif rows[place - 1]["damaged"]:
            text = out.paint(text, "red")
        out.line(text)


def _cells(row: Row, short: str, now_us: int) -> tuple[str, ...]:
    home = os.path.expanduser("~")
    cwd: str = row["cwd"]
    if cwd == home or cwd.startswith(home + os.sep):
        cwd = "~" + cwd[len(home) :]
    tokens = sum(row[f"tokens_{kind}"] for kind in ("input", "output", "cache_read", "cache_write"))
    return (
        short,
        age(row["last_activity_us"], now_us),
        "damaged" if row["damaged"] else row["state"],
        str(row["turns"]),
        short_count(row["events"]),
        short_count(tokens),
        size(row["bytes"]),
        escape(cwd),
        escape(row["title"]) or "-",
    )


def _fit(widths: list[int], columns: int | None) -> list[int]:
    """Narrow the working directory, then the title, to the terminal; a column that does not fit at all gets 0."""
    if columns is None:
        return widths
    widths[-2] = min(widths[-2], _CWD_MAX)
    fixed = sum(widths[:-2]) + len(_GAP) * (len(widths) - 1)
    room = columns - fixed
    if widths[-2] + widths[-1] > room:
        widths[-2] = min(widths[-2], max(_CWD_MIN, room - widths[-1]))
        widths[-1] = min(widths[-1], max(_TITLE_MIN, room - widths[-2]))
    if widths[-2] + widths[-1] > room:  # a narrow terminal: the title says more than the folder
        widths[-2] = 0
        widths[-1] = max(_TITLE_MIN, room + len(_GAP))
    return widths
