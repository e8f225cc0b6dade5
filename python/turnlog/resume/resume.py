"""Resume: load a session, check it, fold it, put right what a dead process left open.

Owns: the order of these steps, which calls are asked about, the hooks. Invariants: nothing is decided before the log
was recovered under the session's lock; every repair is an event, all of one resume form an atomic group; a second
resume appends nothing; a call whose outcome is unknown is never run here. Must not know: frames, SQL, how a call is
classified (dangling.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.errors import Damaged, IndexUnavailable, Locked
from turnlog.log.log import Window
from turnlog.resume import dangling
from turnlog.resume.recovered import DanglingCall, Recovery
from turnlog.resume.snapshots import frozen, state_after
from turnlog.state.fold import fold_batches
from turnlog.state.reduce import reduce
from turnlog.state.state import SNAPSHOT_SCHEMA, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from turnlog.log.log import Log
    from turnlog.resume.snapshots import Head
    from turnlog.session import Session
    from turnlog.store import Store

    Hook = Callable[[Recovery], Any]
    Verifier = Callable[[str], Any]


def resume(
    store: Store,
    id: str,
    *,
    verifier: Verifier | None = None,
    hooks: Iterable[Hook] = (),
    accept_damage: bool = False,
) -> Session:
    """Return the session, open for writing, its state folded and repaired; see `Store.resume`."""
    session = store.session(id)
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
        self.recovery = Recovery(session.id)
        self.state = State(session.id)
        self.recovery.accepts_damage = self._accept_damage = accept_damage
        self._sources: dict[dangling.Key, Any] = {}

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
            written = self.session._written_head()
            head = log.head() if written is None else (written["ordinal"], written["chain"])
            state = self._from_snapshot(log, head) or self._fold(log)
            self.state = self.session._begin_with(state)
            self.session._snapshot_ordinal = self.recovery.snapshot_ordinal
            lost = {error.lost for error in log.damage if error.lost is not None}
            self.recovery.damaged = sorted(lost.union(self.recovery.damaged))
        finally:
            log.close()

    def _from_snapshot(self, log: Log, head: Head) -> State | None:
        try:
            snapshot = self.store.index().snapshot(self.session.id, SNAPSHOT_SCHEMA, head[0])
        except IndexUnavailable as error:
            self.store.index_error = error
            return None
        if snapshot is None or not self.recovery.writable:
            return None
        state = state_after(snapshot, self.session.id, log, head)
        if state is not None:
            self.recovery.snapshot_ordinal = snapshot.ordinal
        return state

    def _fold(self, log: Log) -> State:
        state = State(self.session.id)
        window = Window(on_damage="skip" if self._accept_damage else "raise")
        return fold_batches(log.batches(window), state)

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
        return dangling.repairs(self.state, self._sources)

    def _proposal(self, ordinal: int) -> Any:
        """Return the payload of a call's proposal; empty when it was lost."""
        found = self.session.events(after=ordinal - 1, before=ordinal + 1, on_damage="skip")
        payload = next((event.payload for event in found if not event.is_raw), None)
        return payload if isinstance(payload, dict) else {}

    def ask(self, verifier: Verifier) -> None:
        """Let the verifier settle what is unknown and may not simply be repeated."""
        for call in list(self.state.open_calls.values()):
            if not dangling.may_run_again(call, self._sources):
                self.session.call(*call.key).resolve(verifier)

    def report_calls(self) -> None:
        """Put every call that matters into its class."""
        state, recovery, sources = self.state, self.recovery, self._sources
        recovery.events, recovery.violations = state.events, state.violation_count
        recovery.interrupted = dangling.interrupted_turn(state)
        finished = dangling.finished_calls(state, recovery.interrupted)
        recovery.reused = [DanglingCall(call, dangling.FINISHED, self.session.call) for call in finished]
        recovery.retryable, recovery.unknown = [], []
        for call in state.open_calls.values():
            place = recovery.retryable if dangling.may_run_again(call, sources) else recovery.unknown
            place.append(DanglingCall(call, dangling.standing(call, sources), self.session.call))


def _named(type: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Return an appended event as the report names it."""
    names: dict[str, Any] = {name: payload[name] for name in ("turn", "step", "call_id") if name in payload}
    return {"kind": "event", "event": type, **names}
