"""Arguments of a wrong type or range are InvalidInput, and nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog import InvalidInput, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from turnlog import Session

OBJECT = object()
NO_TEXT: tuple[Any, ...] = (3, 1.5, b"x", [], {}, OBJECT, True)
NO_WHOLE: tuple[Any, ...] = (1.5, "1", b"x", [], {}, OBJECT, True, -1)
NO_PATH: tuple[Any, ...] = (3, 1.5, [], {}, OBJECT, True)

CALLS: dict[str, tuple[Callable[[Store, Session, Any], object], tuple[Any, ...]]] = {
    "Store.open": (lambda _store, _session, wrong: Store.open(wrong), (*NO_PATH, None)),
    "roll_bytes": (lambda store, _session, wrong: Store.open(store.path, roll_bytes=wrong), (*NO_WHOLE, None, 0)),
    "offload_bytes": (lambda store, _session, wrong: Store.open(store.path, offload_bytes=wrong), NO_WHOLE),
    "create title": (lambda store, _session, wrong: store.create(title=wrong), NO_TEXT),
    "create model": (lambda store, _session, wrong: store.create(model=wrong), NO_TEXT),
    "create parent": (lambda store, _session, wrong: store.create(parent=wrong), NO_TEXT),
    "create cwd": (lambda store, _session, wrong: store.create(cwd=wrong), NO_PATH),
    "create tags": (lambda store, _session, wrong: store.create(tags=wrong), (3, None, "ci", b"ci", [3], OBJECT)),
    "create id": (lambda store, _session, wrong: store.create(id=wrong), (3, "x", b"x", [], OBJECT)),
    "create durability": (lambda store, _session, wrong: store.create(durability=wrong), (3, None, "x", [], OBJECT)),
    "session": (lambda store, _session, wrong: store.session(wrong), (*NO_TEXT, None)),
    "resolve": (lambda store, _session, wrong: store.resolve(wrong), (*NO_TEXT, None)),
    "session_exists": (lambda store, _session, wrong: store.session_exists(wrong), (*NO_TEXT, None)),
    "list cwd": (lambda store, _session, wrong: store.list(cwd=wrong), NO_PATH),
    "configure cwd": (lambda _store, session, wrong: session.configure(cwd=wrong), NO_PATH),
    "append type": (lambda _store, session, wrong: session.append(wrong, {}), (*NO_TEXT, None, "", "a b")),
    "append id": (lambda _store, session, wrong: session.append("a.b", {}, id=wrong), (3, "x", b"x", [], OBJECT)),
    "append level": (lambda _store, session, wrong: session.append("a.b", {}, durability=wrong), (3, None, "x", [])),
    "append_many": (lambda _store, session, wrong: session.append_many([wrong]), (3, None, "ab", ["a.b", {}], ())),
    "events after": (lambda _store, session, wrong: session.events(after=wrong), (*NO_WHOLE, None)),
    "events before": (lambda _store, session, wrong: session.events(before=wrong), NO_WHOLE),
    "events limit": (lambda _store, session, wrong: session.events(limit=wrong), NO_WHOLE),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_invalid_input_and_writes_nothing(tmp_path: Path, name: str) -> None:
    call, values = CALLS[name]
    with Store.open(tmp_path / "store") as store, store.create() as session:
        for wrong in values:
            with pytest.raises(InvalidInput):
                call(store, session, wrong)
        assert (session.head()[0], store.session_ids()) == (1, [session.id])
