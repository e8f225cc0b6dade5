"""Goal: one value has one canonical form, that of RFC 8785 where it has one; both cores refuse alike what has none.

Method: the published cases of RFC 8785 as literals, the two extensions, an independent RFC 8785 implementation on
generated I-JSON, and the reference core against the native one on generated values, good and bad.
"""

from __future__ import annotations

import json
import math
import struct
from collections import OrderedDict, defaultdict
from enum import IntEnum, StrEnum
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import rfc8785
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from turnlog._pure.canon import canonical as reference
from turnlog.errors import InvalidPayload, TurnlogError

if TYPE_CHECKING:
    from types import ModuleType

# RFC 8785 appendix B, and the borders of ECMAScript's layout rules
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


class Colour(IntEnum):
    RED = 3


class Word(StrEnum):
    YES = "yes"


class Point(NamedTuple):
    x: int
    y: float


class Loud(str):
    """A string that claims to be another one."""

    __slots__ = ()

    def __str__(self) -> str:
        return "loud"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Odd(int):
    """An integer whose methods must not be asked."""

    def __repr__(self) -> str:
        return "odd"

    def __abs__(self) -> int:
        return 7

    def bit_length(self) -> int:
        return 1


def nested(depth: int) -> list[Any]:
    """Return lists nested this deep."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def cycle() -> list[Any]:
    """Return a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items(), ids=list(NUMBERS))
def test_doubles_have_the_form_published_in_rfc_8785(core: ModuleType, bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert core.canonical(value).decode() == text
    assert core.canonical([value]).decode() == f"[{text}]"


def test_the_published_example_of_rfc_8785_has_its_published_form(core: ModuleType) -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '€$\x0f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert core.canonical(value) == expected.encode()


def test_keys_are_sorted_by_utf_16_code_units_as_published(core: ModuleType) -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\xf6"]
    in_order = ["\r", "1", "\x80", "\xf6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(core.canonical(dict.fromkeys(keys)))) == in_order


def test_control_characters_have_the_shortest_escape_and_nothing_else_has_one(core: ModuleType) -> None:
    short = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    for code in [*range(0x100), 0x2028, 0x2029, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000, 0x10FFFF]:
        escape = short.get(code, f"\\u{code:04x}" if code < 0x20 else chr(code))
        for before in (0, 1, 31, 32, 40):  # at each place that a chunk of the native core distinguishes
            text = "a" * before + chr(code) + "é"
            assert core.canonical(text).decode() == f'"{"a" * before}{escape}é"'


def test_the_standard_library_escapes_every_character_as_rfc_8785_does() -> None:
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x110000))))
    assert encode_basestring(everything).encode() == rfc8785.dumps(everything)


@pytest.mark.parametrize(
    "value", [2**53 + 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 + 1, 10**4299, 1 - 10**4300]
)
def test_integers_of_any_size_are_written_as_digits(core: ModuleType, value: int) -> None:
    data = core.canonical([value])
    assert data.decode() == f"[{value}]"
    assert json.loads(data) == [value]


def test_lone_surrogates_are_escaped_in_lower_case(core: ModuleType) -> None:
    assert core.canonical("a\udc00\ud83d") == b'"a\\udc00\\ud83d"'
    value = dict.fromkeys(["\udfff", "\ud800", "b"], "\udbff")
    assert core.canonical(value) == b'{"b":"\\udbff","\\ud800":"\\udbff","\\udfff":"\\udbff"}'


def test_a_surrogate_pair_handed_in_as_two_is_the_character(core: ModuleType) -> None:
    assert core.canonical("\ud83d\ude00") == '"😀"'.encode()
    assert core.canonical({"\ud83d\ude00": "\ud83d"}) == '{"😀":"\\ud83d"}'.encode()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, (2,)), "[1,[2]]"),
        (Point(1, 2.5), "[1,2.5]"),
        ([Colour.RED, Word.YES], '[3,"yes"]'),
        (OrderedDict(b=1, a=2), '{"a":2,"b":1}'),
        (defaultdict(int, a=1), '{"a":1}'),
        ({Loud("b"): Loud("x"), "a": 1}, '{"a":1,"b":"x"}'),
        ([Odd(5), Odd(10**30), Odd(-(10**700))], f"[5,{10**30},{-(10**700)}]"),
        ([True, 1, 1.0], "[true,1,1]"),
    ],
    ids=["tuple", "named tuple", "enum", "ordered dict", "default dict", "str", "int", "bool"],
)
def test_subclasses_are_stored_as_their_base_type(core: ModuleType, value: object, expected: str) -> None:
    assert core.canonical(value).decode() == expected


BAD = {
    "nan": ({"x": math.nan}, "NaN and Infinity have no JSON form at $.x"),
    "infinity": ([math.inf], "NaN and Infinity have no JSON form at $[0]"),
    "minus infinity": (-math.inf, "NaN and Infinity have no JSON form at $"),
    "bytes": ({"a": [1, {"b": b""}]}, "cannot store a value of type bytes at $.a[1].b"),
    "set": ({"x": {1}}, "cannot store a value of type set at $.x"),
    "object": ((object(),), "cannot store a value of type object at $[0]"),
    "class": ([int], "cannot store a value of type type at $[0]"),
    "int key": ({"x": {1: 2}}, "keys must be strings, not int, at $.x"),
    "none key": ({None: 2}, "keys must be strings, not NoneType, at $"),
    "bytes key": ([{b"a": 2}], "keys must be strings, not bytes, at $[0]"),
    "twin keys": ([{Loud("a"): 1, Loud("a"): 2}], "duplicate key at $[0]"),
    "twin surrogates": ({"😀": 1, "\ud83d\ude00": 2}, "duplicate key at $"),
    "long integer": ({"x": 10**4300}, "integer of more than 4300 digits at $.x"),
    "long negative": ([-(10**4300)], "integer of more than 4300 digits at $[0]"),
    "very long integer": ([1 << 20_000], "integer of more than 4300 digits at $[0]"),
    "depth": (nested(129), f"nested deeper than 128 levels at ${'[0]' * 8}…"),
    "great depth": (nested(10_000), f"nested deeper than 128 levels at ${'[0]' * 8}…"),
    "cycle": (cycle(), f"nested deeper than 128 levels at ${'[0]' * 8}…"),
    "key with a space": ({"a b": [b""]}, 'cannot store a value of type bytes at $["a b"][0]'),
    "empty key": ({"": b""}, 'cannot store a value of type bytes at $[""]'),
    "key with a digit first": ({"1a": b""}, 'cannot store a value of type bytes at $["1a"]'),
    "key to escape": ({'"\n\ud800\u2028': b""}, 'cannot store a value of type bytes at $["\\"\\n\\ud800\u2028"]'),
    "longest key": ({"k" * 32: b""}, f"cannot store a value of type bytes at $.{'k' * 32}"),
    "long key": ({"k" * 33: b""}, f'cannot store a value of type bytes at $["{"k" * 32}…"]'),
    "long key beyond the BMP": ({"😀" * 40: b""}, f'cannot store a value of type bytes at $["{"😀" * 32}…"]'),
    "first in canonical order": ({"b": b"", "a": {1}}, "cannot store a value of type set at $.a"),
}


@pytest.mark.parametrize(("value", "message"), BAD.values(), ids=list(BAD))
def test_what_has_no_canonical_form_is_refused_with_its_path(core: ModuleType, value: object, message: str) -> None:
    with pytest.raises(InvalidPayload) as raised:
        core.canonical(value)
    assert str(raised.value) == message
    assert isinstance(raised.value, ValueError)


def test_a_depth_of_128_is_accepted(core: ModuleType) -> None:
    assert core.canonical(nested(128)) == b"[" * 128 + b"]" * 128
    value: object = 1
    for _ in range(128):
        value = {"a": value}
    assert core.canonical(value) == b'{"a":' * 128 + b"1" + b"}" * 128


def test_a_host_that_lowers_the_limit_of_long_integers_changes_nothing(core: ModuleType) -> None:
    import sys

    value = [10**4299, -(3**8_000)]
    expected = str(value).replace(" ", "").encode()
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert core.canonical(value) == expected
    finally:
        sys.set_int_max_str_digits(before)


TEXT = st.text(max_size=70) | st.text(alphabet='"\\\n\x00\x1f\x7f aé€\ue000\uffff😀', max_size=70)
SCALARS = st.none() | st.booleans() | st.integers(min_value=-(2**53) + 1, max_value=2**53 - 1) | TEXT
I_JSON = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=6),
    max_leaves=12,
)
WILD_TEXT = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]), max_size=8)
WILD = st.recursive(
    st.none()
    | st.integers()
    | st.integers(min_value=-(10**5000), max_value=10**5000)
    | st.floats()
    | WILD_TEXT
    | st.binary(max_size=1)
    | st.just(object()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner)
        | st.dictionaries(WILD_TEXT, inner, max_size=6)
        | st.dictionaries(WILD_TEXT | st.integers(), inner, max_size=2)
    ),
    max_leaves=12,
)
EVERY_CORE = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@EVERY_CORE
@given(value=I_JSON)
@example(value={"\ue000": 1, "😀": 2, "\uffff": 3, "\ud7ff": 4})
def test_i_json_documents_equal_an_independent_implementation(core: ModuleType, value: Any) -> None:
    assert core.canonical(value) == rfc8785.dumps(value)


@EVERY_CORE
@given(value=I_JSON)
@example(value=295147905179352830000.0)
def test_what_was_stored_is_read_back_equal(core: ModuleType, value: Any) -> None:
    data = core.canonical(value)
    assert json.loads(data, parse_int=read_number) == value
    assert core.canonical(json.loads(data)) == data


def read_number(digits: str) -> int | float:
    """Read an integer as I-JSON does: beyond 2^53 it is a double."""
    return int(digits) if abs(int(digits)) < 2**53 else float(digits)


@settings(max_examples=600, deadline=None)
@given(value=WILD)
def test_both_cores_answer_alike(native: ModuleType, value: object) -> None:
    assert outcome(native.canonical, value) == outcome(reference, value)


@settings(max_examples=600, deadline=None)
@given(bits=st.integers(min_value=0, max_value=2**64 - 1))
def test_both_cores_write_any_bit_pattern_of_a_double_alike(native: ModuleType, bits: int) -> None:
    (value,) = struct.unpack("<d", bits.to_bytes(8, "little"))
    assert outcome(native.canonical, value) == outcome(reference, value)


def outcome(canonical: Any, value: object) -> tuple[object, str]:
    """Return the bytes, or the class and sentence of the error."""
    try:
        return canonical(value), ""
    except TurnlogError as error:
        return type(error), str(error)
