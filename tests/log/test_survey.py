"""What a survey makes of one segment and of the links, beyond the verdicts of the damage cases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.faults import damage
from turnlog import _core
from turnlog.log.links import link_findings
from turnlog.log.segments import list_segments, successor_fields
from turnlog.log.survey import examine, header_fields, surroundings, survey

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from tests.faults.damage import Victim


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return damage.Victim(tmp_path / "store")


def test_a_survey_reports_every_segment_in_order(victim: Victim) -> None:
    reports = list(survey(victim.folder, victim.session))
    assert [report.file.path for report in reports] == victim.segments()
    assert {report.verdict for report in reports} == {"CLEAN"}
    assert [report.last_seen for report in reports][-1] == damage.EVENTS
    assert [report.fields["segment_number"] for report in reports if report.fields] == list(range(1, len(reports) + 1))
    assert list(link_findings(reports, victim.session)) == []


def test_the_last_readable_ordinal_is_found_behind_damage(victim: Victim) -> None:
    path = victim.middle()
    held = sorted(victim.held_by(path).items())
    damage.flip(path, held[1][1] + 150)
    damage.flip(path, held[4][1] + 150)
    report = list(survey(victim.folder, victim.session))[1]
    assert report.lost == [(held[1][0], held[1][0]), (held[4][0], held[4][0])]
    assert report.last_seen == held[-1][0]
    findings = list(report.findings(victim.session))
    assert [finding["offset"] for finding in findings] == [held[1][1], held[4][1]]
    assert [finding["lost"] for finding in findings] == [[held[1][0]] * 2, [held[4][0]] * 2]


def test_the_id_of_a_lost_header_is_stated_by_its_neighbours(victim: Victim) -> None:
    files = list_segments(victim.folder)
    true_ids = [fields["segment_id"] for file in files if (fields := header_fields(file))]
    for index in (0, 1, len(files) - 1):
        damage.edit(files[index].path, 0, bytes(_core.HEADER_BYTES))
        assert surroundings(files, index, victim.session, None)["known_id"] == true_ids[index]
        damage.edit(files[index].path, 0, b"")
    report = list(survey(victim.folder, victim.session))[1]
    assert (report.fields, report.segment_id) == (None, true_ids[1])
    assert report.scan["events"] > 0


def test_a_file_of_another_session_is_no_neighbour(victim: Victim, tmp_path: Path) -> None:
    other = damage.Victim(tmp_path / "other", events=3)
    os.link(other.segments()[0], os.path.join(victim.folder, "00000000000000009999-00000000.seg"))
    files = list_segments(victim.folder)
    around = surroundings(files, len(files) - 2, victim.session, None)
    assert (around["newest"], around["successor"]) == (True, None)
    report = examine(files[-1], victim.session)
    assert (report.verdict, report.ours) == ("MISDIRECTED", False)


def test_examining_by_itself_says_that_a_sealed_segment_has_a_successor(victim: Victim) -> None:
    file = list_segments(victim.folder)[0]
    assert examine(file, victim.session).verdict == "CLEAN"  # it is there, whoever lists it
    for other in list_segments(victim.folder)[1:]:
        os.unlink(other.path)
    assert examine(file, victim.session).verdict == "LOST_DATA"
    assert examine(file, victim.session, newest=False).verdict == "CLEAN"


def test_a_read_error_is_a_verdict_not_an_end(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    report = list(survey(victim.folder, victim.session))[1]
    fault = {"code": "io", "offset": 8192, "end": 12288, "ordinal": 0, "before": 12, "after": 15, "signature": False}
    scan = {**report.scan, "faults": [{**fault, "detail": "cannot read"}]}

    class Failing:
        def __init__(self, path: str, segment_id: bytes | None = None) -> None:
            self.header = report.scan["header"]

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *error: object) -> None:
            return

        def scan(self, *, digests: bool, helper: bool) -> object:
            return scan

        def replay(self, *args: object, **kwargs: object) -> tuple[list[object], int, int, None, int, None]:
            return [], 12288, 0, None, 0, None

    monkeypatch.setattr(_core, "SegmentReader", Failing)
    assert examine(report.file, victim.session, newest=False).verdict == "IO_ERROR"


@pytest.mark.parametrize(
    ("change", "code", "verdict"),
    [
        ({"prev_segment_id": b"z" * 16}, "hole", "LOST_DATA"),
        ({"segment_number": 7}, "number", "ORDER"),
        ({"first_ordinal": 15}, "overlap", "ORDER"),
        ({"prev_chain": b"z" * 32}, "chain", "TAMPERED"),
    ],
)
def test_each_wrong_link_has_its_finding(victim: Victim, change: dict[str, object], code: str, verdict: str) -> None:
    reports = list(survey(victim.folder, victim.session))[1:3]
    before, after = (report.fields for report in reports)
    assert before is not None
    assert after is not None
    assert before["prev_segment_id"] != bytes(16)
    after |= change
    found = list(link_findings([reports[0], reports[1]], victim.session))
    assert [(finding["code"], finding["verdict"]) for finding in found[1:]] == [(code, verdict)]
    assert found[0]["code"] == "hole", "the first segment is not given, and that is told too"


def test_a_first_segment_of_another_lineage_is_told(victim: Victim) -> None:
    reports = list(survey(victim.folder, victim.session))[:1]
    assert list(link_findings(reports, victim.session)) == []
    fields = reports[0].fields
    assert fields is not None
    fields["prev_chain"] = bytes(32)
    assert [finding["code"] for finding in link_findings(reports, victim.session)] == ["chain"]
    later = successor_fields(fields, length=4096, ordinal=9, chain=bytes(32), epoch=1)
    fields |= later
    assert [finding["code"] for finding in link_findings(reports, victim.session)] == ["hole"]
