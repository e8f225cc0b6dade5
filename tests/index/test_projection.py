"""The fold: what each event type does to a session's row, whatever its payload looks like."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.index import projection
from turnlog.index.projection import COLUMNS, COUNT_MAX, TYPES, SessionRow, fold

ID = "0192f0c4-7a1b-7c3d-8e4f-0123456789ab"
PARENT = "0192f0c4-7a1b-7c3d-8e4f-0123456789ac"


class FakeEvent:
    """An event handle; the fold looks at type and payload."""

    def __init__(self, type: str, payload: Any = None, *, is_raw: bool = False) -> None:
        self.ordinal, self.time_us = 1, 0
        self.type = type
        self.is_raw = is_raw
        self.raw = payload if is_raw else json.dumps(payload).encode()

    @property
    def payload(self) -> Any:
        return self.raw if self.is_raw else json.loads(self.raw)


def folded(*events: tuple[str, Any]) -> SessionRow:
    row = SessionRow(ID)
    fold(row, [FakeEvent(type, payload) for type, payload in events])
    return row


def test_settings_are_taken_from_the_session_events() -> None:
    created = {"title": "Flaky test", "cwd": "/a/b  c", "model": "m1", "tags": ["x", "y"], "parent": PARENT}
    row = folded(
        ("session.created", created),
        ("session.configured", {"model": "m2"}),
        ("session.tagged", {"tags": ["z"]}),
        ("session.tagged", {"tags_removed": ["x"]}),
        ("session.renamed", {"title": "New\nname"}),
    )
    assert (row.title, row.cwd, row.model, row.tags, row.parent) == ("New name", "/a/b  c", "m2", ("y", "z"), PARENT)


def test_the_first_user_text_is_the_title_until_one_is_given() -> None:
    said = ("message.user", {"content": [{"type": "image"}, {"type": "text", "text": "  Why\n does it fail? "}]})
    assert folded(said, ("message.user", {"content": "Later"})).title == "Why does it fail?"
    assert folded(("message.user", {"content": "plain"})).title == "plain"
    assert folded(("session.created", {"title": "Given"}), said).title == "Given"
    assert folded(said, ("session.renamed", {"title": "Given"})).title == "Given"
    taken_away = ("session.renamed", {"title": None})
    assert folded(("session.created", {"title": "Given"}), said, taken_away).title == ""
    assert folded(("session.created", {"title": "Given"}), taken_away, said).title == "Why does it fail?"
    assert len(folded(("message.user", {"content": "x" * 9_999})).title) == projection.TITLE_MAX_CHARACTERS


def test_everything_countable_is_counted() -> None:
    usage = {"input": 10, "output": 2, "cache_read": 30, "cache_write": 4}
    row = folded(
        ("turn.started", {}),
        ("message.user", {"content": "a"}),
        ("step.completed", {"usage": usage, "model": "m9", "response": [1]}),
        ("tool.proposed", {}),
        ("tool.completed", {}),
        ("step.completed", {"usage": {"input": 5}}),
        ("step.failed", {}),
        ("message.assistant", {"content": "b"}),
    )
    assert (row.turns, row.steps, row.tool_calls, row.messages, row.model) == (1, 3, 1, 2, "m9")
    assert (row.tokens_input, row.tokens_output, row.tokens_cache_read, row.tokens_cache_write) == (15, 2, 30, 4)


@pytest.mark.parametrize(
    ("types", "state"),
    [
        ("", "open"),
        ("turn.started", "running"),
        ("turn.started turn.completed", "open"),
        ("turn.started turn.interrupted", "open"),
        ("turn.started turn.started turn.failed", "running"),
        ("turn.aborted turn.started", "running"),
        ("turn.started session.closed", "closed"),
        ("session.closed turn.started", "running"),
        ("session.closed message.user", "open"),
        ("session.closed session.tagged", "closed"),
        ("session.archived", "archived"),
        ("session.archived turn.started", "archived"),
        ("session.archived session.unarchived", "open"),
        ("session.deleted session.unarchived turn.started", "deleted"),
    ],
)
def test_the_state_follows_from_the_events(types: str, state: str) -> None:
    assert folded(*[(type, {}) for type in types.split()]).state == state


MALFORMED: list[Any] = [None, [], "text", 7, {}, {"title": 7, "cwd": [], "model": {}, "tags": "ab", "parent": "no"}]
MALFORMED += [{"usage": []}, {"usage": {"input": -1, "output": 1.5, "cache_read": True, "cache_write": "9"}}]
MALFORMED += [{"content": 7}, {"content": [7, {"text": 8}, {}]}, {"tags": [7, "", None], "tags_removed": 3}]


@pytest.mark.parametrize("payload", MALFORMED)
@pytest.mark.parametrize("type", sorted(TYPES))
def test_a_malformed_payload_counts_as_an_empty_one(type: str, payload: Any) -> None:
    assert folded((type, payload)) == folded((type, {}))


def test_raw_bytes_count_as_an_empty_payload() -> None:
    row = SessionRow(ID)
    fold(row, [FakeEvent("message.user", b"\xff\x00not json", is_raw=True)])
    assert (row.messages, row.title) == (1, "")


def test_a_lone_surrogate_and_a_huge_integer_can_be_stored() -> None:
    row = folded(
        ("session.created", {"title": "a\ud800b", "cwd": "/\udcff", "tags": ["\udfff"]}),
        ("step.completed", {"usage": {"input": 10**30, "output": COUNT_MAX}}),
        ("step.completed", {"usage": {"output": 5}}),
    )
    assert (row.title, row.cwd, row.tags) == ("a?b", "/?", ("?",))
    assert (row.tokens_input, row.tokens_output) == (COUNT_MAX, COUNT_MAX)


def test_the_row_has_the_columns_of_the_table() -> None:
    connection = apsw.Connection(":memory:")
    schema = Path(projection.__file__).with_name("schema.sql").read_text("utf-8")
    connection.execute(schema)
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(sessions)")]
    assert sorted(columns) == sorted(("session", *COLUMNS))
    connection.close()


def test_a_row_survives_the_database() -> None:
    row = folded(("session.created", {"title": "t", "tags": ["b", "a c"]}), ("turn.started", {}))
    assert SessionRow.from_values(row.values()) == row
    assert SessionRow.from_values(SessionRow(ID).values()) == SessionRow(ID)


values = st.one_of(st.none(), st.booleans(), st.integers(-5, 2**65), st.text(max_size=5), st.lists(st.text(max_size=3)))
names = st.sampled_from(["title", "cwd", "model", "tags", "tags_removed", "parent", "usage", "content", "other"])
usages = st.dictionaries(st.sampled_from(["input", "output", "cache_read", "cache_write"]), values)
payloads = st.one_of(values, st.dictionaries(names, values), st.fixed_dictionaries({"usage": usages}))
events = st.tuples(st.sampled_from([*sorted(TYPES), "custom.type", "session"]), payloads)


@given(st.lists(events, max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_any_split_into_batches_gives_the_row_of_one_fold(history: list[tuple[str, Any]], cuts: list[int]) -> None:
    handles = [FakeEvent(type, payload) for type, payload in history]
    whole = SessionRow(ID)
    fold(whole, handles)
    split = SessionRow(ID)
    edges = [0, *sorted(cuts), len(handles)]
    for start, end in itertools.pairwise(edges):
        fold(split, handles[start:end])
        split = SessionRow.from_values(split.values())  # as a catch-up does between two runs
    assert split == whole
