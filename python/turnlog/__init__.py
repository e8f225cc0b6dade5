"""A local-first storage engine for AI-agent sessions: the public names, and nothing else.

`Store` is where to start: `Store.open`, `store.create`, `session.append`, `session.events`. How it is built:
ARCHITECTURE.md; every byte on disk: FORMAT.md.
"""

from turnlog.errors import (
    AmbiguousId,
    ArtifactNotFound,
    Closed,
    Conflict,
    CursorMismatch,
    Damaged,
    HistoryInvalid,
    IndexUnavailable,
    InvalidId,
    InvalidInput,
    InvalidPayload,
    InvalidTransition,
    InvalidType,
    Locked,
    NewerFormat,
    NoSpace,
    NotASegment,
    NotFound,
    OutcomeUnknown,
    PayloadTooLarge,
    ReadOnly,
    SessionNotFound,
    StorageError,
    StoreNotFound,
    SyncFailed,
    ToolFailed,
    TurnlogError,
    Unsupported,
    WrongProcess,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog._core import IMPLEMENTATION, Event, Receipt
    from turnlog.model.plans import Plan, Tasks
    from turnlog.model.step import Step
    from turnlog.model.tools import Resolution, ToolCall
    from turnlog.model.turn import Turn
    from turnlog.model.turn_view import TurnView
    from turnlog.reference import Reference
    from turnlog.session import Session
    from turnlog.signals import SignalExit
    from turnlog.state.state import State
    from turnlog.store import Store

    __version__: str
else:
    _LATE = {  # imported when first named: `sessionctl list` needs a third of them, and msgspec only who uses the model
        "Event": "_core",
        "IMPLEMENTATION": "_core",
        "Plan": "model.plans",
        "Receipt": "_core",
        "Reference": "reference",
        "Resolution": "model.tools",
        "Session": "session",
        "SignalExit": "signals",
        "State": "state.state",
        "Step": "model.step",
        "Store": "store",
        "Tasks": "model.plans",
        "ToolCall": "model.tools",
        "Turn": "model.turn",
        "TurnView": "model.turn_view",
    }

    def __dir__() -> list[str]:
        """Name what was not imported yet, too: an interactive Python completes from this."""
        return sorted({*globals(), *__all__})

    def __getattr__(name: str) -> object:
        """Import a name when it is first used; read the version from the metadata."""
        if name in _LATE:
            from importlib import import_module

            found = globals()[name] = getattr(import_module(f"turnlog.{_LATE[name]}"), name)
            return found
        if name != "__version__":
            message = f"module 'turnlog' has no attribute {name!r}"
            raise AttributeError(message)
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("turnlog")
        except PackageNotFoundError:  # run from a source tree that is not installed
            return "0+source"


__all__ = [  # noqa: RUF022 - in the order of sorted(), which a test compares
    "AmbiguousId",
    "ArtifactNotFound",
    "Closed",
    "Conflict",
    "CursorMismatch",
    "Damaged",
    "Event",
    "HistoryInvalid",
    "IMPLEMENTATION",
    "IndexUnavailable",
    "InvalidId",
    "InvalidInput",
    "InvalidPayload",
    "InvalidTransition",
    "InvalidType",
    "Locked",
    "NewerFormat",
    "NoSpace",
    "NotASegment",
    "NotFound",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Plan",
    "ReadOnly",
    "Receipt",
    "Reference",
    "Resolution",
    "Session",
    "SessionNotFound",
    "SignalExit",
    "State",
    "Step",
    "StorageError",
    "Store",
    "StoreNotFound",
    "SyncFailed",
    "Tasks",
    "ToolCall",
    "ToolFailed",
    "Turn",
    "TurnView",
    "TurnlogError",
    "Unsupported",
    "WrongProcess",
    "__version__",
]
