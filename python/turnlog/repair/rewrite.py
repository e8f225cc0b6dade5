"""Writes what is left of a damaged segment into a new file of the same identity.

Owns: the copy of the undamaged events to their new offsets, the REPAIR_NOTE at each gap, the end. Invariants: an event
keeps its ordinal, id, time, digest, flags and epoch; ordinals of lost events are never given out again, since a note
holds them; where the headers of the lost events can be read the chain goes on as if nothing were lost. Must not know:
which file is replaced, quarantine, locks.
"""

from __future__ import annotations

from turnlog import _core, disk
from turnlog.errors import Damaged
from turnlog.log.notes import CHAIN_BYTES, gap_chain, lost_in_note, note_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from turnlog._core import FrameHeader

_ANCHORS = frozenset({_core.KIND_CLOSE, _core.KIND_OPEN, _core.KIND_SEAL, _core.KIND_CHAIN_MARK})
_ZERO_ID = bytes(16)
_BUFFER_BYTES = 1024 * 1024


class Target:
    """Where a rewritten segment must end, by what its successor or the witness promises.

    `last` is the highest ordinal it may hold (0: no limit), `known` an (ordinal, chain) that is certain, `successor`
    the segment id that its SEAL names.
    """

    __slots__ = ("known", "last", "successor")

    def __init__(self, last: int = 0, known: tuple[int, bytes] | None = None, successor: bytes | None = None) -> None:
        """Keep the parts."""
        self.last = last
        self.known = known
        self.successor = successor

    def chain_at(self, ordinal: int) -> bytes | None:
        """Return the chain there when it is certain."""
        return self.known[1] if self.known is not None and self.known[0] == ordinal else None


class SegmentCopy:
    """A segment being written from its start, everything durable at the end; `offset`, `last` and `chain` say how far
    it is.
    """

    def __init__(self, descriptor: int, fields: Mapping[str, Any]) -> None:
        """Begin with the header."""
        self.last: int = fields["first_ordinal"] - 1
        self.chain: bytes = fields["prev_chain"]
        self.offset = 0
        self.notes = 0
        self._events = 0
        self._sparse: list[tuple[int, int]] = []
        self._descriptor = descriptor
        self._segment_id: bytes = fields["segment_id"]
        self._epoch: int = fields["writer_epoch"]
        self._pending = bytearray()
        self._append(_core.encode_header(dict(fields)))

    @property
    def epoch(self) -> int:
        """Return the epoch of the last frame; it never falls."""
        return self._epoch

    def event(self, header: FrameHeader, payload: bytes, *, closes_group: bool) -> None:
        """Write an event that was found valid elsewhere, and before it a CHAIN_MARK where one is due."""
        if self._events and not self.last % _core.CHAIN_STEP_EVENTS:
            self._frame(_core.KIND_CHAIN_MARK, _core.FLAG_COMMIT, self.last, self.chain)
        sparse = self._sparse
        if not sparse or self.offset // _core.SPARSE_STEP_BYTES > sparse[-1][1] // _core.SPARSE_STEP_BYTES:
            sparse.append((header.ordinal, self.offset))
        self.chain = _core.chain_next(
            self.chain, header.ordinal, header.event_id, header.time_us, header.digest, header.type
        )
        self.last, self._epoch = header.ordinal, header.epoch
        self._events += 1
        flags = header.flags | _core.FLAG_COMMIT if closes_group else header.flags
        self._frame(
            header.kind,
            flags,
            header.ordinal,
            payload,
            event_id=header.event_id,
            time_us=header.time_us,
            type=header.type,
        )

    def note(self, ordinal: int, payload: bytes) -> None:
        """Write a REPAIR_NOTE; order and chain go on from it."""
        self.last, self.chain = ordinal, payload[:CHAIN_BYTES]
        self.notes += 1
        self._frame(_core.KIND_REPAIR_NOTE, _core.FLAG_COMMIT, ordinal, payload)

    def other(self, header: FrameHeader, payload: bytes) -> None:
        """Write a control frame that readers may skip."""
        self._frame(header.kind, header.flags, self.last, payload, event_id=header.event_id, time_us=header.time_us)

    def end(self, successor: bytes | None) -> None:
        """Write SEAL when a successor is known, else CLOSE, and everything to the file."""
        if successor is None:
            self._frame(_core.KIND_CLOSE, _core.FLAG_COMMIT, self.last, self.chain)
        else:
            index = b"".join(o.to_bytes(8, "little") + at.to_bytes(8, "little") for o, at in self._sparse)
            payload = self.chain + self._events.to_bytes(8, "little") + successor + index
            self._frame(_core.KIND_SEAL, _core.FLAG_COMMIT, self.last, payload)
        self._write()

    def _frame(
        self,
        kind: int,
        flags: int,
        ordinal: int,
        payload: bytes,
        *,
        event_id: bytes = _ZERO_ID,
        time_us: int = 0,
        type: str = "",
    ) -> None:
        frame = _core.encode_frame(
            segment_id=self._segment_id,
            offset=self.offset,
            kind=kind,
            flags=flags,
            epoch=self._epoch,
            ordinal=ordinal,
            durable_off=self.offset,  # the file appears under its name only when all of it is durable
            event_id=event_id,
            time_us=time_us,
            type=type,
            payload=payload,
        )
        self._append(frame)

    def _append(self, data: bytes) -> None:
        self._pending += data
        self.offset += len(data)
        if len(self._pending) >= _BUFFER_BYTES:
            self._write()

    def _write(self) -> None:
        disk.write_all(self._descriptor, bytes(self._pending), self.offset - len(self._pending))
        self._pending.clear()


class Rewriter:
    """Takes the frames of a damaged segment in file order and writes what can be kept."""

    def __init__(self, out: SegmentCopy, *, mark: int, target: Target, about: Mapping[str, Any]) -> None:
        """`mark` is the durable mark of the damaged file, `about` goes into each note."""
        self._out = out
        self._mark = mark
        self._target = target
        self._about = about
        self._group: list[tuple[int, FrameHeader, bytes]] = []  # events of an atomic group that is not closed yet
        self._headers: dict[int, FrameHeader] = {}  # of lost events whose headers can be believed

    def run(self, frames: Iterable[tuple[int, FrameHeader, bytes | None]], promised: int) -> None:
        """Write everything, at least up to ordinal `promised`. Raises NoSpace, StorageError."""
        for offset, header, payload in frames:
            if payload is None:
                self._headers.setdefault(header.ordinal, header)
            elif header.kind == _core.KIND_EVENT:
                self._event(offset, header, payload)
            elif header.kind == _core.KIND_REPAIR_NOTE:
                self._earlier_note(header, payload)
            elif header.kind == _core.KIND_CHAIN_MARK and self._group and header.ordinal == self._last():
                continue  # it stands inside an atomic group, which it does not end
            elif header.kind in _ANCHORS:
                self._anchor(header.ordinal, payload[:CHAIN_BYTES])
            elif header.kind & _core.KIND_IGNORABLE:
                self._flush(closed=True)
                self._out.other(header, payload)
        self._finish(promised)

    def _last(self) -> int:
        return self._group[-1][1].ordinal if self._group else self._out.last

    def _event(self, offset: int, header: FrameHeader, payload: bytes) -> None:
        epoch = self._group[-1][1].epoch if self._group else self._out.epoch
        limit = self._target.last
        if _core.digest(payload) != header.digest:
            raise Damaged(
                "TAMPERED: the payload does not have its digest; nothing is rewritten", ordinal=header.ordinal
            )
        if header.ordinal <= self._last() or header.epoch < epoch or (limit and header.ordinal > limit):
            return  # of a stale writer; the old file in quarantine keeps it
        if header.ordinal > self._last() + 1:
            self._gap(header.ordinal - 1)
        self._group.append((offset, header, payload))
        if header.flags & _core.FLAG_COMMIT:
            self._flush(closed=False)

    def _earlier_note(self, header: FrameHeader, payload: bytes) -> None:
        lost = lost_in_note(payload)
        before = lost[0] - 1 if lost is not None else header.ordinal
        if header.ordinal < self._last():
            return
        if before > self._last():
            self._gap(before)
        self._flush(closed=True)
        self._out.note(header.ordinal, payload)

    def _anchor(self, ordinal: int, chain: bytes) -> None:
        """Take the chain from a frame that states it: behind a gap it may be unknown."""
        if ordinal > self._last():
            self._gap(ordinal, chain)
        elif ordinal == self._last():
            self._flush(closed=True)
            if chain != self._out.chain:
                self._out.note(ordinal, note_payload(chain, None, self._about))

    def _gap(self, last: int, chain: bytes | None = None) -> None:
        """Record that the events up to `last` are lost."""
        self._flush(closed=True)
        lost = (self._out.last + 1, last)
        if chain is None:
            chain = self._true_chain(lost) or gap_chain(self._out.chain, lost)
        self._out.note(last, note_payload(chain, lost, self._about))

    def _true_chain(self, lost: tuple[int, int]) -> bytes | None:
        chain = self._out.chain
        for ordinal in range(lost[0], lost[1] + 1):
            header = self._headers.get(ordinal)
            if header is None or header.kind != _core.KIND_EVENT:
                return None
            chain = _core.chain_next(chain, ordinal, header.event_id, header.time_us, header.digest, header.type)
        return chain

    def _flush(self, *, closed: bool) -> None:
        """Write the open group; `closed` ends it where its own end was lost."""
        group, self._group = self._group, []
        for position, (_, header, payload) in enumerate(group):
            self._out.event(header, payload, closes_group=closed and position + 1 == len(group))

    def _finish(self, promised: int) -> None:
        if self._group and self._group[0][0] >= self._mark:
            self._group.clear()  # never finished, never acknowledged
        self._flush(closed=True)
        out, target = self._out, self._target
        if out.last < promised:
            self._gap(promised, target.chain_at(promised))
        certain = target.chain_at(out.last)
        if certain is not None and certain != out.chain:
            out.note(out.last, note_payload(certain, None, self._about))
        if not out.notes:  # tells readers that offsets noted elsewhere are those of the old file
            out.note(out.last, note_payload(out.chain, None, self._about))
        out.end(target.successor)


def rewrite(
    descriptor: int,
    path: str,
    fields: Mapping[str, Any],
    *,
    mark: int,
    promised: int,
    target: Target,
    about: Mapping[str, Any],
) -> None:
    """Write what is left of the segment at `path` to an open, empty file. Raises NoSpace, StorageError, Damaged."""
    out = SegmentCopy(descriptor, fields)
    frames = _core.salvage(path, fields["segment_id"])
    Rewriter(out, mark=mark, target=target, about=about).run(frames, promised)


def bridge(
    descriptor: int, fields: Mapping[str, Any], lost_last: int, chain: bytes | None, about: Mapping[str, Any]
) -> None:
    """Write a segment that stands for a missing one: one note, which holds the ordinals up to `lost_last`."""
    out = SegmentCopy(descriptor, fields)
    lost = (out.last + 1, lost_last) if lost_last > out.last else None
    if chain is None:
        chain = gap_chain(out.chain, lost) if lost is not None else out.chain
    out.note(max(out.last, lost_last), note_payload(chain, lost, about))
    out.end(None)
