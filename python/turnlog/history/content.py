"""Content as events hold it, in whatever shape a provider gave it, as a flat list of parts.

Owns: which block of which provider is text, an image, a document, reasoning or a tool call. Invariants: pure; content
of any shape gives parts, never an error; text that is only white space is no part, because providers refuse it; what
cannot be shown is named by a short text, never dropped silently. Must not know: events, messages, what is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from turnlog.history.documents import Document, document_of, not_shown, title_of

TEXT, IMAGE, DOCUMENT, VERBATIM, CALL = "text", "image", "document", "verbatim", "call"

_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text"})
_CALLS = frozenset({"tool_use", "function_call", "custom_tool_call"})
_ANTHROPIC_ONLY = frozenset({"thinking", "redacted_thinking"})
_OMITTED = frozenset({"reasoning", "fallback", "tool_result", "function_call_output"})  # told elsewhere, or not at all
_IMAGES = frozenset({"image", "input_image", "image_url"})
_DOCUMENTS = frozenset({"document", "input_file"})


class Part(NamedTuple):
    """One piece of content: `value` is a str (text), {media_type, data} or {url} (image), a Document, or the provider's
    block.
    """

    kind: str
    value: Any


def parts_of(content: object) -> list[Part]:
    """Return the parts of text, a block, a list of blocks, or a whole message.

    >>> parts_of([{"type": "output_text", "text": "So."}, {"type": "text", "text": " "}])
    [Part(kind='text', value='So.')]
    """
    if isinstance(content, str):
        return [Part(TEXT, content)] if content.strip() else []
    if isinstance(content, list | tuple):
        return [part for block in content for part in parts_of(block)]
    if isinstance(content, Mapping):
        return _of_block(content)
    return [] if content is None else [Part(TEXT, as_json(content))]


def _of_block(block: Mapping[str, Any]) -> list[Part]:
    given = block.get("type")
    kind = given if isinstance(given, str) else None
    if kind in _TEXTS or (kind is None and isinstance(block.get("text"), str)):
        return parts_of(str(block.get("text") or ""))
    if kind == "refusal":
        return parts_of(str(block.get("refusal") or ""))
    if kind in _CALLS:
        return [Part(CALL, dict(block))]
    if kind in _ANTHROPIC_ONLY:
        return [Part(VERBATIM, dict(block))]
    if kind in _OMITTED:
        return []
    if kind in _IMAGES or kind in _DOCUMENTS or (kind == "file" and isinstance(block.get("file"), Mapping)):
        return [_image(block) if kind in _IMAGES else _document(block)]
    if "choices" in block:  # a whole response of the shape with choices
        return _of_choices(block["choices"])
    if "content" in block or "tool_calls" in block:  # a whole message
        return parts_of(block.get("content")) + _of_tool_calls(block.get("tool_calls"))
    if isinstance(block.get("output"), list):  # a whole response of the shape with items
        return parts_of(block["output"])
    return [Part(TEXT, f"[{kind}: not shown]" if kind else as_json(dict(block)))]


def _of_choices(choices: object) -> list[Part]:
    first = choices[0] if isinstance(choices, list) and choices else None
    return parts_of(first.get("message")) if isinstance(first, Mapping) else []


def _of_tool_calls(calls: object) -> list[Part]:
    found = []
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping):
            block = {"call_id": call.get("id"), "name": function.get("name"), "arguments": function.get("arguments")}
            found.append(Part(CALL, block))
    return found


def _image(block: Mapping[str, Any]) -> Part:
    source = block.get("source")
    if isinstance(source, Mapping) and isinstance(source.get("data"), str):
        return Part(IMAGE, {"media_type": str(source.get("media_type") or "image/png"), "data": source["data"]})
    given: Any = block.get("image_url") if source is None else source
    url = given.get("url") if isinstance(given, Mapping) else given
    if not isinstance(url, str) or not url:
        return Part(TEXT, "[image: not shown]")
    head, comma, data = url.partition(";base64,")
    if comma and head.startswith("data:"):
        return Part(IMAGE, {"media_type": head[5:] or "image/png", "data": data})
    return Part(IMAGE, {"url": url})


def _document(block: Mapping[str, Any]) -> Part:
    source = block.get("source")
    if isinstance(source, Mapping) and source.get("type") == "content":  # its text, in blocks
        text = text_of(parts_of(source.get("content")))
        found = Document(text=text, title=title_of(block)) if text else None
    else:
        found = document_of(block)
    return Part(TEXT, not_shown(title_of(block))) if found is None else Part(DOCUMENT, found)


def text_of(parts: list[Part]) -> str:
    r"""Return the parts as one text; an image is named, and a document whose text is not at hand.

    >>> text_of([Part(TEXT, "a"), Part(IMAGE, {"url": "x"})]).split()
    ['a', '[image]']
    """
    return "\n".join(shown for part in parts if (shown := _shown(part)))


def _shown(part: Part) -> str:
    if part.kind == DOCUMENT:
        return str(part.value.as_text)
    return "[image]" if part.kind == IMAGE else str(part.value) if part.kind == TEXT else ""


def as_json(value: object) -> str:
    """Return a value as compact JSON text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
