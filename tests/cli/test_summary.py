"""One line about an event: what speaks for it, and that no payload breaks it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog._pure.canon import canonical
from turnlog.cli.summary import LINE_CHARACTERS, summarize
from turnlog.cli.terminal import width

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
SPEAKING = st.sampled_from(["title", "content", "usage", "input", "name", "call_id", "time", "turn", "arguments"])


class Stored:
    """The part of an event handle that a summary reads."""

    def __init__(self, payload: Any) -> None:
        """Keep the payload, bytes or JSON."""
        self.is_raw = isinstance(payload, bytes)
        self.raw = payload if self.is_raw else canonical(payload)
        self.payload = payload
        self.size = len(self.raw)
        self.time_us = 1_790_000_000_000_000


def summary(payload: Any) -> tuple[str, str]:
    return summarize(Stored(payload))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"content": "Why?"}, "Why?"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, "b"]}, "a [image] b"),
        ({"name": "bash", "call_id": "c1", "input": {"cmd": "ls"}}, 'name=bash call_id=c1 {"cmd":"ls"}'),
        ({"usage": {"input": 3, "output": 0, "cache_read": 5}}, "input=3 cache_read=5"),
        ({"title": "two\nlines\there"}, "two lines here"),
        ({"call_id": "c1", "error": {"type": "KeyError", "message": "no key"}}, "call_id=c1 KeyError: no key"),
        ({"error": {"message": "overloaded"}}, "overloaded"),
        ({"response": {"role": "assistant", "content": [{"type": "text", "text": "I run it."}]}}, "I run it."),
        ({"call_id": "c1", "content": {"exit_code": 0}}, 'call_id=c1 {"exit_code":0}'),
        ({"odd": [1, 2]}, '{"odd":[1,2]}'),
        ({"source": {"line": 3}, "time": "x", "turn": "t"}, ""),
        ({}, ""),
        (None, "None"),
        (b"\xff\x1b[2J", "\ufffd\\x1b[2J"),
    ],
)
def test_what_speaks_for_the_payload_is_shown(payload: Any, text: str) -> None:
    assert summary(payload) == ("2026-09-21 14:13:20Z", text)


@pytest.mark.parametrize(
    ("time", "shown"),
    [
        ("2024-12-30T17:31:40.393Z", "2024-12-30 17:31:40Z"),
        ("2024-12-30T17:31:40+02:00", "2026-09-21 14:13:20Z"),
        ("\x1b[2J-12-30T17:31:40.393Z", "2026-09-21 14:13:20Z"),
        (7, "2026-09-21 14:13:20Z"),
    ],
)
def test_an_imported_event_has_the_time_of_its_source(time: object, shown: str) -> None:
    assert summary({"time": time})[0] == shown


@given(JSON | st.dictionaries(SPEAKING, JSON) | st.binary())
def test_any_payload_has_one_harmless_line(payload: Any) -> None:
    _, text = summary(payload)
    assert not set(map(chr, (*range(0x20), *range(0x7F, 0xA0)))) & set(text)
    assert width(text) <= LINE_CHARACTERS
