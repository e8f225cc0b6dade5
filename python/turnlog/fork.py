"""Forks: a session that goes on from an ordinal of another one's history, without copying it.

1. Take the fork point: ordinal, chain and last inherited event of the parent, all of it durable.
2. Build the child's folder under a temporary name: one segment with the lineage in its header, one atomic group that
   names parent and settings, and an orderly end.
3. Sync it, rename the folder, sync its parent folder: a crash leaves no fork or a whole one.

Owns: these steps, who was forked from whom, and the common point of two sessions. Invariants: nothing that a crash
could take back is inherited; the cost does not grow with the parent (at most one segment is walked for the chain).
Must not know: how inherited events are read (log.py), the index's tables.
"""

from __future__ import annotations

import errno
import os

from turnlog import _core, disk, names
from turnlog.errors import Conflict, Damaged, InvalidInput, NotFound, PayloadTooLarge
from turnlog.ids import format_id, new_id, now_us, parse_id
from turnlog.log import folders
from turnlog.log.lineage import FORKED, Origin
from turnlog.log.log import Log, Window
from turnlog.log.segments import first_fields, list_segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from turnlog._core import SegmentReader
    from turnlog.session import Session

_CONFIGURED = "session.configured"
_FRAMES_BACK = 8  # control frames that may lie behind the last event
_ANY_CHAIN = bytes(32)
_EPOCH = 1

_TURN_ENDS = ("turn.completed", "turn.aborted", "turn.failed", "turn.interrupted")


class Point:
    """Where a fork begins: the origin, and the id of the last inherited event (None: it was lost)."""

    __slots__ = ("event", "origin")

    def __init__(self, origin: Origin, event: str | None) -> None:
        """Keep the parts."""
        self.origin = origin
        self.event = event


class _End:
    """The durable end of a session: last ordinal, chain, and where its last frames lie."""

    __slots__ = ("chain", "offset", "ordinal", "path")

    def __init__(self, ordinal: int, chain: bytes, path: str = "", offset: int = 0) -> None:
        self.ordinal = ordinal
        self.chain = chain
        self.path = path
        self.offset = offset


# -- the fork point --------------------------------------------------------------------------------------------------


def end_of_turn(session: Session, turn: str) -> int:
    """Return the ordinal of the event that ended a turn, the newest of that id: from the session's state, where that is
    kept and has not let go of the turn, else by a search from the log's end. Raises NotFound, Damaged, StorageError.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create() as session:
    ...     with session.turn("hello", id="t1") as turn:
    ...         turn.complete()
    ...     end_of_turn(session, "t1")
    3
    """
    kept = session._kept()
    known = None if kept is None else kept.select(lambda state: state.recent_turns.get(turn))
    if known is not None and known.ended_ordinal:
        return int(known.ended_ordinal)
    for event in session.events(types=_TURN_ENDS, reverse=True):
        if not event.is_raw and isinstance(event.payload, dict) and event.payload.get("turn") == turn:
            return event.ordinal
    message = f"there is no turn {turn!r} that has ended"
    raise NotFound(message, session=session.id)


def fork_point(session: Session, at: int | None) -> Point:
    """Return the point after the event `at`, or after the last durable event.

    What this process has appended is synced first where `at` asks for it. Raises InvalidInput (`at` below 1), NotFound
    (no durable event has that ordinal), Damaged (the chain there cannot be computed), SyncFailed, StorageError.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create() as session:
    ...     fork_point(session, None).origin.ordinal
    1
    """
    if at is not None and at < 1:
        message = f"a fork begins after an event: 1, 2, 3, …, not {at}"
        raise InvalidInput(message, session=session.id)
    log = session.log()
    try:
        end = _durable_end(session, log, at)
        ordinal = end.ordinal if at is None else at
        if not 1 <= ordinal <= end.ordinal:
            message = f"the session has no durable event {ordinal}" if at else "the session has no event to fork after"
            raise NotFound(message, session=session.id, ordinal=ordinal)
        at_end = ordinal == end.ordinal and end.chain
        link = (end.chain, None) if at_end else log.link_at(ordinal)
        if link is None:
            message = f"the chain at event {ordinal} cannot be computed from what is left, so no fork can name it"
            raise Damaged(message, session=session.id, ordinal=ordinal)
        chain, event = link
        return Point(Origin(session.id, ordinal, chain), _event_id(log, end, ordinal) if event is None else event.id)
    finally:
        log.close()


def _durable_end(session: Session, log: Log, at: int | None) -> _End:
    """Return the durable end; an empty chain where only `at`, which lies before it, is known to be durable."""
    head = session._written_head()
    if head is not None and (at is None or at > head["durable_ordinal"]):
        session.flush()
        head = session._written_head()
    if head is not None:
        return _End(head["durable_ordinal"], head["durable_chain"], head["path"], head["durable"])
    newest = log.newest_true()
    if at is not None and newest is not None and at < newest.first_ordinal:
        return _End(newest.first_ordinal - 1, b"")  # all of it was durable before the newest segment was begun
    closed = None if newest is None else _closed_end(log.open_reader(newest))
    return _End(*log.head()) if closed is None else closed


def _closed_end(reader: SegmentReader) -> _End | None:
    """Return what the CLOSE frame that ends a segment says, None when there is no valid one."""
    end = reader.size()
    start = _frame_before(reader, end)
    fixed = reader.read(start, _core.FRAME_HEADER_MIN_BYTES + len(_ANY_CHAIN)) if start else b""
    if len(fixed) < _core.FRAME_HEADER_MIN_BYTES + len(_ANY_CHAIN) or fixed[5] != _core.KIND_CLOSE:
        return None
    _, after, _, _, _, fault = reader.replay(start, 0, limit=1)
    if fault is not None or after != end:
        return None
    ordinal = int.from_bytes(fixed[16:24], "little")
    return _End(ordinal, fixed[_core.FRAME_HEADER_MIN_BYTES :], reader.path, start)


def _event_id(log: Log, end: _End, ordinal: int) -> str | None:
    """Return the id of the event, looked for among the last frames first; None when it was lost."""
    if ordinal == end.ordinal and end.path and os.path.exists(end.path):
        with _core.SegmentReader(end.path) as reader:
            start = end.offset
            for _ in range(_FRAMES_BACK):
                start = _frame_before(reader, start)
                found = reader.replay(start, 0, end=end.offset, limit=1)[0] if start else []
                if not start or found:
                    break
            if found and found[0].ordinal == ordinal:
                return found[0].id
    return next((event.id for event in log.events(Window(ordinal - 1, ordinal + 1, None, "skip"))), None)


def _frame_before(reader: SegmentReader, end: int) -> int:
    """Return the offset of the frame that ends at `end`, by its trailer; 0 when there is none."""
    size = _core.FRAME_TRAILER_BYTES
    length = int.from_bytes(reader.read(end - size, size)[:4], "little") if end > _core.HEADER_BYTES else 0
    return end - length if length and end - length >= _core.HEADER_BYTES else 0


# -- making ----------------------------------------------------------------------------------------------------------


def make_fork(
    store: str, point: Point, *, title: str | None, tags: Iterable[str], settings: Mapping[str, Any], id: str | None
) -> str:
    """Make the folder of a fork, durably, and return the fork's id.

    `settings` are what the fork runs with instead of the parent's. Raises Conflict (the id is taken), InvalidPayload,
    PayloadTooLarge, NoSpace, ReadOnly, StorageError; then no fork was made.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create() as session:
    ...     point = fork_point(session, 1)
    ...     child = make_fork(store.path, point, title="another way", tags=[], settings={}, id=None)
    ...     store.session(child).state.title
    'another way'
    """
    child = format_id(new_id() if id is None else parse_id(id))
    origin = point.origin
    told = {"parent": origin.session, "fork_ordinal": origin.ordinal, "parent_chain": origin.chain.hex()}
    settings = dict(settings)
    given = {"parent_event": point.event, "title": title, "tags": list(tags) or None}
    given["principal"] = settings.pop("principal", None)
    events: list[tuple[str, Any]] = [(FORKED, told | {name: value for name, value in given.items() if value})]
    if settings:
        events.append((_CONFIGURED, dict(settings)))
    fields = first_fields(child, epoch=_EPOCH, origin=origin)
    name = names.segment_name(fields["first_ordinal"], fields["segment_id"])
    data = _segment(fields, events)
    folder = names.session_dir(store, child)
    try:
        disk.create_directory(folder, {name: data})
    except OSError as error:
        if error.errno in {errno.EEXIST, errno.ENOTEMPTY}:
            message = "a session with this id exists already"
            raise Conflict(message, session=child) from error
        raise disk.translate(error, f"creating {folder}").at(session=child) from error
    return child


def _segment(fields: Mapping[str, Any], events: list[tuple[str, Any]]) -> bytes:
    """Return a whole segment: header, one atomic group, orderly end."""
    data = bytearray(_core.encode_header(dict(fields)))
    ordinal, chain = fields["prev_last_ordinal"], fields["prev_chain"]
    time_us = now_us()
    common = {
        "segment_id": fields["segment_id"],
        "epoch": _EPOCH,
        "durable_off": _core.HEADER_BYTES,
        "time_us": time_us,
    }
    for type, payload in events:
        ordinal += 1
        event_id, stored = new_id(), _core.canonical(payload)
        if len(stored) > _core.PAYLOAD_MAX_BYTES:
            message = f"the settings are {len(stored)} bytes, {_core.PAYLOAD_MAX_BYTES} at most"
            raise PayloadTooLarge(message)
        chain = _core.chain_next(chain, ordinal, event_id, time_us, _core.digest(stored), type)
        last = ordinal - fields["prev_last_ordinal"] == len(events)
        data += _core.encode_frame(
            **common,
            offset=len(data),
            kind=_core.KIND_EVENT,
            flags=_core.FLAG_DURABLE | (_core.FLAG_COMMIT if last else 0),
            ordinal=ordinal,
            event_id=event_id,
            type=type,
            payload=stored,
        )
    data += _core.encode_frame(
        **common,
        offset=len(data),
        kind=_core.KIND_CLOSE,
        flags=_core.FLAG_COMMIT,
        ordinal=ordinal,
        event_id=bytes(16),
        type="",
        payload=chain,
    )
    return bytes(data)


# -- who was forked from whom ----------------------------------------------------------------------------------------


def parent_of(store: str, session_id: str) -> Origin | None:
    """Return where a session was forked, None when it is no fork; read from its log. Raises StorageError.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create() as session:
    ...     child = store.fork(session)
    ...     parent_of(store.path, child.id).session == session.id, parent_of(store.path, session.id)
    (True, None)
    """
    log = Log(names.session_dir(store, session_id), session_id)
    try:
        return log.origin()
    finally:
        log.close()


def children_of(store: str, session_id: str) -> list[str]:
    """Return the sessions that inherit from this one, in order of id; read from every session's log, not the index.

    A verb that would take a session away asks this first: its forks would lose what they inherit. Raises Damaged when
    a session's lineage cannot be read, because it may be one of them, and StorageError.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create() as session:
    ...     child = store.fork(session)
    ...     children_of(store.path, session.id) == [child.id]
    True
    """
    children = []
    for other in folders.session_ids(store):
        log = Log(names.session_dir(store, other), other)
        try:
            origin = log.origin()
            readable = log.origin_is_known() or not list_segments(log.directory)
        finally:
            log.close()
        if not readable:
            message = f"no segment header of {other} can be read, so nobody can tell whether it is a fork"
            raise Damaged(message, session=other)
        if origin is not None and origin.session == session_id:
            children.append(other)
    return children
