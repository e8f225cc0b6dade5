"""Physical lines and the records on them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.importers import lines as lines_module
from turnlog.importers.lines import Line, decode, read_lines

if TYPE_CHECKING:
    from turnlog.importers.lines import Decoded


def read(data: bytes) -> list[Line]:
    return list(read_lines(io.BytesIO(data)))


def is_record(value: object) -> bool:
    return isinstance(value, dict) and "sessionId" in value


def decoded(data: bytes) -> Decoded:
    return decode(data, is_record)


@given(st.lists(st.sampled_from([b"\n", b"\r\n", b"\0", b"{}", b"\xff", b"\xe2\x80\xa8", b"abc"])).map(b"".join))
def test_the_parts_of_all_lines_are_the_file(data: bytes) -> None:
    found = read(data)
    assert b"".join(part for line in found for part in line.parts) == data
    assert [line.number for line in found] == list(range(1, len(found) + 1))
    assert all(data[line.offset : line.offset + line.length] == line.data for line in found)


def test_only_a_line_feed_ends_a_line() -> None:
    assert [line.data for line in read("a\u2028b\x85c\rd\ne".encode())] == ["a\u2028b\x85c\rd\n".encode(), b"e"]


def test_a_line_beyond_the_decode_limit_comes_in_pieces_and_keeps_only_its_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines_module, "PART_BYTES_MAX", 10)
    monkeypatch.setattr(lines_module, "DECODE_BYTES_MAX", 20)
    data = b"x" * 55 + b"\n" + b"{}\n"
    found = read(data)
    assert b"".join(part for line in found for part in line.parts) == data
    assert max(sum(map(len, line.parts)) for line in found) <= 20
    assert [(line.number, line.whole, line.data) for line in found if line.data] == [
        (1, False, b"x" * 10),
        (2, True, b"{}\n"),
    ]


@pytest.mark.parametrize(
    ("data", "code", "records", "unread"),
    [
        (b'{"a":1}\n', None, [{"a": 1}], 0),
        (b" \r\n", None, [], 0),
        (b'{"a":1}{"b":2}\n', "glued", [{"a": 1}, {"b": 2}], 0),
        (b'{"a":1} {"b":2}\r\n', "glued", [{"a": 1}, {"b": 2}], 0),
        (b"\0" * 8 + b"\n", "nul_bytes", [], 0),
        (b"\0" * 8 + b'{"a":1}\n', "nul_bytes", [{"a": 1}], 0),
        (b'{"a":"\0"}\n', "nul_bytes", [{"a": "\0"}], 0),
        (b'{"a":"cut', "torn", [], 9),
        (b'{"a":"cut{"sessionId":1}\n', "torn", [{"sessionId": 1}], 9),
        (b'{"a":{"b":1},"c":"cut\n', "torn", [], 21),
        (b'{"sessionId":1}{"a":"cut\n', "torn", [{"sessionId": 1}], 9),
        (b'{"a":"\xff\xe9"}\n', "invalid_utf8", [{"a": "\ufffd\ufffd"}], 0),
        (b"not json\n", "torn", [], 8),
        (b"[" * 100_000, "too_deep", [], 100_000),
        (b'{"a":"\\ud800"}\n', None, [{"a": "\ud800"}], 0),
        (b'{"a":NaN,"b":-Infinity}\n', None, [{"a": "NaN", "b": "-Infinity"}], 0),
        (b'{"a":1e999}\n', None, [{"a": "1e999"}], 0),
        (b'\xef\xbb\xbf{"a":1}\n', None, [{"a": 1}], 0),
    ],
)
def test_every_whole_record_of_a_line_is_read(
    data: bytes, code: str | None, records: list[object], unread: int
) -> None:
    found = decoded(data)
    assert (found.code, [record for record, _ in found.records], found.unread) == (code, records, unread)


def test_offsets_of_records_are_bytes_not_characters() -> None:
    assert [at for _, at in decoded('{"é":"\U0001f600"}{"b":2}'.encode()).records] == [0, 13]


@pytest.mark.parametrize(
    ("data", "note"),
    [(b'\xef\xbb\xbf{"a":1}\n', "bom"), (b'{"a":1}\r\n', "crlf"), (b'{"a":NaN}\n', "not_a_number")],
)
def test_what_costs_nothing_is_noted(data: bytes, note: str) -> None:
    assert decoded(data).notes == [note]
