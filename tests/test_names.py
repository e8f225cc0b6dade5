"""Names on disk: what is built can be parsed, and near misses are refused."""

from __future__ import annotations

import pytest

from turnlog import names

SEGMENT_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
SESSION = "0192f0c4-7a1b-7c3d-8e4f-0123456789ab"


@pytest.mark.parametrize("compacted", [False, True])
def test_a_segment_name_gives_its_parts_back(compacted: bool) -> None:
    name = names.segment_name(42, SEGMENT_ID, compacted=compacted)
    assert name == "00000000000000000042-00112233" + (".seg.zst" if compacted else ".seg")
    assert names.parse_segment_name(name) == (42, "00112233", compacted)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".seg",
        "LOCK",
        "42-00112233.seg",
        "00000000000000000042.seg",
        "00000000000000000042-.seg",
        "00000000000000000042-0011223.seg",
        "00000000000000000042-001122334.seg",
        "00000000000000000042-0011223G.seg",
        "00000000000000000042-0011223A.seg",
        "0000000000000000004x-00112233.seg",
        "-0000000000000000042-00112233.seg",
        "\u06600000000000000000042-00112233.seg",
        "00000000000000000042-00112233",
        "00000000000000000042-00112233.seg.tmp",
        "00000000000000000042-00112233.seg.zst.tmp",
        "00000000000000000042-00112233.zst",
        "00000000000000000042_00112233.seg",
    ],
)
def test_a_near_miss_is_not_a_segment_name(name: str) -> None:
    assert names.parse_segment_name(name) is None


def test_a_session_lives_below_its_last_two_hex_digits() -> None:
    assert names.session_dir("/s", SESSION) == f"/s/sessions/ab/{SESSION}"
    assert names.live_path("/s", SESSION) == f"/s/live/{SESSION}"
    assert names.quarantined_index("/s", 17) == "/s/quarantine/index-17"
    assert names.is_shard("ab")
    assert not names.is_shard("AB")
    assert not names.is_shard("abc")


@pytest.mark.parametrize(
    "name", ["", "latest", SESSION.upper(), SESSION.replace("-", ""), SESSION[:-1], SESSION[:-1] + "g"]
)
def test_a_near_miss_is_not_a_session_id(name: str) -> None:
    assert not names.is_session_id(name)


@pytest.mark.parametrize("packed", [False, True])
def test_an_artifact_lies_below_the_first_two_digits_of_its_digest(packed: bool) -> None:
    digest = "0123456789abcdef" * 4
    path = names.artifact_path("/s", digest, packed=packed)
    assert path == f"/s/artifacts/01/{digest}" + (".zst" if packed else "")
    assert names.parse_artifact_name(path.rpartition("/")[2]) == (digest, packed)


@pytest.mark.parametrize(
    "name", ["", ".zst", "0" * 63, "0" * 65, "A" * 64, "0" * 64 + ".zst.zst", "0" * 64 + ".tmp", "0" * 64 + ".ZST"]
)
def test_a_near_miss_is_not_an_artifact(name: str) -> None:
    assert names.parse_artifact_name(name) is None
