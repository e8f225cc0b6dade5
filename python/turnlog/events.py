"""The event vocabulary: every type turnlog knows, and nothing about when one is legal.

Owns: the one list of event types with version, durability, payload and meaning; upcasters; the reading of a payload.
Invariants: a stored payload is never rewritten, a field this version does not know survives beside the known ones;
an absent `v` means version 1; a version newer than the list's is kept and shown, never understood; a type of another
family passes through untouched. EVENTS.md holds the table that `describe` makes, and a test compares them. Must not
know: state, logs. Costs the import of msgspec, so nothing that `import turnlog` reaches may import this module.

>>> TYPES["tool.started"].durability
'durable'
>>> make("tool.started", turn="t1", call_id="c1")
{'turn': 't1', 'call_id': 'c1'}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from turnlog import payloads as p
from turnlog.errors import InvalidInput, InvalidPayload, InvalidType

DURABLE, BUFFERED, EPHEMERAL = "durable", "buffered", "ephemeral"
KNOWN, NEWER, UNKNOWN, CUSTOM = "known", "newer", "unknown", "custom"

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


class EventType(NamedTuple):
    """One type of the vocabulary."""

    name: str
    payload: type[p.Payload]
    durability: str  # what it is appended with unless the caller says otherwise
    meaning: str
    version: int = 1  # of the payload

    @property
    def family(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]


class Reading(NamedTuple):
    """A payload as this version understands it, beside the payload as it is stored."""

    fields: p.Payload
    extra: dict[str, Any]
    stored: Mapping[str, Any]


_LIST = (
    EventType("session.created", p.SessionCreated, DURABLE, "identity and first settings"),
    EventType("session.configured", p.Settings, DURABLE, "settings that change from here on"),
    EventType("session.renamed", p.SessionRenamed, DURABLE, "a new title"),
    EventType("session.tagged", p.SessionTagged, DURABLE, "tags added or removed"),
    EventType("session.archived", p.Note, DURABLE, "set aside: listed as archived"),
    EventType("session.unarchived", p.Note, DURABLE, "taken up again"),
    EventType("session.closed", p.Note, DURABLE, "orderly end; work after it means that the session was resumed"),
    EventType("session.forked", p.SessionForked, DURABLE, "this session goes on from another one's history"),
    EventType("session.deleted", p.Note, DURABLE, "to be removed; no turn follows"),
    EventType("turn.started", p.TurnStarted, DURABLE, "one goal is taken up"),
    EventType("turn.input_queued", p.InputQueued, DURABLE, "input waits for a safe point"),
    EventType("turn.input_consumed", p.InputQueued, BUFFERED, "waiting input was taken up, or taken back"),
    EventType("turn.completed", p.TurnEnded, DURABLE, "the goal was handled"),
    EventType("turn.aborted", p.TurnEnded, DURABLE, "stopped on request"),
    EventType("turn.failed", p.TurnEnded, DURABLE, "ended by an error"),
    EventType("turn.interrupted", p.TurnEnded, DURABLE, "found running after its process had died"),
    EventType("step.started", p.StepStarted, BUFFERED, "a model call begins"),
    EventType("step.completed", p.StepCompleted, DURABLE, "the model's response and what it cost"),
    EventType("step.failed", p.StepFailed, BUFFERED, "a model call without a response"),
    EventType("tool.proposed", p.ToolProposed, BUFFERED, "the model asks for a tool"),
    EventType("tool.approval_requested", p.Call, BUFFERED, "somebody has to decide"),
    EventType("tool.approved", p.Call, DURABLE, "it may run"),
    EventType("tool.denied", p.Call, DURABLE, "it will not run"),
    EventType("tool.started", p.ToolStarted, DURABLE, "intent; durable before the tool runs"),
    EventType("tool.completed", p.ToolEnded, DURABLE, "the result"),
    EventType("tool.failed", p.ToolEnded, DURABLE, "it failed, or could not begin"),
    EventType("tool.cancelled", p.Call, DURABLE, "stopped, or no longer wanted"),
    EventType("tool.outcome_unknown", p.Call, DURABLE, "started, or perhaps started, and nothing says how it ended"),
    EventType("tool.resolved", p.ToolResolved, DURABLE, "an unknown outcome was settled"),
    EventType("message.user", p.Message, DURABLE, "what a user said"),
    EventType("message.assistant", p.Message, DURABLE, "what the model said"),
    EventType("message.system", p.Message, BUFFERED, "what the program put into the conversation"),
    EventType("plan.proposed", p.Plan, DURABLE, "version 1 of a new plan"),
    EventType("plan.approved", p.Plan, DURABLE, "the current version was approved"),
    EventType("plan.revised", p.Plan, DURABLE, "the next version; it needs a new approval"),
    EventType("task.added", p.TaskAdded, BUFFERED, "a task and what it depends on"),
    EventType("task.updated", p.TaskUpdated, BUFFERED, "a change of a task"),
    EventType("context.compacted", p.Compacted, DURABLE, "a summary replaces part of the model's history"),
    EventType("context.rolled_back", p.RolledBack, DURABLE, "turns were taken out of the model's history"),
    EventType("file.read", p.FileTouched, BUFFERED, "a file was read"),
    EventType("file.written", p.FileTouched, BUFFERED, "a file was written"),
    EventType("file.snapshot", p.FileSnapshot, BUFFERED, "the file-state cache"),
    EventType("permission.granted", p.Granted, DURABLE, "an allowance for this session"),
    EventType("permission.revoked", p.Revoked, DURABLE, "an allowance taken back"),
    EventType("source.line", p.Source, BUFFERED, "a line of an imported file, RAW"),
    EventType("source.unknown", p.Source, BUFFERED, "no rule maps this line"),
    EventType("source.damaged", p.Source, BUFFERED, "a line that could not be read"),
    EventType("source.mended", p.Source, BUFFERED, "a line reported as damaged is whole now"),
    EventType("source.imported", p.Source, BUFFERED, "the end of one import"),
    EventType("notification.shown", p.Notification, EPHEMERAL, "a notice is on the screen"),
    EventType("notification.cleared", p.Notification, EPHEMERAL, "a notice is gone"),
    EventType("dialog.opened", p.Dialog, EPHEMERAL, "a question is on the screen"),
    EventType("dialog.answered", p.Dialog, EPHEMERAL, "a question was answered"),
    EventType("dialog.closed", p.Dialog, EPHEMERAL, "a question is gone"),
    EventType("progress.updated", p.Progress, EPHEMERAL, "how far something is"),
)
TYPES = {item.name: item for item in _LIST}
FAMILIES = tuple(dict.fromkeys(item.family for item in _LIST))
VERSIONS = {item.name: item.version for item in _LIST}

UPCASTERS: dict[tuple[str, int], Upcaster] = {}
"""(type, version) -> a pure function that returns the payload as the next version has it, given a copy; a large string
in it may be the reference of the artifact that it became."""


def status(type: str, version: int = 1) -> str:
    """Return whether this version understands a payload: known, newer, unknown (type of a known family) or custom.

    >>> status("turn.started"), status("turn.started", 99), status("turn.paused"), status("acme.note")
    ('known', 'newer', 'unknown', 'custom')
    """
    current = VERSIONS.get(type)
    if current is not None:
        return KNOWN if version <= current else NEWER
    family, dot, rest = type.partition(".")
    return CUSTOM if dot and rest and family not in FAMILIES else UNKNOWN


def version_of(payload: Mapping[str, Any]) -> int:
    """Return the payload's version; an absent or unusable `v` means 1.

    >>> version_of({}), version_of({"v": 3})
    (1, 3)
    """
    version = payload.get("v", 1)
    return version if isinstance(version, int) and not isinstance(version, bool) and version > 0 else 1


def upcast(
    type: str,
    payload: Mapping[str, Any],
    upcasters: Mapping[tuple[str, int], Upcaster] = UPCASTERS,
    versions: Mapping[str, int] = VERSIONS,
) -> Mapping[str, Any]:
    """Return the payload as the current version has it; the one handed in is not changed. A newer one comes back as
    it is. Raises InvalidType when a step between two versions is missing, InvalidPayload when one cannot be taken.

    >>> upcast("turn.started", {"turn": "t1"})
    {'turn': 't1'}
    """
    version, current = version_of(payload), versions.get(type, 0)
    while version < current:
        step = upcasters.get((type, version))
        if step is None:
            message = f"no upcaster for {type} from version {version}"
            raise InvalidType(message)
        try:
            payload = {**step(dict(payload)), "v": version + 1}
        except Exception as cause:  # whatever it raises, the event is kept and shown, and not understood
            message = f"{type} version {version} cannot be read: {cause!r}"
            raise InvalidPayload(message) from cause
        version += 1
    return payload


def understood(type: str, payload: object) -> dict[str, Any] | None:
    """Return what an event holds as today's version has it; None when that is not understood: see `why_not`.

    The one way to read a stored payload, for the state, histories, tool calls, contexts and lists alike; what is shown
    to people and handed to applications is the stored one. A type outside the vocabulary is its owner's: any object.

    >>> understood("turn.started", {"turn": "t1"}), understood("turn.started", {"turn": "t1", "v": 99})
    ({'turn': 't1'}, None)
    """
    if payload.__class__ is not dict:
        if not isinstance(payload, Mapping):
            return None
        payload = dict(payload)
    fields = cast("dict[str, Any]", payload)
    current = VERSIONS.get(type, 0)
    if not current or (current == 1 and "v" not in fields):
        return fields
    if version_of(fields) > current:
        return None
    try:
        return dict(upcast(type, fields))
    except InvalidInput:
        return None


def why_not(type: str, payload: object) -> str:
    """Return in words why an event is not understood.

    >>> why_not("turn.started", {"turn": "t1", "v": 99})
    'turn.started version 99 was written by a newer turnlog'
    """
    if not isinstance(payload, Mapping):
        return f"the payload of {type} is no JSON object"
    version = version_of(payload)
    if version > VERSIONS.get(type, version):
        return f"{type} version {version} was written by a newer turnlog"
    try:
        upcast(type, payload)
    except InvalidInput as error:
        return error.message
    return f"{type} is understood"


def stamped(type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload that is about to be written, with the version that it is of.

    >>> stamped("turn.started", {"turn": "t1"})
    {'turn': 't1'}
    """
    version = VERSIONS.get(type, 1)
    return payload if version == 1 or "v" in payload else {**payload, "v": version}


def read(type: str, payload: Mapping[str, Any]) -> Reading:
    """Return a payload of a known type with typed fields; what the type does not list is in `extra`.

    Raises InvalidType for a type or version outside the vocabulary, InvalidPayload when a field is missing or has the
    wrong shape.

    >>> reading = read("tool.started", {"turn": "t1", "call_id": "c1", "colour": "red"})
    >>> reading.fields.call_id, reading.extra
    ('c1', {'colour': 'red'})
    """
    understood = status(type, version_of(payload))
    if understood != KNOWN:
        message = f"{type} version {version_of(payload)} is not in the vocabulary ({understood})"
        raise InvalidType(message)
    current = upcast(type, payload)
    kind = TYPES[type].payload
    fields = _converted(type, current, kind)
    known = frozenset(kind.__struct_fields__)
    return Reading(fields, {key: value for key, value in current.items() if key not in known}, payload)


def require_valid(type: str, payload: Mapping[str, Any]) -> None:
    """Raise InvalidPayload unless what a payload of the vocabulary's types holds has the right shape; of a newer
    version, and of a type outside the vocabulary, nothing is known.

    >>> require_valid("turn.failed", {"turn": 5})
    Traceback (most recent call last):
    turnlog.errors.InvalidPayload: turn.failed: Expected `str | null`, got `int` - at `$.turn`
    """
    known = TYPES.get(type)
    if known is not None and version_of(payload) <= known.version:
        current = payload if known.version == 1 and "v" not in payload else upcast(type, payload)
        _converted(type, current, known.payload)


def _converted(type: str, fields: Mapping[str, Any], kind: Any) -> p.Payload:
    try:
        return cast("p.Payload", msgspec.convert(fields, kind))
    except (msgspec.ValidationError, UnicodeEncodeError) as cause:  # the latter: a lone surrogate where a number is due
        message = f"{type}: {cause}"
        raise InvalidPayload(message) from cause


def make(type: str, /, **fields: Any) -> dict[str, Any]:
    """Return a checked payload ready to append; fields that are None are left out, others may be added freely.

    Raises InvalidType, InvalidPayload.

    >>> make("session.renamed", title="Flaky test", colour="red")
    {'title': 'Flaky test', 'colour': 'red'}
    """
    payload = stamped(type, {key: value for key, value in fields.items() if value is not None})
    read(type, payload)
    return payload


def describe() -> str:
    """Return the vocabulary as a Markdown table; a field without a `?` is required.

    >>> print(describe().splitlines()[0])
    | type | v | durability | meaning | payload |
    """
    lines = ["| type | v | durability | meaning | payload |", "| --- | --- | --- | --- | --- |"]
    shared = frozenset(p.Payload.__struct_fields__)
    for item in _LIST:
        own = [field for field in msgspec.structs.fields(item.payload) if field.name not in shared]
        own.sort(key=lambda field: not field.required)
        names = ", ".join(field.name if field.required else f"{field.name}?" for field in own)
        lines.append(f"| {item.name} | {item.version} | {item.durability} | {item.meaning} | {names} |")
    return "\n".join(lines)
