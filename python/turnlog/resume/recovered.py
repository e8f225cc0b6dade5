"""What a resume found and did: `session.recovery`.

Owns: the report's parts and its JSON form. Invariant: all that a resume decided or changed is in it; an open call is in
exactly one of `retryable`, `unknown` and `waiting`, and what is in `retryable` can be run as it stands. Must not know:
how any of it was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnlog.model.tools import ToolCall
    from turnlog.session import Session
    from turnlog.state.records import Call, Turn

    Find = Callable[[str, str], ToolCall]


class DanglingCall:
    """A tool call that a dead process left behind. `standing` is finished, not_started or unknown."""

    __slots__ = ("_find", "record", "standing")

    def __init__(self, record: Call, standing: str, find: Find) -> None:
        """Keep what the state knew of the call when the session was resumed; `find` returns the call itself."""
        self.record = record
        self.standing = standing
        self._find = find

    @property
    def turn(self) -> str:
        """The turn that the call belongs to."""
        return self.record.turn

    @property
    def call_id(self) -> str:
        """The id that the provider gave to it; it names the call within its turn."""
        return self.record.call_id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.record.name

    @property
    def idempotency_key(self) -> str:
        """What the tool was given to recognise a repeated call by; empty when none was recorded."""
        return self.record.idempotency_key

    @property
    def handle(self) -> ToolCall:
        """The call itself: to run it, to read its result."""
        return self._find(self.record.turn, self.record.call_id)

    def resolve(self, verifier: Callable[[str], Any] | None = None, **given: Any) -> ToolCall:
        """Settle an unknown outcome; see `ToolCall.resolve`, whose arguments these are.

        >>> from turnlog import Store
        >>> def killed():
        ...     raise KeyboardInterrupt
        >>> with Store.open("runs") as store:
        ...     session = store.create()
        ...     call = session.turn("send it").tool_call("send", {}, call_id="c1")
        ...     try:
        ...         call.run(killed)
        ...     except KeyboardInterrupt:
        ...         session.close()
        ...     (unknown,) = store.resume(session.id).recovery.unknown
        ...     unknown.resolve(outcome="completed", result="sent", by="user").state
        'resolved'
        """
        return self.handle.resolve(verifier, **given)

    def as_json(self) -> dict[str, Any]:
        """Return the call as a JSON object.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     session = store.create()
        ...     call = session.turn("build it").tool_call("bash", {"cmd": "make"}, call_id="c1")
        ...     session.close()
        ...     recovery = store.resume(session.id).recovery
        ...     recovery.retryable[0].as_json()["standing"]
        'not_started'
        """
        call = self.record
        return {
            "turn": call.turn,
            "call_id": call.call_id,
            "name": call.name,
            "standing": self.standing,
            "state": call.state,
            "effect": call.effect,
            "idempotency_key": call.idempotency_key,
            "attempts": call.attempts,
            "proposed_ordinal": call.proposed_ordinal,
            "started_ordinal": call.started_ordinal,
            "outcome_ordinal": call.outcome_ordinal,
        }

    def __repr__(self) -> str:
        """Name the call and its class."""
        return f"<DanglingCall {self.call_id} {self.standing}>"


class Recovery:
    """The report of a resume."""

    def __init__(self, handle: Session) -> None:
        """Start with nothing found."""
        self.session = handle.id
        self.handle = handle  # the session itself, for hooks: they are called before the caller has it
        self.reused: list[DanglingCall] = []  # finished in the interrupted turn: their outcomes are in the log
        self.retryable: list[DanglingCall] = []  # never started, or repeatable: a policy may run them
        self.unknown: list[DanglingCall] = []  # started, no outcome, not repeatable: ask, never run blindly
        self.waiting: list[DanglingCall] = []  # for somebody's decision, mostly an approval that was asked for
        self.interrupted: Turn | None = None  # the newest turn, when its process died in it
        self.not_understood: list[dict[str, Any]] = []  # of a newer version, by type: what they may end is left open
        self.repaired: list[dict[str, Any]] = []  # what was put right: the torn tail, and the events appended
        self.damaged: list[tuple[int, int]] = []  # inclusive ranges of ordinals that cannot be read
        self.accepts_damage = False  # go on where events are lost, without an error
        self.writable = True  # False: damage was accepted, the session can only be read
        self.snapshot_ordinal = 0  # events up to here came from a snapshot, 0: all were folded
        self.events = 0  # in the state
        self.violations = 0  # events that were not legal where they stand; see the state

    @property
    def clean(self) -> bool:
        """Whether the session had ended in order: nothing to repair, nothing open, nothing lost."""
        left = self.retryable or self.unknown or self.waiting or self.interrupted
        return not (left or self.repaired or self.damaged or self.not_understood)

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     session = store.create()
        ...     call = session.turn("build it").tool_call("bash", {"cmd": "make"}, call_id="c1")
        ...     session.close()
        ...     recovery = store.resume(session.id).recovery
        ...     [repair["event"] for repair in recovery.as_json()["repaired"]]
        ['turn.interrupted']
        """
        turn = self.interrupted
        return {
            "session": self.session,
            "reused": [call.as_json() for call in self.reused],
            "retryable": [call.as_json() for call in self.retryable],
            "unknown": [call.as_json() for call in self.unknown],
            "waiting": [call.as_json() for call in self.waiting],
            "not_understood": self.not_understood,
            "interrupted": None if turn is None else {"turn": turn.id, "input": turn.input, "ordinal": turn.ordinal},
            "repaired": self.repaired,
            "damaged": [list(part) for part in self.damaged],
            "writable": self.writable,
            "snapshot_ordinal": self.snapshot_ordinal,
            "events": self.events,
            "violations": self.violations,
        }

    def __repr__(self) -> str:
        """Count what was found."""
        names = ("reused", "retryable", "unknown", "waiting", "repaired")
        return f"<Recovery {' '.join(f'{name}={len(getattr(self, name))}' for name in names)}>"
