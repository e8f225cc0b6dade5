"""`sessionctl prune`: removes artifacts that no session refers to.

Owns: the options, the question, the report. Invariants: nothing is removed before the answer is yes (or --yes), and
nothing at all while a session is damaged; what would go is listed before. Must not know: how references are found.
"""

from __future__ import annotations

import sys

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.output import is_terminal
from turnlog.cli.progress import Progress
from turnlog.cli.terminal import count, parse_span, size
from turnlog.cli.verify import witness_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.artifacts.sweep import Swept
    from turnlog.prune import Prune

_DAY_S = 86_400
OBJECTS: dict[str, dict[str, Any]] = {
    "artifact": {"digest": "string", "removed": "boolean"},
    "refused": dict.fromkeys(("session", "verdict", "reason"), "string"),
    "summary": {
        "store": "string",
        "applied": "boolean",
        **dict.fromkeys(("artifacts", "unfinished", "bytes", "kept", "young", "refused", "grace_s"), "integer"),
        "next": "[string]",
    },
}


@verb(
    "prune",
    OBJECTS,
    [
        click.Option(
            ["--grace"], metavar="SPAN", default="14d", show_default=True, help="Keep what was put within: 12h, 7d, 2w."
        ),
        click.Option(["--dry-run"], is_flag=True, help="Only say what would be removed."),
        click.Option(["--yes"], is_flag=True, help="Remove without asking."),
    ],
)
def command(call: Invocation, *, grace: str, dry_run: bool, yes: bool) -> int:
    """Remove artifacts, the large contents that events refer to, which nothing in the store refers to any more.

    What any session, fork or quarantined file names stays, and what was put within the grace period. While a session is
    damaged, nothing is removed. Without a terminal to ask at nothing is removed either, until there is a --yes.
    """
    from turnlog.prune import Prune

    try:
        grace_s = parse_span(grace)
    except ValueError as error:
        raise click.UsageError(f"--grace {grace}: give a span such as 12h, 7d or 2w") from error
    with call.open() as store, Progress("searching") as progress:
        prune = Prune(
            store.path,
            grace_days=grace_s / _DAY_S,
            witness_of=lambda session_id: witness_of(store, session_id),
            progress=progress.add,
        )
        progress.clear()
    if prune.damaged:
        return _refuse(call, prune, grace_s)
    if not yes or dry_run:
        swept = prune.sweep(dry_run=True)
        asks = not dry_run and not call.json and call.out.terminal and is_terminal(sys.stdin)
        if asks and (swept.digests or swept.unfinished):
            call.out.line(_sentence("would remove", swept, grace))
            call.out.flush()
            yes = click.confirm("Remove?", default=False)
        if not yes or dry_run:
            return _left(call, prune, swept, (grace, grace_s), dry_run=dry_run)
    swept = prune.sweep(dry_run=False)
    _list(call, swept)
    if call.json:
        call.out.object("summary", _totals(prune, swept, grace_s))
    else:
        call.out.line(_sentence("removed", swept, grace))
    return exits.OK


def _left(call: Invocation, prune: Prune, swept: Swept, grace: tuple[str, int], *, dry_run: bool) -> int:
    """Say what would go, with a command that removes it; return the exit code."""
    waiting = bool(swept.digests or swept.unfinished)
    _list(call, swept)
    following = [call.out.following(f"sessionctl prune --grace {grace[0]} --yes")] if waiting else []
    if call.json:
        call.out.object("summary", {**_totals(prune, swept, grace[1]), "next": following})
    else:
        call.out.line(_sentence("would remove", swept, grace[0]))
        for one in following:
            call.out.advise(one)
    return exits.NO if waiting and not dry_run else exits.OK


def _refuse(call: Invocation, prune: Prune, grace_s: int) -> int:
    """Name the sessions that forbid it."""
    following = [call.out.following(f"sessionctl verify {check.session}") for check in prune.damaged]
    for check in prune.damaged:
        reason = "it is damaged, so what it refers to is not known"
        if call.json:
            call.out.object("refused", {"session": check.session, "verdict": check.verdict, "reason": reason})
        else:
            call.out.line(call.out.paint(f"{check.session}  refused: {check.verdict}: {reason}", "red"))
    if call.json:
        call.out.object("summary", {**_totals(prune, None, grace_s), "next": following})
    else:
        call.out.line(f"nothing removed: {count(len(prune.damaged), 'damaged session')}")
        for one in following:
            call.out.advise(one)
    return exits.REFUSED


def _list(call: Invocation, swept: Swept) -> None:
    for digest in swept.digests:
        if call.json:
            call.out.object("artifact", {"digest": digest, "removed": not swept.dry_run})
        else:
            call.out.line(digest)


def _totals(prune: Prune, swept: Swept | None, grace_s: int) -> dict[str, Any]:
    numbers = dict.fromkeys(("artifacts", "unfinished", "bytes", "kept", "young"), 0)
    if swept is not None:
        numbers = {name: getattr(swept, name) for name in ("unfinished", "bytes", "kept", "young")}
        numbers["artifacts"] = len(swept.digests)
    applied = swept is not None and not swept.dry_run
    return {
        **numbers,
        "store": prune.path,
        "applied": applied,
        "refused": len(prune.damaged),
        "grace_s": grace_s,
        "next": [],
    }


def _sentence(what: str, swept: Swept, grace: str) -> str:
    parts = [f"{what} {count(len(swept.digests), 'artifact')}, {size(swept.bytes)}"]
    if swept.unfinished:
        parts.append(count(swept.unfinished, "unfinished file"))
    parts += [f"{count(swept.kept)} referred to", f"{count(swept.young)} put within {grace}"]
    return "; ".join(parts)
