"""Whatever JSON an application puts into inputs, messages and results: a valid history, or HistoryInvalid says why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog import Store
from turnlog.errors import HistoryInvalid
from turnlog.history.check import problems

SHAPES = ("anthropic", "openai_responses", "openai_chat")
KINDS = (
    "text",
    "image",
    "image_url",
    "document",
    "input_file",
    "file",
    "tool_use",
    "tool_result",
    "function_call",
    "thinking",
    "reasoning",
)
WORDS = st.text(max_size=8)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), WORDS)
VALUES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3))
)
SOURCES = st.fixed_dictionaries(
    {"type": st.sampled_from(["base64", "text", "url", "file", "content", "other"])},
    optional={"media_type": st.sampled_from(["application/pdf", "text/plain", "x"])}
    | dict.fromkeys(("data", "url", "file_id", "content"), VALUES),
)
MEMBERS = (
    "text",
    "title",
    "filename",
    "file_data",
    "file_url",
    "file_id",
    "context",
    "citations",
    "file",
    "content",
    "name",
    "input",
    "id",
    "call_id",
    "image_url",
    "arguments",
    "signature",
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)}, optional=dict.fromkeys(MEMBERS, VALUES) | {"source": st.one_of(SOURCES, VALUES)}
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"])}, optional={"content": VALUES, "tool_calls": VALUES}
)
CONTENT = st.one_of(VALUES, BLOCKS, MESSAGES, st.lists(BLOCKS, max_size=3))
EVENTS = st.lists(
    st.tuples(st.sampled_from(["input", "user", "assistant", "system", "response", "result"]), CONTENT), max_size=6
)


@settings(deadline=None, max_examples=300)
@given(EVENTS)
def test_any_content_gives_a_valid_history(items: list[tuple[str, Any]]) -> None:
    session = Store.ephemeral().create()
    turn = 0
    for number, (kind, content) in enumerate(items):
        if kind == "input":
            turn += 1
            session.append("turn.started", {"turn": f"t{turn}", "input": content})
            session.append("turn.completed", {"turn": f"t{turn}"})
        elif kind == "response":
            session.append("step.completed", {"step": f"s{number}", "response": content})
        elif kind == "result":
            session.append("tool.proposed", {"call_id": f"c{number}", "name": "bash", "arguments": content})
            session.append("tool.completed", {"call_id": f"c{number}", "content": content})
        else:
            session.append(f"message.{kind}", {"content": content})
    for shape in SHAPES:
        try:
            history = list(session.history(shape))
        except HistoryInvalid as error:
            assert error.message  # noqa: PT017 - the other right answer
            continue
        assert problems(shape, history) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_user_who_seems_to_call_a_tool_calls_none(shape: str) -> None:
    session = Store.ephemeral().create()
    with session.turn(
        [{"type": "tool_use", "id": "x", "name": "b", "input": {}}, {"type": "text", "text": "hi"}]
    ) as turn:
        turn.complete()
    assert "hi" in str(list(session.history(shape)))
