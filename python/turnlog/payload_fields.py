"""A few named fields out of a payload, without building the rest of it.

Owns: which fields each family of events offers to the list, and their decoding. Invariants: never raises for the
shape of a payload; what the strict decoder refuses (lone surrogates, integers beyond 64 bits) is decoded the slow
way. Must not know: what the fields mean. Apart from `projection`, because msgspec costs more start-up time than
everything else here and is needed only where a log is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnlog.projection import Event

FAMILIES = {
    "session": ("title", "cwd", "model", "tags", "tags_removed", "parent"),
    "step": ("usage", "model"),
    "message": ("content",),
}
_ABSENT: dict[str, dict[str, Any]] = {family: dict.fromkeys(names) for family, names in FAMILIES.items()}
_DECODERS = {
    family: msgspec.json.Decoder(msgspec.defstruct(family, [(name, Any, None) for name in names]))
    for family, names in FAMILIES.items()
}


def read_fields(event: Event, family: str) -> Mapping[str, Any]:
    """Return the fields of `family`, None for each one that is absent. Raises Damaged or StorageError when the bytes
    cannot be read.
    """
    if event.is_raw:
        return _ABSENT[family]
    try:
        found = _DECODERS[family].decode(event.raw)
    except msgspec.DecodeError:
        payload = event.payload
        given = payload if isinstance(payload, dict) else {}
        return {name: given.get(name) for name in FAMILIES[family]}
    return {name: getattr(found, name) for name in FAMILIES[family]}
