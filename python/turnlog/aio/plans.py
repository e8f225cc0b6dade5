"""Plans and tasks for asyncio.

Owns: their wrappers. Invariant: whatever asks for the state is awaited, for it may have to be read. Must not know:
turns, tool calls, logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnlog.aio.threads import Facade
from turnlog.model.plans import Plan, Tasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Iterable
    from typing import Self

    from turnlog.state.records import Task


class AsyncPlan(Facade[Plan]):
    """A `Plan` whose methods are awaited; made by `AsyncSession.plan` and `revise`.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
    ...         first = await (await session.plan("1. reproduce 2. fix")).approve(by="user")
    ...         second = await first.revise("1. reproduce 2. bisect 3. fix")
    ...         return second.version, (await session.state()).plan.state
    >>> asyncio.run(main())
    (2, 'proposed')
    """

    @property
    def id(self) -> str:
        """The plan's id, the same in all versions."""
        return self.sync.id

    @property
    def version(self) -> int:
        """1 for the first one."""
        return self.sync.version

    @property
    def content(self) -> Any:
        """What is planned."""
        return self.sync.content

    async def approve(self, *, by: str | None = None) -> Self:
        """Do as `Plan.approve` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await (await session.plan("1. reproduce 2. fix")).approve(by="user")
        ...         return (await session.state()).plan.approved_by
        >>> asyncio.run(main())
        'user'
        """
        await self._threads.run(self.sync.approve, by=by)
        return self

    async def revise(self, content: Any, *, reason: str | None = None, by: str | None = None) -> AsyncPlan:
        """Do as `Plan.revise` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return (await (await session.plan("1. fix")).revise("1. reproduce 2. fix")).version
        >>> asyncio.run(main())
        2
        """
        return AsyncPlan(await self._threads.run(self.sync.revise, content, reason=reason, by=by), self._threads)


class AsyncTasks(Facade[Tasks]):
    """The task graph of a session: `session.tasks`. Iterate with `async for`; `await tasks[id]` is one of them.

    >>> from turnlog.aio import AsyncStore
    >>> async def main():
    ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
    ...         reproduce = await session.tasks.add("reproduce it", id="a")
    ...         await session.tasks.add("fix it", depends_on=[reproduce])
    ...         ready = [task.title for task in await session.tasks.ready()]
    ...         return ready, [task.title async for task in session.tasks], (await session.tasks["a"]).state
    >>> asyncio.run(main())
    (['reproduce it'], ['reproduce it', 'fix it'], 'pending')
    """

    async def add(self, title: str, *, id: str | None = None, depends_on: Iterable[str | Task] = ()) -> Task:
        """Do as `Tasks.add` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return (await session.tasks.add("reproduce it", id="a")).state
        >>> asyncio.run(main())
        'pending'
        """
        return await self._threads.run(self.sync.add, title, id=id, depends_on=depends_on)

    async def update(
        self,
        task: str | Task,
        *,
        state: str | None = None,
        title: str | None = None,
        depends_on: Iterable[str | Task] | None = None,
    ) -> Task:
        """Do as `Tasks.update` does.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         await session.tasks.add("reproduce it", id="a")
        ...         return (await session.tasks.update("a", state="completed")).state
        >>> asyncio.run(main())
        'completed'
        """
        return await self._threads.run(self.sync.update, task, state=state, title=title, depends_on=depends_on)

    async def ready(self) -> tuple[Task, ...]:
        """Return `Tasks.ready`.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await session.tasks.ready()
        >>> asyncio.run(main())
        ()
        """
        return await self._threads.run(lambda: self.sync.ready)

    async def count(self) -> int:
        """Return the number of tasks: `len` cannot be awaited.

        >>> from turnlog.aio import AsyncStore
        >>> async def main():
        ...     async with AsyncStore.ephemeral() as store, await store.create() as session:
        ...         return await session.tasks.count()
        >>> asyncio.run(main())
        0
        """
        return await self._threads.run(len, self.sync)

    def __getitem__(self, name: str) -> Awaitable[Task]:
        """Return a task, when awaited. Raises NotFound then."""
        return self._threads.run(self.sync.__getitem__, name)

    async def __aiter__(self) -> AsyncGenerator[Task, None]:
        """Iterate over the tasks in the order they were added."""
        for task in await self._threads.run(list, self.sync):
            yield task
