"""Cursors: the positions that clients of a feed hold, as text.

Owns: the two forms, `SESSION:ORDINAL:MARK` for one session and `s2.` with base64url for all sessions of a store.
Invariants: a cursor names the event that was handed out, by its place and by the end of its id (the mark), so following
goes on behind that event and no other; a text that was cut or changed is refused, never misread. A cursor without a
mark is a bare place: one that somebody wrote, or that of lost events. Must not know: logs, who follows.
"""

from __future__ import annotations

from turnlog import _core
from turnlog.arguments import require_text, require_whole
from turnlog.errors import InvalidId, InvalidInput
from turnlog.ids import ID_BYTES, format_id, parse_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Place = tuple[int, bytes]

_STORE_PREFIX = "s2."
_UNMARKED_PREFIX = "s1."  # of cursors that were made before there were marks
_CHECK_BYTES = 4
MARK_BYTES = 4
NO_MARK = bytes(MARK_BYTES)
START: Place = (0, NO_MARK)


def mark_of(event_id: bytes) -> bytes:
    """Return what a cursor keeps of an event's id: its random end.

    >>> mark_of(bytes(12) + b"abcd")
    b'abcd'
    """
    return event_id[-MARK_BYTES:]


def session_cursor(session: str, ordinal: int, mark: bytes = NO_MARK) -> str:
    """Return the cursor of an event.

    >>> session_cursor("019b76da-a800-7000-8000-000000000001", 12, b"abcd")
    '019b76da-a800-7000-8000-000000000001:12:61626364'
    """
    return f"{session}:{ordinal}" if mark == NO_MARK else f"{session}:{ordinal}:{mark.hex()}"


def parse_session_cursor(cursor: str) -> tuple[str, int, bytes]:
    """Return the session, the ordinal and the mark that a cursor names. Raises InvalidInput.

    >>> parse_session_cursor("019b76da-a800-7000-8000-000000000001:12:61626364")
    ('019b76da-a800-7000-8000-000000000001', 12, b'abcd')
    """
    require_text("a cursor", cursor)
    session, colon, place = cursor.partition(":")
    digits, marked, mark = place.partition(":")
    is_place = colon and digits.isascii() and digits.isdigit() and len(digits) < 20
    if not is_place or (marked and not (len(mark) == 2 * MARK_BYTES and set(mark) <= set("0123456789abcdef"))):
        raise InvalidInput(f"{cursor[:80]!r} is no cursor of a session: SESSION:ORDINAL:MARK")
    try:
        return format_id(parse_id(session)), int(digits), bytes.fromhex(mark) or NO_MARK
    except InvalidId as error:
        raise InvalidInput(f"{cursor[:80]!r} is no cursor of a session: {error.message}") from error


def place_after(after: int | str, session: str) -> Place:
    r"""Return the place behind which to follow a session: that of its cursor, or the ordinal itself.

    Raises InvalidInput for another session's cursor, and for what is neither a cursor nor an ordinal.

    >>> place_after("019b76da-a800-7000-8000-000000000001:12", "019b76da-a800-7000-8000-000000000001")
    (12, b'\x00\x00\x00\x00')
    """
    if not isinstance(after, str):
        require_whole("after", after)
        return after, NO_MARK
    named, ordinal, mark = parse_session_cursor(after)
    if named != session:
        raise InvalidInput(f"the cursor {after!r} belongs to another session", session=session)
    return ordinal, mark


def store_cursor(places: Mapping[str, Place]) -> str:
    """Return one text for the last place seen of each session; about 30 characters per session.

    >>> store_cursor({"019b76da-a800-7000-8000-000000000001": (12, b"abcd")})
    's2.AZt22qgAcACAAAAAAAAAAQxhYmNkHvIK0g'
    """
    from base64 import urlsafe_b64encode

    seen = ((session, ordinal, mark) for session, (ordinal, mark) in sorted(places.items()) if ordinal)
    body = b"".join(parse_id(session) + _varint(ordinal) + mark for session, ordinal, mark in seen)
    return _STORE_PREFIX + urlsafe_b64encode(body + _check(body)).decode().rstrip("=")


def parse_store_cursor(cursor: str) -> dict[str, Place]:
    """Return the last place seen of each session. Raises InvalidInput for a text that is no whole store cursor.

    >>> parse_store_cursor(store_cursor({"019b76da-a800-7000-8000-000000000001": (12, b"abcd")}))
    {'019b76da-a800-7000-8000-000000000001': (12, b'abcd')}
    """
    from base64 import urlsafe_b64decode

    require_text("a cursor", cursor)
    prefix, text = cursor[: len(_STORE_PREFIX)], cursor[len(_STORE_PREFIX) :]
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if prefix in (_STORE_PREFIX, _UNMARKED_PREFIX) else b""
    except ValueError:
        data = b""
    body = data[:-_CHECK_BYTES]
    if len(data) < _CHECK_BYTES or data[-_CHECK_BYTES:] != _check(body):
        raise InvalidInput(f"{cursor[:80]!r} is no whole cursor of a store")
    places: dict[str, Place] = {}
    at = 0
    while at < len(body):
        session = format_id(body[at : at + ID_BYTES])
        ordinal, at = _read_varint(body, at + ID_BYTES)
        places[session] = ordinal, NO_MARK
        if prefix == _STORE_PREFIX:
            places[session] = ordinal, body[at : at + MARK_BYTES]
            at += MARK_BYTES
    return places


def _check(body: bytes) -> bytes:
    return _core.checksum(body).to_bytes(8, "little")[:_CHECK_BYTES]


def _varint(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first (LEB128)."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while data[at] & 0x80:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return number | data[at] << shift, at + 1
