"""The thread of a store that works beside the appends: it keeps the index near, and states of long sessions in it.

Owns: the thread, when it looks, what becomes of its failures. Invariants: an append never waits for it; a failure is
kept where the next question to the index finds it, and the next look tries again. Must not know: SQL, rows.
"""

from __future__ import annotations

from turnlog.errors import Closed, IndexUnavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading

    from turnlog.store import Store

_EVERY_S = 0.2


class Projector:
    """Runs from the first session that is opened for writing until the store is closed."""

    def __init__(self, store: Store) -> None:
        """Start nothing yet."""
        self._store = store
        self._thread: threading.Thread | None = None
        self._stop: threading.Event

    def start(self) -> None:
        """Begin to look; the store holds its lock meanwhile. Idempotent."""
        if self._thread is None:
            import threading  # only here: start-up counts

            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._run, name="turnlog-projector", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Return when the thread has ended."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()

    def _keep_states(self) -> None:
        for session in self._store._open_sessions():
            if session._kept() is not None:
                from turnlog.resume.snapshots import keep  # the model is loaded, since there is a state

                keep(self._store, session)

    def _run(self) -> None:
        store = self._store
        while not self._stop.wait(_EVERY_S):
            try:
                for session in store._open_sessions():
                    session._check_lock()
                store.index()
                self._keep_states()
            except Closed:
                return
            except IndexUnavailable as error:
                store.index_error = error  # the next question to the index meets the same, and can raise it
            except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to
                store.index_error = IndexUnavailable(f"projection failed: {error!r}")
