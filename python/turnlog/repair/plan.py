"""Chooses the steps that bring one session back.

Owns: which segment needs what, what each rewritten segment must end with, where bridges go. Invariants: reads only;
headers are the fixed points: a segment ends where its successor's header says that it ended. Must not know: how a step
is done, locks.
"""

from __future__ import annotations

import os

from turnlog import _core, disk, names
from turnlog.errors import Damaged, StorageError
from turnlog.log import recovery
from turnlog.log.notes import gap_chain
from turnlog.log.segments import list_segments, raw_path
from turnlog.log.survey import examine
from turnlog.repair.headers import bridge_fields, first_bridge_fields, lost_header_fields
from turnlog.repair.mending import Action, Bridge, CutTail, RestoreHeader, Rewrite, SetAside, Unpack
from turnlog.repair.rewrite import Target
from turnlog.repair.sorting import Sorted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.log.recovery import Witness
    from turnlog.log.segments import SegmentFile
    from turnlog.log.survey import SegmentReport

_REFUSED = frozenset({recovery.TAMPERED, recovery.UNSUPPORTED, recovery.IO_ERROR})


class Slot:
    """One segment of the session as the plan sees it: its report, the header it has or will have, where it ends."""

    __slots__ = ("chain", "fields", "last", "report", "rewritten")

    def __init__(self, path: str, report: SegmentReport, fields: dict[str, Any], *, rewritten: bool) -> None:
        """`path` is where the file is now; `last` and `chain` are where it will end."""
        self.report = report
        self.fields = fields
        self.rewritten = rewritten
        scan = report.scan
        self.last: int = scan["last_ordinal"]
        self.chain: bytes = scan["chain"]
        if rewritten:
            self.last = max([report.last_seen, *(last for _, last in report.lost)])
            seal = scan["seal"]
            intact = scan["header"]["fault"] is None and self.last == scan["last_ordinal"]
            start = scan["last_ordinal"] + 1
            if seal is not None:  # it vouches for events that may be lost before it
                frames = _core.salvage(path, fields["segment_id"])
                self.last = max([self.last, *(header.ordinal for _, header, payload in frames if payload is not None)])
                self.chain = seal["chain"]
            elif not intact:
                self.chain = gap_chain(scan["chain"], (start, self.last))


class SessionPlanner:
    """Plans; `actions` in the order in which they must be done, `refusals` as (verdict, reason)."""

    def __init__(
        self, store: str, session_id: str, witness: Witness | None, *, accept_tail: bool, settle: bool = False
    ) -> None:
        """`settle`: first make sure that what is read is on stable storage (the caller holds the lock)."""
        self.actions: list[Action] = []
        self.refusals: list[tuple[str, str]] = []
        self._directory = names.session_dir(store, session_id)
        self._session_id = session_id
        self._witness = witness
        self._accept_tail = accept_tail
        if settle:
            _settle(self._directory)
        self._sorted = Sorted(self._directory, session_id, witness)
        self.actions += self._sorted.actions
        slots = self._slots()
        if not self.refusals:
            self._mend(slots)
        if self.refusals:
            self.actions.clear()

    # -- looking ---------------------------------------------------------------------------------------------------

    def _slots(self) -> list[Slot]:
        files = self._sorted.files
        slots: list[Slot] = []
        for index, file in enumerate(files):
            successor = self._sorted.fields(files[index + 1]) if index + 1 < len(files) else None
            report = self._examine(file, successor, newest=index + 1 == len(files))
            if report is None:
                continue
            fields = report.fields
            if fields is None:
                segment_id = self._sorted.ids.get(file.path)
                if segment_id is None:
                    continue  # refused: the header is of a newer format
                fields = lost_header_fields(file, segment_id, self._session_id, slots[-1] if slots else None, successor)
            slots.append(self._slot(file, report, fields, files[index + 1] if index + 1 < len(files) else None))
        return slots

    def _slot(
        self, file: SegmentFile, report: SegmentReport, fields: dict[str, Any], following: SegmentFile | None
    ) -> Slot:
        facts = report.facts
        broken = any(facts[name] for name in ("damaged_below", "missing_below", "out_of_order", "misplaced"))
        if following is not None:
            successor = self._sorted.fields(following)
            broken |= successor is not None and report.last_seen >= successor["first_ordinal"]
            gap = (report.last_seen + 1, following.first_ordinal - 1)
            if successor is None and gap[0] <= gap[1]:  # its new header will say that this one reached up to it
                broken = True
                report.lost = report.lost or [gap]
        torn_compacted = file.compacted and report.verdict in recovery.CUTTABLE
        return Slot(self._sorted.found[file.path], report, fields, rewritten=broken or torn_compacted)

    def _examine(self, file: SegmentFile, successor: dict[str, Any] | None, *, newest: bool) -> SegmentReport | None:
        """Examine a file where it is now; refuse what repair must not touch."""
        real, file.path = file.path, self._sorted.found[file.path]
        known_id = self._sorted.ids.get(real)
        around: dict[str, Any] = {"successor": successor, "known_id": known_id, "siblings": self._sorted.files}
        try:
            report = examine(file, self._session_id, newest=newest, witness=self._witness, **around)
            if report.scan["seal"] is not None and newest:  # a bridge will stand for the missing successor
                report = examine(file, self._session_id, newest=False, **around)
            if report.verdict not in recovery.ROUTINE:  # before anything is rewritten, see that nothing was forged
                binding = None if report.scan["seal"] is not None else self._witness
                report = examine(
                    file,
                    self._session_id,
                    newest=newest and binding is not None,
                    witness=binding,
                    digests=True,
                    **around,
                )
        except StorageError as error:
            self.refusals.append((recovery.IO_ERROR, error.message))
            return None
        except Damaged:
            self.actions.append(SetAside(file.path, "nothing of it can be read"))
            return None
        finally:
            file.path = real
        for finding in report.findings(self._session_id):
            if finding["verdict"] in _REFUSED:
                self.refusals.append((finding["verdict"], f"{file.name}: {finding['detail']}"))
        if report.scan["header"]["read_only"]:
            self.refusals.append((recovery.UNSUPPORTED, f"{file.name}: a newer turnlog asks older ones not to write"))
        return report

    # -- choosing --------------------------------------------------------------------------------------------------

    def _mend(self, slots: list[Slot]) -> None:
        if not slots:
            self._begin_again()
            return
        first = slots[0].fields
        if first["prev_segment_id"] != bytes(16):
            fields = first_bridge_fields(first)
            self._bridge(fields, first["first_ordinal"] - 1, first["prev_chain"], before=slots[0])
        for slot, following in zip(slots, [*slots[1:], None], strict=True):
            self._mend_one(slot, following)
            if following is not None and following.fields["prev_segment_id"] != slot.fields["segment_id"]:
                fields = bridge_fields(slot, following.fields["prev_segment_id"], following.fields["writer_epoch"])
                start = following.fields
                self._bridge(fields, start["first_ordinal"] - 1, start["prev_chain"], before=following)
        seal = slots[-1].report.scan["seal"]
        if seal is not None:
            self._bridge_end(slots[-1], seal["successor"])

    def _mend_one(self, slot: Slot, following: Slot | None) -> None:
        report, file = slot.report, slot.report.file
        scan = report.scan
        if slot.rewritten:
            self._rewrite(slot, following)
            return
        if following is not None and self._is_forged(slot, following):
            return
        if report.verdict in recovery.CUTTABLE:
            suspect = report.verdict == recovery.SUSPECT_TAIL
            if suspect and not self._accept_tail:
                reason = f"{file.name}: {report.detail()}; allow the cut with --accept-tail"
                self.refusals.append((report.verdict, reason))
                return
            end = min(scan["size"], max(scan["zero_from"], scan["commit_end"]))
            self.actions.append(CutTail(file, scan["commit_end"], end, suspect=suspect))
        if report.facts["degraded"]:
            raw = raw_path(file, slot.fields["segment_id"])
            self.actions.append(Unpack(file, raw) if file.compacted else RestoreHeader(file))

    def _is_forged(self, slot: Slot, following: Slot) -> bool:
        """Refuse when an undamaged segment leads to another chain than its successor begins with."""
        fields = following.fields
        if fields["prev_segment_id"] != slot.fields["segment_id"] or slot.chain == fields["prev_chain"]:
            return False
        if following.report.fields is None or slot.last != fields["prev_last_ordinal"]:
            return False
        reason = f"{slot.report.file.name}: its chain is not the one that {following.report.file.name} begins with"
        self.refusals.append((recovery.TAMPERED, reason))
        return True

    def _rewrite(self, slot: Slot, following: Slot | None) -> None:
        report = slot.report
        seal = report.scan["seal"]
        target = Target(successor=seal["successor"] if seal is not None else None)
        lost = report.lost
        if following is not None:
            target.last = following.fields["first_ordinal"] - 1
            slot.last = min(slot.last, target.last)
            linked = following.fields["prev_segment_id"] == slot.fields["segment_id"]
            target.known = (target.last, following.fields["prev_chain"]) if linked else (slot.last, slot.chain)
            lost = [(first, min(last, target.last)) for first, last in lost if first <= target.last]
        elif target.successor is not None:
            target.known = (slot.last, slot.chain)
        elif self._witness is not None and self._witness["chain"]:
            target.known = (self._witness["ordinal"], self._witness["chain"])
        self.actions.append(
            Rewrite(
                report.file,
                raw_path(report.file, slot.fields["segment_id"]),
                slot.fields,
                verdict=report.verdict,
                mark=report.mark,
                target=target,
                lost=lost,
            )
        )

    def _bridge(self, fields: dict[str, Any], last: int, chain: bytes | None, before: Slot | None) -> None:
        path = os.path.join(self._directory, names.segment_name(fields["first_ordinal"], fields["segment_id"]))
        name = before.report.file.name if before is not None else None
        self.actions.append(Bridge(path, fields, last, chain, name))

    def _bridge_end(self, slot: Slot, successor: bytes) -> None:
        """Put a segment where a sealed one's successor is missing, up to what the witness promises."""
        fields = bridge_fields(slot, successor, slot.report.scan["epoch"])
        witness = self._witness
        if witness is not None and witness["ordinal"] > slot.last:
            self._bridge(fields, witness["ordinal"], witness["chain"] or None, before=None)
        else:
            self._bridge(fields, slot.last, slot.chain, before=None)

    def _begin_again(self) -> None:
        """Begin the session anew where no segment is left, behind everything that is known to have been there."""
        if not self.actions and self._witness is None:
            return
        fields = first_bridge_fields(None, self._session_id)
        if self._witness is not None:
            fields["segment_id"] = self._witness["segment_id"]
            self._bridge(fields, self._witness["ordinal"], self._witness["chain"] or None, before=None)
            return
        gone = [parts for action in self.actions if (parts := names.parse_segment_name(action.segment)) is not None]
        self._bridge(fields, max((first for first, _, _ in gone), default=1) - 1, None, before=None)


def _settle(directory: str) -> None:
    """Put what will be judged on stable storage and read it from there: a dead process may have left pages behind."""
    for file in list_segments(directory):
        disk.settle(file.path)
    disk.sync_directory(directory)
