"""What an event does to a session's identity and settings."""

from __future__ import annotations

from typing import Any

from tests.state.folding import codes, reduced


def test_settings_change_and_identity_does_not() -> None:
    created = {"title": "A  b", "model": "m1", "principal": "p", "tags": ["x"], "tools": [{"name": "bash"}]}
    changes = {"model": "m2", "tools": None, "product": "other", "source": {"line": 1}}
    state = reduced(("session.created", created), ("session.configured", changes))
    assert state.identity is not None
    assert (state.identity.principal, state.title, state.tags) == ("p", "A b", ("x",))
    assert (state.model, state.settings) == ("m2", {"model": "m2", "product": "other"})


def test_a_fork_opens_what_was_closed_and_names_its_parent() -> None:
    fork: dict[str, Any] = {"parent": "s0", "fork_ordinal": 2, "parent_chain": "ab", "model": "m2"}
    created: dict[str, Any] = {"model": "m1", "principal": "p"}
    state = reduced(("session.created", created), ("session.closed", {}), ("session.forked", fork))
    assert state.identity is not None
    assert (state.identity.ordinal, state.identity.principal, state.identity.parent) == (3, "p", "s0")
    assert [(origin.parent, origin.fork_ordinal) for origin in state.lineage] == [("s0", 2)]
    assert (state.phase, state.model, codes(state)) == ("open", "m2", [])
