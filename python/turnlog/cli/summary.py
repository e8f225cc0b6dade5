"""One line about an event: what a person scanning a session wants to see of its payload.

Owns: which fields speak for which payload, and how much of them is shown. Invariants: never fails on a payload's shape;
the line is harmless to a terminal; a large payload is not decoded. Must not know: stores, windows, output.
"""

from __future__ import annotations

from turnlog.cli.terminal import cut, escape, moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog._core import Event

LINE_CHARACTERS = 400
_DECODE_BYTES_MAX = 256 << 10
_TEXTS = ("title", "text", "content", "message", "summary", "reason", "error", "output", "response", "detail", "code")
_PLACES = frozenset({"source", "time", "turn"})  # where an imported event comes from, not what it is
_NAMES = ("name", "tool", "call_id", "model", "cwd", "tag", "status", "kind", "path", "key")


def summarize(event: Event) -> tuple[str, str]:
    """Return (time, one line about the payload); an imported event has the time that its source gives it.

    Raises what reading the payload raises: Damaged, StorageError.
    """
    time = moment(event.time_us)
    if event.is_raw or event.size > _DECODE_BYTES_MAX:
        return time, _line(event.raw[: LINE_CHARACTERS * 4].decode("utf-8", "replace"))
    payload = event.payload
    if not isinstance(payload, dict):
        return time, _line(str(payload))
    return _source_time(payload.get("time")) or time, _line(_speaking_parts(payload))


def _source_time(value: object) -> str | None:
    """Return an ISO time in UTC in the form of `moment`; None for anything else."""
    if not isinstance(value, str) or not value.endswith("Z") or value[10:11] != "T":
        return None
    day, clock = value[:10], value[11:19]
    shape = "".join("0" if one.isascii() and one.isdigit() else one for one in f"{day} {clock}")
    return f"{day} {clock}Z" if shape == "0000-00-00 00:00:00" else None


def _speaking_parts(payload: dict[str, Any]) -> str:
    parts = [f"{name}={payload[name]}" for name in _NAMES if isinstance(payload.get(name), (str, int))]
    usage = payload.get("usage")
    if isinstance(usage, dict):
        parts += [f"{name}={value}" for name, value in usage.items() if isinstance(value, int) and value]
    for name in ("arguments", "input"):
        if payload.get(name):
            parts.append(_compact(payload[name]))
    text = next((text for name in _TEXTS if (text := _spoken(payload.get(name)))), "")
    if text:
        parts.append(text)
    rest = {name: value for name, value in payload.items() if name not in _PLACES}
    return " ".join(parts) if parts else _compact(rest) if rest else ""


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


def _spoken(value: Any) -> str:
    """Return the text of a field: of an object, what it holds of a response or an error, else its JSON."""
    if not isinstance(value, dict) or not value:
        return text_of(value)
    message, kind = value.get("message"), value.get("type")
    if isinstance(message, str):
        return f"{kind}: {message}" if isinstance(kind, str) else message
    return text_of(value.get("content")) or _compact(value)


def _compact(value: Any) -> str:
    from turnlog import _core

    return value if isinstance(value, str) else _core.canonical(value).decode("utf-8")


def _line(text: str) -> str:
    return cut(escape(" ".join(text[: LINE_CHARACTERS * 4].split())), LINE_CHARACTERS)
