"""What is the same for every product: damage, pretty-printed objects, a last line that grows, large lines."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from turnlog.importers import claude as claude_module
from turnlog.importers import mapper as mapper_module
from turnlog.importers.claude import ClaudeMapper
from turnlog.importers.lines import read_lines

PROMPT = {"type": "user", "uuid": "u-1", "sessionId": "s-1", "message": {"role": "user", "content": "hello"}}
RECORD = json.dumps(PROMPT).encode()
PRETTY = json.dumps(PROMPT, indent=2).encode()


def fed(data: bytes, mapper: ClaudeMapper | None = None) -> tuple[list[str], ClaudeMapper]:
    mapper = mapper or ClaudeMapper()
    events = [event for line in read_lines(io.BytesIO(data)) for event in mapper.feed(line)]
    return [kind for kind, _ in events + mapper.finish()], mapper


def payloads(data: bytes, kind: str) -> list[dict[str, Any]]:
    mapper = ClaudeMapper()
    events = [event for line in read_lines(io.BytesIO(data)) for event in mapper.feed(line)]
    return [payload for type_, payload in events + mapper.finish() if type_ == kind]


def codes(mapper: ClaudeMapper) -> list[tuple[str, int, int, int]]:
    return [(found["code"], found["line"], found["offset"], found["length"]) for found in mapper.facts.findings]


def test_a_damaged_line_is_an_event_and_a_finding_and_the_rest_is_mapped() -> None:
    kinds, mapper = fed(RECORD + b"\n" + b"\0" * 9 + b"\n" + RECORD + b"\n")
    assert kinds.count("message.user") == 2
    assert kinds.count("source.damaged") == 1
    assert codes(mapper) == [("nul_bytes", 2, len(RECORD) + 1, 9)]


def test_a_damaged_line_tells_what_could_be_read_of_it() -> None:
    (found,) = payloads(b'{"type":"user","message":"to\n', "source.damaged")
    assert found == {
        "code": "torn",
        "length": 28,
        "whole_records": 0,
        "unread": 28,
        "head": '{"type":"user","message":"to',
        "source": {"line": 1, "offset": 0},
    }


def test_glued_records_have_their_own_offsets() -> None:
    found = payloads(RECORD + RECORD + b"\n", "message.user")
    assert [payload["source"]["offset"] for payload in found] == [0, len(RECORD)]


def test_a_pretty_printed_object_is_one_record_and_a_finding() -> None:
    kinds, mapper = fed(RECORD + b"\n" + PRETTY + b"\n" + RECORD + b"\n")
    assert kinds.count("message.user") == 3
    assert "source.damaged" not in kinds
    assert codes(mapper) == [("pretty_printed", 2, len(RECORD) + 1, len(PRETTY) + 1)]


def test_a_pretty_printed_object_that_never_ends_does_not_swallow_the_next_record() -> None:
    torn = b"\n".join(PRETTY.split(b"\n")[:3]) + b"\n"
    kinds, mapper = fed(torn + RECORD + b"\n")
    assert kinds.count("message.user") == 1
    assert codes(mapper) == [("torn", 1, 0, len(torn))]


def test_an_open_brace_alone_on_a_line_is_damage() -> None:
    kinds, mapper = fed(b"{\n" + RECORD + b"\n")
    assert kinds.count("message.user") == 1
    assert codes(mapper) == [("torn", 1, 0, 2)]


def test_byte_order_mark_and_carriage_returns_are_findings_and_nothing_is_lost() -> None:
    kinds, mapper = fed(b"\xef\xbb\xbf" + RECORD + b"\r\n" + RECORD + b"\r\n")
    assert kinds.count("message.user") == 2
    assert [code for code, *_ in codes(mapper)] == ["bom", "crlf"]


def test_blank_lines_are_counted_and_are_no_damage() -> None:
    kinds, mapper = fed(b"\n \n" + RECORD + b"\n")
    assert (kinds.count("message.user"), mapper.facts.lines, codes(mapper)) == (1, 3, [])


def test_an_unknown_type_is_counted_and_marked() -> None:
    kinds, mapper = fed(b'{"type":"tomorrow","sessionId":"s"}\n[1]\n')
    assert kinds == ["source.unknown", "source.unknown"]
    assert mapper.facts.unknown == {"tomorrow": 1, "(list)": 1}


@pytest.mark.parametrize("cut", range(1, len(RECORD) + 1))
def test_a_last_line_that_grows_is_mapped_once(cut: int) -> None:
    mapper = ClaudeMapper()
    first, _ = fed(RECORD[:cut], mapper)
    second, _ = fed(RECORD + b"\n", mapper)
    assert (first + second).count("message.user") == 1
    assert ("source.mended" in second) == ("source.damaged" in first)
    assert mapper.facts.lines == 1


def test_a_pretty_printed_object_that_grows_is_mapped_when_it_ends() -> None:
    mapper = ClaudeMapper()
    lines = list(read_lines(io.BytesIO(PRETTY + b"\n")))
    first = [event for line in lines[:3] for event in mapper.feed(line)] + mapper.finish()
    second = [event for line in lines[3:] for event in mapper.feed(line)] + mapper.finish()
    assert [kind for kind, _ in first] == ["source.damaged"]
    assert [kind for kind, _ in second if kind in {"source.mended", "message.user"}] == [
        "source.mended",
        "message.user",
    ]


def test_a_record_added_to_a_whole_last_line_is_mapped_alone() -> None:
    mapper = ClaudeMapper()
    fed(RECORD, mapper)
    second, _ = fed(RECORD + RECORD + b"\n", mapper)
    assert second.count("message.user") == 1


def test_events_of_a_large_line_carry_only_the_start_of_a_string(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapper_module, "LINE_BYTES_INLINE", 100)
    monkeypatch.setattr(mapper_module, "STRING_CHARS_MAX", 10)
    long = {**PROMPT, "message": {"content": [{"type": "text", "text": "0123456789" * 20}]}}
    (found,) = payloads(json.dumps(long).encode() + b"\n", "message.user")
    assert found["content"] == [{"type": "text", "text": "0123456789"}]
    assert found["cut"] == ["content[0].text"]


def test_a_record_that_no_rule_foresaw_is_unknown_and_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def unforeseen(self: ClaudeMapper, record: dict[str, Any]) -> None:
        self.emit("message.user", {})
        raise KeyError("content")

    monkeypatch.setitem(claude_module.MAPPINGS, "user", unforeseen)
    kinds, mapper = fed(RECORD + b"\n")
    assert kinds == ["source.unknown"]
    assert [code for code, *_ in codes(mapper)] == ["unexpected_shape"]


@pytest.mark.parametrize("cut", range(1, len(RECORD) + 1))
def test_a_line_that_grows_by_spaces_is_mapped_once(cut: int) -> None:
    mapper = ClaudeMapper()
    kinds = [kind for part in (b"", b" ", b" \n") for kind in fed(RECORD[:cut] + part, mapper)[0]]
    assert kinds.count("message.user") == (cut == len(RECORD))
    assert mapper.facts.lines == 1


def test_bytes_that_are_no_text_change_no_other_record_of_their_line() -> None:
    skull = json.dumps({**PROMPT, "message": {"content": "\U0001f480 \\udc80"}}).encode()
    found = payloads(skull + b"\xb5" + RECORD + b"\n", "message.user")
    assert [payload["content"] for payload in found] == ["\U0001f480 \\udc80", "hello"]
    (bad,) = payloads(RECORD.replace(b"hello", b"caf\xe9") + b"\n", "message.user")
    assert bad["content"] == "caf\ufffd"
