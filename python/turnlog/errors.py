"""The error tree. Owns: classes, codes. Invariant: each says what, where, why, what next. Must not know: who raises.
TurnlogError
├── InvalidInput (ValueError)     what the caller handed in cannot be stored; nothing was written
│   ├── InvalidPayload            not canonical JSON: NaN, bytes, cycles, depth, keys
│   ├── PayloadTooLarge           beyond 16 MiB
│   ├── InvalidType               event type empty, too long or not plain ASCII
│   ├── InvalidId                 not a UUID
│   └── InvalidTransition         not legal in the session's state: a second turn, a call completed twice
├── Conflict                      same event id, different content
├── HistoryInvalid                no history that a model provider accepts can be made of the events
├── CursorMismatch                the log does not hold the event that a feed's cursor names
├── NotFound (LookupError)        no such store, session, ordinal or artifact
│   ├── StoreNotFound
│   ├── SessionNotFound
│   └── ArtifactNotFound
├── AmbiguousId                   a prefix fits several sessions
├── Locked                        another writer holds the session
├── NewerFormat                   written by a newer turnlog
├── Damaged                       acknowledged bytes are missing or changed
│   ├── ReadOnly                  damage (or a read-only medium) forbids writing
│   └── NotASegment               foreign, renamed or text-mode-damaged file
├── StorageError (OSError)        the operating system said no
│   ├── NoSpace                   rolled back; the writer is still usable
│   ├── SyncFailed                the writer is closed for good; reopen to continue
│   └── Unsupported               this platform or file system cannot keep the promise
├── OutcomeUnknown                a tool call was started, nothing says how it ended: it is not run again
├── ToolFailed                    the stored outcome of a tool call is a failure
├── Closed                        used after close
├── WrongProcess                  used in a child after fork
└── IndexUnavailable              the projection cannot be used; the log is not affected
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class TurnlogError(Exception):
    """Root of the tree.

    The first argument is the sentence for people; the others say where. `next` holds commands to run; `{session}` and
    `{store}` in them are filled in when the place is known.
    """

    code = "error"
    exit_code = 70
    retryable = False
    next: tuple[str, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        session: str | None = None,
        segment: str | None = None,
        offset: int | None = None,
        ordinal: int | None = None,
        store: str | None = None,
    ) -> None:
        """Keep the sentence and the place."""
        super().__init__(message)
        self.message = message
        self.session = session
        self.segment = segment
        self.offset = offset
        self.ordinal = ordinal
        self.store = store

    def at(self, **place: Any) -> TurnlogError:
        """Fill in the parts of the place that the raiser did not know; return self.

        >>> str(TurnlogError("it is gone").at(ordinal=7))
        'it is gone (ordinal 7)'
        """
        for name, value in place.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def place(self) -> dict[str, str | int]:
        """Return the known parts of the place, in reading order.

        >>> TurnlogError("it is gone", ordinal=7, session="s1").place()
        {'session': 's1', 'ordinal': 7}
        """
        names = ("store", "session", "segment", "offset", "ordinal")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def next_commands(self) -> list[str]:
        """Return the commands a person or program should run next.

        >>> Damaged("it is gone", session="s1").next_commands()
        ['sessionctl verify s1', 'sessionctl repair s1']
        """
        place = {"session": self.session or "ID", "store": self.store or "STORE"}
        return [command.format(**place) for command in self.next]

    def as_json(self) -> dict[str, Any]:
        """Return the machine-readable form used by `--json`.

        >>> Locked("somebody writes it", session="s1").as_json()["code"]
        'locked'
        """
        return {
            "type": "error",
            "code": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "next": self.next_commands(),
            **self.place(),
        }

    def __str__(self) -> str:
        """Say what, then where."""
        where = ", ".join(f"{name} {value}" for name, value in self.place().items())
        return f"{self.message} ({where})" if where else self.message


class InvalidInput(TurnlogError, ValueError):
    """The caller handed in something that cannot be stored; nothing was written."""

    code = "invalid_input"
    exit_code = 2


class InvalidPayload(InvalidInput):
    """The payload is not canonical JSON; the message holds the path to the offending value."""

    code = "invalid_payload"


class PayloadTooLarge(InvalidInput):
    """The payload is larger than 16 MiB; store it as an artifact and refer to it."""

    code = "payload_too_large"


class InvalidType(InvalidInput):
    """The event type is empty, longer than 64 bytes or not plain ASCII without spaces."""

    code = "invalid_type"


class InvalidId(InvalidInput):
    """The id is not a UUID."""

    code = "invalid_id"


class InvalidTransition(InvalidInput):
    """The event is not legal in the state the session is in; nothing was written. `rule` is a stable code."""

    code = "invalid_transition"

    def __init__(self, message: str, rule: str = "", **place: Any) -> None:
        """Keep the rule beside the sentence."""
        super().__init__(message, **place)
        self.rule = rule


class Conflict(TurnlogError):
    """The event id is already in the session with different content."""

    code = "conflict"
    exit_code = 1
    next: tuple[str, ...] = ("sessionctl show {session}",)


class HistoryInvalid(TurnlogError):
    """No history that a model provider accepts can be made of the session's events; the message says why."""

    code = "history_invalid"
    exit_code = 1
    next: tuple[str, ...] = ("sessionctl show {session}",)


class CursorMismatch(TurnlogError):
    """The log does not hold the event that a cursor names: it lost its end, is a restored backup or another store.

    `cursor` begins at the session's first event and leaves the others of a store where they were.
    """

    code = "cursor_mismatch"
    exit_code = 1
    next: tuple[str, ...] = ("sessionctl show {session}", "sessionctl verify {session}")
    cursor: str | None = None


class NotFound(TurnlogError, LookupError):
    """What was asked for does not exist."""

    code = "not_found"
    exit_code = 10


class StoreNotFound(NotFound):
    """There is no store at that path."""

    code = "store_not_found"
    next: tuple[str, ...] = ("sessionctl path",)


class SessionNotFound(NotFound):
    """The store has no session with that id."""

    code = "session_not_found"
    next: tuple[str, ...] = ("sessionctl list",)


class ArtifactNotFound(NotFound):
    """The store has no artifact with that digest."""

    code = "artifact_not_found"
    next = ("sessionctl verify --full",)


class AmbiguousId(TurnlogError):
    """The id prefix fits more than one session."""

    code = "ambiguous_id"
    exit_code = 2
    next: tuple[str, ...] = ("sessionctl list",)


class Locked(TurnlogError):
    """Another writer holds the session; the message names it."""

    code = "locked"
    exit_code = 11
    retryable = True


class NewerFormat(TurnlogError):
    """The store or segment was written by a newer turnlog; nothing was touched."""

    code = "newer_format"
    exit_code = 13
    next: tuple[str, ...] = ("sessionctl --version",)


class Damaged(TurnlogError):
    """Acknowledged bytes are missing or changed; events around the damage can still be read.

    `lost` is the inclusive range of ordinals that cannot be served, or None when it is not known; `is_open` says that
    more may be lost behind it. Raised by a feed, it has the `cursor` behind the damage, None where that has no end.
    """

    code = "damaged"
    exit_code = 1
    next: tuple[str, ...] = ("sessionctl verify {session}", "sessionctl repair {session}")
    lost: tuple[int, int] | None = None
    is_open = False
    cursor: str | None = None


class ReadOnly(Damaged):
    """The session cannot be written: it is damaged, or the medium is read-only."""

    code = "read_only"
    exit_code = 4


class NotASegment(Damaged):
    """The file is not a segment of this session: foreign, renamed, or changed by a text-mode copy."""

    code = "not_a_segment"


class StorageError(TurnlogError, OSError):
    """The operating system refused a read, write or sync."""

    code = "storage_error"
    exit_code = 14

    def __init__(self, message: str, errno: int | None = None, **place: Any) -> None:
        """Keep the error number beside the sentence."""
        super().__init__(message, **place)
        self.errno = errno


class NoSpace(StorageError):
    """No space, quota or file size left: the append was rolled back and the session is still usable."""

    code = "no_space"
    retryable = True
    next: tuple[str, ...] = ("sessionctl stats",)


class SyncFailed(StorageError):
    """A write or sync failed: what was not acknowledged is unknown; this writer is closed for good, reopen."""

    code = "sync_failed"
    next: tuple[str, ...] = ("sessionctl verify {session}",)


class Unsupported(StorageError):
    """This platform or file system cannot keep the durability promise."""

    code = "unsupported"
    exit_code = 4


class OutcomeUnknown(TurnlogError):
    """A tool call was started before, and nothing says how it ended: resolve it; it is not run again blindly."""

    code = "outcome_unknown"
    exit_code = 4
    next: tuple[str, ...] = ("sessionctl resume {session}",)


class ToolFailed(TurnlogError):
    """The stored outcome of a tool call is a failure; `error` is what the event holds of it."""

    code = "tool_failed"
    exit_code = 1

    def __init__(self, message: str, error: Any = None, **place: Any) -> None:
        """Keep the stored error beside the sentence."""
        super().__init__(message, **place)
        self.error = error


class Closed(TurnlogError):
    """The store, session or writer was closed before this call."""

    code = "closed"


class WrongProcess(TurnlogError):
    """The object belongs to the parent process; open the session again in this one."""

    code = "wrong_process"


class IndexUnavailable(TurnlogError):
    """The projection cannot be used; the log is not affected."""

    code = "index_unavailable"
    exit_code = 14
    retryable = True
    next: tuple[str, ...] = ("sessionctl rebuild-index",)
