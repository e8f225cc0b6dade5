"""Goal: FORMAT.md, `_pure/format.py` and `rust/format.rs` say the same.

Method: the tables of FORMAT.md are parsed and compared with the constants, with the layouts that the reference core
packs by, and with the constants that the native core reports.
"""

from __future__ import annotations

import re
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING

import pytest

from turnlog._pure import format as layout
from turnlog._pure import frame, header

if TYPE_CHECKING:
    from types import ModuleType

TEXT = (Path(__file__).parents[2] / "FORMAT.md").read_text()


def section(number: int) -> str:
    """Return the text of one section."""
    return TEXT.partition(f"\n## {number}. ")[2].partition("\n## ")[0]


def tables(number: int) -> list[list[list[str]]]:
    """Return the rows of each table of a section, headings and rulers excluded."""
    found = re.findall(r"(?:^\|.*\n)+", section(number), re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")[2:-1]] for table in found
    ]


def magic_in(cell: str) -> bytes:
    """Return the bytes that a cell shows in hex."""
    shown = re.match(r"`([0-9A-F ]+)`", cell)
    assert shown is not None
    return bytes.fromhex(shown[1])


def number_in(pattern: str, text: str) -> int:
    """Return the number that the pattern's group finds in the text."""
    found = re.search(pattern, text)
    assert found is not None, pattern
    return int(found[1].replace(",", ""))


def offsets_of(struct_format: str) -> list[tuple[int, int]]:
    """Return offset and size of each field of a struct format without repeat counts for numbers."""
    places: list[tuple[int, int]] = []
    at = 0
    for code in re.findall(r"\d*s|\d*[A-Za-z]", struct_format):
        size = Struct(f"<{code}").size
        if code != "x":
            places.append((at, size))
        at += size
    return places


def test_the_header_table_has_no_gap_and_fills_the_struct() -> None:
    at = 0
    for offset, size, name, _ in tables(2)[0]:
        assert int(offset) == at, name
        at += int(size)
    assert at == layout.HEADER_STRUCT_BYTES


def test_the_header_table_is_what_the_reference_core_packs() -> None:
    rows = [row for row in tables(2)[0] if row[2] not in {"reserved", "struct_checksum"}]
    names = [row[2] for row in rows]
    assert names == ["magic", *header._NAMES[:4], "header_length", *header._NAMES[4:]]
    assert [(int(row[0]), int(row[1])) for row in rows] == offsets_of(header._STRUCT.format)
    assert int(tables(2)[0][-1][0]) == header._CHECKSUM_AT


def test_the_header_constants_are_those_of_the_page() -> None:
    meanings = {row[2]: row[3] for row in tables(2)[0]}
    assert magic_in(meanings["magic"]) == layout.SEGMENT_MAGIC
    assert number_in(r"^([\d,]+)", meanings["format_major"]) == layout.FORMAT_MAJOR
    assert number_in(r"^([\d,]+)", meanings["format_minor"]) == layout.FORMAT_MINOR
    assert number_in(r"^([\d,]+)", meanings["header_length"]) == layout.HEADER_BYTES
    assert number_in(r"^(\d+) =", meanings["canon_version"]) == layout.CANON_VERSION
    assert number_in(r"^(\d+) =", meanings["digest_algorithm"]) == layout.DIGEST_ALGORITHM
    assert number_in(r"^(\d+) =", meanings["checksum_algorithm"]) == layout.CHECKSUM_ALGORITHM
    assert number_in(r"Segment header: ([\d,]+) bytes", TEXT) == layout.HEADER_BYTES
    assert number_in(r"struct of ([\d,]+) bytes", section(2)) == layout.HEADER_STRUCT_BYTES
    assert number_in(r"at 0 and at ([\d,]+)", section(2)) == layout.HEADER_COPY_OFFSET
    assert number_in(r"level is (\d+)", section(2)) == layout.WRITER_LEVEL


def test_the_frame_table_is_what_the_reference_core_packs() -> None:
    fixed = [row for row in tables(3)[0] if row[0].isdigit() and int(row[0]) < layout.FRAME_FIXED_BYTES]
    assert [(int(row[0]), int(row[1])) for row in fixed] == offsets_of(frame._FIXED.format)
    assert sum(int(row[1]) for row in fixed) == layout.FRAME_FIXED_BYTES
    unchecked = [row[2] for row in fixed if row[2] not in {"magic", "header_words", "header_checksum"}]
    assert set(unchecked) <= set(frame.FrameHeader.__slots__)
    trailer = [row for row in tables(3)[0] if row[0].startswith("end-")]
    assert [row[0] for row in trailer] == [f"end-{layout.FRAME_TRAILER_BYTES}", "end-4"]


def test_the_frame_constants_are_those_of_the_page() -> None:
    meanings = {row[2]: row[3] for row in tables(3)[0]}
    assert magic_in(meanings["magic"]) == layout.FRAME_MAGIC
    assert number_in(r"at most ([\d,]+)", meanings["payload_length"]) == layout.PAYLOAD_MAX_BYTES
    assert number_in(r"1\.\.(\d+)", meanings["type_length"]) == layout.TYPE_MAX_BYTES
    assert number_in(r"header_words x 8 is (\d+)", section(3)) == layout.FRAME_HEADER_MIN_BYTES
    assert number_in(r"header_words x 8 is \d+\.\.(\d+)", section(3)) == layout.FRAME_HEADER_MAX_BYTES


def test_kinds_and_flags_are_those_of_the_page() -> None:
    _, kinds, flags = tables(3)
    assert {f"KIND_{name}": int(kind) for kind, name, _ in kinds} | {"KIND_IGNORABLE": 0x80} == constants("KIND_")
    meanings = {name: meaning for _, name, meaning in kinds}
    assert number_in(r"ordinal (\d+) k \+ 1", meanings["CHAIN_MARK"]) == layout.CHAIN_STEP_EVENTS
    named = {f"FLAG_{name}": int(flag) for flag, name, _ in flags}
    assert named == constants("FLAG_")
    low, high = re.findall(r"Flags (\d+)\.\.(\d+) must be zero", section(3))[0]
    must_be_zero = sum(1 << bit for bit in range(16) if int(low) <= 1 << bit <= int(high))
    assert must_be_zero == layout.FLAGS_REQUIRED_UNKNOWN


def test_chain_canonical_form_and_limits_are_those_of_the_page() -> None:
    tag = re.search(r"SHA-256\(`([^`]+)`", section(4))
    assert tag is not None
    assert tag[1].encode() == layout.CHAIN_TAG
    assert bytes([number_in(r"SHA-256\(byte (\d+)", section(4))]) == layout.CHAIN_VERSION
    assert number_in(r"at most ([\d,]+)\)", section(5)) == layout.INTEGER_MAX_DIGITS
    assert number_in(r"nesting deeper than (\d+)", section(5)) == layout.DEPTH_MAX
    limits = " ".join(section(8).split())
    assert number_in(r"payload (\d+) MiB", limits) << 20 == layout.PAYLOAD_MAX_BYTES
    assert number_in(r"type (\d+) bytes", limits) == layout.TYPE_MAX_BYTES
    assert number_in(r"segment rolls at (\d+) MiB", limits) << 20 == layout.ROLL_BYTES
    assert number_in(r"nesting (\d+)", limits) == layout.DEPTH_MAX


def test_the_compacted_segment_constants_are_those_of_the_page() -> None:
    meanings = {row[2]: row[3] for row in tables(7)[0]}
    assert magic_in(meanings["skippable_magic"]) == layout.SKIPPABLE_MAGIC
    assert magic_in(meanings["table_magic"]) == layout.TABLE_MAGIC
    assert number_in(r"blocks of ([\d,]+) bytes", section(7)) == layout.BLOCK_BYTES


def test_the_native_core_reports_the_constants_of_the_reference(native: ModuleType) -> None:
    assert native._constants() == {name: value for name, value in vars(layout).items() if name.isupper()}


@pytest.mark.parametrize("name", ["first.seg", "second.seg"])
def test_the_golden_segments_begin_as_the_page_says(name: str) -> None:
    data = (Path(__file__).parents[1] / "vectors" / name).read_bytes()
    assert data.startswith(layout.SEGMENT_MAGIC)
    assert data[layout.HEADER_BYTES :].startswith(layout.FRAME_MAGIC)


def constants(prefix: str) -> dict[str, int]:
    """Return the reference core's constants of that prefix."""
    return {name: value for name, value in vars(layout).items() if name.startswith(prefix)}
