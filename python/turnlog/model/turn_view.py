"""The turns of a session as its log tells of them, for whoever shows a history again after a restart.

Owns: finding turns and what belongs to them, read when it is asked for. Invariants: nothing is held beside one turn; a
view changes nothing, and may be of a turn that another process began. Must not know: how a turn is run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from turnlog.events import understood
from turnlog.model.step import steps_between
from turnlog.model.tools import find_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from turnlog._core import Event
    from turnlog.model.live import Live
    from turnlog.model.step import Step
    from turnlog.model.tools import ToolCall

    Make = Callable[[Event, dict[str, Any]], "TurnView"]

_STARTED, _INTERRUPTED = "turn.started", "interrupted"
_TURNS = (_STARTED, "turn.completed", "turn.aborted", "turn.failed", "turn.interrupted")


class TurnView:
    """A turn as the log has it; made by `Session.turns`. Read-only.

    `outcome` is completed, aborted, failed or interrupted, None for the turn that runs. `ordinal` and `ended_ordinal`
    name its first and last event (0: there is none), `started_us` and `ended_us` when they were written.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> with session.turn("Why does test_retry fail?", effort="high") as turn:
    ...     call = turn.tool_call("bash", {"cmd": "pytest -x"}, call_id="c1").run(lambda cmd: "1 failed")
    ...     turn.complete()
    >>> (view,) = session.turns()
    >>> view.input, view.outcome, view.settings, [call.result for call in view.calls()]
    ('Why does test_retry fail?', 'completed', {'effort': 'high'}, ['1 failed'])
    """

    __slots__ = ("_live", "_on_damage", "ended_ordinal", "ended_us", "id", "ordinal", "outcome", "started_us")

    def __init__(self, live: Live, name: str, started: Event, on_damage: str) -> None:
        """Use `Session.turns`."""
        self.id = name
        self.ordinal = started.ordinal
        self.started_us = started.time_us
        self.outcome: str | None = None
        self.ended_ordinal = 0
        self.ended_us = 0
        self._live = live
        self._on_damage = on_damage

    @property
    def input(self) -> Any:
        """What was asked: what the turn was begun with, else its first message of a user; None if there is neither."""
        given = self._started().get("input")
        if given is not None:
            return given
        for event in self._events("message.user"):
            fields = self._live.fields(event)
            return None if fields is None else fields.get("content")
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that were given for this turn only."""
        found: dict[str, Any] = self._started().get("settings") or {}
        return found

    @property
    def error(self) -> Any:
        """What `Turn.fail` was told, None for a turn that did not fail."""
        return self._ended().get("error")

    @property
    def reason(self) -> Any:
        """Why it was aborted, where somebody said so."""
        return self._ended().get("reason")

    def steps(self) -> Iterator[Step]:
        """Iterate over its model calls: what each was sent, and what came back.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> with session.turn("hello") as turn:
        ...     turn.step(context=["hello"]).complete("hi", usage={"input": 1, "output": 1})
        ...     turn.complete()
        >>> (view,) = session.turns()
        >>> [(step.context(), step.response, step.usage["output"]) for step in view.steps()]
        [(['hello'], 'hi', 1)]
        """
        before = self.ended_ordinal or None
        return steps_between(self._live, self.id, self.ordinal, before, on_damage=self._on_damage)

    def calls(self) -> Iterator[ToolCall]:
        """Iterate over its tool calls, in the order in which they were proposed.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> turn = session.turn("list the files")
        >>> _ = turn.tool_call("bash", {"cmd": "ls"}, call_id="c1")
        >>> (view,) = session.turns()
        >>> [(call.call_id, call.name, call.state) for call in view.calls()]
        [('c1', 'bash', 'proposed')]
        """
        for event in self._events("tool.proposed"):
            fields = None if event.is_raw else understood(event.type, event.payload)
            if fields is None or fields.get("turn", self.id) != self.id:
                continue
            call = find_call(self._live, self.id, str(fields.get("call_id")))
            if call is not None:
                yield call

    def _events(self, type: str) -> Iterator[Event]:
        before = self.ended_ordinal or None
        return self._live.session.events(after=self.ordinal, before=before, types=[type], on_damage=self._on_damage)

    def _started(self) -> dict[str, Any]:
        return self._live.fields(self._live.session.event(self.ordinal)) or {}

    def _ended(self) -> dict[str, Any]:
        if not self.ended_ordinal or self.outcome == _INTERRUPTED:
            return {}
        return self._live.fields(self._live.session.event(self.ended_ordinal)) or {}

    def __repr__(self) -> str:
        """Name the turn and its state."""
        return f"<TurnView {self.id} {self.outcome or 'running'}>"


def turns_of(live: Live, *, reverse: bool, on_damage: str | None = None) -> Iterator[TurnView]:
    """Yield the turns of a log; see `Session.turns`.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> session.turn("hello", id="t1").complete()
    >>> list(turns_of(session._keeper(), reverse=False))
    [<TurnView t1 completed>]
    """
    how = live.session._on_damage if on_damage is None else on_damage
    found = live.session.events(types=_TURNS, reverse=reverse, on_damage=how)
    known = ((event, fields) for event in found if (fields := _fields(event)) is not None)
    view = partial(_view, live, how)
    return _backward(view, known) if reverse else _forward(view, known)


def _view(live: Live, on_damage: str, started: Event, fields: dict[str, Any]) -> TurnView:
    return TurnView(live, str(fields.get("turn")), started, on_damage)


def _fields(event: Event) -> dict[str, Any] | None:
    return None if event.is_raw else understood(event.type, event.payload)


def _forward(make: Make, found: Iterator[tuple[Event, dict[str, Any]]]) -> Iterator[TurnView]:
    view: TurnView | None = None
    for event, fields in found:
        if event.type != _STARTED:
            if view is not None and fields.get("turn", view.id) == view.id:
                _end(view, event)
                if fields.get("source") is None:  # else an importer's, which may say it twice: the later one knew more
                    yield view
                    view = None
            continue
        if view is not None:
            yield _left(view, event)
        view = make(event, fields)
    if view is not None:
        yield view


def _backward(make: Make, found: Iterator[tuple[Event, dict[str, Any]]]) -> Iterator[TurnView]:
    later: Event | None = None  # the start of the turn after this one
    ends: list[tuple[Event, dict[str, Any]]] = []  # behind this turn's start, the latest first
    for event, fields in found:
        if event.type != _STARTED:
            ends.append((event, fields))
            continue
        view = make(event, fields)
        for end, told in reversed(ends):
            if told.get("turn", view.id) == view.id:
                _end(view, end)
        yield view if later is None else _left(view, later)
        later, ends = event, []


def _end(view: TurnView, event: Event) -> None:
    view.outcome = event.type.removeprefix("turn.")
    view.ended_ordinal, view.ended_us = event.ordinal, event.time_us


def _left(view: TurnView, following: Event) -> TurnView:
    """Return a turn behind which another one began; one without an outcome ended there, for one runs at a time."""
    if view.outcome is None:
        view.outcome, view.ended_ordinal, view.ended_us = _INTERRUPTED, following.ordinal, following.time_us
    return view
