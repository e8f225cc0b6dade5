"""A local-first storage engine for AI-agent sessions: the public names, and nothing else.

`Store` is where to start: `Store.open`, `store.create`, `session.append`, `session.events`. How it is built:
ARCHITECTURE.md; every byte on disk: FORMAT.md.
"""

from turnlog._core import IMPLEMENTATION, Event, Receipt
from turnlog.errors import (
    AmbiguousId,
    ArtifactNotFound,
    Closed,
    Conflict,
    Damaged,
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
    PayloadTooLarge,
    ReadOnly,
    SessionNotFound,
    StorageError,
    StoreNotFound,
    SyncFailed,
    TurnlogError,
    Unsupported,
    WrongProcess,
)
from turnlog.session import Session
from turnlog.store import Store

TYPE_CHECKING = False
if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """Look the version up when it is asked for: reading the package's metadata costs more than the import."""
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
    "Damaged",
    "Event",
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
    "PayloadTooLarge",
    "ReadOnly",
    "Receipt",
    "Session",
    "SessionNotFound",
    "StorageError",
    "Store",
    "StoreNotFound",
    "SyncFailed",
    "TurnlogError",
    "Unsupported",
    "WrongProcess",
    "__version__",
]
