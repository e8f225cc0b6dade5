"""Cursors: the positions that clients of a feed hold, as text.

Owns: the two forms, `SESSION:ORDINAL` for one session and `s1.` with base64url for all sessions of a store. Invariants:
a cursor names what was handed out, so following goes on behind it; a text that was cut or changed is refused, never
misread. Must not know: logs, who follows.
"""

from __future__ import annotations

from turnlog import _core
from turnlog.errors import InvalidId, InvalidInput
from turnlog.ids import ID_BYTES, format_id, parse_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_STORE_PREFIX = "s1."
_CHECK_BYTES = 4


def session_cursor(session: str, ordinal: int) -> str:
    """Return the cursor of an event.

    >>> session_cursor("019b76da-a800-7000-8000-000000000001", 12)
    '019b76da-a800-7000-8000-000000000001:12'
    """
    return f"{session}:{ordinal}"


def parse_session_cursor(cursor: str) -> tuple[str, int]:
    """Return the session and the ordinal that a cursor names. Raises InvalidInput.

    >>> parse_session_cursor("019b76da-a800-7000-8000-000000000001:12")
    ('019b76da-a800-7000-8000-000000000001', 12)
    """
    session, colon, digits = cursor.partition(":")
    if not colon or not digits.isascii() or not digits.isdigit():
        raise InvalidInput(f"{cursor[:80]!r} is no cursor of a session: SESSION:ORDINAL")
    try:
        return format_id(parse_id(session)), int(digits)
    except InvalidId as error:
        raise InvalidInput(f"{cursor[:80]!r} is no cursor of a session: {error.message}") from error


def ordinal_after(after: int | str, session: str) -> int:
    """Return the ordinal behind which to follow a session: that of its cursor, or the ordinal itself.

    Raises InvalidInput for another session's cursor, and for a negative ordinal.

    >>> ordinal_after("019b76da-a800-7000-8000-000000000001:12", "019b76da-a800-7000-8000-000000000001")
    12
    """
    if isinstance(after, int):
        if after < 0:
            raise InvalidInput(f"after is an ordinal, 0 for the start, not {after}", session=session)
        return after
    named, ordinal = parse_session_cursor(after)
    if named != session:
        raise InvalidInput(f"the cursor {after!r} belongs to another session", session=session)
    return ordinal


def store_cursor(positions: Mapping[str, int]) -> str:
    """Return one text for the last ordinal seen of each session; about 24 characters per session.

    >>> store_cursor({"019b76da-a800-7000-8000-000000000001": 12})
    's1.AZt22qgAcACAAAAAAAAAAQw9ZzK8'
    """
    from base64 import urlsafe_b64encode

    body = b"".join(parse_id(session) + _varint(ordinal) for session, ordinal in sorted(positions.items()) if ordinal)
    return _STORE_PREFIX + urlsafe_b64encode(body + _check(body)).decode().rstrip("=")


def parse_store_cursor(cursor: str) -> dict[str, int]:
    """Return the last ordinal seen of each session. Raises InvalidInput for a text that is no whole store cursor.

    >>> parse_store_cursor(store_cursor({"019b76da-a800-7000-8000-000000000001": 12}))
    {'019b76da-a800-7000-8000-000000000001': 12}
    """
    from base64 import urlsafe_b64decode

    text = cursor.removeprefix(_STORE_PREFIX)
    try:
        data = urlsafe_b64decode(text + "=" * (-len(text) % 4)) if text != cursor else b""
    except ValueError:
        data = b""
    body = data[:-_CHECK_BYTES]
    if len(data) < _CHECK_BYTES or data[-_CHECK_BYTES:] != _check(body):
        raise InvalidInput(f"{cursor[:80]!r} is no whole cursor of a store")
    positions: dict[str, int] = {}
    at = 0
    while at < len(body):
        session = format_id(body[at : at + ID_BYTES])
        ordinal, at = _read_varint(body, at + ID_BYTES)
        positions[session] = ordinal
    return positions


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
