"""Histories for model providers: valid in every shape from any events, and each rule of the check can fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import StoredEvent, histories, stored
from tests.turns import CREATED, TURN
from turnlog.errors import HistoryInvalid
from turnlog.history.call_names import CallIds
from turnlog.history.check import problems
from turnlog.history.history import SHAPES, History
from turnlog.history.rounds import NOT_RUN_TEXT, UNKNOWN_TEXT
from turnlog.state.reduce import fold
from turnlog.state.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.histories import Item


class Events:
    """Events in a list, with the reading side of a session; `read` counts those that were handed out."""

    def __init__(self, items: list[Item]) -> None:
        self.stored = stored(items)
        self.read = 0

    def events(
        self, *, after: int = 0, before: int | None = None, types: Iterable[str] | None = None, reverse: bool = False
    ) -> Iterator[StoredEvent]:
        wanted = None if types is None else frozenset(types)
        for event in reversed(self.stored) if reverse else self.stored:
            inside = after < event.ordinal and (before is None or event.ordinal < before)
            if inside and (wanted is None or event.type in wanted):
                self.read += 1
                yield event

    def state(self) -> State:
        return fold(self.stored, State("s"))


def made(items: list[Item], shape: str = "openai_chat", *, with_state: bool = True) -> list[dict[str, Any]]:
    source = Events(items)
    messages = list(History(source, shape, state=source.state() if with_state else None))
    assert problems(shape, messages) == []
    return messages


def call(call_id: str, turn: str = "t1", **more: Any) -> Item:
    return "tool.proposed", {"turn": turn, "call_id": call_id, "name": "bash", "arguments": {"cmd": "ls"}, **more}


def ended(call_id: str, content: Any, turn: str = "t1", type: str = "tool.completed", **more: Any) -> Item:
    return type, {"turn": turn, "call_id": call_id, "content": content, **more}


def user(content: Any, **more: Any) -> Item:
    return "message.user", {"content": content, **more}


def assistant(content: Any, **more: Any) -> Item:
    return "message.assistant", {"content": content, **more}


def shaped(index: int, type: str, payload: dict[str, Any]) -> Item:
    """Give compactions a summary and several ranges, and make rollbacks of some remarks."""
    if type == "context.compacted":
        return type, {"first": 1 + index // 2 * (index % 3), "last": index - index % 5, "summary": "So far."}
    if type == "acme.note" and index % 2:
        return "context.rolled_back", {"turns": 1 + index % 3}
    return type, payload


@pytest.mark.parametrize("shape", SHAPES)
@given(items=histories())
def test_any_history_is_valid_in_every_shape(shape: str, items: list[Item]) -> None:
    source = Events([shaped(index, *item) for index, item in enumerate(items)])
    state = source.state()
    known = list(History(source, shape, state=state))
    assert problems(shape, known) == []
    assert list(History(source, shape)) == known


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("events", range(len(TURN) + 1))
def test_a_turn_cut_after_any_event_is_valid(shape: str, events: int) -> None:
    made([(CREATED, {}), *TURN[:events]], shape)


def test_a_finished_call_has_its_result_and_the_others_say_why_there_is_none() -> None:
    items = [user("Go."), call("c1"), call("c2"), call("c3"), ("tool.started", {"turn": "t1", "call_id": "c2"})]
    items += [ended("c1", "one file")]
    results = {message["tool_call_id"]: message["content"] for message in made(items) if message["role"] == "tool"}
    assert results == {"c1": "one file", "c2": UNKNOWN_TEXT, "c3": NOT_RUN_TEXT}


def test_a_result_that_comes_after_the_next_message_stands_with_its_call() -> None:
    items = [user("Go."), call("c1"), user("And hurry."), ended("c1", "late"), assistant("Done.")]
    for with_state in (True, False):
        assert [message["content"] for message in made(items, with_state=with_state)] == [
            *("Go.", None, "late", "And hurry.", "Done.")
        ]


def test_a_call_id_that_comes_again_in_another_turn_gets_its_own_result() -> None:
    items = [user("Go."), call("c1"), ended("c1", "first"), call("c1", "t2"), ended("c1", "second", "t2")]
    results = {message["tool_call_id"]: message["content"] for message in made(items) if message["role"] == "tool"}
    assert results == {"c1": "first", "c1_2": "second"}


def test_ids_that_repeat_are_told_apart_in_one_step_each() -> None:
    class Counted(dict[str, int]):
        reads = 0

        def get(self, key: str, default: Any = None) -> Any:
            Counted.reads += 1
            return super().get(key, default)

    ids = CallIds()
    ids._repeats = Counted()
    given = [ids.give("c1") for _ in range(500)]
    assert len(set(given)) == 500
    assert Counted.reads < 500
    long = ["x" * 80 + str(number) for number in range(12)]
    cut = [ids.give(name) for name in long]
    assert len(set(cut)) == 12
    assert max(map(len, cut)) == 64


def test_a_result_without_a_call_is_left_out() -> None:
    assert made([user("Go."), ended("c9", "of nothing")]) == [{"role": "user", "content": "Go."}]


def test_a_call_that_only_the_response_names_was_not_run() -> None:
    response = {"content": [{"type": "text", "text": "So."}, {"type": "tool_use", "id": "c1", "name": "bash"}]}
    messages = made([user("Go."), ("step.completed", {"turn": "t1", "step": "s1", "response": response})])
    assert messages[1]["tool_calls"][0]["id"] == "c1"
    assert messages[2]["content"] == NOT_RUN_TEXT


def test_a_call_that_response_and_proposal_name_is_one_call() -> None:
    response = {"content": [{"type": "tool_use", "id": "c1", "name": "bash", "input": {}}]}
    step: Item = ("step.completed", {"turn": "t1", "step": "s1", "response": response})
    messages = made([user("Go."), step, call("c1"), ended("c1", "x"), assistant("Done.")])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]


def test_a_message_of_the_step_stands_for_its_response() -> None:
    step: Item = ("step.completed", {"turn": "t1", "step": "s1", "response": "So it is."})
    assert made([user("Go."), step, assistant("So it is.", step="s1")])[1:] == [
        {"role": "assistant", "content": "So it is."}
    ]
    assert made([user("Go."), step])[1:] == [{"role": "assistant", "content": "So it is."}]


def test_the_input_of_a_turn_counts_once() -> None:
    start: Item = ("turn.started", {"turn": "t1", "input": "Why?"})
    assert made([start, user("Why?", turn="t1")]) == made([start]) == [{"role": "user", "content": "Why?"}]


def test_a_summary_stands_for_what_it_replaces() -> None:
    items = [user("Old."), assistant("Older."), user("Kept."), ("context.compacted", {"first": 1, "last": 2})]
    items[3][1]["summary"] = "They talked."
    for with_state in (True, False):
        contents = [message["content"] for message in made([*items, assistant("New.")], with_state=with_state)]
        assert contents == ["They talked.", "Kept.", "New."]


def test_what_was_asked_before_the_first_message_is_kept_by_a_later_range() -> None:
    items: list[Item] = [("turn.started", {"turn": "t1", "input": "First."}), _end("t1"), user("Gone."), user("Last.")]
    items.append(("context.compacted", {"first": 3, "last": 3, "summary": "Short."}))
    for with_state in (True, False):
        assert [message["content"] for message in made(items, with_state=with_state)] == ["First.", "Short.", "Last."]


def test_a_later_summary_takes_the_earlier_one_with_it() -> None:
    one: Item = ("context.compacted", {"first": 1, "last": 1, "summary": "One."})
    two: Item = ("context.compacted", {"first": 1, "last": 3, "summary": "Both."})
    for with_state in (True, False):
        messages = made([user("Old."), one, user("More."), two, user("New.")], with_state=with_state)
        assert [message["content"] for message in messages] == ["Both.", "New."]


def test_a_summary_in_the_middle_stands_in_the_middle() -> None:
    items = [user("First."), user("Gone."), user("Last."), ("context.compacted", {"first": 2, "last": 2})]
    items[3][1]["summary"] = "Short."
    assert [message["content"] for message in made(items)] == ["First.", "Short.", "Last."]


def test_a_compaction_without_a_summary_is_an_error() -> None:
    with pytest.raises(HistoryInvalid, match="no summary of what it replaces") as caught:
        made([user("Old."), ("context.compacted", {"first": 1, "last": 1})])
    assert caught.value.ordinal == 2


def test_turns_that_were_rolled_back_are_not_part_of_it() -> None:
    items: list[Item] = []
    for name in ("t1", "t2", "t3"):
        items += [("turn.started", {"turn": name, "input": name}), assistant(f"Answer {name}."), _end(name)]
    items += [("context.rolled_back", {"turns": 2}), ("turn.started", {"turn": "t4", "input": "t4"})]
    for with_state in (True, False):
        contents = [message["content"] for message in made(items, with_state=with_state)]
        assert contents == ["t1", "Answer t1.", "t4"]


def _end(turn: str) -> Item:
    return "turn.completed", {"turn": turn}


def test_an_unknown_shape_is_an_error() -> None:
    with pytest.raises(HistoryInvalid, match="no such shape of a history: telegram"):
        History(Events([]), "telegram")


def test_an_empty_session_has_an_empty_history() -> None:
    assert all(made([(CREATED, {})], shape) == [] for shape in SHAPES)


def test_reading_the_first_messages_reads_only_the_first_events() -> None:
    items = [user("Go."), *[item for _ in range(500) for item in (assistant("So."), user("On."))]]
    source = Events(items)
    messages = iter(History(source, "anthropic", state=source.state()))
    next(messages)
    assert source.read < 5


def test_white_space_is_no_content() -> None:
    assert made([user("Go."), assistant(" \n"), assistant([{"type": "text", "text": ""}]), user([])]) == [
        {"role": "user", "content": "Go."}
    ]


def test_signed_reasoning_stays_in_front_of_what_it_led_to() -> None:
    thought = {"type": "thinking", "thinking": "", "signature": "c2ln"}
    unsigned = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "thinking", "data": "text"},
        {"type": "redacted_thinking"},
    ]
    items = [user("Go."), assistant([thought, *unsigned]), assistant([{"type": "text", "text": "So."}])]
    assert made(items, "anthropic")[1]["content"] == [thought, {"type": "text", "text": "So."}]
    assert made([user("Go."), assistant([thought])], "anthropic") == made([user("Go.")], "anthropic")


def test_what_the_program_says_first_is_the_system_of_the_anthropic_shape() -> None:
    source = Events([("message.system", {"content": "Be brief."}), user("Go.")])
    history = History(source, "anthropic")
    assert history.system == "Be brief."
    assert [message["role"] for message in history] == ["user"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("content", [None, "", 7, {}, {"a": 1}, [None], [{"type": "image"}], [["x"]], {"type": []}])
def test_a_result_of_any_shape_is_valid(shape: str, content: Any) -> None:
    made([user("Go."), call("c1", arguments=content), ended("c1", content), assistant("Done.")], shape)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "content", "source", "data", "image_url", "url", "tool_calls", "id", "x"]),
            inner | st.sampled_from(["text", "image", "tool_use", "thinking", "input_image", "function_call"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "proposed", "completed", "step"]), JSON), max_size=6))
def test_content_of_any_shape_gives_a_valid_history(said: list[tuple[str, Any]]) -> None:
    items: list[Item] = []
    for kind, value in said:
        items += {
            "user": [user(value)],
            "assistant": [assistant(value)],
            "proposed": [call("c1", arguments=value)],
            "completed": [ended("c1", value)],
            "step": [("step.completed", {"turn": "t1", "step": "s1", "response": value})],
        }[kind]
    for shape in SHAPES:
        made(items, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_images_are_passed_on(shape: str) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    assert "AAAA" in json.dumps(made([user([image, {"type": "text", "text": "What is it?"}])], shape))


def test_names_and_ids_that_providers_refuse_are_changed() -> None:
    messages = made([user("Go."), call("a b/c", name="files.read it"), ended("a b/c", "x")])
    asked = messages[1]["tool_calls"][0]
    assert (asked["id"], asked["function"]["name"]) == ("a_b_c", "files_read_it")


ANTHROPIC_CALL = {"type": "tool_use", "id": "c1", "name": "bash", "input": {}}
ANTHROPIC_RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "x"}]}
TEXT = {"type": "text", "text": "x"}
REFUSED: list[tuple[str, list[dict[str, Any]], str]] = [
    ("anthropic", [{"role": "assistant", "content": [TEXT]}], "first"),
    ("anthropic", [{"role": "user", "content": [TEXT]}] * 2, "user twice"),
    ("anthropic", [{"role": "user", "content": []}], "no content"),
    ("anthropic", [{"role": "user", "content": [{"type": "text", "text": " "}]}], "empty text"),
    ("anthropic", [{"role": "user", "content": [ANTHROPIC_RESULT]}], "not asked for"),
    (
        "anthropic",
        [{"role": "user", "content": [TEXT]}, {"role": "assistant", "content": [ANTHROPIC_CALL]}],
        "no result for c1",
    ),
    (
        "anthropic",
        [
            {"role": "user", "content": [TEXT]},
            {"role": "assistant", "content": [ANTHROPIC_CALL]},
            {"role": "user", "content": [TEXT, ANTHROPIC_RESULT]},
        ],
        "a result behind other content",
    ),
    (
        "anthropic",
        [{"role": "user", "content": [TEXT]}, {"role": "assistant", "content": [ANTHROPIC_CALL, ANTHROPIC_CALL]}],
        "call id c1 twice",
    ),
    ("openai_responses", [{"type": "function_call_output", "call_id": "c1", "output": "x"}], "not asked for"),
    ("openai_responses", [{"type": "function_call", "call_id": "c1", "name": "b", "arguments": "[]"}], "no JSON"),
    ("openai_responses", [{"type": "message", "role": "user", "content": [TEXT]}], "text of user"),
    ("openai_chat", [{"role": "user", "content": ""}], "empty text"),
    ("openai_chat", [{"role": "assistant", "content": None}], "empty text"),
    ("openai_chat", [{"role": "assistant", "content": "x", "tool_calls": []}], "an empty list of calls"),
    ("openai_chat", [{"role": "telegram"}], "role telegram"),
    ("openai_chat", [{}], "not of this shape"),
]


@pytest.mark.parametrize(("shape", "messages", "part"), REFUSED)
def test_a_history_that_a_provider_refuses_is_found(shape: str, messages: list[dict[str, Any]], part: str) -> None:
    (problem,) = problems(shape, messages)
    assert part in problem


@pytest.mark.parametrize("shape", SHAPES)
def test_leaving_out_any_message_of_a_call_is_found(shape: str) -> None:
    messages = made([(CREATED, {}), *TURN], shape)
    for index, message in enumerate(messages):
        rest = messages[:index] + messages[index + 1 :]
        part_of_a_call = any(word in json.dumps(message) for word in ('"c1"', '"c2"'))
        assert (problems(shape, rest) != []) >= part_of_a_call


@pytest.mark.parametrize("with_state", [True, False])
def test_the_result_of_a_call_that_is_still_told_is_found_in_what_a_compaction_replaced(*, with_state: bool) -> None:
    said: Item = ("message.user", {"content": "And now?"})
    compacted: Item = ("context.compacted", {"first": 5, "last": 5, "summary": "It went on."})
    messages = made([(CREATED, {}), TURN[0], call("c1"), said, ended("c1", "seen"), compacted], with_state=with_state)
    assert "seen" in str(messages)
