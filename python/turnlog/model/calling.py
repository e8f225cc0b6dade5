"""How a tool's function is called: its arguments, what an exception of it means, appends that do not block a loop.

Owns: signatures and awaiting. Invariants: what is known to be a wrong call is found before the call is started; a
cancelled await waits for the write it was waiting for. Must not know: events, beyond the type that fits an exception.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from turnlog.errors import InvalidInput, InvalidTransition
from turnlog.model.calls import describe, kind_of
from turnlog.state.transitions import EXTERNAL

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from turnlog.model.call_view import CallView

Value = TypeVar("Value")
_ACCEPTS: WeakKeyDictionary[Callable[..., Any], _Accepts] = WeakKeyDictionary()
_STARTS_LATER = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
KEY_PARAMETER = "idempotency_key"
_POLL_S = 0.005
_CANCELLED = frozenset({"CancelledError", "Cancelled"})  # of asyncio, concurrent.futures, trio


def _is_plain(fn: Callable[..., Any]) -> bool:
    """Tell quickly of most functions that calling them runs them; of others nothing is said."""
    return fn.__class__ is FunctionType and not fn.__dict__ and not fn.__code__.co_flags & _STARTS_LATER


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether calling `fn` gives a coroutine."""
    if _is_plain(fn):
        return False
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def refuse_generator(fn: Callable[..., Any]) -> None:
    """Raise InvalidInput for a generator function: calling it runs nothing.

    >>> def lines(path):
    ...     yield path
    >>> refuse_generator(lines)
    Traceback (most recent call last):
    turnlog.errors.InvalidInput: lines is a generator function, and calling it runs nothing: let it return
    """
    if _is_plain(fn):
        return
    inner: Any = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    for made in (inner, getattr(inner, "__call__", None)):  # noqa: B004 - its code is looked at
        if inspect.isgeneratorfunction(made) or inspect.isasyncgenfunction(made):
            name = getattr(inner, "__name__", None) or inner.__class__.__name__
            message = f"{name} is a generator function, and calling it runs nothing: let it return"
            raise InvalidInput(message)


def finished(value: Value, fn: Callable[..., Any]) -> Value:
    """Return what a tool returned. Raises InvalidInput for a generator: the tool's work has not begun.

    >>> finished(3, len)
    3
    """
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        message = f"{kind_of(fn)} returned {kind_of(value)}, which has not run: give a function that returns its result"
        raise InvalidInput(message)
    return value


def arguments_for(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], call: CallView
) -> tuple[tuple[Any, ...], dict[str, Any], TypeError | None]:
    """Return the arguments to call `fn` with, and the error if they do not fit its signature."""
    if not args and not kwargs:
        given = call.arguments
        if isinstance(given, dict):
            kwargs = dict(given)
        elif given is not None:
            args = (given,)
    accepts = _accepts(fn)
    if accepts is None:
        return args, kwargs, None
    if KEY_PARAMETER in accepts.names:
        kwargs = {**kwargs, KEY_PARAMETER: call.idempotency_key}
    if args or not accepts.needed <= kwargs.keys() <= accepts.names:  # else it fits: as most calls by keywords do
        try:
            accepts.signature.bind(*args, **kwargs)
        except TypeError as error:
            return args, kwargs, error
    return args, kwargs, None


class _Accepts(NamedTuple):
    """What a function may be called with: `names` can be given as keywords, `needed` must be given."""

    signature: inspect.Signature
    names: frozenset[str]
    needed: frozenset[str]


def _accepts(fn: Callable[..., Any]) -> _Accepts | None:
    """Return that for a function, None for a built-in one that does not tell: calling it does."""
    is_plain = isinstance(fn, FunctionType)
    known = _ACCEPTS.get(fn) if is_plain else None
    if known is None:
        try:
            signature = inspect.signature(fn)
        except (TypeError, ValueError):
            return None
        listed = signature.parameters.values()
        named = frozenset(each.name for each in listed if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))
        variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = frozenset(each.name for each in listed if each.default is each.empty and each.kind not in variable)
        known = _Accepts(signature, named, needed)
        if is_plain:
            _ACCEPTS[fn] = known
    return known


def was_cancelled(error: BaseException) -> bool:
    """Tell whether an exception means "stop" rather than "this went wrong"."""
    return not isinstance(error, Exception) or error.__class__.__name__ in _CANCELLED


def interrupted_by(error: BaseException, ended_by: str | None) -> str:
    """Say what stopped a turn or a tool: the signal that closes the session, else the kind of exception.

    >>> interrupted_by(KeyboardInterrupt(), None)
    'interrupted by KeyboardInterrupt'
    """
    return f"interrupted by {ended_by or error.__class__.__name__}"


def stopped_by(error: BaseException, effect: str, ended_by: str | None) -> tuple[str, dict[str, Any]]:
    """Return the type and the fields of the event that says how a tool ended which `error` left.

    A tool that was interrupted did not say whether it had its effect: with an external one, that is unknown.
    """
    if not was_cancelled(error):
        return "tool.failed", {"error": describe(error)}
    kind = "tool.outcome_unknown" if effect == EXTERNAL else "tool.cancelled"
    return kind, {"reason": interrupted_by(error, ended_by)}


def _loop() -> AbstractEventLoop | None:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        loop: AbstractEventLoop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop


async def pause(call_id: str) -> None:
    """Let other tasks go on. Raises InvalidTransition in a loop that is not asyncio's."""
    if _loop() is None:
        raise InvalidTransition(f"tool call {call_id!r} is running already", "call_running")
    from asyncio import sleep

    await sleep(_POLL_S)


async def aside(work: Callable[[], Value], undo: Callable[[], None] | None = None) -> Value:
    """Return `work()`, done in a thread under asyncio, so that a sync does not stop the loop; elsewhere at once.

    When the await is cancelled, the work is waited for, then undone by `undo`, before the cancellation goes on.
    """
    loop = _loop()
    if loop is None:
        return work()
    import asyncio

    future = loop.run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await _settled(future)
        failure = None if future.cancelled() else future.exception()  # asking for it marks it as seen
        if undo is not None and failure is None:
            await _settled(loop.run_in_executor(None, undo))
        raise


async def _settled(future: Any) -> None:
    """Wait for a future, whatever else is cancelled meanwhile."""
    import asyncio

    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:  # the first one goes on when the future is done
            continue
