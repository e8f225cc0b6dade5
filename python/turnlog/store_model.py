"""The part of a `Store` that knows what its sessions are about: their artifacts, and stores that hold nothing on disk.

Owns: the names and examples of that part of the API, the payload of a session's first event. Invariant: importing this
costs next to nothing. Must not know: how a log is written.
"""

from __future__ import annotations

from turnlog.arguments import listed_texts, require_text
from turnlog.errors import InvalidPayload
from turnlog.settings import FIRST, OF_CREATE, checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from turnlog.artifacts.artifacts import ArtifactStore
    from turnlog.memory_store import MemoryStore
    from turnlog.reference import Reference
    from turnlog.resume.recovered import Recovery
    from turnlog.session import Session
    from turnlog.store import Store

OFFLOAD_BYTES = 64 * 1024


class StoreModel:
    """The session model's part of a `Store`."""

    path: str
    offload_bytes: int | None
    _artifacts: ArtifactStore | None = None

    @property
    def artifacts(self) -> ArtifactStore:
        """The store's artifacts: large blobs, named after their content, each stored once.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     store.artifacts.put(b"a screenshot", media_type="image/png").size
        12
        """
        found = self._artifacts
        if found is None:
            from turnlog.artifacts.artifacts import ArtifactStore

            found = self._artifacts = ArtifactStore(self.path)
        return found

    def resume(
        self,
        id: str = "latest",
        *,
        verifier: Callable[[str], Any] | None = None,
        hooks: Iterable[Callable[[Recovery], Any]] = (),
        accept_damage: bool = False,
    ) -> Session:
        """Open a session for writing after its process ended, however it ended; `session.recovery` tells what was done.

        The log is recovered and folded, a running turn becomes interrupted, and tool calls are put into three classes:
        finished, never started, unknown. Repairs are events; a second resume appends none. `verifier` is asked about
        unknown outcomes (see `ToolCall.resolve`), `hooks` are called with the report, whose `handle` is the session.
        `accept_damage` goes on where events are lost, for reading only if need be: state, `history` and `turns` are
        then made of what is left. Raises Locked, Damaged, SessionNotFound, and what a hook raises.

        >>> from turnlog import Store
        >>> with Store.open("runs") as store:
        ...     with store.create() as session:
        ...         call = session.turn("deploy it").tool_call("deploy", call_id="c1")
        ...         key = call.start()  # and now the process dies
        ...     with store.resume("latest", verifier=lambda key: None) as session:
        ...         [call.call_id for call in session.recovery.unknown], session.recovery.interrupted.input
        (['c1'], 'deploy it')
        """
        from typing import cast

        from turnlog.resume.resume import resume

        itself = cast("Store", self)  # the one class that has these methods
        return resume(itself, id, verifier=verifier, hooks=hooks, accept_damage=accept_damage)

    @staticmethod
    def ephemeral() -> MemoryStore:
        """Return a store that never touches the disk: every session in it is ephemeral.

        >>> from turnlog import Store
        >>> with Store.ephemeral() as store, store.create(title="a try") as session:
        ...     session.append("note.written", {"text": "hello"}).ordinal
        2
        """
        from turnlog.memory_store import MemoryStore

        return MemoryStore()


def first_payload(custom: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return the payload of `session.created`: what was given, the folder as an absolute path, in its stored form.

    >>> first_payload({"acme.theme": "dark"}, title="flaky test", cwd="/src", model=None, tags=["ci"])
    {'title': 'flaky test', 'cwd': '/src', 'tags': ['ci'], 'acme.theme': 'dark'}
    """
    for name in ("title", "parent"):
        require_text(name, fields.get(name), optional=True)
    given = checked(fields, custom, (*FIRST, "title", "tags", "parent"), OF_CREATE)
    given["tags"] = listed_texts("tags", fields.get("tags", ())) or None
    return in_place({name: value for name, value in given.items() if value is not None})


def in_place(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the stored form of settings: whatever their size, they are kept whole, for the state holds them.

    >>> in_place({"environment": {"$artifact": "a name of the caller's"}})
    {'environment': {'$$artifact': "a name of the caller's"}}
    """
    from turnlog.artifacts.offload import offload

    stored: dict[str, Any] = offload(settings, None, put=_nothing_goes_aside)
    return stored


def _nothing_goes_aside(source: bytes, /, *, media_type: str, summary: str | None) -> Reference:
    _ = source, media_type, summary
    message = "a setting holds no bytes"
    raise InvalidPayload(message)


def make_ephemeral(session: Session) -> None:
    """Give a new session a writer and a log that are in memory alone.

    >>> from turnlog import Store
    >>> with Store.open("runs") as store:
    ...     store.create(ephemeral=True).is_ephemeral
    True
    """
    from turnlog.memory import MemoryAppender

    appender = MemoryAppender(session.id)
    session._attach(appender, appender)
