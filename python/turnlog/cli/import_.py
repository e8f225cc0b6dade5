"""`sessionctl import`: transcripts of other programs become sessions; importing again adds only what is new.

Owns: what SOURCE means, the report. Invariants: the originals are only read; every file gets a result, every finding is
shown with its place. Must not know: how a transcript is read.
"""

from __future__ import annotations

import os

import click

from turnlog.cli import exits
from turnlog.cli.command import Invocation, verb
from turnlog.cli.progress import Progress
from turnlog.cli.terminal import count, escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from turnlog.cli.output import Output
    from turnlog.importers.result import Imported

_HOMES = {"claude": ("CLAUDE_CONFIG_DIR", ".claude"), "codex": ("CODEX_HOME", ".codex")}
_STATUSES = ("imported", "grown", "unchanged", "refused")
_REFUSAL_CODES = {
    "locked": exits.LOCKED,
    "newer_format": exits.NEWER,
    "damaged": exits.REFUSED,
    "read_only": exits.REFUSED,
    "source_rewritten": exits.REFUSED,
    "other_product": exits.USAGE,
}
_FINDINGS_SHOWN = 10
_FINDING: dict[str, Any] = {
    "code": "string",
    "path": "string",
    "detail": "string?-",
    "line": "integer-",
    "offset": "integer-",
    "length": "integer-",
    "product": "string-",
}
OBJECTS: dict[str, dict[str, Any]] = {
    "imported": {
        "path": "string",
        "session": "string?",
        "status": "string",
        **dict.fromkeys(("lines", "appended_lines", "events"), "integer"),
        "unknown": "{integer}",
        "findings": [_FINDING],
    },
    "summary": {
        "store": "string",
        **dict.fromkeys((*_STATUSES, "lines", "events", "findings"), "integer"),
        "unknown": "{integer}",
        "next": "[string]",
    },
}


@verb(
    "import",
    OBJECTS,
    [
        click.Argument(["sources"], metavar="[claude|codex] [PATH]...", nargs=-1, required=True),
        click.Option(["-v", "--verbose"], is_flag=True, help="Also list unchanged files, and every finding."),
    ],
)
def command(call: Invocation, sources: tuple[str, ...], verbose: bool) -> int:
    """Import transcripts: files, or folders searched for them. The originals are only read.

    `claude` or `codex` in front of paths says whose they are; alone it means that program's own folder. Without it
    each file tells by its records. A file of the other program than the one that was named is refused. Importing
    again adds what is new and changes nothing else. Every line of a transcript is kept as it is. The store is made if
    need be.
    """
    from turnlog.importers.importer import import_path

    pairs = list(_pairs(sources))
    totals: dict[str, int] = dict.fromkeys((*_STATUSES, "lines", "events", "findings"), 0)
    unknown: dict[str, int] = {}
    refusals: set[int] = set()
    following: dict[str, None] = {}
    if not call.place().exists():
        call.out.note(f"making the store {escape(call.place().path)}")
    with call.open(read_only=False, create=True) as store, Progress("importing") as progress:
        for product, path in pairs:
            for result in import_path(store, path, progress, product=product):
                progress.clear()
                totals[result.status] += 1
                totals["lines"] += result.appended_lines
                totals["events"] += result.events
                totals["findings"] += len(result.findings)
                for kind, number in result.unknown.items():
                    unknown[kind] = unknown.get(kind, 0) + number
                if result.status == "refused":
                    refusals |= {_REFUSAL_CODES.get(finding["code"], exits.NO) for finding in result.findings}
                    following |= dict.fromkeys(_imports_of_others(result, path))
                _report(call.out, result, verbose=verbose)
    if call.json:
        commands = [call.out.following(one) for one in following]
        call.out.object("summary", {"store": store.path, **totals, "unknown": unknown, "next": commands})
    else:
        _summarize(call.out, store.path, [path for _, path in pairs], totals, unknown)
        for one in following:
            call.out.advise(one)
    return _exit_code(totals, refusals)


def _pairs(sources: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """Yield (product or None, path): a product's name counts for the paths behind it; without any, for its home."""
    product: str | None = None
    for place, word in enumerate(sources):
        if word in _HOMES:
            product = word
            if place + 1 == len(sources) or sources[place + 1] in _HOMES:
                variable, folder = _HOMES[word]
                yield product, _existing(os.environ.get(variable) or os.path.expanduser(f"~/{folder}"))
        else:
            yield product, _existing(word)


def _imports_of_others(result: Imported, path: str) -> Iterator[str]:
    """Yield the commands that import what was refused because it is of another program."""
    from shlex import quote

    for finding in result.findings:
        if finding["code"] == "other_product":
            yield f"sessionctl import {finding['product']} {quote(path)}"


def _existing(path: str) -> str:
    if not os.path.exists(path):
        raise click.UsageError(f"there is nothing at {path}; the programs known by name are {', '.join(_HOMES)}")
    return path


def _report(out: Output, result: Imported, *, verbose: bool) -> None:
    if out.json:
        fields = result.as_json()
        out.object(fields.pop("type"), fields)
        return
    if result.status == "unchanged" and not result.findings and not verbose:
        return
    text = f"{result.status:<9}  {result.session or '-':<36}  {escape(result.path)}"
    if result.events:
        text += f"  ({count(result.appended_lines, 'line')}, {count(result.events, 'event')})"
    out.line(out.paint(text, "red") if result.status == "refused" else text)
    shown = result.findings if verbose else result.findings[:_FINDINGS_SHOWN]
    for finding in shown:
        place = ", ".join(f"{name} {finding[name]}" for name in ("line", "offset") if finding.get(name) is not None)
        where = f"{place}: " if place else ""
        out.line(f"  {finding['code']:<12}  {where}{escape(str(finding.get('detail') or ''))}")
    if len(shown) < len(result.findings):
        out.line(f"  and {count(len(result.findings) - len(shown), 'finding')} more: --verbose or --json lists all")


def _summarize(out: Output, store: str, paths: Sequence[str], totals: dict[str, int], unknown: dict[str, int]) -> None:
    parts = [f"{totals[status]:,} {status}" for status in _STATUSES if totals[status]]
    if not parts:
        out.line(f"no transcripts were found in {escape(', '.join(paths))}")
        return
    parts += [count(totals["lines"], "line"), count(totals["events"], "event"), count(totals["findings"], "finding")]
    out.line(f"{', '.join(parts)}  ({escape(store)})")
    if unknown:
        kinds = ", ".join(f"{number:,} {escape(kind)}" for kind, number in sorted(unknown.items()))
        out.line(f"unknown record types, kept as they are: {kinds}")


def _exit_code(totals: dict[str, int], refusals: set[int]) -> int:
    """Return the refusal's own code where nothing else was done, PARTIAL where there were findings."""
    done = totals["imported"] + totals["grown"] + totals["unchanged"]
    if not done:
        return refusals.pop() if len(refusals) == 1 else exits.NO
    return exits.PARTIAL if totals["findings"] else exits.OK
