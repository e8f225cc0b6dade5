"""The facade has a counterpart for every public name of the sync core: same name, same parameters, awaited or plain."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any, NamedTuple

import pytest

from turnlog import Plan, Session, Step, Store, Tasks, ToolCall, Turn, TurnView, aio
from turnlog.aio.threads import Facade
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.diff import Difference, diff
from turnlog.feed.subscribers import Subscriber
from turnlog.files.files import FileCache
from turnlog.history.history import History
from turnlog.memory import MemoryArtifacts
from turnlog.model.session_files import SessionFiles
from turnlog.resume.recovered import DanglingCall, Recovery
from turnlog.signals import SignalClose
from turnlog.state.selectors import Subscription

PAIRS: dict[type[Any], type[Any]] = {
    ArtifactStore: aio.AsyncArtifacts,
    DanglingCall: aio.AsyncDanglingCall,
    Difference: aio.AsyncDifference,
    FileCache: aio.AsyncFileCache,
    History: aio.AsyncHistory,
    MemoryArtifacts: aio.AsyncArtifacts,
    Plan: aio.AsyncPlan,
    Recovery: aio.AsyncRecovery,
    Session: aio.AsyncSession,
    SessionFiles: aio.AsyncSessionFiles,
    SignalClose: aio.AsyncSignalClose,
    Step: aio.AsyncStep,
    Store: aio.AsyncStore,
    Subscriber: aio.AsyncSubscriber,
    Subscription: aio.AsyncSubscription,
    Tasks: aio.AsyncTasks,
    ToolCall: aio.AsyncToolCall,
    Turn: aio.AsyncTurn,
    TurnView: aio.AsyncTurnView,
}
COUNTERPARTS = {  # of what Python calls by itself
    "__contains__": "__contains__",
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__getitem__": "__getitem__",
    "__iter__": "__aiter__",
    "__len__": "__len__",
}
EXCEPTIONS = {
    "Tasks.__len__": "`len` cannot be awaited, and counting may read the log: `AsyncTasks.count`",
}
SEAM = re.compile(r"\(for [^)]+\)")
"""How a docstring says that a public method serves other modules of the package and is no API."""

PLAIN = {
    "DanglingCall.as_json": "the report is in memory",
    "Difference.only_a": "iterated over with `async for`",
    "Difference.only_b": "iterated over with `async for`",
    "FileCache.forget": "the cache is in memory",
    "SessionFiles.forget": "the cache is in memory",
    "FileCache.recent": "the cache is in memory",
    "SessionFiles.recent": "the cache is in memory",
    "FileCache.to_snapshot": "the cache is in memory",
    "SessionFiles.to_snapshot": "the cache is in memory",
    "Recovery.as_json": "the report is in memory",
    "Session.events": "iterated over with `async for`",
    "Session.follow": "iterated over with `async for`",
    "Session.history": "iterated over with `async for`",
    "Session.turns": "iterated over with `async for`",
    "SignalClose.restore": "handlers of the loop",
    "Store.close_on_signals": "handlers of the loop",
    "Store.ephemeral": "nothing is opened",
    "Store.follow": "iterated over with `async for`",
    "Subscription.close": "the list of listeners is in memory",
    "Turn.cancel": "sets a flag",
    "TurnView.calls": "iterated over with `async for`",
    "TurnView.steps": "iterated over with `async for`",
}
OTHER_TYPES = {"io.BufferedReader": "AsyncStream", "builtins.list": "list", "MemoryStore": "AsyncStore"}


class Member(NamedTuple):
    """A public name of a sync class."""

    owner: type[Any]
    name: str

    def __str__(self) -> str:
        """Name it."""
        return f"{self.owner.__name__}.{self.name}"


def is_seam(value: Any) -> bool:
    """Tell whether a member says of itself that it serves other modules."""
    return SEAM.search((inspect.getdoc(value) or "").partition("\n\n")[0]) is not None


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def attributes_of(owner: type[Any]) -> set[str]:
    """Return the public names that `__init__` of a class and of its bases gives to an object."""
    found: set[str] = set()
    for kind in owner.__mro__:
        if kind is not object and "__init__" in vars(kind):
            tree = ast.parse(textwrap.dedent(inspect.getsource(vars(kind)["__init__"])))
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
                    found.add(node.attr)
    return {name for name in found if not name.startswith("_")}


def members_of(owner: type[Any]) -> list[Member]:
    """Return what is public in a sync class, its attributes included."""
    names = {name for name in dir(owner) if not name.startswith("_") and not is_seam(getattr(owner, name))}
    special = {name for name in COUNTERPARTS if name in dir(owner)}
    return [Member(owner, name) for name in sorted(names | attributes_of(owner) | special)]


MEMBERS = [member for owner in PAIRS for member in members_of(owner)]
METHODS = [
    member
    for member in MEMBERS
    if not member.name.startswith("_") and inspect.isfunction(getattr(member.owner, member.name, None))
]


def has_counterpart(member: Member, kind: type[Any]) -> bool:
    """Tell whether a class of the facade, or its objects, have the name."""
    return COUNTERPARTS.get(member.name, member.name) in {*dir(kind), *attributes_of(kind)}


def awaited(annotation: str) -> str:
    """Return how the facade writes a type of the sync core."""
    for owner, kind in PAIRS.items():
        annotation = re.sub(rf"(?<![\w.]){owner.__name__}(?!\w)", kind.__name__, annotation)
    for other, name in OTHER_TYPES.items():
        annotation = annotation.replace(other, name)
    return re.sub(r"^Iterator\[(.*)\]$", r"AsyncGenerator[\1, None]", annotation)


@pytest.mark.parametrize("member", MEMBERS, ids=str)
def test_every_public_name_has_a_counterpart(member: Member) -> None:
    assert has_counterpart(member, PAIRS[member.owner]) is not (str(member) in EXCEPTIONS)


def test_a_name_that_is_missing_is_found() -> None:
    class Half(Facade[Turn]):
        def __init__(self) -> None:
            self.id = "t1"

        async def complete(self) -> None:
            """Do nothing."""

    missing = [member.name for member in members_of(Turn) if not has_counterpart(member, Half)]
    assert {"abort", "outcome", "input", "__enter__"} < set(missing)
    assert not {"id", "complete"} & set(missing)


def test_an_exception_is_explained_and_needed() -> None:
    assert all(EXCEPTIONS.values())
    assert set(EXCEPTIONS) <= {str(member) for member in MEMBERS}
    assert set(PLAIN) <= {str(member) for member in METHODS}


@pytest.mark.parametrize("member", METHODS, ids=str)
def test_a_counterpart_takes_the_same_parameters(member: Member) -> None:
    def parameters_of(kind: type[Any]) -> list[tuple[Any, ...]]:
        found = inspect.signature(getattr(kind, member.name)).parameters.values()
        return [(item.name, item.kind, item.default) for item in found]

    assert parameters_of(PAIRS[member.owner]) == parameters_of(member.owner)


@pytest.mark.parametrize("member", METHODS, ids=str)
def test_a_counterpart_returns_the_same_type(member: Member) -> None:
    sync, found = (
        inspect.signature(getattr(kind, member.name)).return_annotation for kind in (member.owner, PAIRS[member.owner])
    )
    assert awaited(found) == awaited(sync)


@pytest.mark.parametrize("member", METHODS, ids=str)
def test_what_may_block_is_awaited(member: Member) -> None:
    found = getattr(PAIRS[member.owner], member.name)
    assert inspect.iscoroutinefunction(found) is not (str(member) in PLAIN)


def test_the_difference_of_two_sessions_has_a_counterpart() -> None:
    sync, found = inspect.signature(diff), inspect.signature(aio.diff)
    assert list(found.parameters) == list(sync.parameters)
    assert inspect.iscoroutinefunction(aio.diff)


@pytest.mark.parametrize("kind", sorted({*PAIRS.values()}, key=str))
def test_a_class_of_the_facade_is_exported(kind: type[Any]) -> None:
    assert getattr(aio, kind.__name__) is kind
    assert kind.__name__ in aio.__all__
