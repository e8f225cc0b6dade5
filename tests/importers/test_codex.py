"""Codex records as events: eras, token totals, outcomes, turns."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from turnlog.importers.codex import CodexMapper
from turnlog.importers.codex_records import exit_code, is_synthetic
from turnlog.importers.lines import read_lines

Event = tuple[str, dict[str, Any]]


def mapped(*records: dict[str, Any]) -> list[Event]:
    mapper = CodexMapper()
    data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    return [event for line in read_lines(io.BytesIO(data)) for event in mapper.feed(line)] + mapper.finish()


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00.000Z", "type": "event_msg", "payload": {"type": kind, **fields}}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"timestamp": "2026-01-01T00:00:00.000Z", "type": "response_item", "payload": {"type": kind, **fields}}


def count(total: int, last: int) -> dict[str, Any]:
    usage = [
        {"input_tokens": n, "cached_input_tokens": 1, "output_tokens": 2, "total_tokens": n + 2} for n in (total, last)
    ]
    return event("token_count", info={"total_token_usage": usage[0], "last_token_usage": usage[1]})


def of(events: list[Event], kind: str) -> list[dict[str, Any]]:
    return [payload for type_, payload in events if type_ == kind]


def test_a_token_count_that_repeats_the_total_is_no_second_step() -> None:
    steps = of(mapped(count(10, 10), count(10, 10), count(25, 15)), "step.completed")
    assert [step["usage"] for step in steps] == [
        {"input": 9, "output": 2, "cache_read": 1},
        {"input": 14, "output": 2, "cache_read": 1},
    ]


def test_a_usage_record_and_its_token_count_are_one_step() -> None:
    record = {
        "timestamp": "t",
        "type": "token_usage_record",
        "payload": {
            "response_id": "resp_1",
            "usage": {"input_tokens": 10, "cached_input_tokens": 1, "output_tokens": 2},
        },
    }
    (step,) = of(mapped(record, count(10, 10)), "step.completed")
    assert (step["step"], step["usage"]["output"]) == ("resp_1", 2)


def test_a_usage_record_without_a_token_count_is_reported_at_the_end() -> None:
    record = {
        "timestamp": "t",
        "type": "token_usage_record",
        "payload": {"response_id": "r", "usage": {"output_tokens": 2}},
    }
    assert [step["step"] for step in of(mapped(record), "step.completed")] == ["r"]


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ('{"output":"x","metadata":{"exit_code":3}}', 3),
        ('{"output":"x","metadata":{}}', None),
        ("Exit code: 1\nWall time: 1\nOutput:\nProcess exited with code 9", 1),
        ("Chunk ID: 1\nProcess exited with code 0\nOutput:\nExit code: 4", 0),
        ("Process running with session ID 7", None),
        ("fine\nOutput:\nProcess exited with code 9", None),
        ([{"type": "input_text", "text": "Exit code: 5\n"}], 5),
        ('{"broken "metadata"', None),
    ],
)
def test_exit_codes_are_read_from_the_three_text_shapes(output: object, code: int | None) -> None:
    assert exit_code(output) == code


def test_a_nonzero_exit_code_is_a_failed_call() -> None:
    done = mapped(item("function_call_output", call_id="c", output="Exit code: 2\n"))
    assert of(done, "tool.failed")[0]["exit_code"] == 2


def test_a_declined_command_is_a_failed_call() -> None:
    declined = event("item_completed", item={"type": "CommandExecution", "id": "c", "status": "declined"})
    done = mapped(declined, item("function_call_output", call_id="c", output="no"))
    assert of(done, "tool.failed")[0]["status"] == "declined"


def test_copies_for_the_interface_are_not_counted_again() -> None:
    events = mapped(
        item("message", role="user", content=[{"type": "input_text", "text": "hi"}]),
        event("user_message", message="hi"),
        item("message", role="assistant", content=[{"type": "output_text", "text": "ho"}]),
        event("agent_message", message="ho"),
    )
    assert (len(of(events, "message.user")), len(of(events, "message.assistant"))) == (1, 1)


def test_files_without_envelopes_infer_their_turns() -> None:
    events = mapped(
        {"id": "t-1", "timestamp": "2025-08-19T08:31:17.743Z", "instructions": None},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<user_instructions>x"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "two"}]},
    )
    assert [turn["inferred"] for turn in of(events, "turn.started")] == [True, True]
    assert [turn.get("at_end") for turn in of(events, "turn.completed")] == [None, True]
    assert [message["kind"] for message in of(events, "message.user")] == ["synthetic", "prompt", "prompt"]


def test_a_file_that_is_one_object_is_read() -> None:
    document = {
        "session": {"timestamp": "2025-04-20T09:00:00.000Z", "id": "t-1"},
        "items": [
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
            {"type": "function_call_output", "call_id": "c", "output": "{}"},
        ],
    }
    mapper = CodexMapper()
    data = json.dumps(document, indent=2).encode()
    events = [event for line in read_lines(io.BytesIO(data)) for event in mapper.feed(line)]
    assert [kind for kind, _ in events if kind.startswith("tool.")] == ["tool.proposed", "tool.completed"]


def test_a_turn_without_an_end_is_interrupted_once() -> None:
    mapper = CodexMapper()
    data = b"".join(json.dumps(event("task_started", turn_id=name)).encode() + b"\n" for name in ("t1", "t2"))
    events = [found for line in read_lines(io.BytesIO(data)) for found in mapper.feed(line)]
    events += mapper.finish() + mapper.finish()
    assert [(turn["turn"], turn.get("at_end")) for turn in of(events, "turn.interrupted")] == [
        ("t1", None),
        ("t2", True),
    ]


def test_turns_end_as_the_file_says() -> None:
    events = mapped(
        event("task_started", turn_id="t1"),
        event("task_complete", turn_id="t1", duration_ms=5),
        event("task_started", turn_id="t2"),
        event("turn_aborted", turn_id="t2", reason="interrupted"),
        event("task_started", turn_id="t3"),
        event("task_complete", turn_id="t3", error={"message": "no"}),
    )
    kinds = [(kind, payload["turn"]) for kind, payload in events]
    assert kinds == [
        ("turn.started", "t1"),
        ("turn.completed", "t1"),
        ("turn.started", "t2"),
        ("turn.aborted", "t2"),
        ("turn.started", "t3"),
        ("turn.failed", "t3"),
    ]


def test_a_second_header_with_another_id_marks_copied_history() -> None:
    headers = [{"timestamp": "t", "type": "session_meta", "payload": {"id": name}} for name in ("a", "b")]
    assert [changes.get("copied_from") for changes in of(mapped(*headers), "session.configured")] == [None, "b"]


@pytest.mark.parametrize(
    ("text", "synthetic"),
    [("<environment_context>", True), ("# AGENTS.md instructions for /p", True), ("<div> breaks", False)],
)
def test_injected_user_text_is_told_from_what_was_typed(text: str, *, synthetic: bool) -> None:
    assert is_synthetic(text) is synthetic


def test_an_envelope_behind_torn_bytes_is_read_the_same_whether_the_line_has_ended() -> None:
    context = b'{"timestamp": "2024-12-30T17:31:40.393Z", "type": "turn_context", "payload": {"cwd": "/iqe"}}'
    data = b'\x01{"type": "user"}' + context + b'{"type": "user"}'
    found = []
    for line in (data, data + b"\n"):
        mapper = CodexMapper()
        (read,) = read_lines(io.BytesIO(line))
        mapper.feed(read)
        found.append(mapper.facts.records)
    assert found == [2, 2]
