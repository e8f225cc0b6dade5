"""A state in the form the index keeps, and when the log lets it be trusted.

Owns: when one is made, packing and unpacking, the fold of what came after it. Invariants: a snapshot counts only if the
chain, carried on from it over every later event, ends at the log's own head, so one of another history, of a cut log or
of a changed event is never used; whatever is wrong with one, the answer is None and the whole log is folded instead.
Must not know: SQL, how a state is reduced.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import msgspec
import zstandard

from turnlog import _core
from turnlog.errors import InvalidInput
from turnlog.index.snapshots import Snapshot
from turnlog.log.log import Window
from turnlog.state.fold import fold_batches
from turnlog.state.state import SNAPSHOT_SCHEMA, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnlog._core import Event
    from turnlog.log.log import Log
    from turnlog.session import Session
    from turnlog.store import Store

BODY_BYTES_MAX = 64 << 20
SNAPSHOT_EVENTS = 4096
"""A resume folds at most about this many events behind the newest snapshot."""

CLOSING_EVENTS = 512
"""A session that closes leaves at most this many to fold."""

_LEVEL = 1  # written while a session runs

Head = tuple[int, bytes]
"""The last ordinal of a log and the chain there."""


def keep(store: Store, session: Session, *, every: int = SNAPSHOT_EVENTS) -> None:
    """Store the state of a session that is open for writing here, when it is `every` events or more behind.

    The appends go on meanwhile. Raises IndexUnavailable, StorageError, Damaged.
    """
    live = session._kept()
    if live is None or session.is_ephemeral or not session.is_writing:
        return
    if live.select(lambda state: state.ordinal) - session._snapshot_ordinal < every:
        return
    state = live.select(frozen)
    chain = _chain_at(session, state.ordinal)
    if chain is not None and store.index().put_snapshot(session.id, pack(state, chain)):
        session._snapshot_ordinal = state.ordinal


def frozen(state: State) -> State:
    """Return a copy that stays as it is while the state goes on; its records are immutable and shared."""
    copied = copy(state)
    for name in State.__struct_fields__:
        value = getattr(state, name)
        if isinstance(value, dict):
            setattr(copied, name, value.copy())
    return copied


def _chain_at(session: Session, ordinal: int) -> bytes | None:
    """Return the chain after an event: from the writer, or where it is further by now, from the log."""
    head = session._written_head()
    if head is not None and head["ordinal"] == ordinal:
        return bytes(head["chain"])
    log = session.log()
    try:
        return log.chain_at(ordinal)
    finally:
        log.close()


def pack(state: State, chain: bytes) -> Snapshot:
    """Return a state as it is stored; `chain` is the log's at its ordinal."""
    body = zstandard.ZstdCompressor(level=_LEVEL).compress(_core.canonical(state.to_snapshot()))
    return Snapshot(state.ordinal, SNAPSHOT_SCHEMA, chain, body)


def unpack(snapshot: Snapshot) -> State | None:
    """Return the state, None when the snapshot is of another schema or damaged."""
    try:
        data = zstandard.ZstdDecompressor().decompress(snapshot.body, max_output_size=BODY_BYTES_MAX)
        return State.from_snapshot(_decoded(data))
    except (zstandard.ZstdError, ValueError, TypeError, InvalidInput):
        return None


def _decoded(data: bytes) -> dict[str, object]:
    try:
        return msgspec.json.decode(data, type=dict[str, object])
    except msgspec.DecodeError:  # lone surrogates
        import json

        decoded: dict[str, object] = json.loads(data)
        return decoded


def state_after(snapshot: Snapshot, session_id: str, log: Log, head: Head) -> State | None:
    """Return the state at the log's head, folded onto a snapshot; None when the snapshot is not of this log.

    Raises Damaged, NewerFormat, StorageError.
    """
    state = unpack(snapshot)
    if state is None or (state.session_id, state.ordinal) != (session_id, snapshot.ordinal):
        return None
    end = snapshot.ordinal, snapshot.chain
    is_linked = True

    def linked() -> Iterator[Sequence[Event]]:
        nonlocal end, is_linked
        for batch in log.batches(Window(after=snapshot.ordinal, before=head[0] + 1)):
            reached = link(batch, *end)
            if reached is None:
                is_linked = False
                return
            end = reached
            yield batch

    fold_batches(linked(), state)
    return state if is_linked and end == head else None


def link(batch: Sequence[Event], ordinal: int, chain: bytes) -> Head | None:
    """Carry a chain on over events; None where one is missing."""
    for event in batch:
        ordinal += 1
        if event.ordinal != ordinal:
            return None
        chain = _core.chain_next(chain, ordinal, event.event_id, event.time_us, event.digest, event.type)
    return ordinal, chain
