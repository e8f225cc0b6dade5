"""Settings: kept whole in the log and in the state, own ones apart, misspelt ones refused with a hint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog import InvalidInput, Session, Store
from turnlog.settings import checked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LARGE: dict[str, Any] = {"A": "x" * 200_000, "$artifact": {"digest": "none of ours"}, "deep": [{"$$artifact": 1}]}
CUSTOM: dict[str, Any] = {"acme.theme": {"colour": "red", "$artifact": 1}, "acme.note": "y" * 100_000}
WAYS: dict[str, Callable[[Store], Session]] = {
    "create": lambda store: store.create(environment=LARGE, custom=CUSTOM),
    "configure": lambda store: _configured(store.create()),
    "fork": lambda store: store.fork(store.create(), environment=LARGE, custom=CUSTOM),
}


def _configured(session: Session) -> Session:
    session.configure(environment=LARGE, custom=CUSTOM)
    return session


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.mark.parametrize("way", WAYS)
def test_settings_of_any_size_and_name_come_back_as_they_were_given(store: Store, way: str) -> None:
    session = WAYS[way](store)
    session.append("acme.note", {})
    given = {"environment": LARGE, **CUSTOM}
    assert session.state.settings == given
    (event,) = [event for event in session.events() if "environment" in event.payload]
    assert {name: session.payload(event)[name] for name in given} == given
    session.close()
    with store.resume(session.id) as again:
        assert again.state.settings == given


def test_large_settings_of_a_turn_stay_whole_and_its_input_goes_aside(store: Store) -> None:
    with store.create() as session, session.turn("x" * 100_000, environment=LARGE, custom=CUSTOM) as turn:
        assert turn.settings == {"environment": LARGE, **CUSTOM}
        turn.complete()
    (started,) = store.session(session.id).events(types=["turn.started"])
    assert list(started.payload["input"]) == ["$artifact"]
    assert started.payload["settings"]["environment"]["A"] == LARGE["A"]
    (view,) = store.session(session.id).turns()
    assert (view.settings, view.input) == ({"environment": LARGE, **CUSTOM}, "x" * 100_000)
    assert store.session(session.id).state.settings == {}


def test_a_setting_is_taken_back_by_none(store: Store) -> None:
    with store.create(effort="high", custom={"acme.theme": "dark"}) as session:
        session.configure(effort=None, custom={"acme.theme": None})
        assert session.state.settings == {}


@pytest.mark.parametrize(
    ("method", "given", "meant"),
    [
        ("create", "modle", "model"),
        ("create", "titel", "title"),
        ("create", "durablity", "durability"),
        ("fork", "permision_mode", "permission_mode"),
        ("configure", "efort", "effort"),
        ("turn", "on_runing", "on_running"),
        ("turn", "timeout", "timeout_ms"),
    ],
)
def test_a_misspelt_keyword_is_refused_with_the_one_that_was_meant(
    store: Store, method: str, given: str, meant: str
) -> None:
    session = store.create()
    owner, first = (store, [session] if method == "fork" else []) if method in {"create", "fork"} else (session, [])
    with pytest.raises(InvalidInput, match=f"'{given}': did you mean '{meant}'"):
        getattr(owner, method)(*first, **{given: "x"})
    assert (session.head()[0], len(store.session_ids())) == (1, 1)


def test_a_keyword_that_is_like_none_is_pointed_to_custom() -> None:
    with pytest.raises(InvalidInput, match="custom="):
        checked({"temperature": 1}, None)


def test_a_fork_works_for_the_principal_it_is_given(store: Store) -> None:
    with store.create(principal="ci") as parent:
        for given, expected in (("night", "night"), (None, "ci")):
            child = store.fork(parent, principal=given)
            assert child.state.identity is not None
            assert child.state.identity.principal == expected
            assert "principal" not in child.state.settings
