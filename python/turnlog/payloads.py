"""The payload of each event type, as typed structures.

Owns: field names, their types and which are required. Invariants: one structure per event type, or one for several
types of the same shape; every field that a reader can do without is optional; a field that is not listed here survives,
because what is stored is never rewritten from a structure. Field words: `turn`, `step`, `task`, `plan`, `grant` and
`dialog` are ids, `call_id` is the id a model provider gave to a tool call, `by` says who (user, model, policy,
provider, ...), `content` is text or content parts as the provider has them. Must not know: when an event is legal.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Payload(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What every payload may carry: its version, who, and for an imported event its place in the source file."""

    v: int = 1
    by: str | None = None
    time: str | None = None  # as an imported file gives it; the event's own time is in its header
    source: dict[str, Any] | None = None  # present: another product wrote this history, and recorded only part of it


class Note(Payload):
    """An event whose type says nearly all of it."""

    reason: str | None = None


class Settings(Payload):
    """What a session runs with; in `session.configured` only what changes, null takes a setting back."""

    model: str | None = None
    effort: str | None = None
    cwd: str | None = None
    permission_profile: Any = None
    permission_mode: str | None = None
    tools: Any = None
    environment: Any = None


class SessionCreated(Settings):
    """Identity, and the first settings."""

    title: str | None = None
    tags: list[str] | None = None
    parent: str | None = None
    principal: str | None = None


class SessionForked(Settings, kw_only=True):
    """Where a forked session begins: after `fork_ordinal` of `parent`, whose chain there was `parent_chain` (hex) and
    whose event there has the id `parent_event`.
    """

    parent: str
    fork_ordinal: int
    parent_chain: str | None = None
    parent_event: str | None = None
    title: str | None = None
    tags: list[str] | None = None
    principal: str | None = None


class SessionRenamed(Payload, kw_only=True):
    """The session's title."""

    title: str | None


class SessionTagged(Payload):
    """Tags added and taken away."""

    tags: list[str] | None = None
    tags_removed: list[str] | None = None


class TurnStarted(Payload, kw_only=True):
    """One goal; `input` is what was asked, unless a `message.user` of the turn holds it. `settings` are those that hold
    for this turn only, by the names that they have in `session.configured`.
    """

    turn: str
    input: Any = None
    settings: dict[str, Any] | None = None
    inferred: bool | None = None


class TurnEnded(Payload):
    """The one outcome of a turn. Without `turn`: of the running one."""

    turn: str | None = None
    reason: Any = None
    error: Any = None
    usage: dict[str, Any] | None = None
    duration_ms: int | float | None = None
    inferred: bool | None = None


class InputQueued(Payload):
    """Input for the running turn, or for the next one. Without `input_id`: first in, first out."""

    turn: str | None = None
    input_id: str | None = None
    content: Any = None


class StepStarted(Payload, kw_only=True):
    """A model call. `context` says what was sent, as a reference to an earlier step and what is new."""

    turn: str | None = None
    step: str
    model: str | None = None
    effort: str | None = None
    context: dict[str, Any] | None = None
    attempt: int | None = None


class StepCompleted(Payload):
    """The response. `usage` counts tokens: input, output, cache_read, cache_write."""

    turn: str | None = None
    step: str | None = None
    model: str | None = None
    response: Any = None
    usage: dict[str, Any] | None = None
    stop_reason: str | None = None


class StepFailed(Payload):
    """A model call without a response."""

    turn: str | None = None
    step: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    message: Any = None
    status: Any = None
    attempt: int | None = None
    retry_in_ms: int | float | None = None


class Call(Payload, kw_only=True):
    """A change of a tool call; (turn, call_id) names it. Without `turn`: of the running turn."""

    turn: str | None = None
    call_id: str
    reason: Any = None


class ToolProposed(Call):
    """The model asks for a tool. `effect` is none, idempotent or external (the default)."""

    name: str | None = None
    arguments: Any = None
    step: str | None = None
    effect: str | None = None
    idempotency_key: str | None = None


class ToolStarted(Call):
    """Intent, durable before the tool runs; `attempt` counts from 1."""

    idempotency_key: str | None = None
    attempt: int | None = None


class ToolEnded(Call):
    """What came out of a call."""

    name: str | None = None
    content: Any = None
    error: Any = None
    exit_code: int | None = None
    artifact: Any = None
    duration_ms: int | float | None = None


class ToolResolved(Call, kw_only=True):
    """How an unknown outcome was settled: completed, failed, or not_executed (it may then be started)."""

    outcome: str
    content: Any = None
    error: Any = None


class Message(Payload):
    """A message of the conversation."""

    turn: str | None = None
    step: str | None = None
    role: str | None = None
    kind: str | None = None
    content: Any = None


class Plan(Payload):
    """A version of the plan; `version` counts from 1."""

    turn: str | None = None
    plan: str | None = None
    version: int | None = None
    content: Any = None
    reason: str | None = None


class TaskAdded(Payload, kw_only=True):
    """A node of the task graph; it is ready when all of `depends_on` are completed."""

    turn: str | None = None
    task: str
    title: str | None = None
    depends_on: list[str] | None = None
    state: str | None = None


class TaskUpdated(Payload):
    """Changes of a task: state is pending, running, completed, failed or cancelled. Without `task`: of the goal."""

    turn: str | None = None
    task: str | None = None
    title: str | None = None
    depends_on: list[str] | None = None
    state: str | None = None
    goal: Any = None


class Compacted(Payload):
    """The model's history was shortened: `summary` stands for the events `first` to `last` (ordinals)."""

    turn: str | None = None
    kind: str | None = None
    first: int | None = None
    last: int | None = None
    summary: Any = None
    tokens_before: int | None = None
    tokens_after: int | None = None


class RolledBack(Payload):
    """The last turns are no longer part of the model's history; they stay in the log."""

    turn: str | None = None
    turns: int | None = None


class FileTouched(Payload, kw_only=True):
    """A file was read or written."""

    turn: str | None = None
    path: str
    digest: str | None = None
    size: int | None = None
    mtime_ns: int | None = None


class FileSnapshot(Payload):
    """The file-state cache, or for an imported history how many files it held."""

    turn: str | None = None
    files: Any = None
    version: int | None = None


class Granted(Payload, kw_only=True):
    """An allowance for the rest of the session."""

    turn: str | None = None
    grant: str
    tool: str | None = None
    pattern: str | None = None


class Revoked(Payload, kw_only=True):
    """An allowance taken back."""

    turn: str | None = None
    grant: str
    reason: str | None = None


class Source(Payload):
    """What an importer says about a line or a file; its lines themselves are RAW."""

    turn: str | None = None


class Notification(Payload, kw_only=True):
    """A notice on the screen; `notification` is its id."""

    notification: str
    text: str | None = None
    level: str | None = None


class Dialog(Payload, kw_only=True):
    """A question on the screen; `dialog` is its id."""

    dialog: str
    text: str | None = None
    choices: list[Any] | None = None
    answer: Any = None


class Progress(Payload):
    """How far something is that runs now."""

    turn: str | None = None
    call_id: str | None = None
    text: str | None = None
    done: int | float | None = None
    total: int | float | None = None
    unit: str | None = None
