"""Goal: ids are the UUIDs of RFC 9562 that they claim to be, and nothing else is taken for one."""

from __future__ import annotations

import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.errors import InvalidId
from turnlog.ids import derive_id, format_id, new_id, parse_id


def test_a_new_id_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(bytes=new_id())
    after = time.time_ns() // 1_000_000
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= after


def test_new_ids_differ() -> None:
    assert len({new_id() for _ in range(1000)}) == 1000


def test_a_derived_id_is_a_uuid_of_version_8_and_the_same_for_ever() -> None:
    made = derive_id("claude-code", "session", b"\x00")
    assert (uuid.UUID(bytes=made).version, uuid.UUID(bytes=made).variant) == (8, uuid.RFC_4122)
    assert made == derive_id(b"claude-code", "session", "\0")
    assert format_id(derive_id()) == "7abc0502-ed6a-86ca-b3c4-90c489d86a83"
    assert format_id(derive_id("a", "b")) == "af3e7248-9d69-8ea8-994d-b11e6b708a7c"


def test_parts_of_a_derived_id_do_not_run_into_each_other() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), (), ("",)]
    assert len({derive_id(*part) for part in parts}) == len(parts)


def test_a_lone_surrogate_can_be_a_part_of_a_derived_id() -> None:
    assert derive_id("\ud800") != derive_id("\ud801")


@given(data=st.binary(min_size=16, max_size=16))
def test_text_form_and_bytes_belong_together(data: bytes) -> None:
    text = format_id(data)
    assert text == str(uuid.UUID(bytes=data))
    assert parse_id(text) == parse_id(text.upper()) == parse_id(data) == parse_id(uuid.UUID(bytes=data)) == data


@pytest.mark.parametrize(
    "text",
    [
        "",
        "01890a5d",
        "01890a5dac96774bbcceb302099a8057",
        "01890a5d-ac96-774b-bcce-b302099a805",
        "01890a5d-ac96-774b-bcce-b302099a80577",
        "01890a5d-ac96-774b-bcce-b302099a805g",
        "01890a5dac-96-774b-bcce-b302099a8057",
        "{01890a5d-ac96-774b-bcce-b302099a8057}",
        "01890a5d-ac96-774b-bcce-b302099a80\uff15\uff17",
        "x" * 1000,
    ],
)
def test_text_that_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(InvalidId, match="is not a UUID") as raised:
        parse_id(text)
    assert len(str(raised.value)) < 150


@pytest.mark.parametrize("value", [None, 7, [], bytearray(16), object()])
def test_objects_that_are_no_uuid_are_refused(value: object) -> None:
    with pytest.raises(InvalidId, match=f"not {type(value).__name__}"):
        parse_id(value)


@pytest.mark.parametrize("data", [b"", bytes(15), bytes(17)])
def test_bytes_of_a_wrong_length_are_refused(data: bytes) -> None:
    for refuse in (parse_id, format_id):
        with pytest.raises(InvalidId, match=f"16 bytes, not {len(data)}"):
            refuse(data)
