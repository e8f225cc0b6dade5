"""Resume: load a session, check it, fold it, put right what a dead process left open.

Owns: the order of these steps, which calls are asked about, the hooks. Invariants: nothing is decided before the log
was recovered under the session's lock; every repair is an event, all of one resume form an atomic group; a second
resume appends nothing; a call whose outcome is unknown is never run here. Must not know: frames, SQL, how a call is
classified (dangling.py).
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from turnlog import events
from turnlog.errors import Damaged, IndexUnavailable, Locked
from turnlog.log.ahead import read_ahead
from turnlog.log.log import Window
from turnlog.resume import dangling
from turnlog.resume.recovered import DanglingCall, Recovery
from turnlog.resume.snapshots import frozen, state_after
from turnlog.state.fold import fold_batches
from turnlog.state.reduce import RULES, lose, reduce
from turnlog.state.state import SNAPSHOT_SCHEMA, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from turnlog.log.log import Log
    from turnlog.resume.snapshots import Head
    from turnlog.session import Session
    from turnlog.store import Store

    Hook = Callable[[Recovery], Any]
    Verifier = Callable[[str], Any]

_ENDING = frozenset({"turn", "step", "tool"})
"""The families whose events end what can be open."""

_OTHERS = "(other)"  # in `State.unknown`: names beyond those that it counts apart


def resume(
    store: Store,
    id: str,
    *,
    verifier: Verifier | None = None,
    hooks: Iterable[Hook] = (),
    accept_damage: bool = False,
) -> Session:
    """Return the session, open for writing, its state folded and repaired; see `Store.resume`."""
    was_open = store._opened(store.resolve(id)) is not None
    session = store.session(id)
    before = session._on_damage
    if session._written_head() is not None:
        message = "the session is open for writing in this process already; close it before it is resumed"
        raise Locked(message, session=session.id)
    try:
        work = Resume(store, session, accept_damage=accept_damage)
        work.open()
        work.load()
        work.repair()
        session.recovery = work.recovery
        if verifier is not None:
            work.ask(verifier)
        work.report_calls()
        for hook in hooks:
            hook(work.recovery)
    except BaseException:
        session._on_damage = before
        if was_open:  # somebody reads from it
            session._stop_writing()
        else:
            session.close()  # whoever could not resume it must not keep its lock
        raise
    return session


def preview(store: Store, id: str) -> tuple[Session, Recovery, State]:
    """Return a session for reading, what a resume of it would report, and its state then; takes no lock, writes
    nothing.

    `repaired` holds the events that it would append, without ordinals. Damage is passed over and named. Raises
    SessionNotFound, Damaged (the newest segment cannot be read at all), StorageError.
    """
    session = store.session(id)
    work = Resume(store, session, accept_damage=True)
    work.load()
    work.pretend()
    work.report_calls()
    session.recovery = work.recovery
    return session, work.recovery, work.state


class Resume:
    """One resume of one session."""

    def __init__(self, store: Store, session: Session, *, accept_damage: bool) -> None:
        """Prepare; nothing is touched yet."""
        self.store = store
        self.session = session
        self.recovery = Recovery(session)
        self.state = State(session.id)
        self.recovery.accepts_damage = self._accept_damage = accept_damage
        session._on_damage = "skip" if accept_damage else "raise"
        self._sources: dict[dangling.Key, Any] = {}
        self._newest = 0  # of the events that are not understood and may have ended what is open

    def open(self) -> None:
        """Take the lock and recover the log. Raises Locked, ReadOnly (damage), NewerFormat, NoSpace, StorageError."""
        try:
            appender = self.store._writer_of(self.session.id)
        except Damaged as error:
            if not self._accept_damage:
                raise
            self.recovery.writable = False
            if error.lost is not None:
                self.recovery.damaged.append(error.lost)
            return
        self.session._attach(appender)
        found = appender.recovered
        if found is not None:
            cut = {"verdict": found.verdict, "segment": found.file.name, "offset": found.scan["commit_end"]}
            self.recovery.repaired.append({"kind": "tail", **cut, "detail": found.detail()})

    def load(self) -> None:
        """Fold the log, from a snapshot when there is one that the log confirms. Raises Damaged, StorageError."""
        log = self.session.log()
        try:
            state = self._from_snapshot(log) or self._fold(log)
            found = {error.lost for error in log.damage if error.lost is not None}
            self.recovery.damaged = sorted(found.union(self.recovery.damaged))
            lose(state, max(self._head(log)[0], *(last for _, last in self.recovery.damaged), 0))
            self.state = self.session._begin_with(state)
            self.session._snapshot_ordinal = self.recovery.snapshot_ordinal
        finally:
            log.close()

    def _head(self, log: Log) -> Head:
        written = self.session._written_head()
        if written is not None:
            return written["ordinal"], written["chain"]
        try:
            return log.head()
        except Damaged:
            if not self._accept_damage:
                raise
            return 0, b""  # nothing of the newest segment can be read, as the fold has noted

    def _from_snapshot(self, log: Log) -> State | None:
        if not self.recovery.writable:
            return None
        head = self._head(log)
        try:
            snapshot = self.store.index().snapshot(self.session.id, SNAPSHOT_SCHEMA, head[0])
        except IndexUnavailable as error:
            self.store.index_error = error
            return None
        if snapshot is None:
            return None
        state = state_after(snapshot, self.session.id, log, head)
        if state is not None:
            self.recovery.snapshot_ordinal = snapshot.ordinal
        return state

    def _fold(self, log: Log) -> State:
        state = State(self.session.id)
        window = Window(on_damage="skip" if self._accept_damage else "raise", lazy=True)
        with closing(read_ahead(log.batches(window))) as batches:
            return fold_batches(batches, state)

    def repair(self) -> None:
        """Append what puts the state right, as one group, and follow it. Raises what `Session.append_many` raises."""
        planned = self._planned()
        if not planned or not self.recovery.writable:
            return
        receipts = self.session.append_many(planned, atomic=True)
        for (type, payload), receipt in zip(planned, receipts, strict=True):
            self.recovery.repaired.append({**_named(type, payload), "ordinal": receipt.ordinal})

    def pretend(self) -> None:
        """Follow what `repair` would append, on a copy of the state."""
        self.state = frozen(self.state)
        for type, payload in self._planned():
            self.recovery.repaired.append(_named(type, payload))
            reduce(self.state, type, self.state.ordinal + 1, self.state.time_us, payload)

    def _planned(self) -> list[dangling.Repair]:
        for call in dangling.unstarted(self.state):
            payload = self._proposal(call.proposed_ordinal)
            if payload.get("source") is not None:
                self._sources[call.key] = payload["source"]
        self._newest = self._newest_not_understood()
        planned = dangling.repairs(self.state, self._sources, self._newest)
        return [(type, events.stamped(type, payload)) for type, payload in planned]

    def _proposal(self, ordinal: int) -> dict[str, Any]:
        """Return what a call's proposal holds; nothing when it was lost."""
        if not ordinal:
            return {}
        found = self.session.events(after=ordinal - 1, before=ordinal + 1, on_damage="skip")
        return next((events.understood(event.type, event.payload) or {} for event in found), {})

    def _newest_not_understood(self) -> int:
        """Return the ordinal of the newest event that may have ended what is open, as far as this version can tell."""
        opened, unknown = dangling.opened(self.state), self.state.unknown
        names = {name.partition("@")[0] for name in unknown}
        types = {name for name in names if name.partition(".")[0] in _ENDING}
        if not opened or not (types or _OTHERS in names):
            return 0
        wanted = None if _OTHERS in names else types
        behind = self.session.events(after=min(opened), types=wanted, reverse=True, on_damage="skip")
        for event in behind:
            is_of_family = event.type.partition(".")[0] in _ENDING
            if is_of_family and (event.type not in RULES or events.understood(event.type, event.payload) is None):
                return event.ordinal
        return 0

    def ask(self, verifier: Verifier) -> None:
        """Let the verifier settle what is unknown and may not simply be repeated; nothing where nothing can be written,
        or what came after the call is not understood.
        """
        for call in list(self.state.open_calls.values()) if self.recovery.writable else ():
            is_unknown = dangling.class_of(call, self.state, self._sources) == dangling.UNKNOWN
            if is_unknown and call.standing == dangling.UNKNOWN and call.ordinal > self._newest:
                self.session.call(*call.key).resolve(verifier)

    def report_calls(self) -> None:
        """Put every call that matters into its class."""
        state, recovery, sources = self.state, self.recovery, self._sources
        recovery.events, recovery.violations = state.events, state.violation_count
        recovery.interrupted = dangling.interrupted_turn(state)
        finished = dangling.finished_calls(state, recovery.interrupted)
        recovery.reused = [DanglingCall(call, dangling.FINISHED, self.session.call) for call in finished]
        recovery.not_understood = [_not_understood(*one) for one in state.unknown.items()]
        classes = {dangling.RETRYABLE: recovery.retryable, dangling.WAITING: recovery.waiting}
        for call in state.open_calls.values():
            place = classes.get(dangling.class_of(call, state, sources, self._newest), recovery.unknown)
            place.append(DanglingCall(call, dangling.standing(call, state, sources), self.session.call))


def _not_understood(name: str, count: int) -> dict[str, Any]:
    """Return one kind of events that are not understood as the report names it."""
    type, _, version = name.partition("@")
    return {"event": type, "version": int(version) if version else 1, "count": count}


def _named(type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return an appended event as the report names it."""
    names: dict[str, Any] = {name: payload[name] for name in ("turn", "step", "call_id") if name in payload}
    return {"kind": "event", "event": type, **names}
