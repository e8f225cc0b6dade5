"""A tool call: proposed, decided, run at most once, an unknown outcome settled.

Owns: `ToolCall`: its proposal, the decisions about it, and the settling of an unknown outcome; `call_run.py` holds its
running. Invariants: (turn, call id) names a call, and proposing it again gives the same one; every decision is an
event, and deciding the same twice changes nothing. Must not know: how the log is written, what the tool does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from turnlog import _core
from turnlog.arguments import require_function, require_name, require_text
from turnlog.errors import Conflict, InvalidInput, InvalidTransition
from turnlog.ids import new_id
from turnlog.model.call_run import CallRun
from turnlog.model.calls import find_record, is_of_namesake, key_of
from turnlog.state.transitions import (
    APPROVAL_REQUESTED,
    APPROVED,
    CANCELLED,
    COMPLETED,
    DENIED,
    EFFECTS,
    EXTERNAL,
    FAILED,
    OUTCOME_UNKNOWN,
    OUTCOMES,
    RESOLVED,
    STARTED,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from turnlog.model.live import Live

_BEYOND_APPROVAL = frozenset({APPROVED, STARTED, OUTCOME_UNKNOWN, COMPLETED, FAILED, RESOLVED})


class Resolution(NamedTuple):
    """What a verifier found out: outcome "completed", "failed" or "not_executed", and the result or error if known.

    >>> Resolution("completed", result={"sent": True}).outcome
    'completed'
    """

    outcome: str
    result: Any = None
    error: Any = None


class ToolCall(CallRun):
    """One call of a tool in a turn; made by `Turn.tool_call` and `Session.call`. Thread-safe.

    >>> from turnlog import Store
    >>> turn = Store.ephemeral().create().turn("how many files?")
    >>> call = turn.tool_call("count", {"folder": "src"}, call_id="c1")
    >>> call.approve(by="user").run(lambda folder: {"files": 3})
    {'files': 3}
    >>> turn.tool_call("count", {"folder": "src"}, call_id="c1").run(lambda folder: print("never runs again"))
    {'files': 3}
    """

    __slots__ = ()

    # -- deciding --------------------------------------------------------------------------------------------------

    def request_approval(self, *, by: str | None = None, reason: str | None = None) -> Self:
        """Note that somebody has to decide; it cannot run before. No effect when that is noted or decided already.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("clean up")
        >>> turn.tool_call("bash", {"cmd": "rm -r build"}).request_approval(reason="deletes files").state
        'approval_requested'
        """
        return self._decide("tool.approval_requested", by, reason, _BEYOND_APPROVAL | {APPROVAL_REQUESTED})

    def approve(self, *, by: str | None = None, reason: str | None = None) -> Self:
        """Allow it to run. No effect on a call that is approved, started or finished. Raises InvalidTransition.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("clean up")
        >>> call = turn.tool_call("bash", {"cmd": "rm -r build"}).approve(by="user")
        >>> call.state, call.record.decided_by
        ('approved', 'user')
        """
        return self._decide("tool.approved", by, reason, _BEYOND_APPROVAL)

    def deny(self, *, by: str | None = None, reason: str | None = None) -> Self:
        """Refuse it: it will never run. No effect on one that is denied. Raises InvalidTransition once it was started.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("clean up")
        >>> turn.tool_call("bash", {"cmd": "rm -r /"}).deny(by="policy", reason="outside the project").state
        'denied'
        """
        return self._decide("tool.denied", by, reason, frozenset({DENIED}))

    def cancel(self, reason: str | None = None) -> Self:
        """Note that it is no longer wanted. No effect on one that is cancelled.

        A call that this process runs is not cancelled from outside: `Turn.cancel` asks its tool to stop. Raises
        InvalidTransition when it runs, is finished, or was started and nobody knows whether it had its effect.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("clean up")
        >>> turn.tool_call("bash", {"cmd": "make clean"}).cancel("the user changed their mind").state
        'cancelled'
        """
        call = self.record
        if self.is_running or (call.state == STARTED and call.effect == EXTERNAL):
            what = "is running" if self.is_running else "was started and may have had its effect: resolve it"
            raise InvalidTransition(f"tool call {self.call_id!r} {what}", "call_order", session=self._live.session.id)
        return self._decide("tool.cancelled", None, reason, frozenset({CANCELLED}))

    def _decide(self, type: str, by: str | None, reason: str | None, done: frozenset[str]) -> Self:
        require_text("reason", reason, optional=True)
        with self._entry.deciding:
            if self.record.state not in done:
                self._live.ready()
                self._live.record(type, self._payload(by=by, reason=reason))
        return self

    # -- settling --------------------------------------------------------------------------------------------------

    def resolve(
        self,
        verifier: Callable[[str], Resolution | str | None] | None = None,
        *,
        outcome: str | None = None,
        result: Any = None,
        error: Any = None,
        by: str | None = None,
    ) -> Self:
        """Settle an unknown outcome: by a verifier that is given the idempotency key, or by a person's word.

        The verifier returns a `Resolution` or its outcome alone: "completed", "failed", "not_executed" (the call may
        then be run), or None if it cannot tell: the outcome then stays unknown, which is noted once. No effect on a
        finished call. Raises InvalidTransition when the call was not started or runs here, InvalidInput.

        >>> from turnlog import Store
        >>> call = Store.ephemeral().create().turn("send it").tool_call("send", {"to": "team"})
        >>> try:
        ...     call.run(lambda to: (_ for _ in ()).throw(KeyboardInterrupt()))
        ... except KeyboardInterrupt:
        ...     print(call.state)
        outcome_unknown
        >>> call.resolve(verifier=lambda key: Resolution("completed", result="sent")).result
        'sent'
        """
        call = self.record
        if call.standing == "finished":
            return self
        if self.is_running or self.standing != "unknown":
            what = "is running" if self.is_running else f"is {call.state}"
            raise InvalidTransition(f"tool call {self.call_id!r} {what}: there is nothing to resolve", "call_order")
        found: Resolution | str | None = None if outcome is None else Resolution(outcome, result, error)
        require_function("verifier", verifier)
        if verifier is not None:
            found, by = verifier(self.idempotency_key), by or "verifier"
        if isinstance(found, str):
            found = Resolution(found)
        if found is not None and (not isinstance(found, Resolution) or found.outcome not in OUTCOMES):
            given = found.outcome if isinstance(found, Resolution) else found
            who = "an outcome" if verifier is None else "the outcome that a verifier returns"
            raise InvalidInput(f"{who} is one of {', '.join(OUTCOMES)}, a Resolution of one, or None: not {given!r}")
        with self._entry.deciding:
            self._resolve(found, by)
        return self

    def _resolve(self, found: Resolution | None, by: str | None) -> None:
        self._live.ready()
        events = []
        if self.standing != "unknown":
            return
        if self.state != OUTCOME_UNKNOWN:
            events.append(("tool.outcome_unknown", self._payload(reason="nothing says how it ended")))
        if found is not None:
            payload = self._payload(outcome=found.outcome, content=found.result, error=found.error, by=by)
            events.append(("tool.resolved", payload))
        if events:
            self._live.record_group(events)

    def __repr__(self) -> str:
        """Name the call and its state."""
        return f"<ToolCall {self.call_id} {self.state}>"


def propose(
    live: Live, turn: str, name: str, arguments: Any, *, call_id: str | None, effect: str, by: str | None
) -> ToolCall:
    """Return the call (turn, call id), proposed now unless it was already; see `Turn.tool_call`.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> turn = session.turn("list the files")
    >>> propose(session._keeper(), turn.id, "bash", {"cmd": "ls"}, call_id="c1", effect="none", by=None)
    <ToolCall c1 proposed>
    """
    require_name("name", name)
    if call_id is not None:
        require_name("call_id", call_id)
    if not isinstance(effect, str) or effect not in EFFECTS:
        raise InvalidInput(f"effect is one of {', '.join(EFFECTS)}, not {effect!r}")
    call_id = call_id or f"call_{new_id().hex()}"
    identity = name, _core.digest(_core.canonical(arguments))
    with live.order:
        known = find_call(live, turn, call_id)
        if known is not None:
            _refuse_another(live, known, identity)
            return known
        step = live.current().last_step
        payload = {"turn": turn, "call_id": call_id, "name": name, "arguments": arguments, "effect": effect}
        payload["idempotency_key"] = key_of(live.session.id, (turn, call_id))
        if step is not None and step.turn == turn:
            payload["step"] = step.id
        if by is not None:
            payload["by"] = by
        live.record("tool.proposed", payload)
        call = ToolCall(live, (turn, call_id), given=arguments)
        live.book.entry(call.key).identity = identity
        return call


def _refuse_another(live: Live, known: ToolCall, identity: tuple[str, bytes]) -> None:
    entry = live.book.entry(known.key)
    if entry.identity is None:
        if not known.record.proposed_ordinal:  # of long ago: its proposal is not at hand
            return
        entry.identity = known.name, _core.digest(_core.canonical(known.arguments))
    if entry.identity != identity:
        message = f"tool call {known.call_id!r} of turn {known.turn_id!r} was proposed with another tool or arguments"
        raise Conflict(message, session=live.session.id, ordinal=known.record.proposed_ordinal)


def find_call(live: Live, turn: str, call_id: str) -> ToolCall | None:
    """Return a call that was proposed, None if there is none.

    >>> from turnlog import Store
    >>> find_call(Store.ephemeral().create()._keeper(), "t1", "c1") is None
    True
    """
    require_text("turn", turn)
    require_text("call_id", call_id)
    key = turn, call_id
    state = live.current()
    record = state.call(turn, call_id)
    if record is not None and not is_of_namesake(state, record):
        return ToolCall(live, key)
    ended = find_record(live, key)
    return None if ended is None else ToolCall(live, key, ended=ended)
