"""The part of a session for asyncio that knows what sessions are about: state, settings, turns, plans, permissions.

Owns: the names of that part of the API. Invariants: what is only in memory is plain, what may read the log or wait is
awaited; a turn that was begun for a cancelled await is aborted before the cancellation goes on. Must not know: how
threads are used, how a state is reduced.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from turnlog.aio.artifacts import AsyncArtifacts
from turnlog.aio.calls import AsyncToolCall
from turnlog.aio.plans import AsyncPlan, AsyncTasks
from turnlog.aio.recovery import AsyncRecovery
from turnlog.aio.session_history import AsyncSessionHistory
from turnlog.aio.turn import AsyncTurn
from turnlog.aio.watching import AsyncSubscription, Listener
from turnlog.model.line import Worker
from turnlog.model.turn import QUEUE, begin
from turnlog.settings import OF_TURN, checked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Unpack

    from turnlog._core import Event, Receipt
    from turnlog.model.turn import Turn
    from turnlog.settings import Settings
    from turnlog.state.records import Grant
    from turnlog.state.state import State

Part = TypeVar("Part")


class AsyncSessionModel(AsyncSessionHistory):
    """The session model's methods of an `AsyncSession`."""

    @property
    def id(self) -> str:
        """The session's id."""
        return self.sync.id

    @property
    def is_ephemeral(self) -> bool:
        """Whether the session never touches the disk."""
        return self.sync.is_ephemeral

    @property
    def offload_bytes(self) -> int | None:
        """Strings of more bytes become artifacts; None: never."""
        return self.sync.offload_bytes

    @property
    def recovery(self) -> AsyncRecovery | None:
        """What `AsyncStore.resume` found and did; None for a session that was not resumed."""
        found = self.sync.recovery
        return None if found is None else AsyncRecovery(found, self._threads)

    @property
    def artifacts(self) -> AsyncArtifacts:
        """As `Session.artifacts`."""
        return AsyncArtifacts(self.sync.artifacts, self._threads)

    @property
    def tasks(self) -> AsyncTasks:
        """As `Session.tasks`."""
        return AsyncTasks(self.sync.tasks, self._threads)

    async def is_writing(self) -> bool:
        """Return `Session.is_writing`: asking may wait for a write.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await session.is_writing()
        >>> asyncio.run(main())
        True
        """
        return await self._threads.run(lambda: self.sync.is_writing)

    async def open_for_writing(self) -> None:
        """Do as `Session.open_for_writing` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with await AsyncStore.open("runs") as store:
        ...         await (await store.create()).close()
        ...         session = await store.session("latest")
        ...         await session.open_for_writing()
        ...         return await session.is_writing()
        >>> asyncio.run(main())
        True
        """
        await self._threads.run(self.sync.open_for_writing)

    async def state(self) -> State:
        """Return `Session.state`: read-only, and it changes as events are appended.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create(title="flaky test") as session:
        ...         return (await session.state()).title
        >>> asyncio.run(main())
        'flaky test'
        """
        return await self._threads.run(lambda: self.sync.state)

    async def watch(
        self, selector: Callable[[State], Part], callback: Callable[[Part, Part], object], *, now: bool = False
    ) -> AsyncSubscription:
        """Do as `Session.watch` does, but call `callback(new, old)` in the loop: before the append that made the
        change returns to a task of that loop. `selector` is called in the appending thread.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         async with await session.watch(lambda state: state.title, lambda new, old: print("now", new)):
        ...             await session.rename("flaky test")
        >>> asyncio.run(main())
        now flaky test
        """
        listener = Listener(callback)
        made = await self._threads.begin(
            lambda: self.sync.watch(selector, listener.hear, now=now), lambda made: made.close()
        )
        listener.subscription = made
        return AsyncSubscription(made, self._threads, callback)

    async def record(self, type: str, payload: dict[str, Any], *, durability: str | None = None) -> Receipt:
        """Do as `Session.record` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return (await session.record("message.user", {"content": "hello"})).ordinal
        >>> asyncio.run(main())
        2
        """
        return await self._threads.run(self.sync.record, type, payload, durability=durability)

    async def payload(self, event: Event) -> Any:
        """Do as `Session.payload` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         receipt = await session.record("message.user", {"content": "x" * 100_000})
        ...         return len((await session.payload(await session.event(receipt.ordinal)))["content"])
        >>> asyncio.run(main())
        100000
        """
        return await self._threads.run(self.sync.payload, event)

    # -- the session itself ----------------------------------------------------------------------------------------

    async def configure(self, *, custom: Mapping[str, Any] | None = None, **settings: Unpack[Settings]) -> Receipt:
        """Do as `Session.configure` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.configure(effort="high")
        ...         return (await session.state()).effort
        >>> asyncio.run(main())
        'high'
        """
        return await self._threads.run(self.sync.configure, custom=custom, **settings)

    async def rename(self, title: str | None) -> Receipt:
        """Do as `Session.rename` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.rename("flaky test")
        ...         return (await session.state()).title
        >>> asyncio.run(main())
        'flaky test'
        """
        return await self._threads.run(self.sync.rename, title)

    async def tag(self, *tags: str, remove: tuple[str, ...] | list[str] = ()) -> Receipt:
        """Do as `Session.tag` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create(tags=["ci"]) as session:
        ...         await session.tag("flaky", remove=["ci"])
        ...         return (await session.state()).tags
        >>> asyncio.run(main())
        ('flaky',)
        """
        return await self._threads.run(self.sync.tag, *tags, remove=remove)

    async def archive(self, reason: str | None = None) -> Receipt:
        """Do as `Session.archive` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.archive("done")
        ...         return (await session.state()).archived
        >>> asyncio.run(main())
        True
        """
        return await self._threads.run(self.sync.archive, reason)

    async def unarchive(self) -> Receipt:
        """Do as `Session.unarchive` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.archive()
        ...         await session.unarchive()
        ...         return (await session.state()).archived
        >>> asyncio.run(main())
        False
        """
        return await self._threads.run(self.sync.unarchive)

    # -- work ------------------------------------------------------------------------------------------------------

    async def turn(
        self,
        input: Any = None,
        *,
        id: str | None = None,
        on_running: str = "refuse",
        timeout_ms: int | None = None,
        custom: Mapping[str, Any] | None = None,
        **settings: Unpack[Settings],
    ) -> AsyncTurn:
        """Do as `Session.turn` does. When the await is cancelled, the place in the line is given up, and a turn that
        began nevertheless is aborted before the cancellation goes on.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         async with await session.turn("hello") as turn:
        ...             await turn.complete()
        ...         return await turn.outcome()
        >>> asyncio.run(main())
        'completed'
        """
        worker = Worker(asyncio.current_task())
        fields: dict[str, Any] = {"name": id, "on_running": on_running, "timeout_ms": timeout_ms}

        def start() -> Turn:
            return begin(
                self.sync._keeper(), input, **fields, settings=checked(settings, custom, others=OF_TURN), worker=worker
            )

        def give_up() -> None:
            worker.gave_up = True
            self._threads.hand_over(self._wake_the_line)

        begun = await self._threads.begin(
            start, lambda turn: turn.abort("cancelled while it began"), alone=on_running == QUEUE, stop=give_up
        )
        return AsyncTurn(begun, self._threads)

    def _wake_the_line(self) -> None:
        live = self.sync._keeper()
        with live.order:
            live.order.notify_all()

    async def call(self, turn: str, call_id: str) -> AsyncToolCall:
        """Do as `Session.call` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         turn = await session.turn("list the files", id="t1")
        ...         await turn.tool_call("bash", {"cmd": "ls"}, call_id="c1")
        ...         return await (await session.call("t1", "c1")).state()
        >>> asyncio.run(main())
        'proposed'
        """
        return AsyncToolCall(await self._threads.run(self.sync.call, turn, call_id), self._threads)

    async def grant(
        self, tool: str, pattern: str | None = None, *, by: str | None = None, id: str | None = None
    ) -> Grant:
        """Do as `Session.grant` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return (await session.grant("bash", "git *", by="user")).pattern
        >>> asyncio.run(main())
        'git *'
        """
        return await self._threads.run(self.sync.grant, tool, pattern, by=by, id=id)

    async def revoke(self, grant: str | Grant, reason: str | None = None) -> Receipt:
        """Do as `Session.revoke` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.revoke(await session.grant("bash", "git *"))
        ...         return (await session.state()).grants
        >>> asyncio.run(main())
        {}
        """
        return await self._threads.run(self.sync.revoke, grant, reason)

    async def plan(self, content: Any, *, id: str | None = None, by: str | None = None) -> AsyncPlan:
        """Do as `Session.plan` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return (await session.plan("1. reproduce 2. fix")).version
        >>> asyncio.run(main())
        1
        """
        return AsyncPlan(await self._threads.run(self.sync.plan, content, id=id, by=by), self._threads)
