"""One line about an event: what a person scanning a session wants to see of its payload.

Owns: which fields speak for which payload, and how much of them is shown. Invariants: never fails on a payload's shape;
the line is harmless to a terminal; a large payload is not decoded. Must not know: stores, windows, output.
"""

from __future__ import annotations

from turnlog.cli.terminal import cut, escape, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog._core import Event

LINE_CHARACTERS = 400
_DECODE_BYTES_MAX = 256 << 10
_TEXTS = ("title", "text", "content", "message", "summary", "reason", "error", "output", "detail", "code")
_NAMES = ("name", "tool", "call_id", "model", "cwd", "tag", "status", "kind", "path", "key")


def summarize(event: Event) -> str:
    """Return one line about the payload. Raises what reading it raises: Damaged, StorageError."""
    if event.is_raw or event.size > _DECODE_BYTES_MAX:
        return _line(event.raw[: LINE_CHARACTERS * 4].decode("utf-8", "replace"))
    payload = event.payload
    if not isinstance(payload, dict):
        return _line(str(payload))
    parts = [f"{name}={payload[name]}" for name in _NAMES if isinstance(payload.get(name), (str, int))]
    usage = payload.get("usage")
    if isinstance(usage, dict):
        parts += [f"{name}={value}" for name, value in usage.items() if isinstance(value, int) and value]
    for name in ("arguments", "input"):
        if payload.get(name):
            parts.append(_compact(payload[name]))
    text = next((text for name in _TEXTS if (text := text_of(payload.get(name)))), "")
    if text:
        parts.append(text)
    return _line(" ".join(parts) if parts else _compact(payload) if payload else "")


def text_of(value: Any) -> str:
    """Return the text in a message's content: a string, or the texts of its parts, others named by their type."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    parts = []
    for item in value:
        if isinstance(item, str):
            parts.append(item)
        elif isinstance(item, dict):
            text = item.get("text", item.get("thinking"))
            parts.append(text if isinstance(text, str) else f"[{item.get('type', 'part')}]")
    return " ".join(parts)


def described_size(event: Event) -> str:
    """Return the payload's size, marked when it is bytes kept verbatim."""
    return f"{size(event.size)} raw" if event.is_raw else size(event.size)


def _compact(value: Any) -> str:
    from turnlog import _core

    return value if isinstance(value, str) else _core.canonical(value).decode("utf-8")


def _line(text: str) -> str:
    return cut(escape(" ".join(text[: LINE_CHARACTERS * 4].split())), LINE_CHARACTERS)
