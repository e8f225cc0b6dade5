"""Text for people: harmless, measured, cut; numbers and times in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.cli import terminal

NOW_US = 1_790_000_000_000_000
DRIVES = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *"\u202e\u2066\u200f\u2028\ufeff\ud800"}


@given(st.text(st.characters()) | st.text(sorted(DRIVES)))
def test_escaped_text_drives_nothing(text: str) -> None:
    assert not DRIVES & set(terminal.escape(text))
    assert not DRIVES - {"\n", "\t"} & set(terminal.escape_lines(text))
    terminal.escape(text).encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("café 日本 👩\u200d💻", "café 日本 👩\u200d💻"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b2J", "\\x9b2J"),
        ("\u202eevil", "\\u202eevil"),
        ("\udcff", "\\udcff"),
    ],
)
def test_text_stays_readable(text: str, shown: str) -> None:
    assert terminal.escape(text) == shown


def test_json_stays_equal() -> None:
    assert terminal.escape_json('"a\x9b\u202e\x7fé"') == '"a\\u009b\\u202e\\u007fé"'


@given(st.text(), st.integers(0, 30), st.booleans())
def test_cut_text_is_never_wider_than_asked(text: str, columns: int, keep_end: bool) -> None:
    assert terminal.width(terminal.cut(text, columns, keep_end=keep_end)) <= columns


@pytest.mark.parametrize(
    ("text", "columns", "keep_end", "shown"),
    [
        ("abcdef", 6, False, "abcdef"),
        ("abcdef", 4, False, "abc…"),
        ("abcdef", 4, True, "…def"),
        ("日本語", 4, False, "日…"),
        ("日本語", 4, True, "…語"),
        ("abc", 0, False, ""),
    ],
)
def test_cutting_keeps_the_side_that_is_asked_for(text: str, columns: int, keep_end: bool, shown: str) -> None:
    assert terminal.cut(text, columns, keep_end=keep_end) == shown


def test_padding_counts_columns_not_characters() -> None:
    assert terminal.pad("日本", 6) == "日本  "
    assert terminal.pad("7", 3, right=True) == "  7"


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KiB"), (1536, "1.5 KiB"), (10 << 20, "10.0 MiB"), (3 << 40, "3.0 TiB")],
)
def test_sizes_are_read_at_a_glance(number: int, shown: str) -> None:
    assert terminal.size(number) == shown


@pytest.mark.parametrize(
    ("number", "shown", "short"),
    [(1, "1 event", "1"), (0, "0 events", "0"), (3100, "3,100 events", "3.1k"), (2_500_000, "2.5 M events", "2.5M")],
)
def test_counts_have_a_noun(number: int, shown: str, short: str) -> None:
    assert terminal.count(number, "event") == shown
    assert terminal.short_count(number) == short


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (5, "5s"), (65, "1m"), (7_300, "2h"), (200_000, "2d"), (70_000_000, "2y")],
)
def test_an_age_has_one_unit(seconds: int, shown: str) -> None:
    assert terminal.age(NOW_US - seconds * 1_000_000, NOW_US) == shown


def test_a_time_is_utc_however_far_away() -> None:
    assert terminal.moment(NOW_US) == "2026-09-21 14:13:20Z"
    assert terminal.moment(2**64 - 1) == "586524-01-19 08:01:49Z"


@pytest.mark.parametrize(
    ("text", "ago_s"), [("30s", 30), ("90m", 5_400), ("2h", 7_200), ("2d", 172_800), ("1w", 604_800)]
)
def test_a_span_counts_back_from_now(text: str, ago_s: int) -> None:
    assert terminal.parse_moment(text, NOW_US) == NOW_US - ago_s * 1_000_000


def test_a_date_is_a_time() -> None:
    assert terminal.parse_moment("2026-09-21T14:13:20+00:00", NOW_US) == NOW_US


@pytest.mark.parametrize("text", ["", "d", "soon", "-2d", "2x", "٣d", "2026-13-01"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a time"):
        terminal.parse_moment(text, NOW_US)
