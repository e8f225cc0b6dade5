"""The fold from a session's events to its line in the list.

Owns: which event types and payload fields the list shows, and what each does to a row. Invariants: pure (same events,
same row, however they are cut into batches); a payload of any shape is accepted, a field of the wrong shape is as if
absent. Must not know: files, SQL, segments, what is durable.

| types | payload fields read | effect |
| --- | --- | --- |
| session.created, forked, configured, renamed, tagged | title, cwd, model, tags, tags_removed, parent | columns |
| session.closed, archived, unarchived, deleted | | state |
| turn.started; completed, aborted, failed, interrupted | | turns; running or not |
| step.completed, failed | usage: input, output, cache_read, cache_write; model | steps, tokens |
| message.user, assistant, system | content (first user text is the title if none was given) | messages |
| tool.proposed | | tool calls |
| source.imported | first_time, last_time | created; last activity, while nothing follows |
"""

from __future__ import annotations

from operator import attrgetter

from turnlog.names import is_session_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    from turnlog.handle import StoredEvent
    from turnlog.index.payload_fields import Message, Settings, Step

    class Fields(Protocol):
        """The decoders, as the module `payload_fields` has them."""

        def read_step(self, event: StoredEvent, /) -> Step:
            """Return usage and model."""

        def read_settings(self, event: StoredEvent, /) -> Settings:
            """Return the settings."""

        def read_message(self, event: StoredEvent, /) -> Message:
            """Return the content."""

        def read_times(self, event: StoredEvent, /) -> tuple[int, int]:
            """Return the first and last time of an imported history."""


TITLE_MAX_CHARACTERS = 200
TEXT_MAX_CHARACTERS = 4_096
TAGS_MAX = 64
COUNT_MAX = 2**63 - 1  # SQLite's largest integer

OPEN, RUNNING, CLOSED, ARCHIVED, DELETED = "open", "running", "closed", "archived", "deleted"
STATES = (OPEN, RUNNING, CLOSED, ARCHIVED, DELETED)

COLUMNS = (
    *("id", "title", "titled", "cwd", "model", "state", "created_us", "last_activity_us"),
    *("turns", "open_turns", "steps", "messages", "tool_calls"),
    *("tokens_input", "tokens_output", "tokens_cache_read", "tokens_cache_write"),
    *("parent", "fork_ordinal", "head_ordinal", "head_chain", "bytes"),
    *("closed", "archived", "deleted", "damaged", "tags"),
)
_PLAIN = attrgetter(*COLUMNS[:-1])


class SessionRow:
    """The state of the fold: the columns of the table `sessions`, whose comments say what each means."""

    __slots__ = COLUMNS
    id: str
    title: str
    titled: int
    cwd: str
    model: str
    state: str
    created_us: int
    last_activity_us: int
    turns: int
    open_turns: int
    steps: int
    messages: int
    tool_calls: int
    tokens_input: int
    tokens_output: int
    tokens_cache_read: int
    tokens_cache_write: int
    parent: str
    fork_ordinal: int
    head_ordinal: int
    head_chain: bytes
    bytes: int
    closed: int
    archived: int
    deleted: int
    damaged: int
    tags: tuple[str, ...]

    def __init__(self, session_id: str) -> None:
        """Start the row of a session of which nothing was read yet."""
        self.id = session_id
        self.title = self.cwd = self.model = self.parent = ""
        self.state = OPEN
        self.created_us = self.last_activity_us = self.bytes = 0
        self.titled = self.closed = self.archived = self.deleted = self.damaged = 0
        self.turns = self.open_turns = self.steps = self.messages = self.tool_calls = 0
        self.tokens_input = self.tokens_output = self.tokens_cache_read = self.tokens_cache_write = 0
        self.fork_ordinal = self.head_ordinal = 0
        self.head_chain = b""
        self.tags = ()

    @classmethod
    def from_values(cls, values: Iterable[Any]) -> SessionRow:
        """Build a row from the columns in the order of COLUMNS."""
        row = cls.__new__(cls)
        for name, value in zip(COLUMNS, values, strict=True):
            setattr(row, name, value)
        row.tags = tuple(values.split("\n")) if (values := str(row.tags)) else ()
        return row

    def values(self) -> tuple[Any, ...]:
        """Return the columns in the order of COLUMNS, as SQLite stores them."""
        return (*_PLAIN(self), "\n".join(self.tags))

    def __eq__(self, other: object) -> bool:
        return self.values() == other.values() if isinstance(other, SessionRow) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a row is mutable

    def __repr__(self) -> str:
        return f"<SessionRow {self.id} {self.state} {self.title!r}>"


def fold(row: SessionRow, events: Iterable[StoredEvent]) -> None:
    """Apply events, in order, to the row. Raises Damaged or StorageError when a payload cannot be read."""
    from turnlog.index import payload_fields  # msgspec comes with it

    for event in events:
        action = _ACTIONS.get(event.type)
        if action is not None:
            action(row, event, payload_fields)
    row.tokens_input = min(row.tokens_input, COUNT_MAX)
    row.tokens_output = min(row.tokens_output, COUNT_MAX)
    row.tokens_cache_read = min(row.tokens_cache_read, COUNT_MAX)
    row.tokens_cache_write = min(row.tokens_cache_write, COUNT_MAX)
    row.state = _state(row)


def _state(row: SessionRow) -> str:
    if row.deleted:
        return DELETED
    if row.archived:
        return ARCHIVED
    if row.closed:
        return CLOSED
    return RUNNING if row.open_turns else OPEN


def _settings(row: SessionRow, event: StoredEvent, read: Fields) -> None:
    given = read.read_settings(event)
    if title := _line(given.title):
        row.title, row.titled = title, 1
    row.cwd = stored_text(given.cwd) or row.cwd
    row.model = stored_text(given.model) or row.model
    if not row.parent and isinstance(given.parent, str) and is_session_id(given.parent):
        row.parent = given.parent
    if given.tags or given.tags_removed:
        tags = {*row.tags, *_tags(given.tags)} - {*_tags(given.tags_removed)}
        row.tags = tuple(sorted(tags)[:TAGS_MAX])


def _renamed(row: SessionRow, event: StoredEvent, read: Fields) -> None:
    _settings(row, event, read)
    given = read.read_settings(event)
    if given.title in (None, "") and given.v in (None, 1):  # taken away: what the user says next is the title
        row.title, row.titled = "", 0


def _closed(row: SessionRow, _event: StoredEvent, _read: Fields) -> None:
    row.closed = 1


def _archived(row: SessionRow, _event: StoredEvent, _read: Fields) -> None:
    row.archived = 1


def _unarchived(row: SessionRow, _event: StoredEvent, _read: Fields) -> None:
    row.archived = 0


def _deleted(row: SessionRow, _event: StoredEvent, _read: Fields) -> None:
    row.deleted = 1


def _turn_started(row: SessionRow, _event: StoredEvent, _read: Fields) -> None:
    row.closed = 0  # work after a close means that the session was resumed
    row.turns += 1
    row.open_turns += 1


def _turn_ended(row: SessionRow, _event: StoredEvent, _read: Fields) -> None:
    row.open_turns = max(0, row.open_turns - 1)


def _step(row: SessionRow, event: StoredEvent, read: Fields) -> None:
    row.closed = 0
    row.steps += 1
    given = read.read_step(event)
    if given.model and given.model != row.model:
        row.model = stored_text(given.model)
    usage = given.usage
    row.tokens_input += usage.input
    row.tokens_output += usage.output
    row.tokens_cache_read += usage.cache_read
    row.tokens_cache_write += usage.cache_write


def _message(row: SessionRow, _event: StoredEvent, _read: Fields) -> None:
    row.closed = 0
    row.messages += 1


def _user_message(row: SessionRow, event: StoredEvent, read: Fields) -> None:
    row.closed = 0
    row.messages += 1
    if not row.title:
        row.title = _line(_first_text(read.read_message(event).content))


def _tool_call(row: SessionRow, _event: StoredEvent, _read: Fields) -> None:
    row.closed = 0
    row.tool_calls += 1


def _imported(row: SessionRow, event: StoredEvent, read: Fields) -> None:
    first_us, _ = read.read_times(event)
    if first_us:
        row.created_us = min(row.created_us, first_us)


def imported_until(event: StoredEvent) -> int:
    """Return when an imported history ended, in microseconds; 0 when `event` is not the end of an import, or odd."""
    if event.type != "source.imported":
        return 0
    from turnlog.index import payload_fields  # msgspec comes with it

    return payload_fields.read_times(event)[1]


_ACTIONS: dict[str, Callable[[SessionRow, StoredEvent, Fields], None]] = {
    **dict.fromkeys([f"session.{name}" for name in ("created", "forked", "configured", "tagged")], _settings),
    "session.renamed": _renamed,
    "session.closed": _closed,
    "session.archived": _archived,
    "session.unarchived": _unarchived,
    "session.deleted": _deleted,
    "turn.started": _turn_started,
    **dict.fromkeys([f"turn.{name}" for name in ("completed", "aborted", "failed", "interrupted")], _turn_ended),
    "step.completed": _step,
    "step.failed": _step,
    "message.user": _user_message,
    "message.assistant": _message,
    "message.system": _message,
    "tool.proposed": _tool_call,
    "source.imported": _imported,
}
TYPES = frozenset(_ACTIONS)  # what to ask of replay; all other events only move the head


def stored_text(value: object) -> str:
    """Return text as the index stores it: "" for what is no text, lone surrogates (not UTF-8) replaced, cut to
    TEXT_MAX_CHARACTERS.
    """
    if not isinstance(value, str):
        return ""
    cut = value[:TEXT_MAX_CHARACTERS]
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def _line(value: object) -> str:
    """Return the text as one short line: white space joined, cut to TITLE_MAX_CHARACTERS."""
    return " ".join(stored_text(value).split())[:TITLE_MAX_CHARACTERS]


def _tags(value: object) -> set[str]:
    items = value if isinstance(value, list) else ()
    return {tag for item in items if (tag := _line(item))}


def _first_text(content: object) -> object:
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type", "text") == "text")
        return next((text for text in parts if isinstance(text, str) and text.strip()), None)
    return content
