"""Lists: every filter through a database index, pages that neither repeat nor lose a session."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import apsw
import pytest

from turnlog.errors import InvalidInput
from turnlog.index import catch_up, query
from turnlog.index.file import create
from turnlog.index.projection import SessionRow
from turnlog.index.read import Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

from tests.index.logs import session_id

PARENT = session_id(7)
FILTERS: dict[str, Any] = {
    "cwd": "/a",
    "state": "open",
    "model": "m1",
    "tag": "t1",
    "parent": PARENT,
    "since_us": 40,
    "text": "ODD",
}


def put(connection: apsw.Connection, number: int, time_us: int) -> None:
    id = session_id(number)
    visit = catch_up.load(connection, id)
    row = visit.row
    row.last_activity_us = time_us
    row.cwd, row.model = ("/a", "m1") if number % 2 else ("/b", "m2")
    row.state = ("open", "closed", "deleted", "running")[number % 4]
    row.title = "an odd one" if number % 2 else "100%"
    row.parent = PARENT if number % 5 == 0 else ""
    row.tags = ("t1", "t2") if number % 3 else ("t2",)
    catch_up.write(connection, [visit])


@pytest.fixture
def connection() -> Iterator[apsw.Connection]:
    made = apsw.Connection(":memory:")
    create(made, lambda _: None)
    for number in range(60):
        put(made, number, time_us=number // 3)  # three sessions share each time
    yield made
    made.close()


COMBINATIONS = [
    dict(chosen) for size in range(len(FILTERS) + 1) for chosen in itertools.combinations(FILTERS.items(), size)
] + [{"state": "deleted"}, {"state": "deleted", "cwd": "/b"}, {"state": "deleted", "tag": "t2", "parent": PARENT}]


@pytest.mark.parametrize("filters", COMBINATIONS, ids=range(len(COMBINATIONS)))
def test_no_list_sorts_or_scans_a_table(connection: apsw.Connection, filters: dict[str, Any]) -> None:
    statement, values = query.list_statement(**filters, after="30:x")
    plan = [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
    assert plan
    assert all(step.startswith("SEARCH") for step in plan), plan
    rows, _ = query.list_rows(connection, 10_000, **filters)
    expected = [row for row in everything(connection) if matches(row, filters)]
    assert rows == expected


def everything(connection: apsw.Connection) -> list[dict[str, Any]]:
    found = [query.get_row(connection, session_id(number)) for number in range(60)]
    rows = [row for row in found if row is not None]
    return sorted(rows, key=lambda row: (row["last_activity_us"], row["id"]), reverse=True)


def matches(row: dict[str, Any], filters: dict[str, Any]) -> bool:
    tests: dict[str, Callable[[Any], bool]] = {
        "since_us": lambda value: row["last_activity_us"] >= value,
        "tag": lambda value: value in row["tags"],
        "text": lambda value: value.lower() in row["title"].lower(),
    }
    hidden = row["state"] == "deleted" and filters.get("state") != "deleted"
    return not hidden and all(
        tests[name](value) if name in tests else row[name] == value for name, value in filters.items()
    )


def test_other_questions_use_an_index_too(connection: apsw.Connection) -> None:
    asked: list[str] = []

    def note(_cursor: apsw.Cursor, statement: str, _values: Any) -> bool:
        asked.append(statement)
        return True

    connection.exec_trace = note
    query.find_prefix(connection, "0000", 5)
    query.get_row(connection, PARENT)
    query.newest_witness(connection, PARENT)
    catch_up.load(connection, PARENT)
    connection.exec_trace = None
    assert len(asked) == 4
    for statement in asked:
        steps = [
            step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}", ("a",) * statement.count("?"))
        ]
        assert not [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step], steps


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 59, 60, 100])
def test_pages_give_every_session_once(connection: apsw.Connection, limit: int) -> None:
    seen, token = query.list_rows(connection, limit)
    while token is not None:
        page, token = query.list_rows(connection, limit, after=token)
        assert page
        seen += page
    assert seen == [row for row in everything(connection) if row["state"] != "deleted"]


@pytest.mark.parametrize("seed", range(5))
def test_sessions_that_become_active_between_pages_are_not_repeated_and_hide_none(
    connection: apsw.Connection, seed: int
) -> None:
    dice = random.Random(seed)
    before = {row["id"] for row in everything(connection) if row["state"] != "deleted"}
    moved = set()
    seen: list[str] = []
    token: str | None = None
    for turn in itertools.count():
        page, token = query.list_rows(connection, 4, after=token)
        seen += [row["id"] for row in page]
        if token is None:
            break
        put(connection, number := dice.randrange(60), time_us=1_000 + turn)
        moved.add(session_id(number))
        put(connection, 100 + turn, time_us=2_000 + turn)
    assert len(seen) == len(set(seen))
    assert before - moved <= set(seen) <= before


@pytest.mark.parametrize("token", ["", "7", ":", "x:y", "-1:a", "1.5:a", "\u0663:a", f"{2**63}:a"])
def test_a_foreign_token_is_refused(connection: apsw.Connection, token: str) -> None:
    with pytest.raises(InvalidInput, match="not a page token"):
        query.list_rows(connection, 5, after=token)


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_has_a_size(connection: apsw.Connection, limit: int) -> None:
    with pytest.raises(InvalidInput, match="a page holds"):
        query.list_rows(connection, limit)


def test_an_unknown_state_is_refused(connection: apsw.Connection) -> None:
    with pytest.raises(InvalidInput, match="no such state: done"):
        query.list_rows(connection, 5, state="done")


def test_pattern_characters_in_the_text_are_taken_as_they_are(connection: apsw.Connection) -> None:
    assert query.list_rows(connection, 5, text="100%")[0]
    assert query.list_rows(connection, 5, text="1%0")[0] == []
    assert query.list_rows(connection, 5, text="10_%")[0] == []


def test_text_that_is_not_utf8_can_be_asked_for(connection: apsw.Connection) -> None:
    visit = Visit(SessionRow(session_id(900)))
    visit.row.cwd = "/?"
    catch_up.write(connection, [visit])
    assert len(query.list_rows(connection, 5, cwd="/\udcff", text="")[0]) == 1
    assert query.find_prefix(connection, "\udcff", 5) == []


def test_a_prefix_finds_its_sessions_in_any_case(connection: apsw.Connection) -> None:
    assert query.find_prefix(connection, "0000000C-7", 5) == [session_id(12)]
    assert query.find_prefix(connection, "0000000", 3) == [session_id(0), session_id(1), session_id(3)]
