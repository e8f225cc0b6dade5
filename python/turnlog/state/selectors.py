"""Listeners that are called when the part of the state they selected has changed.

Owns: subscriptions, the comparison with what a listener saw last. Invariants: a listener is called once for each change
it can see and never without one; one that raises is reported and stays subscribed, the others and the caller are not
affected; without subscriptions `notify` costs a comparison. Must not know: events, what a state holds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from turnlog.arguments import require_function

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

Part = TypeVar("Part")
Whole = TypeVar("Whole")
Report = Callable[["Subscription", Exception], None]

FAILURES_MAX = 16
_COPIED = (dict, list, set)


def report_to_log(subscription: Subscription, error: Exception) -> None:
    """Write a listener's exception to the logger `turnlog`: what happens unless a watcher is given a `report`.

    >>> watcher = Watcher({"n": 1}, report=report_to_log)
    """
    import logging

    logging.getLogger("turnlog").error("a listener of the session's state failed: %r", subscription, exc_info=error)


class Subscription:
    """One listener; `close` ends it, and so does leaving its `with` block. `calls` counts how often it was called."""

    __slots__ = ("_watcher", "callback", "calls", "closed", "seen", "selector")

    def __init__(
        self, watcher: Watcher[Any], selector: Callable[[Any], Any], callback: Callable[[Any, Any], object]
    ) -> None:
        """Use `Watcher.subscribe`."""
        self._watcher = watcher
        self.selector = selector
        self.callback = callback
        self.seen: Any = None
        self.calls = 0
        self.closed = False

    def close(self) -> None:
        """Stop listening; idempotent, also from inside the callback.

        >>> with Watcher({"n": 1}).subscribe(len, print) as subscription:
        ...     subscription.closed
        False
        >>> subscription.closed
        True
        """
        self._watcher.forget(self)

    def __enter__(self) -> Self:
        """Return the subscription."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening."""
        self.close()

    def __repr__(self) -> str:
        """Name the listener."""
        return f"<Subscription of {getattr(self.callback, '__qualname__', self.callback)}>"


class Watcher(Generic[Whole]):
    """Tells listeners what changed in a state that is changed in place.

    Whoever changes the state calls `notify` afterwards, one thread at a time. Subscriptions may come and go from any
    thread.

    >>> from turnlog.state.reduce import reduce
    >>> from turnlog.state.state import State
    >>> watcher = Watcher(State())
    >>> subscription = watcher.subscribe(lambda state: state.title, lambda new, old: print(repr(old), "->", repr(new)))
    >>> reduce(watcher.state, "session.renamed", 1, 0, {"title": "Flaky test"}); watcher.notify()
    '' -> 'Flaky test'
    >>> reduce(watcher.state, "message.user", 2, 0, {"content": "Hello"}); watcher.notify()
    >>> subscription.close()
    """

    def __init__(self, state: Whole, report: Report = report_to_log) -> None:
        """Watch `state`; `report` is given each exception of a listener, and `failures` keeps the latest."""
        self.state = state
        self.failures: list[Exception] = []
        self._report = report
        self._guard = threading.Lock()
        self._subscriptions: tuple[Subscription, ...] = ()
        self._notifying = False
        self._again = False

    @property
    def has_listeners(self) -> bool:
        """Whether anybody is to be told."""
        return bool(self._subscriptions)

    def subscribe(
        self, selector: Callable[[Whole], Part], callback: Callable[[Part, Part], object], *, now: bool = False
    ) -> Subscription:
        """Call `callback(new, old)` whenever what `selector` returns is neither the same object nor equal to the last.

        `now` calls it once at the start, with None as `old`. A selector should be cheap and return something small: a
        field, a record, a tuple. Raises InvalidInput (no function), and what the selector raises.

        >>> Watcher({"n": 1}).subscribe(lambda state: state["n"], lambda new, old: print(old, new), now=True).close()
        None 1
        """
        require_function("callback", callback, optional=False)
        subscription = Subscription(self, selector, callback)
        if not now:
            subscription.seen = _kept(selector(self.state))
        with self._guard:
            self._subscriptions = (*self._subscriptions, subscription)
        if now:
            self._deliver(subscription)
        return subscription

    def forget(self, subscription: Subscription) -> None:
        """End a subscription; the same as its `close`.

        >>> watcher = Watcher({"n": 1})
        >>> watcher.forget(watcher.subscribe(len, print))
        """
        subscription.closed = True
        with self._guard:
            self._subscriptions = tuple(other for other in self._subscriptions if other is not subscription)

    def notify(self) -> None:
        """Call the listeners whose part has changed since they were called last.

        A listener may change the state and notify again: the others then hear of it after this round.

        >>> Watcher({"n": 1}).notify()
        """
        if not self._subscriptions:
            return
        if self._notifying:
            self._again = True
            return
        self._notifying = True
        try:
            self._again = True
            while self._again:
                self._again = False
                for subscription in self._subscriptions:
                    self._deliver(subscription)
        finally:
            self._notifying = False

    def _deliver(self, subscription: Subscription) -> None:
        """Call a listener if its part is another one than it saw last."""
        if subscription.closed:
            return
        try:
            selected, seen = subscription.selector(self.state), subscription.seen
            if selected is seen or selected == seen:
                return
            subscription.seen = selected = _kept(selected)
            subscription.calls += 1
            subscription.callback(selected, seen)
        except Exception as error:  # noqa: BLE001 - a listener's failure is reported, and is not the writer's
            self.failures = [*self.failures, error][-FAILURES_MAX:]
            self._report(subscription, error)


def _kept(selected: Any) -> Any:
    """Return what to compare with later: a copy of what may be changed in place."""
    return selected.copy() if isinstance(selected, _COPIED) else selected
