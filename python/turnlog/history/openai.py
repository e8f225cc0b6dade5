"""A conversation as OpenAI response items, and as the messages of the older completions endpoint.

Owns: the items and messages of those two shapes. Invariants: the results of a message's calls follow it directly, in
the order of the calls; items carry no ids of the provider, because those bind them to reasoning that is not sent. Must
not know: events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.history.call_names import CallIds, arguments_text, tool_name
from turnlog.history.content import DOCUMENT, IMAGE, TEXT, Part, text_of
from turnlog.history.documents import OPENAI, Document
from turnlog.history.rounds import ASSISTANT, USER, Asked, Item, Said

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, Any]
_CUSTOM = "custom_tool_call"
_SHOWN = frozenset({TEXT, IMAGE, DOCUMENT})


def response_items(items: Iterator[Item]) -> Iterator[Message]:
    """Yield input items of the responses endpoint."""
    ids = CallIds()
    for item in items:
        if isinstance(item, Said):
            parts = [part for part in item.parts if part.kind in _SHOWN]
            content = [_input(part, of_user=item.role == USER) for part in parts]
            if content:
                yield {"type": "message", "role": "user" if item.role == USER else "developer", "content": content}
            continue
        text = [{"type": "output_text", "text": part.value} for part in item.parts if part.kind == TEXT]
        if text:
            yield {"type": "message", "role": ASSISTANT, "content": text}
        given = {call.key: ids.give(call.call_id) for call in item.calls.values()}
        for call in item.calls.values():
            yield _call_item(call, given[call.key])
        for call in item.calls.values():
            custom = _is_custom(call)
            kind = "custom_tool_call_output" if custom else "function_call_output"
            yield {"type": kind, "call_id": given[call.key], "output": _output(call)}


def _is_custom(call: Asked) -> bool:
    return call.kind == _CUSTOM and isinstance(call.arguments, str)


def _call_item(call: Asked, given: str) -> Message:
    named = {"call_id": given, "name": tool_name(call.name)}
    if _is_custom(call):
        return {"type": _CUSTOM, **named, "input": call.arguments}
    return {"type": "function_call", **named, "arguments": arguments_text(call.arguments)}


def _input(part: Part, *, of_user: bool) -> Message:
    if part.kind == TEXT:
        return {"type": "input_text", "text": part.value}
    if part.kind == DOCUMENT:
        document: Document = part.value
        held = _held(document) or ({"file_url": document.url} if document.url else {})
        return {"type": "input_file", **held} if held and of_user else {"type": "input_text", "text": document.as_text}
    return {"type": "input_image", "image_url": _url(part), "detail": "auto"}


def completion_messages(items: Iterator[Item]) -> Iterator[Message]:
    """Yield messages of the completions endpoint: system, user, assistant, tool."""
    ids = CallIds()
    for item in items:
        if isinstance(item, Said):
            parts = [part for part in item.parts if part.kind in _SHOWN]
            if parts:
                yield {"role": item.role, "content": _content(parts, as_text=item.role != USER)}
            continue
        given = {call.key: ids.give(call.call_id) for call in item.calls.values()}
        text = text_of([part for part in item.parts if part.kind == TEXT])
        calls = [
            {
                "id": given[call.key],
                "type": "function",
                "function": {"name": tool_name(call.name), "arguments": arguments_text(call.arguments)},
            }
            for call in item.calls.values()
        ]
        if calls:
            yield {"role": ASSISTANT, "content": text or None, "tool_calls": calls}
        elif text:
            yield {"role": ASSISTANT, "content": text}
        for call in item.calls.values():
            yield {"role": "tool", "tool_call_id": given[call.key], "content": _output(call)}


def _content(parts: list[Part], *, as_text: bool) -> str | list[Message]:
    content = [_completion_part(part) for part in parts]
    return text_of(parts) if as_text or all(part["type"] == "text" for part in content) else content


def _completion_part(part: Part) -> Message:
    if part.kind == IMAGE:
        return {"type": "image_url", "image_url": {"url": _url(part)}}
    held = _held(part.value) if part.kind == DOCUMENT else None
    return {"type": "file", "file": held} if held else {"type": "text", "text": text_of([part])}


def _held(document: Document) -> Message:
    """Return the members of a file whose bytes are at hand, or which the provider holds."""
    if document.data:
        return {"filename": document.file_name, "file_data": document.data_url}
    return {"file_id": document.file_id} if document.file_id and document.holder == OPENAI else {}


def _url(part: Part) -> str:
    value = part.value
    return str(value["url"]) if "url" in value else f"data:{value['media_type']};base64,{value['data']}"


def _output(call: Asked) -> str:
    return text_of(call.parts) or "(no output)"
