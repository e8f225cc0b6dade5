"""Canonical JSON v1: FORMAT.md section 5.

Owns: the one byte form of each value, and the path named in a refusal.
Invariants: one value has one form; a refusal names the first offending value met in canonical order; classes and
sentences equal those of `rust/py/value.rs`. Must not know: frames, files.
Sources: RFC 8785; ECMAScript 2019 for numbers (`Number::toString`) and lone surrogates (`JSON.stringify`).
"""

from __future__ import annotations

from itertools import pairwise

try:
    from _json import encode_basestring as _quote  # exactly the escapes of RFC 8785; a test compares all characters
except ImportError:  # Not CPython, which has this part of json without the start-up time of the rest.
    from json.encoder import encode_basestring as _quote

from turnlog._pure.format import DEPTH_MAX, INTEGER_MAX_DIGITS
from turnlog.errors import InvalidPayload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_PATH_MAX_STEPS = 8
_PATH_KEY_MAX_CHARACTERS = 32
_INTEGER_MAX_BITS = 14_285  # no integer of more bits has at most 4,300 digits
_SMALL_INTEGER_BITS = 2_000  # fewer digits than the least limit that sys.set_int_max_str_digits accepts
_GROUP_DIGITS = 600  # same


class _Refusal(Exception):
    """A refused value, on its way up; each container adds its step."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str] = []  # innermost first

    def path(self) -> str:
        """Return the path from the root, cut after eight steps."""
        steps = "".join(self.steps[: -_PATH_MAX_STEPS - 1 : -1])
        return f"${steps}{'…' if len(self.steps) > _PATH_MAX_STEPS else ''}"


def canonical(value: object) -> bytes:
    """Return the canonical bytes of a JSON value.

    Takes None, bool, int, float, str, list, tuple, dict and their subclasses; a subclass is stored as its base type.
    Raises InvalidPayload; the sentence ends in the path to the offending value.
    """
    pieces: list[str] = []
    try:
        _write(value, 0, pieces.append)
    except _Refusal as refusal:
        raise InvalidPayload(f"{refusal.reason} at {refusal.path()}") from None
    text = "".join(pieces)
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate; only strings hold any, so the text can be treated as a whole
        return _escape_surrogates(text).encode()


def _write(value: object, depth: int, put: Callable[[str], object]) -> None:
    if isinstance(value, str):
        put(_quote(value))
    elif value is None:
        put("null")
    elif value is True:
        put("true")
    elif value is False:
        put("false")
    elif isinstance(value, int):
        put(_integer(value))
    elif isinstance(value, float):
        put(_float(value))
    elif isinstance(value, dict):
        _object(value, depth, put)
    elif isinstance(value, list):
        _array(list.__iter__(value), depth, put)
    elif isinstance(value, tuple):
        _array(tuple.__iter__(value), depth, put)
    else:
        raise _Refusal(f"cannot store a value of type {type(value).__name__}")


def _array(items: Iterable[object], depth: int, put: Callable[[str], object]) -> None:
    _check_depth(depth)
    separator = "["
    index = 0
    try:
        for item in items:
            put(separator)
            _write(item, depth + 1, put)
            separator = ","
            index += 1
    except _Refusal as refusal:
        refusal.steps.append(f"[{index}]")
        raise
    put("[]" if separator == "[" else "]")


def _object(value: dict[object, object], depth: int, put: Callable[[str], object]) -> None:
    _check_depth(depth)
    separator = "{"
    members = _members(value)
    key = ""
    try:
        for key, member in members:
            put(f"{separator}{_quote(key)}:")
            _write(member, depth + 1, put)
            separator = ","
    except _Refusal as refusal:
        refusal.steps.append(_key_step(key))
        raise
    put("{}" if separator == "{" else "}")


def _members(value: dict[object, object]) -> list[tuple[str, object]]:
    """Return the members ordered by the UTF-16 code units of their keys."""
    members: list[tuple[str, object]] = []
    is_plain = True  # keys of which no two can have the same form, and whose order needs no code units
    for key, member in dict.items(value):
        if not isinstance(key, str):
            raise _Refusal(f"keys must be strings, not {type(key).__name__},")
        is_plain = is_plain and type(key) is str and key.isascii()
        members.append((str.__str__(key), member))
    if is_plain:
        members.sort(key=_key)
        return members
    members.sort(key=_key_units)
    if any(_key_units(left) == _key_units(right) for left, right in pairwise(members)):
        raise _Refusal("duplicate key")
    return members


def _key(member: tuple[str, object]) -> str:
    return member[0]


def _key_units(member: tuple[str, object]) -> bytes:
    return member[0].encode("utf-16-be", "surrogatepass")


def _key_step(key: str) -> str:
    """Return a key for a path: an identifier as it is, another in its canonical form, a long one cut."""
    key = _join_surrogates(key)
    if len(key) > _PATH_KEY_MAX_CHARACTERS:
        key = f"{key[:_PATH_KEY_MAX_CHARACTERS]}…"
    if key.isascii() and key.isidentifier():
        return f".{key}"
    return f"[{_escape_surrogates(_quote(key))}]"


def _check_depth(depth: int) -> None:
    if depth >= DEPTH_MAX:
        raise _Refusal(f"nested deeper than {DEPTH_MAX} levels")


def _join_surrogates(text: str) -> str:
    """Make one character of each surrogate pair that was handed in as two."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _escape_surrogates(text: str) -> str:
    characters = _join_surrogates(text)
    return "".join(f"\\u{ord(one):04x}" if "\ud800" <= one <= "\udfff" else one for one in characters)


def _integer(value: int) -> str:
    bits = int.bit_length(value)
    if bits < _SMALL_INTEGER_BITS:
        return int.__repr__(value)
    if bits <= _INTEGER_MAX_BITS:
        digits = _digits(int.__abs__(value))
        if len(digits) <= INTEGER_MAX_DIGITS:
            return f"-{digits}" if int.__lt__(value, 0) else digits
    raise _Refusal(f"integer of more than {INTEGER_MAX_DIGITS} digits")


def _digits(magnitude: int) -> str:
    """Return the decimal digits, group by group, since a host may have lowered Python's own limit on long integers."""
    groups: list[str] = []
    while magnitude:
        magnitude, group = divmod(magnitude, 10**_GROUP_DIGITS)
        groups.append(f"{group:0{_GROUP_DIGITS}d}")
    return "".join(reversed(groups)).lstrip("0")


def _float(value: float) -> str:
    """Return a double in the form of ECMAScript's `Number::toString`; Python's repr has the same, shortest digits."""
    text = float.__repr__(value)
    if text in {"nan", "inf", "-inf"}:
        raise _Refusal("NaN and Infinity have no JSON form")
    if "e" not in text:
        return "0" if text == "-0.0" else text.removesuffix(".0")
    sign, text = ("-", text[1:]) if text[0] == "-" else ("", text)
    mantissa, _, exponent_text = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    exponent = int(exponent_text)
    if 0 < exponent < 21:  # ECMAScript writes up to 21 digits before the point
        return f"{sign}{digits}{'0' * (exponent + 1 - len(digits))}"
    if -7 < exponent < 0:  # and up to six zeros after it
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    return f"{sign}{mantissa}e{exponent:+d}"
