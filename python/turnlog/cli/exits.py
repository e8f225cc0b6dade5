"""Exit codes: one table of meanings, one table of which verb gives which.

Owns: the numbers and the EXIT STATUS section of every `--help`. Invariant: a verb ends with no code that its help does
not list; a code unknown to a caller means failure. Must not know: how a verb comes to its answer.
"""

from __future__ import annotations

OK, NO, USAGE, PARTIAL, REFUSED = 0, 1, 2, 3, 4
NOT_FOUND, LOCKED, KEY_MISSING, NEWER, IO = 10, 11, 12, 13, 14
BUG, INTERRUPTED, CLOSED_PIPE = 70, 130, 141

MEANINGS = {
    OK: "fine",
    NO: "the answer is no: damage, difference, nothing found",
    USAGE: "wrong usage",
    PARTIAL: "partial: something was left out, and is listed",
    REFUSED: "refused, because it would be unsafe",
    NOT_FOUND: "no such store, session or event",
    LOCKED: "a live writer holds the session; try again later",
    KEY_MISSING: "a key is missing",
    NEWER: "the store is newer than this program",
    IO: "no space, or an error of the operating system",
    BUG: "a bug in turnlog; --traceback shows where",
    INTERRUPTED: "interrupted",
    CLOSED_PIPE: "the reader of the output went away",
}

_EVERY_VERB = (OK, USAGE, IO, BUG, INTERRUPTED, CLOSED_PIPE)
_A_STORE = (NO, NOT_FOUND, NEWER)

_A_CHANGE = (*_A_STORE, REFUSED, LOCKED)

CODES: dict[str, tuple[int, ...]] = {
    "archive": _A_CHANGE,
    "cat": (*_A_STORE, PARTIAL),
    "compact": (*_A_STORE, PARTIAL, REFUSED, LOCKED),
    "completion": (),
    "diff": _A_STORE,
    "forget": _A_CHANGE,
    "fork": (*_A_STORE, REFUSED),
    "import": (*_A_STORE, PARTIAL, REFUSED, LOCKED),
    "list": _A_STORE,
    "path": (*_A_STORE,),
    "prune": (*_A_STORE, REFUSED),
    "rebuild-index": _A_CHANGE,
    "rename": _A_CHANGE,
    "repair": (*_A_STORE, PARTIAL, REFUSED, LOCKED),
    "resume": _A_CHANGE,
    "settle": _A_CHANGE,
    "show": (*_A_STORE, PARTIAL),
    "stats": (*_A_STORE, PARTIAL),
    "tag": _A_CHANGE,
    "tail": (*_A_STORE, PARTIAL),
    "verify": _A_STORE,
}

_SPECIAL: dict[tuple[str, int], str] = {
    **{(verb, NO): "the session is damaged" for verb in ("archive", "rename", "settle", "tag")},
    **{(verb, REFUSED): "refused: the store cannot be written" for verb in ("archive", "fork", "rename", "tag")},
    ("cat", NO): "no event matches, or the store is damaged",
    ("cat", PARTIAL): "some events cannot be read; they are named on stderr",
    ("compact", PARTIAL): "some sessions were skipped, and are listed",
    ("diff", OK): "the sessions hold equal events",
    ("diff", NO): "they differ, or an event cannot be read",
    ("forget", NO): "nothing was moved: there was no --yes, the answer was no, or a session is damaged",
    ("forget", REFUSED): "refused: other sessions inherit from it, or the store cannot be written",
    ("import", PARTIAL): "some lines or files could not be read, and are listed",
    ("list", NO): "no session matches, or the store is damaged",
    ("prune", OK): "what nothing refers to was removed, or there is nothing of that kind (with --dry-run: was listed)",
    ("prune", NO): "there is something to remove and there was no --yes, or the answer was no",
    ("prune", REFUSED): "refused: a session is damaged, or the store cannot be written",
    ("repair", NO): "there is something to repair (without --apply), or damage is left",
    ("resume", OK): "it was put right, or there is nothing to put right",
    ("resume", NO): "there is something to put right (without --yes), the answer was no, or the session is damaged",
    ("resume", REFUSED): "tool calls of unknown outcome are left and there was no --yes, or damage forbids writing",
    ("show", PARTIAL): "some events cannot be read; they are named",
    ("stats", PARTIAL): "some events cannot be read; they are named",
    ("tail", PARTIAL): "some events cannot be read; they are named on stderr",
    ("verify", OK): "everything that was looked at is as it was written",
    ("verify", NO): "damage was found, or the head differs from --expect",
}


def codes_of(verb: str) -> list[int]:
    """Return the codes a verb can give, in order."""
    return sorted({*_EVERY_VERB, *CODES[verb]})


def meaning(verb: str, code: int) -> str:
    """Say what a code means when it comes from this verb."""
    return _SPECIAL.get((verb, code), MEANINGS[code])
