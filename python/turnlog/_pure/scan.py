"""All facts about one segment in one pass: what verify, recovery and repair judge by.

Owns: the state that goes from frame to frame (order, epoch, groups, chain) and the list of faults. Invariants: the
facts of the unbroken run end where the first frame is not valid; nothing after it is taken for part of the run,
though its events are counted; one buffer, whatever the size of the file. Must not know: verdicts, other segments, the
index.
"""

from __future__ import annotations

from turnlog._pure.format import (
    FLAG_COMMIT,
    FLAG_REDACTED,
    FRAME_FIXED_BYTES,
    FRAME_TRAILER_BYTES,
    HEADER_BYTES,
    KIND_CHAIN_MARK,
    KIND_CLOSE,
    KIND_EVENT,
    KIND_OPEN,
    KIND_REPAIR_NOTE,
    KIND_SEAL,
)
from turnlog._pure.frame import FrameFault, chain_next, digest
from turnlog._pure.walk import (
    Window,
    claimed_length,
    has_zero_sector,
    is_seal,
    zeros_from,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog._pure.frame import FrameHeader
    from turnlog._pure.source import RawSource

CHAIN_BYTES = 32
NO_CHAIN = bytes(CHAIN_BYTES)


class Scan:
    """One pass over a segment; `facts` is the result of the contract."""

    def __init__(
        self, source: RawSource, header: dict[str, Any], segment_id: bytes | None, end: int | None, digests: bool
    ) -> None:
        size = source.size()
        self.size = size if end is None else min(end, size)
        self.source = source
        self.window = Window(source, self.size)
        self.segment_id = segment_id or b""
        self.digests = digests
        self.zero_from = zeros_from(source, self.size)
        fields = header["fields"] or {}
        first = fields.get("first_ordinal", 0)
        self.in_run = header["fault"] is None
        self.exact = self.in_run  # whether the next ordinal is known
        self.last: int = max(first - 1, 0)
        self.epoch = fields.get("writer_epoch", 0)
        self.chain = fields.get("prev_chain", NO_CHAIN)
        self.time_us = 0
        self.first_event = first
        self.run_events = 0
        self.before = 0  # last valid event
        self.awaiting: list[dict[str, Any]] = []  # faults after which no valid event was seen yet
        self.group: list[tuple[str, int]] = []  # type and size of the events of the open group
        self.faults: list[dict[str, Any]] = []
        self.types: dict[str, int] = {}
        self.facts: dict[str, Any] = {
            "header": header,
            "size": self.size,
            "compacted": source.compacted,
            "valid_end": HEADER_BYTES,
            "events": 0,
            "durable_mark": HEADER_BYTES,
            "seal": None,
            "closed": False,
            "zero_from": self.zero_from,
            "frame_bytes": 0,
            "payload_bytes": 0,
            "notes": [],
        }
        self._commit(HEADER_BYTES)

    def run(self) -> dict[str, Any]:
        """Walk all frames and return the facts. Raises StorageError."""
        _, holes = self.source.read_filled(0, min(HEADER_BYTES, self.size))
        for low, high, code, detail in holes:
            self._fault(code, low, min(high, HEADER_BYTES), 0, detail)
        offset = HEADER_BYTES
        while self.segment_id and offset < self.size:
            header = self.window.header(self.segment_id, offset)
            if isinstance(header, FrameFault):
                if offset >= self.zero_from:
                    break
                offset = self._unreadable(offset, header)
                continue
            self.facts["durable_mark"] = max(self.facts["durable_mark"], header.durable_off)
            if not header.is_supported():
                detail = f"kind {header.kind} with flags {header.flags} is not known to this version"
                self._fault("unsupported", offset, self._end_of(offset, header), header.ordinal, detail)
                break
            reason = self.window.body_fault(header, self.segment_id, offset)
            if reason is None:
                self._valid(offset, header)
            else:
                self._damaged(offset, header, reason)
            offset = self._end_of(offset, header) if reason != FrameFault.SHORT else self._after_short(offset)
        if self.source.tail_fault:
            self._fault("block", self.size, self.size, 0, self.source.tail_fault)
        return {**self.facts, "types": self.types, "faults": self.faults}

    def _end_of(self, offset: int, header: FrameHeader) -> int:
        return min(self.size, offset + header.frame_length)

    def _after_short(self, offset: int) -> int:
        """Where to go on after an authentic frame that passes the end: nothing but a foreign frame can follow."""
        found = self.window.next_authentic(self.segment_id, offset + 8)
        if found is None:
            return self.size
        self.exact = False
        return found[0]

    # ---- damage

    def _fault(self, code: str, offset: int, end: int, ordinal: int, detail: str, *, signature: bool = False) -> None:
        """Note a fault; where it lies over a hole, the hole is its cause."""
        for low, high, hole_code, hole_detail in self.window.holes:
            if code in {"header", "payload", "trailer"} and low < end and high > offset:
                code, detail, signature = hole_code, hole_detail, False
        fault = {
            "code": code,
            "offset": offset,
            "end": end,
            "ordinal": ordinal,
            "before": self.before,
            "after": 0,
            "detail": str(detail),
            "signature": signature,
        }
        self.faults.append(fault)
        self.awaiting.append(fault)

    def _unreadable(self, offset: int, reason: FrameFault) -> int:
        """Note damage that begins at `offset`, where no header can be believed; return where to go on."""
        found = self.window.next_authentic(self.segment_id, offset + 8)
        end = found[0] if found else self.size
        missing = reason == FrameFault.SHORT or self._looks_unwritten(offset, end)
        self._fault("header", offset, end, 0, reason, signature=missing)
        self.in_run = self.exact = False
        return end

    def _looks_unwritten(self, offset: int, end: int) -> bool:
        """Whether the bytes of a frame with an unreadable header show that a write is missing."""
        before_zeros = end == self.size
        if before_zeros:
            end = min(self.size, (self.zero_from + 7) // 8 * 8)
        trailer = self.source.read_filled(end - FRAME_TRAILER_BYTES, FRAME_TRAILER_BYTES)[0]
        length = int.from_bytes(trailer[:4], "little")
        whole = length == end - offset and length ^ int.from_bytes(trailer[4:], "little") == 0xFFFFFFFF
        if not whole:
            claimed = claimed_length(self.source.read_filled(offset, min(FRAME_FIXED_BYTES, self.size - offset))[0])
            if claimed is not None and offset + claimed > self.size:
                return True
            if claimed is not None:
                end = offset + claimed if before_zeros else min(end, offset + claimed)
                trailer = self.source.read_filled(end - FRAME_TRAILER_BYTES, FRAME_TRAILER_BYTES)[0]
            if not trailer.strip(b"\0"):
                return True
        return has_zero_sector(self.source, offset, end)

    def _damaged(self, offset: int, header: FrameHeader, reason: FrameFault) -> None:
        """Note a frame whose header is authentic and whose body is not valid."""
        end = self._end_of(offset, header)
        missing = reason == FrameFault.SHORT
        if not missing:
            trailer = self.source.read_filled(end - FRAME_TRAILER_BYTES, FRAME_TRAILER_BYTES)[0]
            missing = not trailer.strip(b"\0") or has_zero_sector(self.source, offset, end)
        code = "trailer" if reason in {FrameFault.PADDING, FrameFault.TRAILER} else "payload"
        self._fault(code, offset, end, header.ordinal, reason, signature=missing)
        self.in_run = False
        self.epoch = max(self.epoch, header.epoch)
        if header.kind in {KIND_EVENT, KIND_REPAIR_NOTE}:
            self.last, self.exact = max(self.last, header.ordinal), True

    # ---- valid frames

    def _valid(self, offset: int, header: FrameHeader) -> None:
        """Take in a frame that is valid by itself."""
        end = offset + header.frame_length
        self.facts["frame_bytes"] += header.frame_length
        kind, ordinal = header.kind, header.ordinal
        in_order = self._in_order(kind, ordinal)
        if not in_order or header.epoch < self.epoch:
            detail = (
                f"epoch {header.epoch} after epoch {self.epoch}"
                if in_order
                else f"ordinal {ordinal} after ordinal {self.last}"
            )
            self._fault("order", offset, end, ordinal, detail)
            self.in_run, self.exact = False, True
            self.last, self.epoch = ordinal, header.epoch
            return
        before = self.before
        self.last, self.exact, self.epoch = ordinal, True, header.epoch
        at = self.window.view(offset, header.frame_length) + header.header_length
        payload = self.window.chunk.data[at : at + header.payload_length]
        if kind == KIND_EVENT:
            self._event(header)
        if self.digests and not header.flags & FLAG_REDACTED and digest(payload) != header.digest:
            self._fault("digest", offset, end, ordinal, "SHA-256 of the payload does not match")
            self.faults[-1]["before"] = before
        if kind != KIND_EVENT:
            self._control(offset, end, header, payload)
        if self.in_run:
            self.facts["valid_end"] = end
            self.facts["closed"] = kind in {KIND_CLOSE, KIND_SEAL}
            if not self.group:
                self._commit(end)

    def _in_order(self, kind: int, ordinal: int) -> bool:
        if kind == KIND_REPAIR_NOTE:
            return ordinal >= self.last
        expected = self.last + (kind == KIND_EVENT)
        return ordinal == expected if self.exact else ordinal >= expected

    def _event(self, header: FrameHeader) -> None:
        self.before = header.ordinal
        for fault in self.awaiting:
            fault["after"] = header.ordinal
        self.awaiting.clear()
        self.group.append((header.type, header.payload_length))
        if self.in_run:
            if self.run_events == 0:
                self.first_event = header.ordinal
            self.run_events += 1
            self.time_us = header.time_us
            self.chain = chain_next(
                self.chain, header.ordinal, header.event_id, header.time_us, header.digest, header.type
            )
        if header.flags & FLAG_COMMIT:
            self.facts["events"] += len(self.group)
            for type_name, size in self.group:
                self.types[type_name] = self.types.get(type_name, 0) + 1
                self.facts["payload_bytes"] += size
            self.group.clear()

    def _control(self, offset: int, end: int, header: FrameHeader, payload: bytes) -> None:
        kind, stated = header.kind, payload[:CHAIN_BYTES]
        if kind == KIND_REPAIR_NOTE:
            self.facts["notes"].append({"offset": offset, "ordinal": header.ordinal, "payload": payload})
        if kind in {KIND_CLOSE, KIND_SEAL}:
            self.facts["durable_mark"] = max(self.facts["durable_mark"], end)
        if kind not in {KIND_CLOSE, KIND_SEAL, KIND_OPEN, KIND_REPAIR_NOTE, KIND_CHAIN_MARK}:
            return
        if len(stated) < CHAIN_BYTES or (kind == KIND_SEAL and not is_seal(len(payload))):
            self._fault("chain", offset, end, header.ordinal, f"control frame of kind {kind} is malformed")
            return
        if kind == KIND_SEAL:
            self.facts["seal"] = {
                "offset": offset,
                "end": end,
                "count": int.from_bytes(payload[32:40], "little"),
                "chain": stated,
                "successor": payload[40:56],
            }
        if kind == KIND_REPAIR_NOTE:
            self.chain = stated
        elif self.in_run and stated != self.chain:
            self._fault("chain", offset, end, header.ordinal, "stated chain differs from the computed one")

    def _commit(self, end: int) -> None:
        """Keep the state at the end of a frame of the run at which no group is open."""
        self.facts.update(
            commit_end=end,
            first_ordinal=self.first_event,
            last_ordinal=self.last,
            chain=self.chain,
            epoch=self.epoch,
            last_time_us=self.time_us,
        )
