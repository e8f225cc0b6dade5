"""What a resume found and did, for asyncio: `session.recovery`.

Owns: the wrappers of the report and of the calls in it. Invariant: the report is plain; what goes back to the log is
awaited. Must not know: how any of it was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.aio.calls import AsyncToolCall
from turnlog.aio.threads import Facade
from turnlog.resume.recovered import DanglingCall, Recovery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from turnlog.aio.calls import Found
    from turnlog.aio.session import AsyncSession
    from turnlog.state.records import Call, Turn


class AsyncDanglingCall(Facade[DanglingCall]):
    """A `DanglingCall`: a tool call that a dead process left behind."""

    @property
    def record(self) -> Call:
        """What the state knew of the call when the session was resumed."""
        return self.sync.record

    @property
    def standing(self) -> str:
        """finished, not_started or unknown."""
        return self.sync.standing

    @property
    def turn(self) -> str:
        """The turn that the call belongs to."""
        return self.sync.turn

    @property
    def call_id(self) -> str:
        """Its id within the turn."""
        return self.sync.call_id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.sync.name

    @property
    def idempotency_key(self) -> str:
        """What the tool was given to recognise a repeated call by; empty when none was recorded."""
        return self.sync.idempotency_key

    async def handle(self) -> AsyncToolCall:
        """Return `DanglingCall.handle`: the call itself, to run it, to read its result.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.create() as session:
        ...             await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         async with await store.resume() as session:
        ...             (call,) = session.recovery.retryable
        ...             return await (await call.handle()).run(lambda folder: {"files": 3})
        >>> asyncio.run(main())
        {'files': 3}
        """
        return AsyncToolCall(await self._threads.run(lambda: self.sync.handle), self._threads)

    async def resolve(
        self, verifier: Callable[[str], Found | Awaitable[Found]] | None = None, **given: Any
    ) -> AsyncToolCall:
        """Settle an unknown outcome; see `AsyncToolCall.resolve`, whose arguments these are.

        >>> from turnlog.aio import AsyncStore
        >>> async def look_up(key):
        ...     return "not_executed"
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.create() as session:
        ...             await (await (await session.turn("send it")).tool_call("send")).start()
        ...         async with await store.resume() as session:
        ...             return await (await session.recovery.unknown[0].resolve(look_up)).standing()
        >>> asyncio.run(main())
        'not_started'
        """
        return await (await self.handle()).resolve(verifier, **given)

    def as_json(self) -> dict[str, Any]:
        """Do as `DanglingCall.as_json` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         async with await store.create() as session:
        ...             await (await session.turn("count")).tool_call("count", {"folder": "src"})
        ...         async with await store.resume() as session:
        ...             return session.recovery.retryable[0].as_json()["standing"]
        >>> asyncio.run(main())
        'not_started'
        """
        return self.sync.as_json()


class AsyncRecovery(Facade[Recovery]):
    """A `Recovery`: the report of a resume.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with await AsyncStore.open("runs") as store:
    ...         async with await store.create() as session:
    ...             await session.turn("hello")
    ...         async with await store.resume() as session:
    ...             return session.recovery.interrupted.input, session.recovery.clean
    >>> asyncio.run(main())
    ('hello', False)
    """

    @property
    def session(self) -> str:
        """The session's id."""
        return self.sync.session

    @property
    def handle(self) -> AsyncSession:
        """The session itself."""
        from turnlog.aio.session import AsyncSession

        return AsyncSession(self.sync.handle, self._threads)

    @property
    def reused(self) -> list[AsyncDanglingCall]:
        """Finished in the interrupted turn: their outcomes are in the log."""
        return self._wrapped(self.sync.reused)

    @property
    def retryable(self) -> list[AsyncDanglingCall]:
        """Never started, or repeatable: a policy may run them."""
        return self._wrapped(self.sync.retryable)

    @property
    def unknown(self) -> list[AsyncDanglingCall]:
        """Started, no outcome, not repeatable: ask, never run blindly."""
        return self._wrapped(self.sync.unknown)

    @property
    def waiting(self) -> list[AsyncDanglingCall]:
        """For somebody's decision, mostly an approval that was asked for."""
        return self._wrapped(self.sync.waiting)

    @property
    def not_understood(self) -> list[dict[str, Any]]:
        """Events of a newer version, by type: what they may end is left open."""
        return self.sync.not_understood

    @property
    def interrupted(self) -> Turn | None:
        """The newest turn, when its process died in it."""
        return self.sync.interrupted

    @property
    def repaired(self) -> list[dict[str, Any]]:
        """What was put right: the torn tail, and the events appended."""
        return self.sync.repaired

    @property
    def damaged(self) -> list[tuple[int, int]]:
        """Inclusive ranges of ordinals that cannot be read."""
        return self.sync.damaged

    @property
    def accepts_damage(self) -> bool:
        """Whether it goes on where events are lost, without an error."""
        return self.sync.accepts_damage

    @property
    def writable(self) -> bool:
        """False: damage was accepted, the session can only be read."""
        return self.sync.writable

    @property
    def snapshot_ordinal(self) -> int:
        """Events up to here came from a snapshot, 0: all were folded."""
        return self.sync.snapshot_ordinal

    @property
    def events(self) -> int:
        """How many are in the state."""
        return self.sync.events

    @property
    def violations(self) -> int:
        """Events that were not legal where they stand; see the state."""
        return self.sync.violations

    @property
    def clean(self) -> bool:
        """Whether the session had ended in order."""
        return self.sync.clean

    def as_json(self) -> dict[str, Any]:
        """Do as `Recovery.as_json` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         await (await store.create()).close()
        ...         async with await store.resume() as session:
        ...             return session.recovery.as_json()["repaired"]
        >>> asyncio.run(main())
        []
        """
        return self.sync.as_json()

    def _wrapped(self, calls: list[DanglingCall]) -> list[AsyncDanglingCall]:
        return [AsyncDanglingCall(call, self._threads) for call in calls]
