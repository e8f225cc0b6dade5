"""A conversation as Anthropic messages.

Owns: the blocks of that shape, the alternation of user and assistant. Invariants: the first message is a user's; a
message that asks for tools is followed by one that begins with their results; consecutive messages of one role are one.
Reasoning is kept only as the provider signed it, and only in front of what it led to. Must not know: events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.history.call_names import CallIds, arguments_object, tool_name
from turnlog.history.content import DOCUMENT, IMAGE, TEXT, VERBATIM, Part
from turnlog.history.documents import ANTHROPIC, PDF, Document
from turnlog.history.rounds import ASSISTANT, SYSTEM, USER, Asked, Item, Said

if TYPE_CHECKING:
    from collections.abc import Iterator

Block = dict[str, Any]
BEGINNING = "(The beginning of this conversation is not part of the history.)"
_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def anthropic_messages(items: Iterator[Item]) -> Iterator[dict[str, Any]]:
    """Yield messages {role, content: blocks}; what the program said at the beginning is `History.system`."""
    ids = CallIds()
    open_role, blocks, begun = "", list[Block](), False
    for role, more in _pieces(items, ids):
        if not begun and role == ASSISTANT:
            open_role, blocks = USER, [{"type": "text", "text": BEGINNING}]
        begun = True
        if role == open_role:
            signed = role == ASSISTANT and blocks
            blocks += [block for block in more if not (signed and block["type"] not in ("text", "tool_use"))]
            continue
        if blocks:
            yield {"role": open_role, "content": blocks}
        open_role, blocks = role, more
    if open_role == ASSISTANT and blocks[-1]["type"] == "text":  # taken for the beginning of the answer
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
    if blocks:
        yield {"role": open_role, "content": blocks}


def _pieces(items: Iterator[Item], ids: CallIds) -> Iterator[tuple[str, list[Block]]]:
    """Yield (role, blocks), none of them empty."""
    beginning = True
    for item in items:
        if isinstance(item, Said):
            beginning = beginning and item.role == SYSTEM
            said = [_block(part) for part in item.parts if part.kind != VERBATIM]
            if said and not beginning:
                yield USER, said
            continue
        beginning = False
        given = {call.key: ids.give(call.call_id) for call in item.calls.values()}
        said = _signed_first([_block(part) for part in item.parts if part.kind not in (IMAGE, DOCUMENT)])
        asked: list[Block] = [
            {
                "type": "tool_use",
                "id": given[call.key],
                "name": tool_name(call.name),
                "input": arguments_object(call.arguments),
            }
            for call in item.calls.values()
        ]
        if asked or any(block["type"] == "text" for block in said):
            yield ASSISTANT, said + asked
        if asked:
            yield USER, [_result(call, given[call.key]) for call in item.calls.values()]


def _signed_first(blocks: list[Block]) -> list[Block]:
    """Keep reasoning only at the beginning, and only if it is signed."""
    kept: list[Block] = []
    for block in blocks:
        thought = block["type"] != "text"
        signed = bool(block.get("data" if block["type"] == "redacted_thinking" else "signature"))
        if not thought or (signed and all(other["type"] != "text" for other in kept)):
            kept.append(block)
    return kept


def _block(part: Part) -> Block:
    if part.kind == TEXT:
        return {"type": "text", "text": part.value}
    if part.kind == VERBATIM:
        return dict(part.value)
    if part.kind == DOCUMENT:
        return _document(part.value)
    if "url" in part.value:
        return {"type": "image", "source": {"type": "url", "url": part.value["url"]}}
    if part.value["media_type"] not in _IMAGE_TYPES or not part.value["data"]:
        return {"type": "text", "text": f"[image {part.value['media_type']}: not shown]"}
    return {"type": "image", "source": {"type": "base64", **part.value}}


def _document(document: Document) -> Block:
    if document.text:
        source = {"type": "text", "media_type": "text/plain", "data": document.text}
    elif document.url:
        source = {"type": "url", "url": document.url}
    elif document.data and document.media_type == PDF:
        source = {"type": "base64", "media_type": PDF, "data": document.data}
    elif document.file_id and document.holder == ANTHROPIC:
        source = {"type": "file", "file_id": document.file_id}
    else:
        return {"type": "text", "text": document.as_text}
    named = {"title": document.title} if document.title else {}
    return {"type": "document", "source": source, **named, **dict(document.more)}


def _result(call: Asked, given: str) -> Block:
    content = [_block(part) for part in call.parts if part.kind in (TEXT, IMAGE, DOCUMENT)]
    result: Block = {"type": "tool_result", "tool_use_id": given}
    result["content"] = content or [{"type": "text", "text": "(no output)"}]
    if call.failed:
        result["is_error"] = True
    return result
