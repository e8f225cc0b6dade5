"""What the tests of forks share: filling sessions, and looking at what they hold. Must not know: forks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnlog import names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog import Event, Session, Store


def fill(session: Session, count: int) -> None:
    for number in range(count):
        session.append("note.written", {"number": number, "text": "x" * 500}, durability="buffered")


def ordinals(found: Iterator[Event]) -> list[int]:
    return [event.ordinal for event in found]


def folder(store: Store, session_id: str) -> str:
    return names.session_dir(store.path, session_id)
