"""Small histories and the state they fold to, for the tests of the rules. Must not know: what a rule does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.state.reduce import reduce
from turnlog.state.state import State

if TYPE_CHECKING:
    from tests.histories import Item


def reduced(*items: Item, session: str = "") -> State:
    state = State(session)
    for ordinal, (type, payload) in enumerate(items, 1):
        reduce(state, type, ordinal, ordinal * 1_000, payload)
    return state


def codes(state: State) -> list[str]:
    return [violation.code for violation in state.violations]


TURN: Item = ("turn.started", {"turn": "t1"})
CALL: Item = ("tool.proposed", {"turn": "t1", "call_id": "c1", "name": "bash"})


def call(name: str, **more: Any) -> Item:
    return f"tool.{name}", {"turn": "t1", "call_id": "c1", **more}
