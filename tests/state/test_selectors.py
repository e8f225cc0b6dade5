"""Listeners: called for each change of what they selected, and for nothing else, whatever other listeners do."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from tests.histories import Item, histories
from turnlog.state.reduce import reduce
from turnlog.state.selectors import FAILURES_MAX, Subscription, Watcher
from turnlog.state.state import State

if TYPE_CHECKING:
    from collections.abc import Callable


class Desk:
    """A watched state and what its listeners heard."""

    def __init__(self) -> None:
        self.reports: list[tuple[Subscription, Exception]] = []
        self.watcher = Watcher(State(), report=lambda subscription, error: self.reports.append((subscription, error)))
        self.heard: list[tuple[Any, Any]] = []

    def listen(self, selector: Callable[[State], Any]) -> Subscription:
        return self.watcher.subscribe(selector, lambda new, old: self.heard.append((new, old)))

    def event(self, type: str, **payload: Any) -> None:
        reduce(self.watcher.state, type, self.watcher.state.ordinal + 1, 0, payload)
        self.watcher.notify()


def test_a_listener_hears_of_its_part_only() -> None:
    desk = Desk()
    desk.listen(lambda state: state.title)
    desk.event("session.renamed", title="A")
    desk.event("message.user", content="Hello")
    desk.event("session.renamed", title="A")
    desk.event("session.renamed", title="B")
    assert desk.heard == [("A", ""), ("B", "A")]


def test_a_part_that_is_changed_in_place_is_noticed() -> None:
    desk = Desk()
    desk.listen(lambda state: state.open_calls)
    desk.event("turn.started", turn="t1")
    desk.event("tool.proposed", turn="t1", call_id="c1")
    desk.event("tool.denied", turn="t1", call_id="c1")
    assert [([*new], [*old]) for new, old in desk.heard] == [([("t1", "c1")], []), ([], [("t1", "c1")])]


@given(histories(events_max=60))
def test_a_listener_is_called_exactly_when_its_part_differs(items: list[Item]) -> None:
    desk = Desk()
    selectors: list[Callable[[State], Any]] = [
        lambda state: state.turn,
        lambda state: state.usage,
        lambda state: len(state.open_calls),
        lambda state: state.tasks,
    ]
    subscriptions = [desk.watcher.subscribe(selector, lambda *_: None) for selector in selectors]
    seen = [repr(selector(desk.watcher.state)) for selector in selectors]
    changes = [0] * len(selectors)
    for type, payload in items:
        desk.event(type, **payload)
        for at, selector in enumerate(selectors):
            now = repr(selector(desk.watcher.state))
            changes[at] += now != seen[at]
            seen[at] = now
    assert [subscription.calls for subscription in subscriptions] == changes


def test_a_closed_subscription_hears_nothing_more() -> None:
    desk = Desk()
    with desk.listen(lambda state: state.title):
        desk.event("session.renamed", title="A")
    desk.event("session.renamed", title="B")
    assert desk.heard == [("A", "")]


def test_a_listener_may_end_another_one_that_comes_after_it() -> None:
    desk = Desk()
    desk.watcher.subscribe(lambda state: state.title, lambda *_: second.close())
    second = desk.listen(lambda state: state.title)
    desk.event("session.renamed", title="A")
    assert (desk.heard, second.closed) == ([], True)


def test_a_listener_that_raises_is_reported_and_the_others_are_called() -> None:
    desk = Desk()

    def fail(new: object, old: object) -> None:
        raise ValueError(new)

    failing = desk.watcher.subscribe(lambda state: state.title, fail)
    desk.listen(lambda state: state.title)
    for number in range(FAILURES_MAX + 2):
        desk.event("session.renamed", title=f"A{number}")
    assert len(desk.heard) == failing.calls == len(desk.reports) == FAILURES_MAX + 2
    assert {subscription for subscription, _ in desk.reports} == {failing}
    assert [str(error) for error in desk.watcher.failures] == [f"A{number}" for number in range(2, FAILURES_MAX + 2)]


def test_a_selector_that_raises_later_is_reported() -> None:
    desk = Desk()
    desk.watcher.subscribe(lambda state: 1 // (3 - state.ordinal), lambda *_: None)
    for _ in range(4):
        desk.event("session.archived")
    assert [type(error) for _, error in desk.reports] == [ZeroDivisionError]


def test_an_interrupt_in_a_listener_is_not_held_back() -> None:
    desk = Desk()

    def interrupt(new: object, old: object) -> None:
        raise KeyboardInterrupt

    subscription = desk.watcher.subscribe(lambda state: state.title, interrupt)
    with pytest.raises(KeyboardInterrupt):
        desk.event("session.renamed", title="A")
    subscription.close()
    desk.listen(lambda state: state.title)
    desk.event("session.renamed", title="B")
    assert desk.heard == [("B", "A")]


def test_a_listener_may_change_the_state_and_all_hear_of_it() -> None:
    desk = Desk()
    desk.listen(lambda state: state.tags)
    desk.watcher.subscribe(lambda state: state.title, lambda new, _: desk.event("session.tagged", tags=[new]))
    desk.event("session.renamed", title="A")
    assert desk.heard == [(("A",), ())]


def test_a_listener_may_be_called_at_once() -> None:
    watcher = Watcher(State("s"))
    heard: list[tuple[str, str | None]] = []
    watcher.subscribe(lambda state: state.session_id, lambda new, old: heard.append((new, old)), now=True)
    watcher.notify()
    assert heard == [("s", None)]


def test_without_a_reporter_a_failure_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    watcher = Watcher(State())
    watcher.subscribe(lambda state: state.title, lambda new, old: {"": ""}[new])
    reduce(watcher.state, "session.renamed", 1, 0, {"title": "A"})
    with caplog.at_level(logging.ERROR, logger="turnlog"):
        watcher.notify()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [KeyError]
