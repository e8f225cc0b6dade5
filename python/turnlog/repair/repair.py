"""Repair: brings a damaged session back to a state that verifies and can be written.

1. Set aside what is no segment of the session; give a renamed segment its name back.
2. Restore header copies; cut what a crash left unfinished.
3. Rewrite each damaged segment: everything undamaged, and a note where events are lost.
4. Put a bridge where a whole segment is missing.
5. Verify.

Owns: the choice of the steps, and carrying them out under the session's lock. Invariants: planning writes nothing; an
undamaged event keeps ordinal, id and digest; repairing twice changes nothing; after a crash at any point, planning
again finds what is left to do. Must not know: how a step is done (mending.py), how a plan is shown.
"""

from __future__ import annotations

import os

from turnlog import disk, identity, names
from turnlog.errors import Conflict, Damaged, NewerFormat, ReadOnly, SessionNotFound, StorageError
from turnlog.log import recovery
from turnlog.log.lock import SessionLock
from turnlog.log.quarantine import Quarantine
from turnlog.repair.mending import Action
from turnlog.repair.plan import SessionPlanner
from turnlog.verify.verify import SessionCheck, check_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from turnlog.log.recovery import Witness

_REFUSED = {recovery.UNSUPPORTED: NewerFormat, recovery.IO_ERROR: StorageError}


class Plan:
    """What repair would do to one session.

    `actions` is empty when nothing is wrong; `refusals` are (verdict, reason) that forbid any change.
    """

    def __init__(
        self, store: str, session: str, witness: Witness | None, *, accept_tail: bool, planner: SessionPlanner
    ) -> None:
        """Use `plan_session`."""
        self.session = session
        self.actions: list[Action] = planner.actions
        self.refusals: list[tuple[str, str]] = planner.refusals
        self._store = store
        self._witness = witness
        self._accept_tail = accept_tail

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store, store.create() as session:
        ...     plan_session(store.path, session.id).as_json()["actions"]
        []
        """
        return {
            "type": "plan",
            "session": self.session,
            "actions": [action.as_json() for action in self.actions],
            "refused": [{"verdict": verdict, "reason": reason} for verdict, reason in self.refusals],
        }

    def apply(self, progress: Callable[[int], None] | None = None) -> SessionCheck:
        """Carry the plan out under the session's lock, then verify and return what the check found.

        `progress` is called with the bytes verified since the last call. Raises Locked (a live writer), Conflict (the
        session changed since the plan was made), ReadOnly, NewerFormat or StorageError (refused), NoSpace.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     session = store.create()
        ...     session.close()
        ...     plan_session(store.path, session.id).apply().verdict
        'CLEAN'
        """
        self._raise_refusal()
        directory = names.session_dir(self._store, self.session)
        lock = SessionLock(directory)
        try:
            now = SessionPlanner(self._store, self.session, self._witness, accept_tail=self._accept_tail, settle=True)
            if [action.text for action in now.actions] != [action.text for action in self.actions]:
                raise Conflict("the session changed since the plan was made; plan again", session=self.session)
            keep = Quarantine(self._store, self.session)
            for action in now.actions:
                action.run(keep)
        finally:
            lock.release()
        return check_session(self._store, self.session, witness=self._witness, progress=progress)

    def _raise_refusal(self) -> None:
        if not self.refusals:
            return
        verdict, reason = self.refusals[0]
        raise _REFUSED.get(verdict, ReadOnly)(f"{verdict}: {reason}", session=self.session)


def plan_session(
    store_path: str, session_id: str, *, witness: Witness | None = None, accept_tail: bool = False
) -> Plan:
    """Return what repair would do to a session; nothing is written.

    `witness` is what the index saw synced. `accept_tail` allows to cut an unreadable end that does not look like an
    unfinished write (SUSPECT_TAIL). Raises SessionNotFound, StorageError.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store, store.create() as session:
    ...     plan = plan_session(store.path, session.id)
    ...     plan.actions, plan.refusals
    ([], [])
    """
    if not os.path.isdir(names.session_dir(store_path, session_id)):
        raise SessionNotFound("there is no such session", session=session_id, store=store_path)
    planner = SessionPlanner(store_path, session_id, witness, accept_tail=accept_tail)
    return Plan(store_path, session_id, witness, accept_tail=accept_tail, planner=planner)


class WriteIdentity(Action):
    """Write `store.json` anew; what was there goes to quarantine."""

    kind = "write_identity"

    def __init__(self, store: str) -> None:
        """`store` is the folder."""
        super().__init__(names.STORE_FILE, f"write {names.STORE_FILE} with a new store id; the old one is kept")
        self._store = store

    def run(self, keep: Quarantine, /) -> None:
        """Keep the old file, then write the new one over it.

        >>> from turnlog import Store
        >>> import os
        >>> with Store.open("anew"):
        ...     os.remove("anew/store.json")
        >>> WriteIdentity("anew").run(Quarantine("anew", "store"))
        >>> os.path.exists("anew/store.json")
        True
        """
        path = os.path.join(self._store, names.STORE_FILE)
        if os.path.exists(path):
            keep.keep_file(path)
        try:
            identity.write_identity(self._store)
        except OSError as error:
            raise disk.translate(error, f"writing {path}") from error


class StorePlan:
    """What repair would do to the store itself: nothing, or write its identity."""

    def __init__(self, store: str, actions: list[Action]) -> None:
        """Use `plan_store`."""
        self.actions = actions
        self._store = store

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     plan_store(store.path).as_json()["actions"]
        []
        """
        return {"type": "plan", "store": self._store, "actions": [action.as_json() for action in self.actions]}

    def apply(self) -> None:
        """Carry the plan out. Raises NoSpace, ReadOnly, StorageError.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     plan_store(store.path).apply()
        """
        for action in self.actions:
            action.run(Quarantine(self._store, "store"))


def plan_store(store_path: str) -> StorePlan:
    """Return what repair would do to a store whose `store.json` is missing or unreadable.

    Raises StoreNotFound (the folder holds no sessions either), NewerFormat (nothing may be changed).

    >>> from turnlog import Store
    >>> import pathlib
    >>> with Store.open("broken") as store, store.create():
    ...     pass
    >>> _ = pathlib.Path("broken/store.json").write_text("not JSON")
    >>> [action.kind for action in plan_store("broken").actions]
    ['write_identity']
    """
    try:
        identity.ensure(store_path, create=False)
    except NewerFormat:
        raise
    except Damaged:
        return StorePlan(store_path, [WriteIdentity(store_path)])
    return StorePlan(store_path, [])
