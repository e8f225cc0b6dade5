"""A few named fields out of a payload, without building the rest of it.

Owns: which fields each family of events offers to the list, and their decoding. Invariants: never raises for the shape
of a payload; what the typed decoders refuse (fields of other types, lone surrogates) is decoded the slow way. Must not
know: what the fields mean. Apart from `projection`, because msgspec costs more start-up time than everything else here
and is needed only where a log is read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from turnlog.events import VERSIONS, understood

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from turnlog.handle import StoredEvent

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Count = Annotated[int, msgspec.Meta(ge=0)]


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one model call; a missing or odd number counts as 0."""

    input: Count = 0
    output: Count = 0
    cache_read: Count = 0
    cache_write: Count = 0


class Step(msgspec.Struct, frozen=True):
    """What a step event says about the model call."""

    usage: Usage = Usage()
    model: str = ""
    v: Any = None


class Settings(msgspec.Struct, frozen=True):
    """What the session events may set; nothing is promised about the types."""

    title: Any = None
    cwd: Any = None
    model: Any = None
    tags: Any = None
    tags_removed: Any = None
    parent: Any = None
    v: Any = None


class Message(msgspec.Struct, frozen=True):
    """The part of a message that can become a title."""

    content: Any = None
    v: Any = None


class Imported(msgspec.Struct, frozen=True):
    """When the imported history happened, as opposed to when it was imported."""

    first_time: datetime | None = None
    last_time: datetime | None = None


Fields = TypeVar("Fields", Step, Settings, Message)
_STEP = msgspec.json.Decoder(Step)
_SETTINGS = msgspec.json.Decoder(Settings)
_MESSAGE = msgspec.json.Decoder(Message)
_IMPORTED = msgspec.json.Decoder(Imported)


def read_step(event: StoredEvent) -> Step:
    """Return usage and model. Raises Damaged or StorageError when the payload's bytes cannot be read."""
    read = _typed(_STEP, event)
    if read is not None:
        return read
    given = _any_object(event)
    usage, model = given.get("usage"), given.get("model")
    counts = usage if isinstance(usage, dict) else {}
    return Step(
        Usage(*(_count(counts.get(name)) for name in Usage.__struct_fields__)), model if isinstance(model, str) else ""
    )


def read_settings(event: StoredEvent) -> Settings:
    """Return the settings, None for each one that is absent. Raises as `read_step`."""
    return _typed(_SETTINGS, event) or Settings(**_known(_any_object(event), Settings.__struct_fields__))


def read_message(event: StoredEvent) -> Message:
    """Return the content, None when absent. Raises as `read_step`."""
    return _typed(_MESSAGE, event) or Message(**_known(_any_object(event), Message.__struct_fields__))


def read_times(event: StoredEvent) -> tuple[int, int]:
    """Return the first and last time of an imported history in microseconds, 0 when absent or odd.

    Raises as `read_step`.
    """
    try:
        given = _IMPORTED.decode(event.raw)
    except msgspec.DecodeError:
        return 0, 0
    return _micros(given.first_time), _micros(given.last_time)


def _typed(decoder: msgspec.json.Decoder[Fields], event: StoredEvent) -> Fields | None:
    """Return the fields if the payload is of the types' first version, which today's is, and of the usual shape."""
    if VERSIONS.get(event.type, 1) > 1:
        return None
    try:
        found = decoder.decode(event.raw)
    except msgspec.DecodeError:
        return None
    return found if found.v is None else None


def _any_object(event: StoredEvent) -> Mapping[str, Any]:
    """Return the payload as a whole, as today's version has it; an empty one if it is no object or not understood."""
    return understood(event.type, None if event.is_raw else event.payload) or {}


def _known(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _micros(time: datetime | None) -> int:
    if time is None or time.tzinfo is None:
        return 0
    return max(0, (time - _EPOCH) // timedelta(microseconds=1))


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
