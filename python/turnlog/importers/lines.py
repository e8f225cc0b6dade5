"""Physical lines of a transcript file and the JSON records on them.

Owns: cutting a byte stream at line feeds with bounded memory, and reading every whole record a line holds, however
damaged it is. Invariants: the parts of all lines, concatenated, are the stream's bytes; a record is only reported
when its JSON text is complete; what is read of a line that has not ended is also read of it when it has grown, for it
ends at the first value that more bytes may complete; offsets are bytes from the start of the file. Must not know: what
a record means, files, stores.
"""

from __future__ import annotations

import json
import re

import msgspec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    Record = dict[str, Any]

PART_BYTES_MAX = 8 << 20
"""A physical line is stored in parts of at most this size: half of the payload limit."""

DECODE_BYTES_MAX = 16 << 20
"""A longer line is kept but not decoded: four bytes for each character of one string must fit the memory budget."""

HEAD_BYTES = 4096
SALVAGE_ATTEMPTS = 256
RECORD_START = re.compile(r'\{\s*"')
UNDECIDED_CHARS = 16
"""A decoder that fails this near the end of a text may have met a literal or an escape that is not all there."""

NUMBER_REST = re.compile(r"(\.|[eE][+-]?)?")  # behind a number that ends with the text

UNDECODED = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8, as the decoder's `surrogateescape` shows it


class Line:
    """One physical line: what to store of it, and what to read.

    `parts` are the bytes not stored yet. `data` is the line with its terminator; of a line beyond DECODE_BYTES_MAX it
    is only the head, and `whole` is false. `data` is empty while more of such a line follows.
    """

    __slots__ = ("data", "ended", "length", "number", "offset", "parts", "whole")

    def __init__(
        self, number: int, offset: int, parts: tuple[bytes, ...], data: bytes, *, length: int, whole: bool = True
    ) -> None:
        """Keep the line; `number` counts from 1, `offset` and `length` are bytes."""
        self.number = number
        self.offset = offset
        self.parts = parts
        self.data = data
        self.length = length
        self.whole = whole
        self.ended = bool(parts) and parts[-1].endswith(b"\n")

    def after(self, stored: int) -> Line:
        """Return the line without the parts that lie in its first `stored` bytes."""
        at = self.length - sum(map(len, self.parts))
        parts = []
        for part in self.parts:
            parts.append(part[max(0, stored - at) :])
            at += len(part)
        left = tuple(part for part in parts if part)
        return Line(self.number, self.offset, left, self.data, length=self.length, whole=self.whole)

    def before(self, stored: int) -> Line:
        """Return the line as it was when only its first `stored` bytes had been written."""
        data = self.data[:stored]
        return Line(self.number, self.offset, (data,), data, length=stored, whole=self.whole)


class Decoded:
    """The whole records of a line with their byte offsets in it, and what was wrong with it.

    `code` names the damage or is None; `notes` are findings that cost nothing (`bom`, `crlf`, `not_a_number`);
    `unread` counts the bytes outside the records and `head` shows the first of them. `undecided`: the line has not
    ended, and neither has the value in `head`.
    """

    __slots__ = ("code", "head", "notes", "records", "undecided", "unread")

    def __init__(self, records: list[tuple[object, int]], code: str | None = None) -> None:
        """Start with what was read."""
        self.records = records
        self.code = code
        self.notes: list[str] = []
        self.unread = 0
        self.head = ""
        self.undecided = False


def read_lines(stream: BinaryIO) -> Iterator[Line]:
    """Yield the lines of a stream; one longer than DECODE_BYTES_MAX comes in pieces, so no more is held."""
    number, offset = 1, 0
    while True:
        parts: list[bytes] = []
        head, length, whole = b"", 0, True
        while part := stream.readline(PART_BYTES_MAX):
            length += len(part)
            parts.append(part)
            if part.endswith(b"\n") or len(part) < PART_BYTES_MAX:
                break
            if length >= DECODE_BYTES_MAX:
                head = head or parts[0][:HEAD_BYTES]
                whole = False
                yield Line(number, offset, tuple(parts), b"", length=length, whole=False)
                parts = []
        if not length:
            return
        yield Line(number, offset, tuple(parts), b"".join(parts) if whole else head, length=length, whole=whole)
        number, offset = number + 1, offset + length


def decode(data: bytes, is_record: Callable[[object], bool], *, ended: bool = True) -> Decoded:
    """Read every whole record of one line; `is_record` tells a record from an object inside a torn one.

    `ended`: nothing more is written to the line.
    """
    try:
        decoded = Decoded([(msgspec.json.decode(data), 0 if data.startswith(b"{") else len(data) - len(data.lstrip()))])
    except (msgspec.DecodeError, RecursionError):
        # Lone surrogates, torn, glued and NUL-filled lines, and what the strict reader refuses.
        return _salvage(data, is_record, ended=ended) if data.strip() else Decoded([])
    if not ended and data[-1:].isdigit():
        return _salvage(data, is_record, ended=ended)  # a number may grow
    if data.endswith(b"\r\n"):
        decoded.notes.append("crlf")
    return decoded


def _salvage(data: bytes, is_record: Callable[[object], bool], *, ended: bool) -> Decoded:
    """Read a line that is not one plain JSON text."""
    decoded = Decoded([])
    codes: list[str] = []
    body = data.rstrip(b"\r\n")
    if body.startswith(b"\xef\xbb\xbf"):
        decoded.notes.append("bom")
    if data.endswith(b"\r\n"):
        decoded.notes.append("crlf")
    if b"\0" in body:
        codes.append("nul_bytes")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        if ended or error.reason != "unexpected end of data":
            codes.append("invalid_utf8")
        # A surrogate escape keeps one character for one bad byte, so byte offsets can still be computed.
        text = body.decode(errors="surrogateescape")
    _walk(text, decoded, codes, is_record, growing=not ended)
    decoded.head = UNDECODED.sub("\ufffd", decoded.head)
    if len(decoded.records) > 1 and not codes:
        codes.append("glued")
    decoded.code = codes[0] if codes else None
    return decoded


def _walk(text: str, decoded: Decoded, codes: list[str], is_record: Callable[[object], bool], *, growing: bool) -> None:
    """Collect whole records from left to right, skipping what is unreadable; `growing`: but not what may be completed.

    So of a longer text with the same beginning the same records are collected, and more.
    """
    decoder = json.JSONDecoder(
        strict=False, parse_constant=_constant(decoded.notes), parse_float=_number(decoded.notes)
    )
    position, attempts, torn = 0, 0, False
    while True:
        while position < len(text) and text[position] in "\ufeff\0 \t\r":
            position += 1
        if position >= len(text):
            return
        try:
            record, end = decoder.raw_decode(text, position)
            decoded.undecided = growing and text[end - 1].isdigit() and NUMBER_REST.fullmatch(text, end) is not None
            whole = not decoded.undecided and (not torn or is_record(record))
        except RecursionError:
            record, end, whole = None, position, False
            codes.insert(0, "too_deep")
            attempts = SALVAGE_ATTEMPTS
        except ValueError as error:
            record, end, whole = None, position, False
            decoded.undecided = growing and _may_be_completed(error, text)
        if whole:
            read = text[position:end]
            place = len(text[:position].encode(errors="surrogateescape"))
            decoded.records.append((_replaced(record) if UNDECODED.search(read) else record, place))
            position, torn = end, False
            continue
        attempts += 1
        goes_on = attempts < SALVAGE_ATTEMPTS and not decoded.undecided
        following = RECORD_START.search(text, position + 1) if goes_on else None
        skipped = text[position : following.start() if following else None]
        decoded.unread += len(skipped.encode(errors="surrogateescape"))
        decoded.head = (decoded.head + skipped)[:120]
        if not torn and "torn" not in codes:
            codes.append("torn")
        torn = True
        if not following:
            return
        position = following.start()


def _may_be_completed(error: ValueError, text: str) -> bool:
    """Tell whether a decoder failed because the text ended; where that cannot be told, it may have."""
    if not isinstance(error, json.JSONDecodeError):
        return False  # an integer of too many digits
    return error.msg.startswith("Unterminated string") or len(text) - error.pos < UNDECIDED_CHARS


def _replaced(value: object) -> Any:
    """Show bytes that are not UTF-8 as U+FFFD; the line itself keeps them."""
    if isinstance(value, str):
        return UNDECODED.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_replaced(key): _replaced(item) for key, item in value.items()}
    return [_replaced(item) for item in value] if isinstance(value, list) else value


def _constant(notes: list[str]) -> Callable[[str], str]:
    """Keep NaN and Infinity as text: JSON has no form for them."""

    def keep(name: str) -> str:
        notes.append("not_a_number")
        return name

    return keep


def _number(notes: list[str]) -> Callable[[str], float | str]:
    """Keep a number beyond the range of a double as text."""

    def read(digits: str) -> float | str:
        value = float(digits)
        if value in {float("inf"), float("-inf")}:
            notes.append("not_a_number")
            return digits
        return value

    return read
