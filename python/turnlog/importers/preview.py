"""What a session is listed under before its lines are imported: title, working directory, model.

Owns: how far the start of a file is looked at. Invariant: the lines looked at are handed back, none is lost.
Must not know: stores, files, what a product's records look like.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog.importers.lines import Line
    from turnlog.importers.mapper import Mapper

PREVIEW_LINES_MAX = 256
PREVIEW_BYTES_MAX = 1 << 20
TITLE_CHARS_MAX = 80


class Preview:
    """The lines that were looked at, and what they say; a field is None when they do not say it."""

    __slots__ = ("cwd", "lines", "model", "title")

    def __init__(self) -> None:
        """Start before the first line."""
        self.lines: list[Line] = []
        self.title: str | None = None
        self.cwd: str | None = None
        self.model: str | None = None


def preview(lines: Iterator[Line], mapper: Mapper) -> Preview:
    """Look at the start of a file with a mapper of its own, until everything is known or the limits are reached."""
    seen = Preview()
    length = 0
    for line in lines:
        seen.lines.append(line)
        length += sum(map(len, line.parts))
        for kind, payload in mapper.feed(line):
            if kind == "session.configured":
                seen.cwd = seen.cwd or payload.get("cwd")
                seen.model = seen.model or payload.get("model")
            elif kind == "message.user" and payload["kind"] == "prompt":
                seen.title = seen.title or title_of(payload.get("content"))
        known = seen.title and seen.cwd and seen.model
        if known or len(seen.lines) >= PREVIEW_LINES_MAX or length >= PREVIEW_BYTES_MAX:
            break
    return seen


def title_of(content: object) -> str | None:
    """Return the first line of a prompt, shortened."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    text = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    first = text.strip().partition("\n")[0].strip()
    if len(first) > TITLE_CHARS_MAX:
        first = first[: TITLE_CHARS_MAX - 1] + "…"
    return first or None
