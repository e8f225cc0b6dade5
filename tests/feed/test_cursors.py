"""A cursor is read back as it was written, for any positions; a text that was cut or changed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import InvalidInput
from turnlog.feed.cursors import (
    NO_MARK,
    parse_session_cursor,
    parse_store_cursor,
    place_after,
    session_cursor,
    store_cursor,
)
from turnlog.ids import format_id

IDS = st.binary(min_size=16, max_size=16).map(format_id)
ORDINALS = st.integers(1, 2**63 - 1) | st.sampled_from([127, 128, 16_383, 16_384])
MARKS = st.binary(min_size=4, max_size=4)
PLACES = st.dictionaries(IDS, st.tuples(ORDINALS, MARKS), max_size=5)
ONE, OTHER = "019b76da-a800-7000-8000-000000000001", "019b76da-a800-7000-8000-000000000002"
STORED = store_cursor({ONE: (12, b"abcd")})


@given(PLACES)
def test_the_places_of_a_store_are_read_back(places: dict[str, tuple[int, bytes]]) -> None:
    assert parse_store_cursor(store_cursor(places)) == places


@given(IDS, st.integers(0, 2**63 - 1), MARKS)
def test_the_place_of_a_session_is_read_back(session: str, ordinal: int, mark: bytes) -> None:
    assert parse_session_cursor(session_cursor(session, ordinal, mark)) == (session, ordinal, mark)
    assert place_after(session_cursor(session, ordinal, mark), session) == (ordinal, mark)


def test_a_cursor_without_a_mark_is_a_bare_place() -> None:
    assert session_cursor(ONE, 12) == f"{ONE}:12"
    assert parse_session_cursor(f"{ONE}:12") == (ONE, 12, NO_MARK)
    assert parse_store_cursor("s1.AZt22qgAcACAAAAAAAAAAQw9ZzK8") == {ONE: (12, NO_MARK)}  # made before there were marks


def test_equal_places_give_equal_text_and_the_beginning_needs_none() -> None:
    one, other, begin = (3, b"abcd"), (4, b"efgh"), (0, NO_MARK)
    assert store_cursor({ONE: one, OTHER: other}) == store_cursor({OTHER: other, ONE: one, format_id(bytes(16)): begin})
    assert parse_store_cursor(store_cursor({})) == {}


@given(PLACES.filter(bool), st.data())
def test_a_store_cursor_that_was_cut_is_refused(places: dict[str, tuple[int, bytes]], data: st.DataObject) -> None:
    cursor = store_cursor(places)
    kept = data.draw(st.integers(0, len(cursor) - 1))
    with pytest.raises(InvalidInput):
        parse_store_cursor(cursor[:kept])


@pytest.mark.parametrize("at", range(3, len(STORED) - 1))  # the last digit carries padding bits
def test_a_store_cursor_with_another_digit_is_refused(at: int) -> None:
    cursor = STORED
    digit = "A" if cursor[at] != "A" else "B"
    with pytest.raises(InvalidInput, match="no whole cursor of a store"):
        parse_store_cursor(cursor[:at] + digit + cursor[at + 1 :])


@pytest.mark.parametrize("text", ["", "s1.", "s2.é", session_cursor(ONE, 1), "s3" + STORED[2:]])
def test_another_text_is_no_store_cursor(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_store_cursor(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", ONE, f"{ONE}:", f"{ONE}:-1", f"{ONE}:٣", f"{ONE[:-1]}:1", f"{ONE}:{'9' * 30}", STORED),
        *(f"{ONE}:1:", f"{ONE}:1:abc", f"{ONE}:1:ABCDEF01", f"{ONE}:1:abcdef01:", f"{ONE}:1:{'ab' * 32}"),
    ],
)
def test_another_text_is_no_session_cursor(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no cursor of a session"):
        parse_session_cursor(text)


def test_a_cursor_counts_for_its_own_session_only() -> None:
    with pytest.raises(InvalidInput, match="another session"):
        place_after(session_cursor(OTHER, 3), ONE)
    with pytest.raises(InvalidInput, match="0 or more"):
        place_after(-1, ONE)
    assert place_after(session_cursor(ONE.upper(), 3), ONE) == place_after(3, ONE) == (3, NO_MARK)
