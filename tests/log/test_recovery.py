"""The table of verdicts is total and unambiguous, and the facts it rests on are drawn from a scan as designed."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from turnlog.log import recovery
from turnlog.log.recovery import (
    FACTS,
    SEVERITY,
    TABLE,
    durable_mark,
    judge,
    lost_ordinals,
    promised_ordinal,
    weigh,
    worst,
)

SEGMENT_ID = b"a" * 16


def scan(**changes: Any) -> dict[str, Any]:
    """Return the scan of an undamaged segment of events 1 to 5, changed."""
    return {
        "header": {"fields": {"segment_id": SEGMENT_ID}, "fault": None, "degraded": False, "read_only": False},
        "durable_mark": 5000,
        "valid_end": 6000,
        "commit_end": 6000,
        "last_ordinal": 5,
        "notes": [],
        "faults": [],
        **changes,
    }


def fault(code: str = "payload", **changes: Any) -> dict[str, Any]:
    """Return a damaged range between events 2 and 4."""
    return {
        "code": code,
        "offset": 4400,
        "end": 4800,
        "ordinal": 3,
        "before": 2,
        "after": 4,
        "signature": False,
        **changes,
    }


def rows_for(facts: tuple[bool, ...]) -> list[str]:
    """Return the verdicts of every row that matches, not only of the first."""
    return [
        verdict
        for verdict, row in TABLE
        if all(cell == "-" or (cell == "1") == value for cell, value in zip(row, facts, strict=True))
    ]


def test_every_combination_of_facts_has_exactly_one_row() -> None:
    combinations = list(product((False, True), repeat=len(FACTS)))
    assert len(combinations) == 2**11
    assert [facts for facts in combinations if len(rows_for(facts)) != 1] == []
    assert all(judge(dict(zip(FACTS, facts, strict=True))) == rows_for(facts)[0] for facts in combinations)


def test_every_verdict_can_be_reached() -> None:
    assert {rows_for(facts)[0] for facts in product((False, True), repeat=len(FACTS))} == set(SEVERITY)
    assert len(SEVERITY) == len(TABLE) == 12


def test_a_second_row_for_one_combination_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "TABLE", TABLE)
    monkeypatch.setitem(globals(), "TABLE", (*TABLE, ("EXTRA", "0" * len(FACTS))))
    assert rows_for((False,) * len(FACTS)) == ["CLEAN", "EXTRA"]


def test_a_missing_row_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "TABLE", TABLE[:-1])
    with pytest.raises(AssertionError, match="no row"):
        judge(dict.fromkeys(FACTS, False))


def test_severity_goes_from_clean_to_a_failing_disk() -> None:
    assert (SEVERITY[0], SEVERITY[-1]) == ("CLEAN", "IO_ERROR")
    assert worst(["TORN_TAIL", "CORRUPT", "CLEAN"]) == "CORRUPT"
    assert worst([]) == "CLEAN"


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "CLEAN"),
        ({"commit_end": 5500}, "UNCOMMITTED"),
        ({"faults": [fault(offset=5500, signature=True)]}, "TORN_TAIL"),
        ({"faults": [fault(offset=5500)]}, "SUSPECT_TAIL"),
        ({"faults": [fault(offset=5000)]}, "SUSPECT_TAIL"),
        ({"faults": [fault(offset=4992)]}, "CORRUPT"),
        ({"faults": [fault("block")]}, "CORRUPT"),
        ({"valid_end": 4999, "commit_end": 4999}, "LOST_DATA"),
        ({"valid_end": 5000, "commit_end": 5000}, "CLEAN"),
        ({"faults": [fault("order")]}, "ORDER"),
        ({"faults": [fault("unsupported")]}, "UNSUPPORTED"),
        ({"faults": [fault("io")]}, "IO_ERROR"),
        ({"faults": [fault("digest")]}, "TAMPERED"),
        ({"faults": [fault("chain")]}, "TAMPERED"),
        ({"faults": [fault("io"), fault("unsupported"), fault("order")]}, "IO_ERROR"),
    ],
)
def test_a_scan_gives_the_designed_verdict(changes: dict[str, Any], verdict: str) -> None:
    found = scan(**changes)
    assert judge(weigh(found, durable_mark(found, None, None))) == verdict


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        ({"fault": "newer_major"}, "UNSUPPORTED"),
        ({"fault": "unknown_feature"}, "UNSUPPORTED"),
        ({"fault": "damaged"}, "CORRUPT"),
        ({"fault": "text_mode"}, "CORRUPT"),
        ({"fault": "not_a_segment"}, "CORRUPT"),
        ({"fault": "missing"}, "LOST_DATA"),
        ({"degraded": True}, "DEGRADED"),
    ],
)
def test_a_header_gives_the_designed_verdict(header: dict[str, Any], verdict: str) -> None:
    found = scan()
    found["header"] |= header
    assert judge(weigh(found, durable_mark(found, None, None))) == verdict


def test_one_damage_without_the_signature_makes_the_whole_tail_suspect() -> None:
    found = scan(faults=[fault(offset=5100, signature=True), fault(offset=5500)])
    assert judge(weigh(found, 5000)) == "SUSPECT_TAIL"


def test_the_durable_mark_is_the_highest_promise() -> None:
    successor = {"prev_segment_id": SEGMENT_ID, "prev_length": 5500, "prev_last_ordinal": 5}
    witness: recovery.Witness = {"segment_id": SEGMENT_ID, "durable_off": 5600, "ordinal": 5, "chain": b""}
    assert durable_mark(scan(), None, None) == 5000
    assert durable_mark(scan(), successor, None) == 5500
    assert durable_mark(scan(), successor, witness) == 5600
    assert durable_mark(scan(durable_mark=7000), successor, witness) == 7000


def test_promises_about_another_segment_do_not_count() -> None:
    successor = {"prev_segment_id": b"b" * 16, "prev_length": 5500, "prev_last_ordinal": 9}
    witness: recovery.Witness = {"segment_id": b"b" * 16, "durable_off": 5600, "ordinal": 9, "chain": b""}
    assert durable_mark(scan(), successor, witness) == 5000
    assert promised_ordinal(scan(), successor, witness, newest=False) == 0


def test_in_a_rewritten_segment_promises_hold_by_ordinal_not_by_offset() -> None:
    successor = {"prev_segment_id": SEGMENT_ID, "prev_length": 5500, "prev_last_ordinal": 5}
    witness: recovery.Witness = {"segment_id": SEGMENT_ID, "durable_off": 5600, "ordinal": 7, "chain": b""}
    rewritten = scan(notes=[{"offset": 4096, "ordinal": 2, "payload": b""}])
    assert durable_mark(rewritten, successor, witness) == 5000
    assert promised_ordinal(rewritten, successor, witness, newest=False) == 7


def test_a_witness_of_a_segment_that_is_gone_binds_the_newest_one() -> None:
    witness: recovery.Witness = {"segment_id": b"b" * 16, "durable_off": 5600, "ordinal": 9, "chain": b""}
    assert promised_ordinal(scan(), None, witness, newest=True) == 9


def test_lost_ordinals_lie_between_the_events_around_the_damage() -> None:
    found = scan(faults=[fault(), fault(offset=4600), fault(offset=5500, before=4, after=0, signature=True)])
    assert lost_ordinals(found, mark=5400, begin=1, last_seen=4, promised=0) == [(3, 3)]


def test_damage_at_the_start_and_at_the_end_loses_up_to_what_was_promised() -> None:
    found = scan(faults=[fault(before=0, after=3), fault(before=4, after=0, ordinal=0)])
    assert lost_ordinals(found, mark=5400, begin=1, last_seen=4, promised=8) == [(1, 2), (5, 8)]


def test_a_missing_end_loses_what_was_promised() -> None:
    assert lost_ordinals(scan(), mark=5400, begin=1, last_seen=5, promised=8) == [(6, 8)]
    assert lost_ordinals(scan(), mark=5400, begin=1, last_seen=5, promised=5) == []


def test_a_jump_of_the_order_loses_what_was_jumped_over() -> None:
    found = scan(faults=[fault("order", before=2, ordinal=6, after=7)])
    assert lost_ordinals(found, mark=5400, begin=1, last_seen=7, promised=7) == [(3, 5)]
