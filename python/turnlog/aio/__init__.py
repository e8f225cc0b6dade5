"""The async facade: the names of the sync core for asyncio, done by it in a few worker threads.

Owns: the public names. Invariants: a cancelled await neither loses nor doubles an append; the loop never waits for a
disk or a lock; what is only in memory is plain, everything else is awaited, so a property that may have to read the log
is a method here. Must not know: anything else. `import turnlog` does not import this.

>>> import asyncio
>>> async def main():
...     async with await AsyncStore.open("runs") as store, await store.create(title="flaky test") as session:
...         async with await session.turn("Why does test_retry fail?") as turn:
...             call = await turn.tool_call("read", {"path": "test_retry.py"}, effect="none")
...             await call.run(lambda path: f"the text of {path}")
...             await turn.complete()
...         return [message["role"] async for message in session.history("openai_chat")]
>>> asyncio.run(main())
['user', 'assistant', 'tool']
"""

from turnlog.aio.artifacts import AsyncArtifacts, AsyncStream
from turnlog.aio.calls import AsyncToolCall
from turnlog.aio.difference import AsyncDifference, diff
from turnlog.aio.files import AsyncFileCache, AsyncSessionFiles
from turnlog.aio.history import AsyncHistory
from turnlog.aio.plans import AsyncPlan, AsyncTasks
from turnlog.aio.recovery import AsyncDanglingCall, AsyncRecovery
from turnlog.aio.session import AsyncSession
from turnlog.aio.signals import AsyncSignalClose
from turnlog.aio.step import AsyncStep
from turnlog.aio.store import AsyncStore
from turnlog.aio.turn import AsyncFlag, AsyncTurn
from turnlog.aio.turn_view import AsyncTurnView
from turnlog.aio.watching import AsyncSubscriber, AsyncSubscription

__all__ = [
    "AsyncArtifacts",
    "AsyncDanglingCall",
    "AsyncDifference",
    "AsyncFileCache",
    "AsyncFlag",
    "AsyncHistory",
    "AsyncPlan",
    "AsyncRecovery",
    "AsyncSession",
    "AsyncSessionFiles",
    "AsyncSignalClose",
    "AsyncStep",
    "AsyncStore",
    "AsyncStream",
    "AsyncSubscriber",
    "AsyncSubscription",
    "AsyncTasks",
    "AsyncToolCall",
    "AsyncTurn",
    "AsyncTurnView",
    "diff",
]
