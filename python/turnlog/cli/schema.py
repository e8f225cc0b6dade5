"""JSON schemas of the answers, written short: {type of object: {field: kind}}.

Owns: the short notation and its expansion. A kind is `string`, `integer`, `boolean`, `object`, `any`, `[kind]` for an
array, `{kind}` for a map, with `?` at the end when the value may be null and `-` when the field may be missing; a dict
stands for an object with those fields, a list of one dict for an array of such objects. Invariants: every object has
a `type`; fields are only ever added. Must not know: the verbs' fields beyond `ERROR` and `LOST`, which several share.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Fields = dict[str, Any]
    Objects = dict[str, Fields]

ERROR: Fields = {
    "code": "string",
    "exit_code": "integer",
    "message": "string",
    "retryable": "boolean",
    "next": "[string]",
    "cause": "string-",
    "store": "string-",
    "session": "string-",
    "segment": "string-",
    "offset": "integer-",
    "ordinal": "integer-",
}
LOST: Fields = {"session": "string", "segment": "string?", "offset": "integer?", "first": "integer", "last": "integer?"}


def document(verb: str, objects: Objects) -> dict[str, Any]:
    """Return the JSON Schema of one line of a verb's answer; errors, on stderr, are included."""
    kinds = {**objects, "error": ERROR}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"sessionctl/{verb}/1",
        "oneOf": [_object(fields, kind) for kind, fields in kinds.items()],
    }


def as_text(verb: str, objects: Objects) -> str:
    """Return the document as indented JSON."""
    import json

    return json.dumps(document(verb, objects), indent=2)


def _object(fields: Fields, kind: str | None = None) -> dict[str, Any]:
    properties = {name: _value(field) for name, field in fields.items()}
    required = [name for name, field in fields.items() if not (isinstance(field, str) and field.endswith("-"))]
    if kind is not None:
        properties = {"type": {"const": kind}, **properties}
        required = ["type", *required]
    return {"type": "object", "properties": properties, "required": required}


def _value(kind: str | Fields | list[Fields]) -> dict[str, Any]:
    if isinstance(kind, dict):
        return _object(kind)
    if isinstance(kind, list):
        return {"type": "array", "items": _value(kind[0])}
    kind = kind.removesuffix("-")
    if kind == "any":
        return {}
    if kind.endswith("?"):
        return {"anyOf": [_value(kind[:-1]), {"type": "null"}]}
    if kind.startswith("["):
        return {"type": "array", "items": _value(kind[1:-1])}
    if kind.startswith("{"):
        return {"type": "object", "additionalProperties": _value(kind[1:-1])}
    return {"type": kind}
