"""Verdicts: what the bytes of one segment mean, as a table over yes/no facts.

Owns: the recovery table of FORMAT.md section 6 and the durable mark. Invariant: every combination of facts has
exactly one verdict (`tests/log/test_recovery.py` enumerates all of them). Pure: no I/O, no clock. Must not know:
sessions, stores, how bytes are read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, TypedDict

    class Witness(TypedDict):
        """What the index saw synced: a lower bound of what the log must still hold."""

        segment_id: bytes
        durable_off: int
        ordinal: int
        chain: bytes


CLEAN = "CLEAN"
UNCOMMITTED = "UNCOMMITTED"
TORN_TAIL = "TORN_TAIL"
SUSPECT_TAIL = "SUSPECT_TAIL"
CORRUPT = "CORRUPT"
LOST_DATA = "LOST_DATA"
ORDER = "ORDER"
MISDIRECTED = "MISDIRECTED"
UNSUPPORTED = "UNSUPPORTED"
IO_ERROR = "IO_ERROR"
DEGRADED = "DEGRADED"
TAMPERED = "TAMPERED"

FACTS = (
    "io_error",  # a read failed
    "unsupported",  # a newer format, kind or flag
    "misplaced",  # bytes that are valid for another place
    "damaged_below",  # damage that starts below the durable mark
    "missing_below",  # the bytes end, or zeros begin, below the durable mark
    "out_of_order",  # valid frames in a wrong order
    "tampered",  # checksums match, digest or chain does not
    "damaged_above",  # damage that starts at or above the durable mark
    "signature",  # … and looks like a write that did not happen
    "open_group",  # an atomic group without its end
    "degraded",  # the header block is damaged but readable
)

# One row per verdict, one column per fact, in the order of FACTS: 1 yes, 0 no, - either. Rows are disjoint and cover
# everything, so their order carries no meaning; a fact further left outweighs those to its right.
TABLE = (
    (IO_ERROR, "1----------"),
    (UNSUPPORTED, "01---------"),
    (MISDIRECTED, "001--------"),
    (CORRUPT, "0001-------"),
    (LOST_DATA, "00001------"),
    (ORDER, "000001-----"),
    (TAMPERED, "0000001----"),
    (SUSPECT_TAIL, "000000010--"),
    (TORN_TAIL, "000000011--"),
    (UNCOMMITTED, "00000000-1-"),
    (DEGRADED, "00000000-01"),
    (CLEAN, "00000000-00"),
)

SEVERITY = tuple(reversed([verdict for verdict, _ in TABLE]))  # mildest first
CUTTABLE = frozenset({UNCOMMITTED, TORN_TAIL, SUSPECT_TAIL})  # the tail may go, after a copy went to quarantine
WRITABLE = frozenset({CLEAN, DEGRADED}) | CUTTABLE
ROUTINE = frozenset({CLEAN, UNCOMMITTED, TORN_TAIL})  # what an honest crash leaves behind

DAMAGE = frozenset({"header", "payload", "trailer", "block"})


def judge(facts: Mapping[str, bool]) -> str:
    """Return the verdict of the one row that matches `facts` (all names of FACTS)."""
    key = [facts[name] for name in FACTS]
    for verdict, row in TABLE:
        if all(cell == "-" or (cell == "1") == value for cell, value in zip(row, key, strict=True)):
            return verdict
    message = f"no row for {dict(facts)}"  # unreachable while the table is total; the test proves that
    raise AssertionError(message)


def durable_mark(scan: Mapping[str, Any], successor: Mapping[str, Any] | None, witness: Witness | None) -> int:
    """Return D: bytes of the segment below it were promised.

    `scan` is what the core found, `successor` the header fields of the next segment, `witness` what the index saw
    synced. Where repair rewrote the segment, offsets kept elsewhere speak of the old layout and are left out;
    `events_missing` holds the promise by ordinal then.
    """
    marks = [int(scan["durable_mark"])]
    fields = scan["header"]["fields"]
    moved = fields is None or bool(scan["notes"])
    if not moved and successor is not None and successor["prev_segment_id"] == fields["segment_id"]:
        marks.append(successor["prev_length"])
    if not moved and witness is not None and witness["segment_id"] == fields["segment_id"]:
        marks.append(witness["durable_off"])
    return max(marks)


def promised_ordinal(
    scan: Mapping[str, Any], successor: Mapping[str, Any] | None, witness: Witness | None, *, newest: bool
) -> int:
    """Return the last ordinal that this segment must hold by what its successor and the witness say; 0: not known.

    A witness of a segment that is gone binds the newest one: the session ends too early.
    """
    fields = scan["header"]["fields"]
    segment_id = fields["segment_id"] if fields is not None else None
    promised = [0]
    if successor is not None and segment_id in {None, successor["prev_segment_id"]}:
        promised.append(successor["prev_last_ordinal"])
    if witness is not None and (newest or witness["segment_id"] == segment_id):
        promised.append(witness["ordinal"])
    return max(promised)


def weigh(
    scan: Mapping[str, Any],
    mark: int,
    *,
    misplaced: bool = False,
    successor_missing: bool = False,
    events_missing: bool = False,
) -> dict[str, bool]:
    """Turn what a scan found into the facts of the table.

    `mark` is the durable mark. `misplaced`: the caller found that bytes belong elsewhere. `successor_missing`: the
    seal names a segment that is not there. `events_missing`: successor or witness promise events that are not there.
    """
    faults = scan["faults"]
    header = scan["header"]
    codes = {fault["code"] for fault in faults}
    above = [fault for fault in faults if fault["code"] in DAMAGE and fault["offset"] >= mark]
    below = [fault for fault in faults if fault["code"] in DAMAGE and fault["offset"] < mark]
    ends_below = not below and not above and int(scan["valid_end"]) < mark
    return {
        "io_error": "io" in codes,
        "unsupported": "unsupported" in codes or header["fault"] in {"newer_major", "unknown_feature"},
        "misplaced": misplaced,
        "damaged_below": bool(below) or header["fault"] in {"not_a_segment", "text_mode", "damaged"},
        "missing_below": ends_below or successor_missing or events_missing or header["fault"] == "missing",
        "out_of_order": "order" in codes,
        "tampered": bool(codes & {"digest", "chain"}),
        "damaged_above": bool(above),
        "signature": bool(above) and all(fault["signature"] for fault in above),
        "open_group": scan["commit_end"] < scan["valid_end"],
        "degraded": bool(header["degraded"]),
    }


def fault_verdict(fault: Mapping[str, Any], mark: int) -> str:
    """Return what one fault of a scan means by itself."""
    code = fault["code"]
    if code in DAMAGE:
        if fault["offset"] < mark:
            return CORRUPT
        return TORN_TAIL if fault["signature"] else SUSPECT_TAIL
    return {"io": IO_ERROR, "unsupported": UNSUPPORTED, "order": ORDER}.get(code, TAMPERED)


def worst(verdicts: Iterable[str]) -> str:
    """Return the most severe of the verdicts; CLEAN when there are none."""
    return max(verdicts, key=SEVERITY.index, default=CLEAN)


def lost_ordinals(
    scan: Mapping[str, Any], *, mark: int, begin: int, last_seen: int, promised: int
) -> list[tuple[int, int]]:
    """Return the inclusive ranges of ordinals that a damaged segment can no longer serve, in order.

    `mark` is the durable mark, `begin` the segment's first ordinal, `last_seen` the highest ordinal that a valid frame
    speaks of, `promised` the last ordinal that must be there (0: not known). A torn tail loses nothing promised.
    """
    ranges: set[tuple[int, int]] = set()
    end = max(last_seen, promised)
    for fault in scan["faults"]:
        first = fault["before"] + 1 if fault["before"] else begin
        if fault["code"] == "order":
            ranges.add((first, fault["ordinal"] - 1))
        elif fault["code"] in DAMAGE and fault["after"]:
            ranges.add((first, fault["after"] - 1))
        elif fault["code"] in DAMAGE and fault["offset"] < mark:
            ranges.add((first, max(end, fault["ordinal"])))
    if not any(last >= promised for _, last in ranges):
        ranges.add((last_seen + 1, promised))
    return sorted((first, last) for first, last in ranges if first <= last)
