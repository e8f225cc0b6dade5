"""Running a tool call: the intent durable, then the tool, then its outcome durable; a finished one is never run again.

Owns: `run`, `run_async`, and `start`, `complete`, `fail` for tools that run elsewhere. Invariants: `tool.started` is
durable before the function begins; whatever the function does, an outcome follows, or waits in memory when the log
cannot take it; a call that was started and has no outcome is not started again, unless it is repeatable (`effect` none
or idempotent) or was resolved as not executed. Must not know: approval, who decided.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar, overload

from turnlog.arguments import require_function
from turnlog.errors import InvalidInput, InvalidTransition, OutcomeUnknown
from turnlog.model.call_view import CallView
from turnlog.model.calling import arguments_for, aside, finished, is_async, pause, refuse_generator, stopped_by
from turnlog.model.calls import Outcome, describe, kind_of, save, told
from turnlog.state.transitions import EXTERNAL, STARTED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Self

Value = TypeVar("Value")


class CallRun(CallView):
    """The running of a tool call; applications meet it as `ToolCall`."""

    __slots__ = ()

    # -- running ---------------------------------------------------------------------------------------------------

    @overload
    def run(self, fn: Callable[..., Awaitable[Value]], /, *args: Any, **kwargs: Any) -> Awaitable[Value]: ...
    @overload
    def run(self, fn: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Value: ...
    def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run the tool once and return its result; if the result is in the log, return that and run nothing.

        Without `args` and `kwargs`, `fn` is called with the proposal's arguments: an object's members as keywords,
        anything else as the one argument. A parameter of `fn` named `idempotency_key` is given the call's key. A
        coroutine function makes this an awaitable, see `run_async`.

        The first return is what `fn` returned; a replay gives its JSON form, or the text of its repr when it had none.
        An exception of `fn` is recorded as tool.failed and raised; a replay raises ToolFailed. If `fn` is interrupted
        (KeyboardInterrupt, cancellation) the outcome of an external call is unknown, a repeatable one is cancelled.
        Another thread that runs the same call is waited for.

        Raises OutcomeUnknown when it was started before and may have had its effect, InvalidTransition when it may not
        run (denied, cancelled, waiting for approval), InvalidInput for a generator function, whose call runs nothing (a
        function that returns a generator fails), and what an append raises: the result is then kept in memory,
        and the next `run` or `result` stores it without running the tool again.

        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("send it")
        >>> def send(to, idempotency_key):
        ...     return {"to": to, "key": len(idempotency_key)}
        >>> turn.tool_call("send", {"to": "team"}, call_id="c1").run(send)
        {'to': 'team', 'key': 36}
        """
        require_function("fn", fn, optional=False)
        if is_async(fn):
            return self.run_async(fn, *args, **kwargs)
        refuse_generator(fn)
        kept = self._entry.outcome()
        if kept is not None:
            return kept.value(self.key, self._live.session.id)
        self._entry.enter(self.key)
        try:
            found, given, named = self._begin(fn, args, kwargs)
            if found is not None:
                return found.value(self.key, self._live.session.id)
            began = time.monotonic()
            try:
                value = fn(*given, **named)
                if hasattr(value, "__await__"):
                    if hasattr(value, "close"):
                        value.close()
                    raise InvalidInput(f"{kind_of(fn)} returned an awaitable: use `await call.run_async(...)`")
                finished(value, fn)
            except BaseException as error:
                self._failed(error, began)
                raise
            self._completed(value, began)
            return value
        finally:
            self._entry.leave()

    @overload
    async def run_async(self, fn: Callable[..., Awaitable[Value]], /, *args: Any, **kwargs: Any) -> Value: ...
    @overload
    async def run_async(self, fn: Callable[..., Value], /, *args: Any, **kwargs: Any) -> Value: ...
    async def run_async(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do as `run` does, awaiting what `fn` returns; under asyncio, appends do not block the loop.

        Cancelling the await while the log is written waits for that write, so nothing acknowledged is lost.

        >>> import asyncio
        >>> from turnlog import Store
        >>> turn = Store.ephemeral().create().turn("fetch it")
        >>> async def fetch(url):
        ...     return {"status": 200}
        >>> asyncio.run(turn.tool_call("fetch", {"url": "https://example.org"}).run_async(fetch))
        {'status': 200}
        """
        require_function("fn", fn, optional=False)
        refuse_generator(fn)
        while not self._entry.try_enter(self.key):
            await pause(self.call_id)  # another task or thread runs the same call
        try:
            found, given, named = await aside(lambda: self._begin(fn, args, kwargs), undo=self._not_begun)
            if found is not None:
                return found.value(self.key, self._live.session.id)
            began = time.monotonic()
            try:
                answer: Any = fn(*given, **named)
                if hasattr(answer, "__await__"):
                    answer = await answer
                finished(answer, fn)
            except BaseException as error:
                interrupted = error
                await aside(lambda: self._failed(interrupted, began))
                raise
            await aside(lambda: self._completed(answer, began))
            return answer
        finally:
            self._entry.leave()

    def _begin(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Outcome | None, tuple[Any, ...], dict[str, Any]]:
        """Return the outcome if there is one; else make `tool.started` durable and return what to call `fn` with."""
        outcome = self._outcome()
        if outcome is not None:
            return outcome, (), {}
        with self._entry.deciding:
            self._refuse_unknown()
            given, named, unfit = arguments_for(fn, args, kwargs, self)
            if unfit is not None:
                self._live.check("tool.started", self._payload())
                save(self._live, self._entry, "tool.failed", self._payload(error=describe(unfit)))
                raise unfit
            self._start()
        return None, given, named

    def _start(self) -> None:
        payload = self._payload(idempotency_key=self.idempotency_key, attempt=self.record.attempts + 1)
        self._live.record("tool.started", payload)

    def _refuse_unknown(self) -> None:
        call = self.record
        if self.standing == "unknown" and call.effect == EXTERNAL:
            was_seen = call.standing == "unknown"
            how = "was started before" if was_seen else "may have been started by an event that is lost,"
            raise OutcomeUnknown(
                f"tool call {self.call_id!r} of turn {self.turn_id!r} {how} and nothing says how it ended; resolve it "
                "with a verifier or a person's word",
                session=self._live.session.id,
                ordinal=call.started_ordinal,
            )

    def _not_begun(self) -> None:
        """Note that nothing ran: the await was cancelled while the intent was being stored."""
        if self.record.state == STARTED:
            save(self._live, self._entry, "tool.cancelled", self._payload(reason="cancelled before it ran"))

    def _completed(self, value: Any, began: float) -> None:
        save(self._live, self._entry, "tool.completed", self._payload(content=value, duration_ms=_since(began)))
        self._entry.keep(Outcome(True, value))

    def _failed(self, error: BaseException, began: float) -> None:
        type, fields = stopped_by(error, self.effect, self._live.ended_by)
        try:
            save(self._live, self._entry, type, self._payload(**fields, duration_ms=_since(began)))
        except Exception as cause:  # noqa: BLE001 - the tool's own exception is the one to raise
            error.add_note(f"turnlog could not record the outcome of tool call {self.call_id!r}: {cause}")

    # -- running elsewhere -----------------------------------------------------------------------------------------

    def start(self) -> str:
        """Note, durably, that something outside this program begins to run it; return the idempotency key to hand on.

        `complete` or `fail` must follow. Raises as `run`, and InvalidTransition for a finished call.

        >>> from turnlog import Store
        >>> call = Store.ephemeral().create().turn("deploy").tool_call("deploy", {"to": "test"})
        >>> len(call.start()), call.state
        (36, 'started')
        >>> call.complete({"ok": True}).result
        {'ok': True}
        """
        self._entry.enter(self.key)
        try:
            with self._entry.deciding:
                self._refuse_unknown()
                self._start()
        except BaseException:
            self._entry.leave()
            raise
        self._entry.thread = None
        return self.idempotency_key

    def complete(self, result: Any = None) -> Self:
        """Note the result of a call that was begun by `start`. Raises InvalidTransition.

        >>> from turnlog import Store
        >>> call = Store.ephemeral().create().turn("deploy").tool_call("deploy")
        >>> _ = call.start()
        >>> call.complete("done").state
        'completed'
        """
        return self._end("tool.completed", Outcome(True, result), content=result)

    def fail(self, error: BaseException | str) -> Self:
        """Note that a call begun by `start` failed, or that one could not begin. Raises InvalidTransition.

        >>> from turnlog import Store
        >>> call = Store.ephemeral().create().turn("deploy").tool_call("deplyo")
        >>> call.fail("there is no such tool").state
        'failed'
        """
        kept = told(error)
        return self._end("tool.failed", Outcome(False, error=kept), error=kept)

    def _end(self, type: str, outcome: Outcome, **fields: Any) -> Self:
        if self.is_running and self._entry.thread is not None:
            raise InvalidTransition(f"tool call {self.call_id!r} is being run by `run`", "call_running")
        with self._entry.deciding:
            self._live.ready()
            self._live.check(type, self._payload())
            save(self._live, self._entry, type, self._payload(**fields))
        self._entry.keep(outcome)
        if self.is_running:
            self._entry.leave()
        return self


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
