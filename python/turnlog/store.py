"""The store: a folder of sessions, opened by any number of processes.

Owns: `store.json`, the registry of sessions open in this process, the commit scheduler they share, live markers, and
the thread that keeps the index near. Invariants: the log is the truth, the index may fail or vanish without an append
noticing; closing is ordered (writers, index, markers, scheduler). Must not know: frames, SQL, what the events of an
application mean.
"""

from __future__ import annotations

import os
from _thread import RLock

from turnlog import _core, disk, identity, names
from turnlog.arguments import require_level, require_path, require_whole
from turnlog.errors import Closed, Conflict, IndexUnavailable, ReadOnly, WrongProcess
from turnlog.ids import format_id, new_id, parse_id
from turnlog.index.index import Index
from turnlog.log import folders
from turnlog.projector import Projector
from turnlog.store_forks import StoreForks
from turnlog.store_lookup import StoreLookup
from turnlog.store_model import OFFLOAD_BYTES, StoreModel, first_payload, make_ephemeral
from turnlog.store_watching import StoreWatching

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Any, Self, Unpack

    from turnlog.errors import TurnlogError
    from turnlog.log.appender import Appender
    from turnlog.session import Session
    from turnlog.settings import FirstSettings


class Store(StoreLookup, StoreModel, StoreForks, StoreWatching):
    """A folder of sessions.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create(title="flaky test") as session:
    ...     receipt = session.append("note.written", {"text": "hello"})
    """

    def __init__(
        self,
        path: str,
        *,
        read_only: bool = False,
        roll_bytes: int = _core.ROLL_BYTES,
        offload_bytes: int | None = OFFLOAD_BYTES,
    ) -> None:
        """Use `Store.open`."""
        self.path = path
        self.offload_bytes = offload_bytes
        self.read_only = read_only
        self.index_error: TurnlogError | None = None  # why the last projection failed; the log is not affected
        self._roll_bytes = roll_bytes
        self._pid = os.getpid()
        self._guard = RLock()
        self._sessions: dict[str, Session] = {}
        self._leaving: set[Session] = set()  # that are being closed
        self._committer: _core.Committer | None = None
        self._index: Index | None = None
        self._projector = Projector(self)
        self._ending = RLock()  # one closes, the others wait for it; a signal may close in the thread that does
        self._ends = False  # no session is opened for writing any more
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        read_only: bool = False,
        roll_bytes: int = _core.ROLL_BYTES,
        offload_bytes: int | None = OFFLOAD_BYTES,
    ) -> Store:
        """Open the store at `path`, making it when it is not there (`create=False`: raise StoreNotFound instead).

        `read_only` promises to write nothing at all, not even the index. `roll_bytes` is the size at which a segment
        is sealed. The session model puts strings beyond `offload_bytes` into artifacts, None: never. Raises
        StoreNotFound, NewerFormat, Damaged (`store.json` unreadable), NoSpace, ReadOnly, Unsupported.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, Store.open("runs", read_only=True) as other:
        ...     store.path == other.path
        True
        """
        disk.require_platform()
        require_path("path", path)
        require_whole("roll_bytes", roll_bytes, least=1)
        require_whole("offload_bytes", offload_bytes, optional=True)
        folder = os.path.abspath(os.fsdecode(path))
        identity.ensure(folder, create=create and not read_only)
        return cls(folder, read_only=read_only, roll_bytes=roll_bytes, offload_bytes=offload_bytes)

    # -- sessions --------------------------------------------------------------------------------------------------

    def create(
        self,
        *,
        id: str | None = None,
        title: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        model: str | None = None,
        tags: Iterable[str] = (),
        parent: str | None = None,
        durability: str = "durable",
        ephemeral: bool = False,
        custom: Mapping[str, Any] | None = None,
        **settings: Unpack[FirstSettings],
    ) -> Session:
        """Make a new session, open it for writing and append its `session.created` event.

        `id` is a UUID of the caller's (default: a new one), `parent` the id of a session this one belongs to,
        `settings` and `custom` as in `Session.configure`, and `principal`: for whom. An `ephemeral` session never
        touches the disk and is gone when it is closed. Raises Conflict when it exists, NoSpace, ReadOnly, InvalidInput.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     session = store.create(title="flaky test", model="provider/x", tags=["ci"])
        ...     session.state.title
        'flaky test'
        """
        session_id = format_id(new_id() if id is None else parse_id(id))
        if self.session_exists(session_id) or session_id in self._sessions:
            message = "a session with this id exists already"
            raise Conflict(message, session=session_id)
        payload = first_payload(custom, title=title, cwd=cwd, model=model, tags=tags, parent=parent, **settings)
        from turnlog.session import Session  # only who opens one needs all that is behind it

        _core.canonical(payload)  # refused before anything is made
        require_level(durability)
        session = Session(self, session_id)
        with self._guard:
            if ephemeral:
                make_ephemeral(session)
            else:
                session._attach(self._appender(session_id, new=True))
            self._sessions[session_id] = session
        try:
            session.append("session.created", payload, durability=durability)
        except BaseException:
            session._give_up()
            raise
        return session

    def session(self, id: str) -> Session:
        """Return the session with this id, a unique prefix of it, or `"latest"`; reading takes no lock, the first
        append does.

        Raises SessionNotFound, AmbiguousId.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     store.session(session.id) is session is store.session("latest")
        True
        """
        self._check_open()
        from turnlog.session import Session  # same as above

        session_id = self.resolve(id)
        with self._guard:
            session = self._sessions.get(session_id)
            if session is None:
                session = self._sessions[session_id] = Session(self, session_id)
            return session

    # -- index -----------------------------------------------------------------------------------------------------

    def index(self) -> Index:
        """Return the projection, opened and caught up (for those who ask it themselves). Raises IndexUnavailable.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     store.index().get(session.id)["id"] == session.id
        True
        """
        self._check_open()
        with self._guard:
            if self._index is None:
                self._index = Index.open(self.path, read_only=self.read_only)
            self._index.catch_up(self._heads())
            self.index_error = None
            return self._index

    def _heads(self) -> dict[str, dict[str, Any]]:
        """Return what the writers of this process have synced, by session id."""
        return {
            session_id: head
            for session_id, session in list(self._sessions.items())
            if (head := session._written_head()) is not None
        }

    def _opened(self, session_id: str) -> Session | None:
        """Return a session that was asked for and not closed (for feeds)."""
        return self._sessions.get(session_id)

    def _open_sessions(self) -> builtins.list[Session]:
        """Return the sessions that were asked for and not closed (for `Projector`)."""
        return [*self._sessions.values()]

    # -- writing ---------------------------------------------------------------------------------------------------

    def _writer_of(self, session_id: str) -> Appender:
        """Open a session of this store for writing (for `Session`)."""
        return self._appender(session_id, new=False)

    def _appender(self, session_id: str, *, new: bool) -> Appender:
        self._check_open()
        self._check_writable(session_id)
        from turnlog.log.appender import Appender  # same as above

        with self._guard:
            if self._ends:
                message = "the store is closed"
                raise Closed(message, store=self.path)
            if self._committer is None:
                self._committer = _core.Committer(os.path.join(self.path, names.SESSIONS))
                self._close_at_exit()
            folders.mark_live(self.path, session_id)
            if new:
                appender = Appender.create(self.path, session_id, self._committer, roll_bytes=self._roll_bytes)
            else:
                witness = self._witness(session_id)
                appender = Appender.open(
                    self.path, session_id, self._committer, roll_bytes=self._roll_bytes, witness=witness
                )
                folders.mark_live(
                    self.path, session_id
                )  # a store that closed it may have taken the marker before we got the lock
            self._projector.start()
            return appender

    def _witness(self, session_id: str) -> Any:
        try:
            with self._guard:
                if self._index is None:
                    self._index = Index.open(self.path, read_only=self.read_only)
                return self._index.witness(session_id)
        except IndexUnavailable as error:
            self.index_error = error  # opening goes on without the witness: it only adds certainty about the last batch
            return None

    # -- end -------------------------------------------------------------------------------------------------------

    def _drop(self, session: Session, *, leaving: bool = False) -> None:
        """Drop a session from the registry (for `Session.close`); `close` waits until one that is leaving has left."""
        if leaving:
            self._leaving.add(session)
        self._sessions.pop(session.id, None)

    def _left(self, session: Session) -> None:
        self._leaving.discard(session)

    def flush(self) -> None:
        """Return when everything appended through this store is durable.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     _ = session.append("note.written", {}, durability="buffered")
        ...     store.flush()
        """
        self._check_open()
        if self._committer is not None:
            self._committer.flush()

    def close(self, *, deadline_ms: int = 10_000) -> None:
        """End in order; idempotent. Also happens when the interpreter exits, and at signals: `close_on_signals`.

        No session is opened any more, the running turns of all sessions are asked to stop, their children are stopped
        (see `Session.close`), all within `deadline_ms`. Then every session is closed, the index is caught up, the
        markers of what is complete are removed, the threads end. Raises what the first failing session raises.

        >>> from turnlog import Store
        >>> store = Store.open("runs")
        >>> store.close(deadline_ms=500)
        """
        if os.getpid() != self._pid:  # a forked child owns nothing of this
            self._closed = True
            return
        with self._ending:
            if not self._closed:
                self._close(deadline_ms)

    def _close(self, deadline_ms: int) -> None:
        with self._guard:
            self._ends = True
        sessions = [*self._sessions.values()]
        if any(session._kept() or session._kept_children() for session in sessions):
            from turnlog.shutdown import stop_work

            stop_work(sessions, deadline_ms)
        self._projector.stop()
        failures: list[BaseException] = []
        for session in [*self._sessions.values(), *self._leaving]:
            try:
                session._finish()
            except Exception as error:  # noqa: BLE001 - the other sessions must still be closed; raised below
                failures.append(error)
        self._end_subscribers()
        if self._committer is not None or self._index is not None:
            self._finish_index()
        self._closed = True
        self._forget_endings()
        if self._committer is not None:
            self._committer.close()
        if failures:
            raise failures[0]

    def _finish_index(self) -> None:
        try:
            index = self.index()
            index.release_live()
            index.close()
        except IndexUnavailable as error:
            self.index_error = error  # markers stay, so the next open catches up

    def _check_writable(self, session_id: str) -> None:
        """Raise ReadOnly when the store was opened for reading only (for forks)."""
        if self.read_only:
            message = "the store was opened read-only"
            raise ReadOnly(message, session=session_id, store=self.path)

    def _check_open(self) -> None:
        if self._closed:
            message = "the store is closed"
            raise Closed(message, store=self.path)
        if os.getpid() != self._pid:
            message = f"the store was opened in process {self._pid}; open it again in this one"
            raise WrongProcess(message, store=self.path)

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        self.close()

    def __repr__(self) -> str:
        """Show the path."""
        return f"<Store {self.path}>"
