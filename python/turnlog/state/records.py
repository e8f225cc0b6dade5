"""The parts of a session's state: one immutable record for each thing the events speak of.

Owns: the fields that survive from an event in memory. Invariants: records are frozen, so a part of the state that
changed is another object; beside ids, none holds a text longer than PREVIEW_CHARACTERS_MAX: whoever wants the whole
reads the event at the ordinal the record names (0: there is none). Must not know: how events change them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from turnlog.state.transitions import (
    EXTERNAL,
    FINAL_CALL_STATES,
    OUTCOME_UNKNOWN,
    PENDING,
    PROPOSED,
    RUNNING,
    STARTED,
)

PREVIEW_CHARACTERS_MAX = 200
MARK_EVERY = 256
MARKS_MAX = 4096


class Record(msgspec.Struct, frozen=True, array_like=True):
    """Stored in snapshots as an array of its fields in this order."""


class Identity(Record, frozen=True):
    """What a session is and stays."""

    ordinal: int
    created_us: int
    principal: str = ""
    parent: str = ""


class Origin(Record, frozen=True):
    """One fork in the lineage: this history goes on after `fork_ordinal` of `parent`."""

    ordinal: int
    parent: str
    fork_ordinal: int
    parent_chain: str = ""


class Turn(Record, frozen=True):
    """One goal. `configured_ordinal` names the settings it began with."""

    id: str
    ordinal: int
    started_us: int
    state: str = RUNNING
    input: str = ""
    input_ordinal: int = 0
    configured_ordinal: int = 0
    steps: int = 0
    calls: int = 0
    messages: int = 0
    ended_ordinal: int = 0
    ended_us: int = 0


class QueuedInput(Record, frozen=True):
    """Input that waits, or waited until `consumed_ordinal`."""

    id: str
    ordinal: int
    turn: str = ""
    consumed_ordinal: int = 0


class Step(Record, frozen=True):
    """A model call. The event at `context_ordinal` refers to the `context_items` items it was sent."""

    id: str
    turn: str
    ordinal: int
    started_us: int
    model: str = ""
    context_ordinal: int = 0
    context_items: int = 0
    ended_ordinal: int = 0


class Call(Record, frozen=True):
    """A tool call; `ordinal` is its latest event, `outcome_ordinal` the one that holds its result."""

    turn: str
    call_id: str
    name: str
    state: str = PROPOSED
    effect: str = EXTERNAL
    by_provider: bool = False
    idempotency_key: str = ""
    attempts: int = 0
    decided_by: str = ""
    ordinal: int = 0
    proposed_ordinal: int = 0
    started_ordinal: int = 0
    outcome_ordinal: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """What names the call: providers repeat call ids in other turns."""
        return self.turn, self.call_id

    @property
    def standing(self) -> str:
        """Where a crash leaves the call: finished (reuse it), not_started (it may be run) or unknown (ask first)."""
        if self.state in FINAL_CALL_STATES:
            return "finished"
        return "unknown" if self.state in (STARTED, OUTCOME_UNKNOWN) else "not_started"


class Plan(Record, frozen=True):
    """One version of a plan."""

    id: str
    version: int
    ordinal: int
    state: str = PROPOSED
    approved_ordinal: int = 0
    approved_by: str = ""


class Task(Record, frozen=True):
    """A node of the task graph."""

    id: str
    ordinal: int
    title: str = ""
    state: str = PENDING
    depends_on: tuple[str, ...] = ()


class Grant(Record, frozen=True):
    """An allowance for this session."""

    id: str
    ordinal: int
    tool: str = ""
    pattern: str = ""
    by: str = ""


class Usage(Record, frozen=True):
    """Tokens."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Files(Record, frozen=True):
    """Where the file-state cache was last written, and how often files were touched since."""

    snapshot_ordinal: int = 0
    touched_since: int = 0


class Context(Record, frozen=True):
    """What was taken out of the model's history: the last summary and the events it stands for; turns rolled back."""

    compactions: int = 0
    compacted_ordinal: int = 0
    first: int = 0
    last: int = 0
    rolled_back_turns: int = 0


class Messages(Record, frozen=True):
    """How many messages there are and roughly where: every `stride`th ordinal, at most MARKS_MAX of them."""

    count: int = 0
    user: int = 0
    assistant: int = 0
    system: int = 0
    first_ordinal: int = 0
    last_ordinal: int = 0
    stride: int = MARK_EVERY
    marks: tuple[int, ...] = ()

    def near(self, index: int) -> tuple[int, int]:
        """Return (index, ordinal) of the closest known message at or before message `index`, counted from 0; a lazy
        view reads on from there. Raises IndexError outside the messages.

        >>> Messages(count=300, stride=256, marks=(3, 700)).near(280)
        (256, 700)
        """
        if not 0 <= index < self.count:
            message = f"message {index} of {self.count}"
            raise IndexError(message)
        mark = min(index // self.stride, len(self.marks) - 1)
        return mark * self.stride, self.marks[mark]


class Violation(Record, frozen=True):
    """A finding: an event that was not legal where it stands."""

    code: str
    ordinal: int
    detail: str


class Notice(Record, frozen=True):
    """A notification on the screen, or an open dialog; never stored."""

    id: str
    time_us: int
    text: str = ""
    fields: dict[str, Any] = {}
