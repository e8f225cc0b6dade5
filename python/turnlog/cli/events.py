"""Events of a log as lines: for people, as JSON, or as their bytes; and what could not be read, by name.

Owns: the JSON form of an event and of a loss, the form of a line. Invariants: a payload that is JSON is passed on as
the stored bytes, never decoded and encoded again; every loss is reported once. Must not know: which events are
asked for.
"""

from __future__ import annotations

from turnlog import _core
from turnlog.cli.schema import LOST
from turnlog.cli.summary import summarize
from turnlog.cli.terminal import cut, pad, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from turnlog._core import Event
    from turnlog.cli.output import Output
    from turnlog.errors import Damaged

_TYPE_COLUMNS = 18
_ORDINAL_COLUMNS = 7
_SUMMARY_COLUMNS_MIN = 20

EVENT: dict[str, Any] = {
    **dict.fromkeys(("digest", "id", "event_type", "session"), "string"),
    **dict.fromkeys(("ordinal", "size", "time_us"), "integer"),
    "payload": "any-",
    "text": "string-",
    "base64": "string-",
}
OBJECTS = {"event": EVENT, "lost": LOST}


def encode(event: Event, session_id: str) -> bytes:
    """Return the event as one JSON object, keys sorted. `payload` is its JSON; bytes kept verbatim are `text`, or
    `base64` when they are not UTF-8. Raises Damaged, StorageError.
    """
    raw = event.raw
    fields: dict[str, Any] = {
        "digest": event.digest.hex(),
        "event_type": event.type,
        "id": event.id,
        "ordinal": event.ordinal,
        "session": session_id,
        "size": event.size,
        "time_us": event.time_us,
        "type": "event",
    }
    if not event.is_raw:
        head = _core.canonical({name: fields.pop(name) for name in ("digest", "event_type", "id", "ordinal")})
        return head[:-1] + b',"payload":' + raw + b"," + _core.canonical(fields)[1:]
    try:
        fields["text"] = raw.decode("utf-8")
    except UnicodeDecodeError:
        from binascii import b2a_base64

        fields["base64"] = b2a_base64(raw, newline=False).decode("ascii")
    return _core.canonical(fields)


def line(out: Output, event: Event, columns: int | None) -> str:
    """Return one line for people: ordinal, time, type, summary; cut to the terminal."""
    time, text = summarize(event)
    head = f"{event.ordinal:>{_ORDINAL_COLUMNS}}  {time}  "
    kind = pad(event.type, _TYPE_COLUMNS)
    if event.is_raw:
        text = f"{text}  ({size(event.size)} raw)"
    if columns is not None:
        text = cut(text, max(_SUMMARY_COLUMNS_MIN, columns - len(head) - len(kind) - 2))
    return f"{out.paint(head, 'dim')}{out.paint(kind, _color(event.type))}  {text}".rstrip()


def _color(kind: str) -> str:
    family, _, state = kind.partition(".")
    if state in {"failed", "denied", "damaged", "outcome_unknown", "interrupted", "aborted"}:
        return "red"
    return {"message": "green", "tool": "yellow", "turn": "bold", "source": "dim"}.get(family, "cyan")


class Losses:
    """What could not be read: kept in order, each ordinal range once, and told as soon as it is known."""

    def __init__(self, out: Output, session_id: str) -> None:
        """Start with none."""
        self._out = out
        self._session = session_id
        self._told: set[tuple[int, int]] = set()

    def __bool__(self) -> bool:
        """Tell whether there is any."""
        return bool(self._told)

    def tell(self, damages: Iterable[Damaged]) -> None:
        """Report the new ones: as `lost` objects in the answer, or as notes beside it."""
        for damage in damages:
            ordinal = damage.ordinal or 0
            lost = damage.lost or (ordinal, ordinal)
            if lost in self._told:
                continue
            self._told.add(lost)
            if self._out.json:
                place = {"session": self._session, "segment": damage.segment, "offset": damage.offset}
                self._out.object("lost", {**place, "first": lost[0], "last": lost[1]})
            else:
                self._out.note(f"lost: {damage}", "red")

    def advise(self) -> None:
        """Name the next command when there were losses."""
        if self and not self._out.json:
            self._out.advise(f"sessionctl verify {self._session}")
