"""Goal: both cores reproduce the golden vectors byte for byte, and the vectors are what their tool makes.

Method: `tests/vectors/vectors.json` and the segments beside it are read; `tests/vectors.rs` does the same from Rust.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from turnlog._pure.header import _LENGTHS

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
VECTORS: dict[str, list[Any]] = json.loads((ROOT / "tests/vectors/vectors.json").read_text())
BINARY_FIELDS = {"event_id", "payload"}


@pytest.mark.parametrize("case", VECTORS["canonical"], ids=lambda case: str(case["json"])[:30])
def test_canonical_bytes_and_digests_are_reproduced(core: ModuleType, case: dict[str, str]) -> None:
    data = core.canonical(json.loads(case["json"]))
    assert data.hex() == case["bytes"]
    assert core.digest(data).hex() == case["digest"]


@pytest.mark.parametrize("case", VECTORS["doubles"], ids=lambda case: str(case["bits"]))
def test_doubles_are_reproduced(core: ModuleType, case: dict[str, str]) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(case["bits"]))
    assert core.canonical(value).decode() == case["text"]


def test_keys_come_in_the_order_of_their_code_units(core: ModuleType) -> None:
    keys = [struct.pack(f"<{len(units)}H", *units).decode("utf-16-le", "surrogatepass") for units in VECTORS["keys"]]
    assert list(json.loads(core.canonical(dict.fromkeys(reversed(keys))))) == keys


@pytest.mark.parametrize("case", VECTORS["chain_starts"], ids=["root", "fork"])
def test_chain_starts_are_reproduced(core: ModuleType, case: dict[str, Any]) -> None:
    parent = bytes.fromhex(case["parent_session_id"]), case["fork_ordinal"], bytes.fromhex(case["parent_chain"])
    assert core.chain_start(bytes.fromhex(case["session_id"]), *parent).hex() == case["chain"]


@pytest.mark.parametrize("case", VECTORS["segments"], ids=lambda case: str(case["file"]))
def test_segments_are_reproduced(core: ModuleType, case: dict[str, Any]) -> None:
    expected = (ROOT / "tests/vectors" / case["file"]).read_bytes()
    fields = header_fields(case["header"])
    data = core.encode_header(fields)
    chain = fields["prev_chain"]
    for shown in case["frames"]:
        frame = {name: bytes.fromhex(value) if name in BINARY_FIELDS else value for name, value in shown.items()}
        chain_after = frame.pop("chain", None)
        data += core.encode_frame(segment_id=fields["segment_id"], **frame)
        if chain_after is not None:
            digest = core.digest(frame["payload"])
            place = frame["ordinal"], frame["event_id"], frame["time_us"]
            chain = core.chain_next(chain, *place, digest, frame["type"])
            assert chain.hex() == chain_after
    assert data == expected
    decoded = core.decode_header(expected)
    assert decoded["fields"].items() >= fields.items()
    assert (decoded["fault"], decoded["degraded"], decoded["read_only"]) == (None, False, False)


def test_the_vectors_are_what_their_tool_makes() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/make_vectors.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def header_fields(shown: dict[str, Any]) -> dict[str, Any]:
    """Return the header fields with their binary values as bytes."""
    return {name: bytes.fromhex(value) if name in _LENGTHS else value for name, value in shown.items()}
