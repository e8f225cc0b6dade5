"""A cursor is read back as it was written, for any positions; a text that was cut or changed is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import InvalidInput
from turnlog.feed.cursors import (
    ordinal_after,
    parse_session_cursor,
    parse_store_cursor,
    session_cursor,
    store_cursor,
)
from turnlog.ids import format_id

IDS = st.binary(min_size=16, max_size=16).map(format_id)
ORDINALS = st.integers(1, 2**63 - 1) | st.sampled_from([127, 128, 16_383, 16_384])
POSITIONS = st.dictionaries(IDS, ORDINALS, max_size=5)
ONE, OTHER = "019b76da-a800-7000-8000-000000000001", "019b76da-a800-7000-8000-000000000002"


@given(POSITIONS)
def test_the_positions_of_a_store_are_read_back(positions: dict[str, int]) -> None:
    assert parse_store_cursor(store_cursor(positions)) == positions


@given(IDS, st.integers(0, 2**63 - 1))
def test_the_position_of_a_session_is_read_back(session: str, ordinal: int) -> None:
    assert parse_session_cursor(session_cursor(session, ordinal)) == (session, ordinal)
    assert ordinal_after(session_cursor(session, ordinal), session) == ordinal


def test_equal_positions_give_equal_text_and_the_beginning_needs_none() -> None:
    assert store_cursor({ONE: 3, OTHER: 4}) == store_cursor({OTHER: 4, ONE: 3, format_id(bytes(16)): 0})
    assert parse_store_cursor(store_cursor({})) == {}


@given(POSITIONS.filter(bool), st.data())
def test_a_store_cursor_that_was_cut_is_refused(positions: dict[str, int], data: st.DataObject) -> None:
    cursor = store_cursor(positions)
    kept = data.draw(st.integers(0, len(cursor) - 1))
    with pytest.raises(InvalidInput):
        parse_store_cursor(cursor[:kept])


@pytest.mark.parametrize("at", range(3, len(store_cursor({ONE: 12})) - 1))  # the last digit carries padding bits
def test_a_store_cursor_with_another_digit_is_refused(at: int) -> None:
    cursor = store_cursor({ONE: 12})
    digit = "A" if cursor[at] != "A" else "B"
    with pytest.raises(InvalidInput, match="no whole cursor of a store"):
        parse_store_cursor(cursor[:at] + digit + cursor[at + 1 :])


@pytest.mark.parametrize("text", ["", "s1.", "s1.é", session_cursor(ONE, 1), "s2" + store_cursor({ONE: 1})[2:]])
def test_another_text_is_no_store_cursor(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_store_cursor(text)


@pytest.mark.parametrize("text", ["", ONE, f"{ONE}:", f"{ONE}:-1", f"{ONE}:٣", f"{ONE[:-1]}:1", store_cursor({ONE: 1})])
def test_another_text_is_no_session_cursor(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no cursor of a session"):
        parse_session_cursor(text)


def test_a_cursor_counts_for_its_own_session_only() -> None:
    with pytest.raises(InvalidInput, match="another session"):
        ordinal_after(session_cursor(OTHER, 3), ONE)
    with pytest.raises(InvalidInput, match="0 for the start"):
        ordinal_after(-1, ONE)
    assert ordinal_after(session_cursor(ONE.upper(), 3), ONE) == ordinal_after(3, ONE) == 3
