"""Large parts of a payload become artifacts, and come back: FORMAT.md section 8.

Owns: the stored form of a payload - `$artifact` objects and the escape of a payload's own `$artifact` keys.
Invariants: `resolve(offload(payload))` is the payload, whatever it holds; an object with the key `$artifact` in a
stored form is always a reference; a payload without anything to replace is returned itself. Must not know: files,
sessions; bytes go out by `put` and come in by `read`.
"""

from __future__ import annotations

from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64

from turnlog import _core
from turnlog.errors import Damaged, InvalidInput
from turnlog.reference import BINARY, KEY, Reference, Stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    class Put(Protocol):
        """Stores bytes durably: `ArtifactStore.put`."""

        def __call__(self, source: bytes, /, *, media_type: str, summary: str | None) -> Reference:
            """Return the reference to the bytes."""

    Read = Callable[[Reference], bytes]

MARK = f'"{KEY}":'.encode("ascii")
"""What the stored bytes of a payload hold wherever it refers to an artifact, and no text in it can look like."""
LIMIT_BYTES = 64 * 1024
_SUMMARY_CHARACTERS = 120
_PREFIX_MAX_CHARACTERS = 256
_NAMES_OF_MEDIA_TYPE = ("media_type", "mimeType", "mime_type")
_PLAIN = frozenset((int, float, bool, None.__class__))
_DEEPEST = _core.DEPTH_MAX - 2  # below this a reference would nest deeper than a payload may


def offload(payload: Any, limit: int | None = LIMIT_BYTES, *, put: Put) -> Any:
    """Return the stored form: strings of more than `limit` bytes of UTF-8 are put aside and replaced by references.

    Base64 in a data URL or beside a media type is put aside as the bytes it stands for. `bytes` values always go
    aside, a `Reference` in the payload becomes its stored form. `limit` None leaves strings where they are. Whatever
    `put` raises comes through; bytes that were put before stay, unreferenced.

    >>> kept = {}
    >>> def put(data, *, media_type, summary):
    ...     reference = Reference(_core.digest(data).hex(), len(data), media_type=media_type)
    ...     kept[reference.digest] = data
    ...     return reference
    >>> stored = offload({"output": "long " * 4, "code": 0}, 10, put=put)
    >>> stored["output"]["$artifact"]["size"], stored["code"]
    (20, 0)
    >>> resolve(stored, lambda reference: kept[reference.digest])
    {'output': 'long long long long ', 'code': 0}
    """
    return _Offload(limit, put).value(payload, 0, None)


class _Offload:
    """One walk over a payload; it copies only what lies above a replaced part."""

    def __init__(self, limit: int | None, put: Put) -> None:
        self.limit = limit
        self.put = put
        self._short = -1 if limit is None else limit // 4  # so many characters are at most `limit` bytes

    def value(self, value: Any, depth: int, parent: Any) -> Any:
        if isinstance(value, str):
            if self.limit is None or len(value) * 4 <= self.limit or depth > _DEEPEST:
                return value
            return self._text(value, parent)
        if isinstance(value, dict):
            return self._object(value, depth)
        if isinstance(value, list | tuple):
            return self._array(value, depth)
        if isinstance(value, Reference):
            return {KEY: value.as_payload()}
        if isinstance(value, Stored):
            return value.value
        if isinstance(value, bytes):
            return _stored(self.put(value, media_type=_stated_type(parent) or BINARY, summary=None), "bytes")
        return value

    def _object(self, members: dict[Any, Any], depth: int) -> Any:
        if depth >= _core.DEPTH_MAX:
            return members  # the core refuses it, and names the path
        changed: dict[Any, Any] = {}
        escape = False
        for key, member in members.items():
            kind = member.__class__
            if kind not in _PLAIN and not (kind is str and len(member) <= self._short):  # most members stay: no call
                stored = self.value(member, depth + 1, members)
                if stored is not member:
                    changed[key] = stored
            if isinstance(key, str) and key.endswith(KEY) and _level(key) is not None:
                escape = True
        if not changed and not escape:
            return members
        full = {**members, **changed}
        return {_escaped(key): member for key, member in full.items()} if escape else full

    def _array(self, items: list[Any] | tuple[Any, ...], depth: int) -> Any:
        if depth >= _core.DEPTH_MAX:
            return items
        stored = [self.value(item, depth + 1, None) for item in items]
        if all(new is old for new, old in zip(stored, items, strict=True)):
            return items
        return stored if isinstance(items, list) else tuple(stored)

    def _text(self, text: str, parent: Any) -> Any:
        data = text.encode("utf-8", "surrogatepass")
        if self.limit is None or len(data) <= self.limit:
            return text
        prefix, found = _data_url(text)
        kind = found or _stated_type(parent)
        content = _base64_content(text[len(prefix) :]) if prefix or kind else None
        if content is not None:
            return _stored(self.put(content, media_type=kind or BINARY, summary=None), "base64", prefix)
        summary = text[:_SUMMARY_CHARACTERS] + "…"
        return _stored(self.put(data, media_type="text/plain", summary=summary), "utf-8")


def resolve(stored: Any, read: Read) -> Any:
    """Return the payload of a stored form; `read` gives the bytes of a reference.

    What was a string or bytes is one again, what was a `Reference` is one. Raises what `read` raises, and Damaged when
    an artifact is not what the reference says.

    >>> stored = {"output": {"$artifact": {"digest": "0" * 64, "size": 4, "encoding": "utf-8"}}}
    >>> resolve(stored, lambda reference: b"text")
    {'output': 'text'}
    """
    if isinstance(stored, dict):
        if KEY in stored:
            return _content(stored[KEY], read)
        members = {_unescaped(key): resolve(member, read) for key, member in stored.items()}
        return members if _differs(members, stored) else stored
    if isinstance(stored, list | tuple):
        items = [resolve(item, read) for item in stored]
        if all(new is old for new, old in zip(items, stored, strict=True)):
            return stored
        return items if isinstance(stored, list) else tuple(items)
    return stored


def references(stored: Any) -> Iterator[Reference]:
    """Yield every reference in a stored form, as often as it occurs.

    >>> [reference.size for reference in references({"a": [{"$artifact": {"digest": "0" * 64, "size": 3}}]})]
    [3]
    """
    if isinstance(stored, dict):
        if KEY in stored:
            reference = _reference(stored[KEY])
            if reference is not None:
                yield reference
            return
        for member in stored.values():
            yield from references(member)
    elif isinstance(stored, list | tuple):
        for item in stored:
            yield from references(item)


def _content(members: Any, read: Read) -> Any:
    reference = _reference(members)
    if reference is None:  # written by something that does not keep the escape: it is shown as it stands
        return {KEY: members}
    encoding = members.get("encoding")
    if encoding is None:
        return reference
    data = read(reference)
    if encoding == "utf-8":
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise Damaged(f"artifact {reference.digest} is not the text that an event says it is: {error}") from error
    if encoding == "base64":
        return members.get("prefix", "") + b2a_base64(data, newline=False).decode("ascii")
    if encoding == "bytes":
        return data
    raise Damaged(f"artifact {reference.digest} has the encoding {encoding!r}, which this turnlog does not know")


def _reference(members: Any) -> Reference | None:
    if not isinstance(members, dict):
        return None
    try:
        return Reference.from_payload(members)
    except InvalidInput:
        return None


def _stored(reference: Reference, encoding: str, prefix: str = "") -> dict[str, Any]:
    members = {**reference.as_payload(), "encoding": encoding}
    if prefix:
        members["prefix"] = prefix
    return {KEY: members}


def _stated_type(parent: Any) -> str | None:
    """Return the media type that stands beside a value, as in the image blocks of the model providers."""
    if not isinstance(parent, dict):
        return None
    stated = (parent.get(name) for name in _NAMES_OF_MEDIA_TYPE)
    return next((name for name in stated if isinstance(name, str)), None)


def _level(key: str) -> int | None:
    """Return how often a key is escaped, None when it is no form of `$artifact`."""
    return len(key) - len(KEY) if key.endswith(KEY) and key.strip("$") == KEY[1:] else None


def _escaped(key: Any) -> Any:
    return "$" + key if isinstance(key, str) and _level(key) is not None else key


def _unescaped(key: Any) -> Any:
    return key[1:] if isinstance(key, str) and _level(key) else key


def _differs(members: dict[Any, Any], stored: dict[Any, Any]) -> bool:
    return any(key not in members or members[key] is not member for key, member in stored.items())


def _data_url(text: str) -> tuple[str, str | None]:
    """Return (the part of a base64 data URL before its data, its media type), or ("", None)."""
    if not text.startswith("data:"):
        return "", None
    head, comma, _ = text[:_PREFIX_MAX_CHARACTERS].partition(",")
    if not comma or not head.endswith(";base64"):
        return "", None
    return head + comma, head[len("data:") :].partition(";")[0] or None


def _base64_content(text: str) -> bytes | None:
    """Return what the text stands for if it is base64 in exactly the form that is written back."""
    if len(text) % 4:
        return None
    try:
        data = a2b_base64(text, strict_mode=True)
    except (NotBase64, ValueError):
        return None
    return data if b2a_base64(data, newline=False) == text.encode("ascii") else None
