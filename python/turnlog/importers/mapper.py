"""The part of a mapper that does not depend on the product: lines in, typed events out.

Owns: damaged, glued, torn and pretty-printed lines, a last line that grows, first and last time, counts, payload
size, turns. Invariants: pure (no I/O, no clock); the same lines give the same events; every payload says where in the
file it comes from; what was mapped once from a growing line is not mapped again. Must not know: stores, files, what a
product's record means.
"""

from __future__ import annotations

from turnlog.importers.facts import NOTES, Facts
from turnlog.importers.lines import DECODE_BYTES_MAX, HEAD_BYTES, Line, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.importers.lines import Decoded

    Payload = dict[str, Any]
    Event = tuple[str, Payload]

LINE_BYTES_INLINE = 4 << 20
STRING_CHARS_MAX = 64 << 10
"""Events of a line above LINE_BYTES_INLINE carry only this much of a string: the line is stored beside them."""

OPENERS = (b"{", b"[")


class Mapper:
    """Feed it every line of one file in order, then call `finish`; feeding may go on when the file has grown."""

    product = ""

    def __init__(self) -> None:
        """Start in front of line 1."""
        self.facts = Facts()
        self.turn: str | None = None
        self.turn_inferred = False
        self._turn_paused = False
        self.time: str | None = None
        self.other_time: tuple[str, str] | None = None  # for records without a time: a time, and where it is from
        self._out: list[Event] = []
        self._at: Payload = {}
        self._large = False
        self._block: list[Line] = []
        self._block_reported = False
        self._tail: Line | None = None
        self._tail_mapped: set[int] = set()
        self._tail_damaged = False
        self._tail_undecided = False
        self._closed: list[Line] = []

    def feed(self, line: Line) -> list[Event]:
        """Return the events of one line. The same number again: the last line has grown, `line` is all of it."""
        if not line.data:
            return []
        self._out = []
        tail, self._tail = self._tail, None
        grown = tail is not None and tail.number == line.number
        if not grown:
            self.facts.lines += 1
            self.begin_line()
            self._tail_mapped, self._tail_damaged, self._closed = set(), False, []
        elif tail is not None and self._is_same(tail, line):
            self._tail = None if line.ended else line
            return self._out
        if not self._continues(line, grown=grown):
            self._read(line)
        if not line.ended:
            self._tail = line
        return self._out

    def _is_same(self, tail: Line, line: Line) -> bool:
        """Tell whether the last line has grown by nothing that says more."""
        settled = not (self._tail_undecided or self._block)
        return settled and line.whole and not line.data[len(tail.data) :].strip(b" \t\r\n")

    def finish(self) -> list[Event]:
        """Return what only the end of the input makes known. State is kept: more lines may follow."""
        self._out = []
        if self._block:
            first = self._block[0]
            length = sum(line.length for line in self._block)
            self._damaged(first, "torn_tail", length=length, lines=len(self._block))
            self._block_reported = True
        self.close()
        # A transcript at rest runs nothing; what may follow in the same turn still names it.
        self._pause_turn({"at_end": True})
        return self._out

    def begin_line(self) -> None:
        """Note what `is_record` depends on: a line must be read the same way again when it has grown."""

    def is_record(self, value: object) -> bool:
        """Tell a record of this product from an object inside a torn one."""
        raise NotImplementedError

    def record(self, record: Payload) -> None:
        """Map one record: call `emit` for each event."""
        raise NotImplementedError

    def close(self) -> None:
        """Emit what is still open at the end of the input."""

    def emit(self, kind: str, payload: Payload) -> None:
        """Add an event of the record being mapped. Keys without a value are left out."""
        body = {key: value for key, value in payload.items() if value is not None}
        if self._large:
            cut: list[str] = []
            body = {key: _shortened(value, key, cut) for key, value in body.items()}
            if cut:
                body["cut"] = cut
        if self.time is not None:
            body.setdefault("time", self.time)
        if self.turn is not None:
            body.setdefault("turn", self.turn)
        body.setdefault("source", self._at)
        self._out.append((kind, body))

    def infer_time(self) -> None:
        """Give a record that has no time the one that is known of its file; `source` says where that is from."""
        if self.other_time is not None:
            self.time, origin = self.other_time
            self._at = {**self._at, "time_from": origin}

    def place(self) -> Payload:
        """Return where the current record is, for an event that is emitted later."""
        return self._at

    def unknown(self, kind: str) -> None:
        """Count and mark a record of a type this mapper does not know; its line is kept as it is."""
        self.facts.unknown[kind] = self.facts.unknown.get(kind, 0) + 1
        self.emit("source.unknown", {"type": kind})

    def start_turn(self, turn: str, payload: Payload, *, inferred: bool) -> None:
        """Open a turn; one that is still open ends here."""
        self._pause_turn({})
        self.turn, self.turn_inferred, self._turn_paused = turn, inferred, False
        self.emit("turn.started", {**payload, "inferred": inferred or None})

    def _pause_turn(self, payload: Payload) -> None:
        """Say that a turn without an end of its own is over."""
        if self.turn is not None and not self._turn_paused:
            self._turn_paused = True
            kind = "turn.completed" if self.turn_inferred else "turn.interrupted"
            self.emit(kind, {"inferred": True, **payload})

    def end_turn(self, kind: str, payload: Payload) -> None:
        """Close the turn that is open, if any."""
        self.emit(kind, payload)
        self.turn, self.turn_inferred, self._turn_paused = None, False, False

    def _continues(self, line: Line, *, grown: bool) -> bool:
        """Take a line as part of a pretty-printed object; False when it is not."""
        if grown and self._block:
            self._block.pop()
            if not self._block:
                self._tail_damaged, self._block_reported = self._block_reported, False
        elif grown:
            self._block, self._closed = self._closed, []
        text = line.data.strip() if line.whole and len(line.data) < HEAD_BYTES else b"."
        if not self._block:
            return self._opens(line, text)
        opener = self._block[0]
        closer = b"}" if opener.data.strip() == b"{" else b"]"
        inside = line.whole and line.data[:1] in b' \t"' and sum(part.length for part in self._block) < DECODE_BYTES_MAX
        alone = text.rstrip(b",") == closer
        closes = line.whole and line.data.lstrip()[:1] == closer
        at_its_place = closes and _indent(line.data) == _indent(opener.data)
        if at_its_place and self._close_block(line):
            return True
        if not (inside or alone or (closes and not line.ended)):
            self._torn_block()
            return self._opens(line, text)
        self._block.append(line)
        if at_its_place and alone and line.ended:
            self._torn_block()
        return True

    def _opens(self, line: Line, text: bytes) -> bool:
        """Take a line as the first of a pretty-printed object; False when it is not."""
        if text in OPENERS:
            self._block = [line]
        return bool(self._block)

    def _close_block(self, line: Line) -> bool:
        """Read the lines of a pretty-printed object, of which `line` is the last, as one; False when they are none."""
        block, first = [*self._block, line], self._block[0]
        text = b"".join(part.data for part in block).rstrip().rstrip(b",")
        decoded = decode(text, self.is_record, ended=line.ended)
        if not decoded.records or decoded.records[0][1] != _indent(text):
            return False
        self._closed, self._block = ([] if line.ended else self._block), []
        self._tail_damaged, self._block_reported = self._block_reported, False
        self._tail_undecided = decoded.undecided
        if decoded.records[0][1] not in self._tail_mapped:
            self._mend(first)
            length = sum(part.length for part in block)
            self.facts.found("pretty_printed", first, length, f"one object over {len(block)} lines")
        if decoded.code is not None:
            self._report(decoded, line)
        self._map(decoded, first)
        return True

    def _torn_block(self) -> None:
        """Give up on a pretty-printed object: its lines are damage."""
        block, self._block, self._block_reported = self._block, [], False
        self._damaged(block[0], "torn", length=sum(line.length for line in block), lines=len(block))

    def _read(self, line: Line) -> None:
        """Map the records of one line and report its damage."""
        self._large = line.length > LINE_BYTES_INLINE
        if not line.whole:
            head = line.data[:120].decode(errors="replace")
            self._damaged(line, "oversized", length=line.length, head=head)
            return
        decoded = decode(line.data, self.is_record, ended=line.ended)
        self._tail_undecided = decoded.undecided
        body = len(line.data.rstrip(b"\r\n"))
        for note in dict.fromkeys(decoded.notes):
            if note != "crlf" or "crlf" not in self.facts.damage:
                self.facts.found(note, line, body, NOTES[note])
        if decoded.code is None:
            self._mend(line)
        else:
            self._report(decoded, line)
        self._map(decoded, line)

    def _report(self, decoded: Decoded, line: Line) -> None:
        """Report the damage of one line."""
        code = "torn_tail" if decoded.code == "torn" and not line.ended and not decoded.records else str(decoded.code)
        length = len(line.data.rstrip(b"\r\n"))
        whole = len(decoded.records)
        self._damaged(line, code, length=length, head=decoded.head or None, unread=decoded.unread, whole=whole)
        self._tail_damaged = True

    def _map(self, decoded: Decoded, line: Line) -> None:
        """Map the records that were not mapped when the line was shorter."""
        for record, offset in decoded.records:
            if offset in self._tail_mapped:
                continue
            self._tail_mapped.add(offset)
            self.facts.records += 1
            self._at = {"line": line.number, "offset": line.offset + offset}
            self.time = None
            if isinstance(record, dict):
                self._map_record(record, line)
            else:
                self.unknown(f"({type(record).__name__})")
        self._large = False

    def _map_record(self, record: Payload, line: Line) -> None:
        """Map a record; one whose shape no rule foresaw becomes an unknown one, and the import goes on."""
        before = len(self._out)
        try:
            self.record(record)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            del self._out[before:]
            self.facts.found("unexpected_shape", line, line.length, f"{type(error).__name__}: {error}")
            self.unknown(str(record.get("type")))

    def _mend(self, line: Line) -> None:
        """Say that a line reported as damaged at the end of the file is whole now."""
        if self._tail_damaged:
            self._tail_damaged = False
            self._at = {"line": line.number, "offset": line.offset}
            self.emit("source.mended", {})

    def _damaged(
        self,
        line: Line,
        code: str,
        *,
        length: int,
        head: str | None = None,
        unread: int | None = None,
        whole: int = 0,
        lines: int = 1,
    ) -> None:
        """Report bytes that could not be read, as an event and as a finding."""
        self._at = {"line": line.number, "offset": line.offset}
        self.time = None
        several = lines if lines > 1 else None
        self.emit(
            "source.damaged",
            {"code": code, "length": length, "whole_records": whole, "unread": unread, "head": head, "lines": several},
        )
        detail = f"{whole} whole record{'' if whole == 1 else 's'} read" if whole else "nothing could be read"
        self.facts.found(code, line, length, detail)


def _indent(data: bytes) -> int:
    """Count the white space in front of a line."""
    return len(data) - len(data.lstrip(b" \t"))


def _shortened(value: object, path: str, cut: list[str]) -> object:
    """Return a copy without the tails of large strings; `cut` receives their paths."""
    if isinstance(value, str):
        if len(value) <= STRING_CHARS_MAX:
            return value
        cut.append(path)
        return value[:STRING_CHARS_MAX]
    if isinstance(value, dict):
        return {key: _shortened(item, f"{path}.{key}", cut) for key, item in value.items()}
    if isinstance(value, list):
        return [_shortened(item, f"{path}[{at}]", cut) for at, item in enumerate(value)]
    return value
