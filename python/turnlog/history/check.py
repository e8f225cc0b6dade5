"""What model providers demand of a history, written down independently of the code that makes one.

Owns: one check per shape; each takes the messages one by one and says what a provider would refuse. Invariant: shares
no code with the makers, so that a mistake there is found here. Memory: the ids of the calls seen. Must not know:
events, conversations.

>>> problems("openai_chat", [{"role": "tool", "tool_call_id": "c1", "content": "x"}])
['message 1: a result for c1, which is not asked for directly before']
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from turnlog.errors import HistoryInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PLAIN = ("text", "image", "document")
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Check:
    """Takes messages in order. Raises HistoryInvalid at the first that a provider would refuse."""

    def __init__(self) -> None:
        """Start in front of the first message."""
        self.number = 0
        self.seen: set[str] = set()
        self.owed: list[str] = []  # calls whose results must come next

    def take(self, message: Mapping[str, Any]) -> None:
        """Check one message against those before it."""
        self.number += 1
        self.judge(message)

    def judge(self, message: Mapping[str, Any]) -> None:
        """Check one message; each shape has its own rules."""
        raise NotImplementedError

    def end(self) -> None:
        """Check that nothing is missing at the end."""
        self.require(not self.owed, f"no result for {', '.join(self.owed)}")

    def require(self, holds: object, problem: str) -> None:
        """Raise HistoryInvalid unless the rule holds."""
        if not holds:
            message = f"message {self.number}: {problem}"
            raise HistoryInvalid(message)

    def asks(self, call_id: object, name: object) -> None:
        """Note a call."""
        self.require(isinstance(call_id, str) and _ID.fullmatch(call_id), f"not a call id: {call_id!r}")
        self.require(call_id not in self.seen, f"call id {call_id} twice")
        self.require(isinstance(name, str) and _ID.fullmatch(name), f"not a tool name: {name!r}")
        self.seen.add(str(call_id))
        self.owed.append(str(call_id))

    def answers(self, call_id: object) -> None:
        """Note a result."""
        self.require(call_id in self.owed, f"a result for {call_id}, which is not asked for directly before")
        self.owed.remove(str(call_id))

    def says(self, text: object) -> None:
        """Check a text."""
        self.require(isinstance(text, str) and text.strip(), "empty text")

    def is_file(self, part: Mapping[str, Any]) -> None:
        """Check a file: its bytes with a name, an address, or the provider's id."""
        if "file_data" in part:
            self.require(str(part["file_data"]).startswith("data:") and part["filename"], "a file without name or type")
        else:
            self.says(part["file_url"] if "file_url" in part else part["file_id"])

    def is_object(self, text: object) -> None:
        """Check arguments that are JSON text."""
        try:
            decoded = json.loads(text) if isinstance(text, str) else None
        except ValueError:
            decoded = None
        self.require(isinstance(decoded, dict), "arguments that are no JSON object")


class AnthropicCheck(Check):
    """Messages of {role, content: blocks}."""

    def __init__(self) -> None:
        """Start in front of the first message."""
        super().__init__()
        self.role = "assistant"
        self.last: Mapping[str, Any] = {}

    def judge(self, message: Mapping[str, Any]) -> None:
        """Roles alternate from user on; results are first in the message behind their calls."""
        role, blocks = message["role"], message["content"]
        self.require(role in ("user", "assistant"), f"role {role}")
        self.require(role != self.role, f"{role} twice, or an assistant's message first")
        self.require(isinstance(blocks, list) and blocks, "no content")
        self.role = role
        if role == "user":
            self._user(blocks)
        else:
            self._assistant(blocks)
        self.last = blocks[-1]

    def _user(self, blocks: list[Mapping[str, Any]]) -> None:
        others = False
        for block in blocks:
            self.require(block["type"] in (*_PLAIN, "tool_result"), f"{block['type']} of a user")
            if block["type"] == "tool_result":
                self.require(not others, "a result behind other content")
                self.answers(block["tool_use_id"])
                self.require(block["content"], "a result without content")
                for inner in block["content"]:
                    self.require(inner["type"] in _PLAIN, f"{inner['type']} in a result")
                    self._plain(inner)
            else:
                others = True
                self._plain(block)
        self.require(not self.owed, f"no result for {', '.join(self.owed)}")

    def _assistant(self, blocks: list[Mapping[str, Any]]) -> None:
        asked = False
        for block in blocks:
            kind = block["type"]
            self.require(kind in ("text", "tool_use", "thinking", "redacted_thinking"), f"{kind} of an assistant")
            if kind == "tool_use":
                asked = True
                self.asks(block["id"], block["name"])
                self.require(isinstance(block["input"], dict), "input that is no object")
            else:
                self.require(not asked, f"{kind} behind a call")
            if kind == "text":
                self._plain(block)
            if kind == "thinking":
                self.require(block.get("signature"), "reasoning without a signature")
        self.require(blocks[-1]["type"] in ("text", "tool_use"), "reasoning at the end")

    def _plain(self, block: Mapping[str, Any]) -> None:
        if block["type"] == "text":
            self.says(block["text"])
        else:
            source = block["source"]
            given = source.get("url") or source.get("data") or source.get("file_id")
            self.require(isinstance(given, str) and given.strip(), f"an empty {block['type']}")
            is_pdf = source.get("media_type") == "application/pdf" or source["type"] != "base64"
            self.require(block["type"] == "image" or is_pdf, "a document of another type than PDF")

    def end(self) -> None:
        """An assistant's last text may not end in white space."""
        super().end()
        if self.role == "assistant" and self.last.get("type") == "text":
            text = str(self.last["text"])
            self.require(text == text.rstrip(), "white space at the end")


class ResponsesCheck(Check):
    """Items of the responses endpoint."""

    def judge(self, message: Mapping[str, Any]) -> None:
        """Each call is followed by other calls or results until all are answered."""
        kind = message["type"]
        if kind == "message":
            self.require(not self.owed, f"no result for {', '.join(self.owed)}")
            role = message["role"]
            self.require(role in ("user", "assistant", "developer", "system"), f"role {role}")
            self.require(message["content"], "no content")
            wanted = ("output_text",) if role == "assistant" else ("input_text", "input_image")
            for part in message["content"]:
                if part["type"] == "input_file" and role == "user":
                    self.is_file(part)
                    continue
                self.require(part["type"] in wanted, f"{part['type']} of {role}")
                self.says(part["text"] if "text" in part else part["image_url"])
        elif kind in ("function_call", "custom_tool_call"):
            self.asks(message["call_id"], message["name"])
            if kind == "function_call":
                self.is_object(message["arguments"])
            else:
                self.require(isinstance(message["input"], str), "input that is no text")
        else:
            self.require(kind in ("function_call_output", "custom_tool_call_output"), f"item {kind}")
            self.answers(message["call_id"])
            self.says(message["output"])


class CompletionsCheck(Check):
    """Messages of the completions endpoint."""

    def judge(self, message: Mapping[str, Any]) -> None:
        """Behind a message with calls come their results, and nothing else before them."""
        role = message["role"]
        if role == "tool":
            self.answers(message["tool_call_id"])
            self.says(message["content"])
            return
        self.require(not self.owed, f"no result for {', '.join(self.owed)}")
        self.require(role in ("system", "user", "assistant"), f"role {role}")
        calls = message.get("tool_calls", ())
        self.require(role == "assistant" or "tool_calls" not in message, f"calls of {role}")
        self.require("tool_calls" not in message or calls, "an empty list of calls")
        for call in calls:
            self.require(call["type"] == "function", f"call of type {call['type']}")
            self.asks(call["id"], call["function"]["name"])
            self.is_object(call["function"]["arguments"])
        content = message["content"]
        if isinstance(content, list):
            self.require(role == "user" and content, "parts that are not a user's")
            for part in content:
                if part["type"] == "file":
                    self.is_file(part["file"])
                else:
                    self.says(part["text"] if part["type"] == "text" else part["image_url"]["url"])
        elif content is not None or not calls:
            self.says(content)


CHECKS: dict[str, type[Check]] = {
    "anthropic": AnthropicCheck,
    "openai_responses": ResponsesCheck,
    "openai_chat": CompletionsCheck,
}


def problems(shape: str, messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what a provider would refuse: nothing, or the first thing."""
    check = CHECKS[shape]()
    try:
        for message in messages:
            check.take(message)
        check.end()
    except HistoryInvalid as error:
        return [error.message]
    except (AttributeError, KeyError, TypeError) as error:
        return [f"message {check.number}: not of this shape ({error!r})"]
    return []
