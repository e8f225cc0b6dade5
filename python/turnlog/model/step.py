"""A step: one model call, what it was sent and what came back.

Owns: the start with its context by reference, the response, the failure. Invariants: a step has one outcome; the
context is given back exactly as it was sent; tokens are counted under the names input, output, cache_read, cache_write.
Must not know: how a context is stored, what a message means to a provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.errors import NotFound, TurnlogError
from turnlog.events import understood
from turnlog.model.calls import told
from turnlog.model.usage import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from turnlog.model.live import Live

_STEPS = ("step.started", "step.completed", "step.failed")
_LEFT = "the block was left without complete()"


class Step:
    """One model call; made by `Turn.step`.

    As a `with` block it fails when an exception leaves the block, and when the block is left without `complete`.

    >>> from turnlog import Store
    >>> turn = Store.ephemeral().create().turn("hello")
    >>> with turn.step(context=[{"role": "user", "content": "hello"}]) as step:
    ...     step.complete({"role": "assistant", "content": "hi"}, usage={"input": 5, "output": 1})
    >>> step.outcome
    'completed'
    """

    def __init__(self, live: Live, turn: str, name: str, ordinal: int) -> None:
        """Use `Turn.step`."""
        self.id = name
        self.turn_id = turn
        self.ordinal = ordinal
        self.outcome: str | None = None
        self._live = live
        self.ended_ordinal = 0  # of the event that ended it

    @property
    def response(self) -> Any:
        """The model's response as the provider gave it; None while there is none. Read from the log."""
        return self._end().get("response")

    @property
    def usage(self) -> dict[str, Any] | None:
        """The tokens it cost, as `complete` or `fail` were told. Read from the log."""
        found: dict[str, Any] | None = self._end().get("usage")
        return found

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped. Read from the log."""
        found: str | None = self._end().get("stop_reason")
        return found

    @property
    def error(self) -> Any:
        """What `fail` was told, an object with `message`, and `type` for an exception. Read from the log."""
        return self._end().get("error")

    def _end(self) -> dict[str, Any]:
        """Return what the event that ended it holds; nothing while it runs, and where that is not understood."""
        if not self.ended_ordinal:
            return {}
        return self._live.fields(self._live.session.event(self.ended_ordinal)) or {}

    def context(self) -> list[Any]:
        """Return exactly what the model was sent. Raises Damaged, NotFound, StorageError.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("hello")
        >>> turn.step(context=["hello"]).context()
        ['hello']
        """
        with self._live.order:
            return self._live.contexts().decode(self.ordinal)

    def complete(
        self, response: Any = None, *, usage: Mapping[str, Any] | None = None, stop_reason: str | None = None
    ) -> None:
        """Note the model's response, as the provider gave it.

        `usage` counts tokens: input, output, cache_read, cache_write (or cache_creation); `input` is what was neither
        read from a cache nor written to one. The providers' own objects will do, and are renamed: output_tokens and
        completion_tokens to output, cache_read_input_tokens to cache_read, cache_creation_input_tokens to cache_write,
        input_tokens and prompt_tokens to input, from which the cached_tokens of their `..._details`, if there are any,
        are taken off and become cache_read. Other members are kept beside them.

        Raises InvalidInput for a count that is none, and when two names tell different numbers of one kind,
        InvalidTransition when the step has ended.

        >>> from turnlog import Store
        >>> session = Store.ephemeral().create()
        >>> step = session.turn("hello").step()
        >>> step.complete("hi", usage={"input": 5, "output": 1, "cache_creation": 4}, stop_reason="end_turn")
        >>> session.state.usage.cache_write
        4
        """
        payload = self._payload(response=response, usage=counted(usage), stop_reason=stop_reason)
        with self._live.order:
            receipt = self._live.record("step.completed", payload)
            self.outcome, self.ended_ordinal = "completed", receipt.ordinal
            contexts = self._live.contexts()
            for message, path in _messages(response):
                contexts.learn(message, receipt.ordinal, path)

    def fail(
        self, error: BaseException | str, *, status: int | None = None, usage: Mapping[str, Any] | None = None
    ) -> None:
        """Note that no response came: `status` is the provider's, `usage` what it cost. Raises InvalidTransition.

        >>> from turnlog import Store
        >>> step = Store.ephemeral().create().turn("hello").step()
        >>> step.fail("overloaded", status=529)
        >>> step.outcome
        'failed'
        """
        kept = told(error)
        with self._live.order:
            payload = self._payload(error=kept, status=status, usage=counted(usage))
            receipt = self._live.record("step.failed", payload)
            self.outcome, self.ended_ordinal = "failed", receipt.ordinal

    def _payload(self, **fields: Any) -> dict[str, Any]:
        payload = {"turn": self.turn_id, "step": self.id}
        payload.update((name, value) for name, value in fields.items() if value is not None)
        return payload

    def __enter__(self) -> Self:
        """Return the step."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record a failure if the step has no outcome."""
        if self.outcome is not None:
            return
        if error is None:
            self.fail(_LEFT)
            return
        try:
            running = self._live.current().step
            if running is not None and running.ordinal == self.ordinal:  # else the interrupt came behind its outcome
                self.fail(error)
        except Exception as cause:  # noqa: BLE001 - the exception that left the block is the one to see
            error.add_note(f"turnlog could not record the failure of step {self.id}: {cause}")

    def __repr__(self) -> str:
        """Name the step and its state."""
        return f"<Step {self.id} {self.outcome or 'running'}>"


def begin_step(live: Live, turn: str, context: Iterable[Any] | None, *, model: Any, effort: Any) -> Step:
    """Start a step; see `Turn.step`.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> begin_step(session._keeper(), session.turn("hello").id, ["hello"], model="provider/model-x", effort=None)
    <Step s1 running>
    """
    payload: dict[str, Any] = {"turn": turn, "model": model, "effort": effort}
    payload = {name: value for name, value in payload.items() if value is not None}
    with live.order:
        live.ready()
        running = live.current().turn
        payload["step"] = f"s{1 if running is None else running.steps + 1}"
        live.check("step.started", payload)
        if context is not None:
            payload["context"] = live.contexts().encode(context)
        try:
            receipt = live.record("step.started", payload)
            if context is not None:
                live.contexts().recorded(receipt.ordinal)
        except BaseException as error:
            _end_unborn(live, payload, error)
            raise
        return Step(live, turn, payload["step"], receipt.ordinal)


def _end_unborn(live: Live, payload: dict[str, Any], error: BaseException) -> None:
    """End a step that nobody gets: an interrupt came when its start was in the log already."""
    if isinstance(error, TurnlogError):
        return
    try:
        running = live.current().step
        if running is not None and running.id == payload["step"]:
            Step(live, payload["turn"], running.id, running.ordinal).fail(error)
    except Exception as cause:  # noqa: BLE001 - the exception that stopped the start is the one to see
        error.add_note(f"turnlog could not end step {payload['step']}: {cause}")


def find_step(live: Live, turn: str, name: str) -> Step:
    """Return a step that is in the log; see `Session.step`.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> turn = session.turn("hello", id="t1")
    >>> find_step(session._keeper(), "t1", turn.step().id)
    <Step s1 running>
    """
    state = live.current()
    known = state.turn if state.turn is not None and state.turn.id == turn else state.recent_turns.get(turn)
    after = 0 if known is None else known.ordinal
    before = known.ended_ordinal + 1 if known is not None and known.ended_ordinal else None
    found = None
    for step in steps_between(live, turn, after, before):
        if step.id == name:
            found = step
    if found is None:
        raise NotFound(f"there is no step {name!r} of turn {turn!r}", session=live.session.id)
    return found


def steps_between(
    live: Live, turn: str, after: int, before: int | None, *, on_damage: str | None = None
) -> Iterator[Step]:
    """Yield the steps of a turn whose events lie between two ordinals, each with its outcome.

    >>> from turnlog import Store
    >>> session = Store.ephemeral().create()
    >>> turn = session.turn("hello", id="t1")
    >>> turn.step().complete("hi")
    >>> [step.response for step in steps_between(session._keeper(), "t1", 0, None)]
    ['hi']
    """
    step: Step | None = None
    how = live.session._on_damage if on_damage is None else on_damage
    for event in live.session.events(after=after, before=before, types=_STEPS, on_damage=how):
        fields = None if event.is_raw else understood(event.type, event.payload)
        if fields is None or fields.get("turn", turn) != turn:  # without `turn`: of the running one
            continue
        if event.type == "step.started":
            if step is not None:
                yield step
            step = Step(live, turn, str(fields.get("step")), event.ordinal)
            continue
        name = fields.get("step")
        if step is None or name not in (None, step.id) or step.outcome is not None:
            if step is not None:
                yield step
            step = Step(live, turn, str(name or ""), 0)  # an imported history knows only the response
        step.outcome, step.ended_ordinal = event.type.removeprefix("step."), event.ordinal
    if step is not None:
        yield step


def _messages(response: Any) -> Iterator[tuple[Any, tuple[str | int, ...]]]:
    """Yield the parts of a response that the next context is likely to hold as messages, with their places."""
    if not isinstance(response, dict):
        return
    yield response, ("response",)
    if isinstance(response.get("message"), dict):
        yield response["message"], ("response", "message")
    for name, inner in (("choices", "message"), ("output", None)):
        items = response.get(name)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            message = item.get(inner) if inner is not None and isinstance(item, dict) else item
            if isinstance(message, dict):
                yield message, ("response", name, index, *(() if inner is None else (inner,)))
