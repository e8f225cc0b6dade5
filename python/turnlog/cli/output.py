"""Where answers go: stdout as text or JSON lines, notes to stderr, colour where it is wanted, a pager on a terminal.

Owns: the choice of colour, the encoding of JSON lines, the pager. Invariants: stdout carries the answer and nothing
else; with `--json` each line is one object with a `type`; to a terminal no stored character is sent as it is unless it
is harmless. Must not know: verbs, stores.
"""

from __future__ import annotations

import os
import sys

from turnlog import _core
from turnlog.cli.terminal import escape_json, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Any, Self, TextIO

_WIDTH_MIN, _WIDTH_UNKNOWN = 40, 80


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether a person may be looking at the stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def wants_color(stream: TextIO | None, choice: str | None) -> bool:
    """Decide about colour: the option, then FORCE_COLOR and NO_COLOR (set and not empty), then the terminal."""
    if choice in ("always", "never"):
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Return the columns of the terminal behind stdout (COLUMNS wins); None when there is none: nothing is cut."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return max(_WIDTH_MIN, int(given))
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns if is_terminal(sys.stdout) else None
    except OSError:
        return None
    return None if columns is None else max(_WIDTH_MIN, columns or _WIDTH_UNKNOWN)


def with_store(command: str, store: str | None) -> str:
    """Make a next command speak of the store that `--store` named, so that it works when it is pasted."""
    if store is None or "--store" in command or not command.startswith("sessionctl ") or command[11:13] == "--":
        return command
    from shlex import quote

    return f"sessionctl --store {quote(store)} {command.removeprefix('sessionctl ')}"


class Output:
    """Writes the answer of one verb."""

    def __init__(self, *, json: bool, color: str | None, store: str | None = None) -> None:
        """Decide once for the whole run; `store` is what `--store` was given."""
        self.json = json
        self._store = store
        self.terminal = is_terminal(sys.stdout)
        self.color = not json and wants_color(sys.stdout, color)
        self.color_notes = wants_color(sys.stderr, color)
        self._pager: Any = None

    # -- text ------------------------------------------------------------------------------------------------------

    def line(self, text: str = "") -> None:
        """Write one line of text that is already harmless."""
        self.write(text + "\n")

    def write(self, text: str) -> None:
        """Write text as it is."""
        if self._pager is not None:
            self._pager.stdin.write(text.encode("utf-8", "backslashreplace"))
        elif sys.stdout is not None:
            sys.stdout.write(text)

    def paint(self, text: str, name: str) -> str:
        """Return the text in a colour when colour is wanted."""
        return style(text, name) if self.color else text

    def note(self, text: str, name: str | None = None) -> None:
        """Write one line to stderr: it is not part of the answer."""
        if sys.stderr is not None:
            self.flush()
            sys.stderr.write((style(text, name) if name and self.color_notes else text) + "\n")

    def following(self, command: str) -> str:
        """Return a next command as it has to be typed, with the store that was named."""
        return with_store(command, self._store)

    def advise(self, command: str) -> None:
        """Write a next command to stderr."""
        self.note(f"  next   {self.following(command)}")

    # -- JSON and bytes --------------------------------------------------------------------------------------------

    def object(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Write one JSON object with its `type`, as a line."""
        self.encoded(_core.canonical({**fields, "type": kind}))

    def encoded(self, line: bytes) -> None:
        """Write one object that is JSON already, as a line."""
        if self.terminal:
            self.write(escape_json(line.decode("utf-8")) + "\n")
        else:
            self.bytes(line + b"\n")

    def bytes(self, data: bytes) -> None:
        """Write bytes to stdout, behind the text written before."""
        if sys.stdout is not None:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)

    def flush(self) -> None:
        """Hand everything over to the operating system."""
        if self._pager is not None:
            self._pager.stdin.flush()
        elif sys.stdout is not None:
            sys.stdout.flush()

    # -- pager -----------------------------------------------------------------------------------------------------

    def paged(self, *, wanted: bool) -> Output:
        """Send text through a pager inside `with`, when wanted and a person looks at it."""
        if wanted and self.terminal and not self.json and os.environ.get("TERM") != "dumb":
            self._pager = _start_pager()
        return self

    def __enter__(self) -> Self:
        """Return the output."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Wait until the reader has left the pager; leaving it early is no error."""
        pager, self._pager = self._pager, None
        if pager is None:
            return False
        left_early = isinstance(error, BrokenPipeError)
        try:
            pager.stdin.close()
        except BrokenPipeError:
            left_early = True
        while pager.poll() is None:
            try:
                pager.wait()
            except KeyboardInterrupt:
                continue  # the pager has the terminal and decides what Ctrl-C means
        return left_early and (error is None or isinstance(error, BrokenPipeError))


def _start_pager() -> Any:
    """Start $PAGER, by default less, told to leave short answers alone and keep colours; None when there is none."""
    import shlex
    import shutil
    import subprocess

    words = shlex.split(os.environ.get("PAGER", "less"))
    if not words or words == ["cat"] or shutil.which(words[0]) is None:
        return None
    environment = {**os.environ, "LESS": os.environ.get("LESS", "FRX")}
    sys.stdout.flush()
    return subprocess.Popen(words, stdin=subprocess.PIPE, env=environment)  # noqa: S603 - the user's own pager
