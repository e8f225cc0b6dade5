"""The short notation of schemas, expanded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import violations
from turnlog.cli.schema import document


@pytest.mark.parametrize(
    ("kind", "fitting", "other"),
    [
        ("string", "x", 1),
        ("integer", 1, True),
        ("boolean", False, 0),
        ("string?", None, 1),
        ("[integer]", [1, 2], ["x"]),
        ("[integer]?", None, 1),
        ("[[integer]]", [[1]], [1]),
        ("{integer}", {"a": 1}, {"a": "x"}),
        ({"a": "string"}, {"a": "x"}, {}),
        ([{"a": "string"}], [{"a": "x"}], [{"b": "x"}]),
    ],
)
def test_a_kind_accepts_its_values_and_no_others(kind: Any, fitting: object, other: object) -> None:
    schema = document("verb", {"thing": {"field": kind}})
    assert violations({"type": "thing", "field": fitting}, schema) == []
    assert violations({"type": "thing", "field": other}, schema) != []


def test_a_field_may_be_missing_only_where_it_says_so() -> None:
    schema = document("verb", {"thing": {"a": "string", "b": "integer-"}})
    assert violations({"type": "thing", "a": "x"}, schema) == []
    assert violations({"type": "thing", "b": 1}, schema) != []


def test_an_object_has_the_type_of_exactly_one_kind_or_is_an_error() -> None:
    schema = document("verb", {"thing": {"a": "string"}, "other": {"a": "string"}})
    assert violations({"type": "other", "a": "x"}, schema) == []
    assert violations({"type": "third", "a": "x"}, schema) != []
    error = {"type": "error", "code": "locked", "exit_code": 11, "message": "m", "retryable": True, "next": []}
    assert violations(error, schema) == []
