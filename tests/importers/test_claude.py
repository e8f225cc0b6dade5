"""Claude Code records as events: steps, pairing, turns, titles."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from turnlog.importers.claude import ClaudeMapper
from turnlog.importers.lines import read_lines

Event = tuple[str, dict[str, Any]]


def mapped(*records: dict[str, Any]) -> list[Event]:
    mapper = ClaudeMapper()
    return feed(mapper, *records) + mapper.finish()


def feed(mapper: ClaudeMapper, *records: dict[str, Any]) -> list[Event]:
    start = mapper.facts.lines
    data = b"".join(json.dumps({"sessionId": "s-1", **record}).encode() + b"\n" for record in records)
    lines = list(read_lines(io.BytesIO(data)))
    for line in lines:
        line.number += start
    return [event for line in lines for event in mapper.feed(line)]


def said(identity: str, output: int, *blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "output_tokens": output, "cache_read_input_tokens": 50}
    content = list(blocks) or [{"type": "text", "text": "hm"}]
    message = {"id": identity, "model": "m-1", "content": content, "usage": usage}
    return {"type": "assistant", "uuid": f"{identity}-{output}", "message": message, **fields}


def prompt(text: str, uuid: str = "u-1", **fields: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "message": {"role": "user", "content": text}, **fields}


def call(identity: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": "Bash", "input": {"command": "ls"}}


def result(identity: str, **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": identity, "content": "a.txt", **fields}
    return {"type": "user", "uuid": f"r-{identity}", "message": {"role": "user", "content": [block]}}


def of(events: list[Event], kind: str) -> list[dict[str, Any]]:
    return [payload for type_, payload in events if type_ == kind]


def test_a_message_of_several_lines_is_one_step_with_its_largest_usage() -> None:
    steps = of(mapped(said("m1", 1), said("m1", 57), said("m2", 4)), "step.completed")
    assert [(step["step"], step["usage"]["output"]) for step in steps] == [("m1", 57), ("m2", 4)]
    assert steps[0]["source"]["line"] == 2


def test_a_message_that_comes_back_larger_adds_only_the_difference() -> None:
    steps = of(mapped(said("m1", 10), said("m2", 4), said("m1", 15)), "step.completed")
    assert [(step["step"], step["usage"]["output"], step.get("again")) for step in steps] == [
        ("m1", 10, None),
        ("m2", 4, None),
        ("m1", 5, True),
    ]
    assert steps[2]["usage"]["input"] == 0


def test_a_message_that_comes_back_unchanged_is_not_reported_again() -> None:
    assert len(of(mapped(said("m1", 10), said("m2", 4), said("m1", 10)), "step.completed")) == 2


def test_results_between_the_lines_of_a_message_do_not_end_it() -> None:
    events = mapped(said("m1", 1, call("a")), result("a"), said("m1", 9, call("b")), result("b"))
    assert [step["usage"]["output"] for step in of(events, "step.completed")] == [9]


def test_a_message_open_at_the_end_is_reported_and_corrected_when_the_file_grows() -> None:
    mapper = ClaudeMapper()
    first = feed(mapper, said("m1", 10)) + mapper.finish()
    second = feed(mapper, said("m1", 12)) + mapper.finish()
    assert [step["usage"]["output"] for step in of(first + second, "step.completed")] == [10, 2]


def test_lines_of_the_client_itself_are_no_step() -> None:
    line = said("m1", 0)
    line["message"]["model"] = "<synthetic>"
    events = mapped(line)
    assert of(events, "step.completed") == []
    assert of(events, "message.assistant")[0]["synthetic"] is True


def test_results_are_paired_by_call_id_in_any_order() -> None:
    events = mapped(said("m1", 1, call("a")), said("m1", 2, call("b")), result("b", is_error=True), result("a"))
    assert [(failed["call_id"], failed["name"]) for failed in of(events, "tool.failed")] == [("b", "Bash")]
    assert [(done["call_id"], done["content"]) for done in of(events, "tool.completed")] == [("a", "a.txt")]


def test_every_event_of_a_turn_names_it_and_an_interrupt_ends_it() -> None:
    events = mapped(prompt("go"), said("m1", 1), prompt("[Request interrupted by user]", "u-2"), prompt("on", "u-3"))
    assert [turn["turn"] for turn in of(events, "turn.started")] == ["u-1", "u-3"]
    assert of(events, "turn.aborted")[0]["turn"] == "u-1"
    assert of(events, "step.completed")[0]["turn"] == "u-1"


def test_a_duration_ends_a_turn() -> None:
    duration = {"type": "system", "subtype": "turn_duration", "uuid": "d-1", "durationMs": 12}
    (done,) = of(mapped(prompt("go"), duration), "turn.completed")
    assert (done["turn"], done["duration_ms"]) == ("u-1", 12)


@pytest.mark.parametrize(
    ("text", "fields", "kind"),
    [
        ("list the files", {}, "prompt"),
        ("<command-name>/cost</command-name>", {}, "slash_command"),
        ("<local-command-stdout>1</local-command-stdout>", {}, "command_output"),
        ("<bash-input>ls</bash-input>", {}, "bash_command"),
        ("<task-notification>", {}, "notification"),
        ("skill body", {"isMeta": True}, "meta"),
        ("summary", {"isCompactSummary": True}, "compact_summary"),
    ],
)
def test_a_user_line_is_what_its_marker_says(text: str, fields: dict[str, Any], kind: str) -> None:
    assert of(mapped(prompt(text, **fields)), "message.user")[0]["kind"] == kind


def test_a_sidechain_inside_the_file_is_marked_and_starts_no_turn() -> None:
    events = mapped(prompt("go"), prompt("do this", "u-2", isSidechain=True, agentId="a1"))
    assert len(of(events, "turn.started")) == 1
    side = of(events, "message.user")[1]
    assert (side["sidechain"], side["agent"]) == (True, "a1")


def test_a_summary_names_the_session_only_if_its_last_message_is_here() -> None:
    foreign = {"type": "summary", "summary": "other", "leafUuid": "elsewhere"}
    own = {"type": "summary", "summary": "mine", "leafUuid": "u-1"}
    assert [title["title"] for title in of(mapped(foreign, own, prompt("go")), "session.renamed")] == ["mine"]


def test_a_setting_is_an_event_only_when_it_changes() -> None:
    events = mapped(prompt("a", cwd="/p"), prompt("b", "u-2", cwd="/p"), prompt("c", "u-3", cwd="/q"))
    assert [changes["cwd"] for changes in of(events, "session.configured") if "cwd" in changes] == ["/p", "/q"]


def test_both_kinds_of_compaction_are_events() -> None:
    full = {"type": "system", "subtype": "compact_boundary", "uuid": "c-1", "compactMetadata": {"preTokens": 9}}
    micro = {"type": "system", "subtype": "microcompact_boundary", "uuid": "c-2"}
    assert [(found["kind"], found.get("tokens_before")) for found in of(mapped(full, micro), "context.compacted")] == [
        ("full", 9),
        ("micro", None),
    ]
