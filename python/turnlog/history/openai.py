"""A conversation as OpenAI response items, and as the messages of the older completions endpoint.

Owns: the items and messages of those two shapes. Invariants: the results of a message's calls follow it directly, in
the order of the calls; items carry no ids of the provider, because those bind them to reasoning that is not sent. Must
not know: events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.history.call_names import CallIds, arguments_text, tool_name
from turnlog.history.content import IMAGE, TEXT, Part, text_of
from turnlog.history.rounds import ASSISTANT, USER, Asked, Item, Said

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = dict[str, Any]
_CUSTOM = "custom_tool_call"


def response_items(items: Iterator[Item]) -> Iterator[Message]:
    """Yield input items of the responses endpoint."""
    ids = CallIds()
    for item in items:
        if isinstance(item, Said):
            content = [_input(part) for part in item.parts if part.kind in (TEXT, IMAGE)]
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


def _input(part: Part) -> Message:
    if part.kind == TEXT:
        return {"type": "input_text", "text": part.value}
    return {"type": "input_image", "image_url": _url(part), "detail": "auto"}


def completion_messages(items: Iterator[Item]) -> Iterator[Message]:
    """Yield messages of the completions endpoint: system, user, assistant, tool."""
    ids = CallIds()
    for item in items:
        if isinstance(item, Said):
            parts = [part for part in item.parts if part.kind in (TEXT, IMAGE)]
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
    if as_text or all(part.kind == TEXT for part in parts):
        return text_of(parts)
    return [
        {"type": "text", "text": part.value}
        if part.kind == TEXT
        else {"type": "image_url", "image_url": {"url": _url(part)}}
        for part in parts
    ]


def _url(part: Part) -> str:
    value = part.value
    return str(value["url"]) if "url" in value else f"data:{value['media_type']};base64,{value['data']}"


def _output(call: Asked) -> str:
    return text_of(call.parts) or "(no output)"
