"""Listing, ordering and making segment files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.faults.powercut import until_done
from turnlog import _core, names
from turnlog.errors import ReadOnly, StorageError
from turnlog.log.segments import (
    create_segment,
    first_fields,
    list_segments,
    raw_path,
    read_header,
    stray_names,
    successor_fields,
    true_file,
)

if TYPE_CHECKING:
    from pathlib import Path

SESSION = "01890000-0000-7000-8000-00000000abcd"


def test_a_first_segment_begins_the_chain_of_its_session(tmp_path: Path) -> None:
    fields = first_fields(SESSION)
    path = create_segment(str(tmp_path), fields)
    found = read_header(path)
    assert (found["fault"], found["degraded"], found["read_only"]) == (None, False, False)
    assert {name: found["fields"][name] for name in fields} == fields
    assert fields["prev_chain"] == _core.chain_start(fields["session_id"])
    assert os.path.basename(path) == names.segment_name(1, fields["segment_id"])


def test_a_new_segment_is_zero_filled_ahead_and_scans_clean(tmp_path: Path) -> None:
    path = create_segment(str(tmp_path), first_fields(SESSION))
    with _core.SegmentReader(path) as reader:
        scan = reader.scan()
    assert (scan["size"], scan["valid_end"], scan["faults"]) == (65536, 4096, [])


def test_a_successor_names_its_predecessor(tmp_path: Path) -> None:
    first = first_fields(SESSION)
    second = successor_fields(first, length=9000, ordinal=12, chain=b"c" * 32, epoch=3)
    assert (second["segment_number"], second["first_ordinal"], second["prev_last_ordinal"]) == (2, 13, 12)
    assert (second["prev_segment_id"], second["prev_length"]) == (first["segment_id"], 9000)
    assert (second["prev_chain"], second["writer_epoch"]) == (b"c" * 32, 3)
    assert second["segment_id"] != first["segment_id"]


def test_segments_are_listed_in_order_and_strangers_are_not(tmp_path: Path) -> None:
    for first, mark in ((21, b"b"), (1, b"c"), (11, b"a")):
        (tmp_path / names.segment_name(first, mark * 16)).touch()
    for name in ("LOCK", "notes.txt", "x.seg", names.segment_name(1, b"d" * 16) + ".tmp"):
        (tmp_path / name).touch()
    assert [file.first_ordinal for file in list_segments(str(tmp_path))] == [1, 11, 21]
    assert stray_names(str(tmp_path)) == ["notes.txt", "x.seg"]


def test_of_two_generations_the_compacted_one_counts(tmp_path: Path) -> None:
    raw = tmp_path / names.segment_name(1, b"a" * 16)
    raw.touch()
    (tmp_path / names.segment_name(1, b"a" * 16, compacted=True)).touch()
    (file,) = list_segments(str(tmp_path))
    assert (file.compacted, file.twin) == (True, str(raw))
    assert raw_path(file, b"a" * 16) == str(raw)


def test_segments_with_one_first_ordinal_go_by_their_number(tmp_path: Path) -> None:
    first = first_fields(SESSION)
    second = successor_fields(first, length=4096, ordinal=0, chain=first["prev_chain"], epoch=2)
    third = successor_fields(second, length=4096, ordinal=0, chain=first["prev_chain"], epoch=3)
    paths = [create_segment(str(tmp_path), fields) for fields in (third, first, second)]
    assert [file.path for file in list_segments(str(tmp_path))] == [paths[1], paths[2], paths[0]]


def test_the_true_name_of_a_segment_is_in_its_header(tmp_path: Path) -> None:
    fields = first_fields(SESSION)
    path = create_segment(str(tmp_path), fields)
    assert true_file(str(tmp_path), fields, compacted=False).path == path
    assert true_file(str(tmp_path), fields, compacted=True).path == path + ".zst"


def test_a_segment_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = first_fields(SESSION)
    for _ in until_done(monkeypatch, lambda: create_segment(str(tmp_path), fields)):
        assert all(read_header(file.path)["fault"] is None for file in list_segments(str(tmp_path)))
    assert len(list_segments(str(tmp_path))) == 1


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        list_segments(str(tmp_path / "missing"))
    with pytest.raises((StorageError, ReadOnly)):
        create_segment(str(tmp_path / "missing"), first_fields(SESSION))
