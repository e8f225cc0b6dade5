"""Text for people: made harmless, measured, cut to a width, coloured; sizes, counts, ages and times in words.

Owns: which characters of stored text may reach a terminal, and the forms of numbers. Invariants: what `escape` returns
moves no cursor, changes no colour and reorders no text; a cut text is never wider than asked. Must not know: verbs,
stores, where output goes.
"""

from __future__ import annotations

import time
from contextlib import suppress

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_INVISIBLE = frozenset(map(ord, _BIDI + "\u2028\u2029\ufeff"))
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60, 3_600, 86_400, 31_557_600
_DURATIONS_S = {"s": 1, "m": _MINUTE_S, "h": _HOUR_S, "d": _DAY_S, "w": 7 * _DAY_S}


class _Escapes(dict[int, "str | int"]):
    """A table for `str.translate`, filled as characters come: what harms becomes an escape, the rest stays."""

    def __missing__(self, code: int) -> str | int:
        harms = code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code in _INVISIBLE
        self[code] = (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}") if harms else code
        return self[code]


class _JsonEscapes(_Escapes):
    """The same as JSON writes it; controls below 0x20 are never literal there."""

    def __missing__(self, code: int) -> str | int:
        self[code] = f"\\u{code:04x}" if isinstance(super().__missing__(code), str) else code
        return self[code]


_LINE = _Escapes({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})
_LINES = _Escapes({ord("\n"): "\n", ord("\t"): "\t"})
_JSON = _JsonEscapes()


def escape(text: str) -> str:
    """Return one line of text that a terminal only shows: controls, direction marks and lone surrogates as escapes."""
    return text if text.isprintable() and text.isascii() else text.translate(_LINE)


def escape_lines(text: str) -> str:
    """Return text of several lines, made harmless but for its line ends and tabs."""
    return text.translate(_LINES)


def escape_json(text: str) -> str:
    """Return equal JSON in which no literal character drives a terminal (controls below 0x20 never are literal)."""
    return text if text.isascii() and "\x7f" not in text else text.translate(_JSON)


def width(text: str) -> int:
    """Return how many columns a terminal gives the text."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def cut(text: str, columns: int, *, keep_end: bool = False) -> str:
    """Return the text, cut to at most `columns` with an ellipsis; `keep_end` cuts at the front (paths)."""
    if width(text) <= columns:
        return text
    if columns <= 0:
        return ""
    kept, used = [], 1
    for one in reversed(text) if keep_end else text:
        used += width(one)
        if used > columns:
            break
        kept.append(one)
    return "…" + "".join(reversed(kept)) if keep_end else "".join(kept) + "…"


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Return the text filled with spaces to `columns`; `right` puts the text at the right."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def style(text: str, name: str) -> str:
    """Return the text in a colour or weight."""
    return f"\x1b[{_STYLES[name]}m{text}\x1b[0m"


def size(count_bytes: int) -> str:
    """Return a size as people read it: 999 B, 1.2 GiB."""
    value = float(count_bytes)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{count_bytes} B" if unit == "B" else f"{value:.1f} {unit}"


def count(number: int, noun: str = "") -> str:
    """Return a number with its noun: 1 event, 3,100 events, 3.1 M events."""
    scales = ((10**9, "G"), (10**6, "M"))
    text = next((f"{number / limit:.1f} {unit}" for limit, unit in scales if number >= limit), f"{number:,}")
    if not noun:
        return text
    return f"{text} {noun}" if number == 1 else f"{text} {noun}s"


def short_count(number: int) -> str:
    """Return a number in at most five characters: 812, 64k, 3.1M."""
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= limit:
            value = number / limit
            return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"
    return str(number)


def age(time_us: int, now_us: int) -> str:
    """Return how long ago that was: 5s, 3m, 2h, 4d, 2y."""
    seconds = max(0, now_us - time_us) // 1_000_000
    for limit, unit in ((_YEAR_S, "y"), (_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if seconds >= limit:
            return f"{seconds // limit}{unit}"
    return f"{seconds}s"


def moment(time_us: int) -> str:
    """Return a time as UTC text to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(time_us // 1_000_000))


def parse_span(text: str) -> int:
    """Return the seconds that `90m`, `2d` or `1w` means. Raises ValueError."""
    digits, unit = text[:-1], text[-1:]
    if unit in _DURATIONS_S and digits.isascii() and digits.isdigit():
        return int(digits) * _DURATIONS_S[unit]
    raise ValueError(f"not a span of time: {text}")


def parse_moment(text: str, now_us: int) -> int:
    """Return the time that `2d`, `90m` or an ISO date means, in microseconds since 1970. Raises ValueError."""
    from datetime import datetime

    with suppress(ValueError):
        return max(0, now_us - parse_span(text) * 1_000_000)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000_000)
    except ValueError as error:
        raise ValueError(f"not a time: {text}") from error
