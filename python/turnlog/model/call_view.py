"""What is known of a tool call: read from the state, from this process's book, or from the log.

Owns: the attributes of a call that change nothing. Invariant: an outcome that the log could not take yet is stored
before anything is said about the call's result. Must not know: how a call is decided, run or resolved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.errors import InvalidTransition
from turnlog.model.calls import find_record, key_of, read_outcome, save
from turnlog.state.records import PREVIEW_CHARACTERS_MAX
from turnlog.state.transitions import FINAL_CALL_STATES

if TYPE_CHECKING:
    from turnlog.model.calls import Outcome
    from turnlog.model.live import Live
    from turnlog.state.records import Call


class CallView:
    """The readable side of a tool call; applications meet it as `ToolCall`."""

    __slots__ = ("_ended", "_entry", "_given", "_live", "call_id", "turn_id")

    def __init__(self, live: Live, key: tuple[str, str], *, ended: Call | None = None, given: Any = None) -> None:
        """Use `Turn.tool_call` or `Session.call`."""
        self.turn_id, self.call_id = key
        self._live = live
        self._entry = live.book.entry(key)
        self._ended = ended  # the state has let go of it
        self._given = given

    # -- what is known ---------------------------------------------------------------------------------------------

    @property
    def key(self) -> tuple[str, str]:
        """(turn, call id): what names the call, because providers repeat call ids in other turns."""
        return self.turn_id, self.call_id

    @property
    def record(self) -> Call:
        """What the state holds of the call."""
        call = self._ended or self._live.current().call(self.turn_id, self.call_id)
        if call is None:
            call = self._ended = find_record(self._live, self.key)
        if call is None:
            raise InvalidTransition(f"tool call {self.call_id!r} was never proposed", session=self._live.session.id)
        return call

    @property
    def state(self) -> str:
        """proposed, approval_requested, approved, started, outcome_unknown, or final: completed, failed, denied,
        cancelled, resolved.
        """
        return self.record.state

    @property
    def standing(self) -> str:
        """Where a crash leaves it: finished (outcome is reused), not_started (may be run) or unknown (ask first)."""
        return self._live.current().standing(self.record)

    @property
    def name(self) -> str:
        """The tool; empty when the proposal was lost."""
        record = self.record
        if len(record.name) < PREVIEW_CHARACTERS_MAX:
            return record.name
        name = self._proposal().get("name")  # the state keeps its beginning
        return name if isinstance(name, str) else record.name

    @property
    def effect(self) -> str:
        """What a repetition would do: external (never repeated blindly), idempotent or none."""
        return self.record.effect

    @property
    def idempotency_key(self) -> str:
        """The same in every attempt: for the tool, to have its effect once, and for a verifier, to look it up."""
        return self.record.idempotency_key or key_of(self._live.session.id, self.key)

    @property
    def arguments(self) -> Any:
        """The arguments of the proposal; None when it was lost."""
        if self._given is None:
            self._given = self._proposal().get("arguments")
        return self._given

    def _proposal(self) -> dict[str, Any]:
        ordinal = self.record.proposed_ordinal
        return (self._live.fields(self._live.session.event(ordinal)) or {}) if ordinal else {}

    @property
    def is_running(self) -> bool:
        """Whether this process runs it now."""
        return self._entry.running.locked()

    @property
    def result(self) -> Any:
        """The value of a finished call, as JSON holds it. Raises ToolFailed, InvalidTransition while there is none."""
        outcome = self._outcome()
        if outcome is None:
            raise InvalidTransition(f"tool call {self.call_id!r} is {self.state}: it has no result", "call_order")
        return outcome.value(self.key, self._live.session.id)

    def _outcome(self) -> Outcome | None:
        kept = self._entry.outcome()
        if kept is not None:
            return kept
        if self._entry.unsaved is not None:
            with self._entry.deciding:
                if self._entry.unsaved is not None:
                    save(self._live, self._entry, *self._entry.unsaved)
        call = self.record
        return read_outcome(self._live, call, self._entry) if call.state in FINAL_CALL_STATES else None

    def _payload(self, **fields: Any) -> dict[str, Any]:
        payload = {"turn": self.turn_id, "call_id": self.call_id}
        payload.update((name, value) for name, value in fields.items() if value is not None)
        return payload
