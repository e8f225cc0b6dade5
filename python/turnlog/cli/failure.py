"""From an exception to a sentence for people or an object for programs, and an exit code.

Owns: what is printed when a command fails, and where: stderr. Invariants: an error says what, where, why and the next
command; text from outside is made harmless; a closed pipe and Ctrl-C say nothing; what is not an error of turnlog or of
the system is our bug, and says so. Must not know: verbs.
"""

from __future__ import annotations

import os
import sys

import click

from turnlog.cli import VERBS, exits
from turnlog.cli.output import wants_color, with_store
from turnlog.cli.terminal import escape, style
from turnlog.errors import InvalidInput, NotFound, TurnlogError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_SILENT = {exits.INTERRUPTED, exits.CLOSED_PIPE}


def report(error: BaseException, words: Sequence[str]) -> int:
    """Print the error for the command line `words`; return the exit code."""
    code, fields = describe(error)
    if isinstance(error, BrokenPipeError):
        _detach()
    if "--traceback" in words or os.environ.get("TURNLOG_TRACEBACK", "") not in ("", "0"):
        from traceback import print_exception

        print_exception(error)
    if code in _SILENT:
        return code
    fields["next"] = fields["next"] or _help(error, words)
    fields["next"] = [with_store(command, _option(words, "--store")) for command in fields["next"]]
    if "--json" in words:
        from turnlog import _core

        _say(_core.canonical({**fields, "type": "error", "exit_code": code}).decode("utf-8"))
    else:
        _say(_for_people(fields, wants_color(sys.stderr, _option(words, "--color"))))
    return code


def describe(error: BaseException) -> tuple[int, dict[str, Any]]:
    """Return (exit code, fields of the JSON form without `type`)."""
    if isinstance(error, TurnlogError):
        fields = {key: value for key, value in error.as_json().items() if key != "type"}
        cause = error.__cause__
        told = cause is None or isinstance(cause, TurnlogError)  # a sentence that this one replaces
        return error.exit_code, fields if told else {**fields, "cause": str(cause)}
    if isinstance(error, (KeyboardInterrupt, EOFError, click.Abort)):
        return exits.INTERRUPTED, _fields("interrupted", "interrupted")
    if isinstance(error, BrokenPipeError):
        return exits.CLOSED_PIPE, _fields("closed_pipe", "the reader of the output went away")
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        help_command = f"{context.command_path} --help" if context is not None else "sessionctl --help"
        return exits.USAGE, _fields("usage", error.format_message(), help_command)
    if isinstance(error, OSError):
        place = f": {error.filename}" if error.filename is not None else ""
        return exits.IO, _fields("storage_error", f"{error.strerror or error}{place}")
    sentence = f"{type(error).__name__}: {error} - a bug in turnlog; --traceback or TURNLOG_TRACEBACK=1 shows where"
    return exits.BUG, _fields("bug", sentence)


def _help(error: BaseException, words: Sequence[str]) -> list[str]:
    """Return what to run when the error itself names nothing: the session that lacks an event, the verb's help."""
    if type(error) is NotFound and error.session is not None:
        return [f"sessionctl show {error.session}"]
    verb = next((word for word in words if word in VERBS), None)
    return [f"sessionctl {verb} --help"] if isinstance(error, InvalidInput) and verb is not None else []


def _fields(code: str, message: str, *following: str) -> dict[str, Any]:
    return {"code": code, "message": message, "retryable": False, "next": [*following]}


def _for_people(fields: dict[str, Any], color: bool) -> str:
    head = f"error[{fields['code']}]:"
    lines = [f"{style(head, 'red') if color else head} {escape(fields['message'])}"]
    known = {"code", "message", "retryable", "next", "cause"}
    where = ", ".join(f"{name} {value}" for name, value in fields.items() if name not in known)
    if where:
        lines.append(f"  where  {escape(where)}")
    if fields.get("cause"):
        lines.append(f"  why    {escape(fields['cause'])}")
    lines += [f"  next   {escape(command)}" for command in fields["next"]]
    return "\n".join(lines)


def _option(words: Sequence[str], name: str) -> str | None:
    for place, word in enumerate(words):
        if word == name and place + 1 < len(words):
            return words[place + 1]
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def _say(text: str) -> None:
    if sys.stderr is None:
        return
    try:
        if sys.stdout is not None:
            sys.stdout.flush()  # what was answered before the error stands before it
    except OSError:
        _detach()
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return  # nobody is left to tell; the exit code still does


def _detach() -> None:
    """Point stdout to nowhere, so that the interpreter's last flush does not complain about the closed pipe."""
    if sys.stdout is None:
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        return  # stdout is no descriptor (captured by a caller): there is no last flush to protect
