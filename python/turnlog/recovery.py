"""Verdicts: what the bytes of one segment mean, as a table over yes/no facts.

Owns: the recovery table of FORMAT.md section 6 and the durable mark. Invariant: every combination of facts has
exactly one verdict (`tests/test_recovery.py` enumerates all of them). Pure: no I/O, no clock. Must not know:
sessions, stores, how bytes are read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
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
# everything, so
# their order carries no meaning; a fact further left outweighs those to its right.
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

_DAMAGE = frozenset({"header", "payload", "trailer", "block"})


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
    synced.
    """
    marks = [int(scan["durable_mark"])]
    fields = scan["header"]["fields"]
    if fields is not None and successor is not None and successor["prev_segment_id"] == fields["segment_id"]:
        marks.append(successor["prev_length"])
    if fields is not None and witness is not None and witness["segment_id"] == fields["segment_id"]:
        marks.append(witness["durable_off"])
    return max(marks)


def weigh(
    scan: Mapping[str, Any], mark: int, *, misplaced: bool = False, successor_missing: bool = False
) -> dict[str, bool]:
    """Turn what a scan found into the facts of the table.

    `mark` is the durable mark. `misplaced`: the caller found that bytes belong elsewhere. `successor_missing`: the
    seal names a segment that is not there.
    """
    faults = scan["faults"]
    header = scan["header"]
    codes = {fault["code"] for fault in faults}
    damage = [fault for fault in faults if fault["code"] in _DAMAGE]
    above = [fault for fault in damage if fault["offset"] >= mark]
    below = [fault for fault in damage if fault["offset"] < mark]
    unreadable = header["fault"] in {"not_a_segment", "text_mode", "damaged", "missing"}
    ends_below = not damage and _end(scan) < mark
    return {
        "io_error": "io" in codes,
        "unsupported": "unsupported" in codes or header["fault"] in {"newer_major", "unknown_feature"},
        "misplaced": misplaced,
        "damaged_below": bool(below) or unreadable,
        "missing_below": ends_below or successor_missing,
        "out_of_order": "order" in codes,
        "tampered": bool(codes & {"digest", "chain"}),
        "damaged_above": bool(above),
        "signature": bool(above) and all(fault["signature"] for fault in above),
        "open_group": scan["commit_end"] < scan["valid_end"],
        "degraded": bool(header["degraded"]),
    }


def _end(scan: Mapping[str, Any]) -> int:
    """Return where the meaningful bytes end: a tail of zeros counts as not being there."""
    return int(scan["valid_end"])


def lost_ordinals(scan: Mapping[str, Any], *, next_first: int | None) -> list[tuple[int, int]]:
    """Return the inclusive ranges of ordinals that a damaged segment can no longer serve.

    `next_first` is the first ordinal of the next segment; None when this is the newest one and the end is not known.
    """
    ranges: list[tuple[int, int]] = []
    for fault in scan["faults"]:
        if fault["code"] not in _DAMAGE:
            continue
        first = fault["before"] + 1
        last = (
            fault["after"] - 1 if fault["after"] else (next_first - 1 if next_first else max(fault["ordinal"], first))
        )
        if first <= last:
            ranges.append((first, last))
    last_known = max([scan["last_ordinal"], *(fault["after"] for fault in scan["faults"])])
    if not ranges and next_first is not None and last_known + 1 < next_first:
        ranges.append((last_known + 1, next_first - 1))
    return ranges
