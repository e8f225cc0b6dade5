"""Records of unexpected shapes and bytes of any kind: nothing raises, nothing is lost."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.importers.conftest import CLAUDE, CODEX, Desk
from tests.importers.memory_store import MemoryStore
from turnlog.importers.claude import ClaudeMapper
from turnlog.importers.codex import CodexMapper
from turnlog.importers.lines import read_lines

if TYPE_CHECKING:
    from turnlog.importers.mapper import Mapper

CORPUS = Path(__file__).parents[1] / "corpus"
ITEM = b'{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}'
ENVELOPE = b'{"timestamp": "2024-12-30T17:31:40.393Z", "type": "response_item", "payload": ' + ITEM + b"}"
GLUED = b"\x01" + ITEM + ENVELOPE + b"\n"
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    "",
    "x",
    [],
    ["x"],
    [None],
    [[]],
    {},
    {"type": []},
    {"type": "text", "text": 1},
]


def samples(product: str) -> list[dict[str, Any]]:
    """Return one record of each shape the corpus has."""
    shapes: dict[str, dict[str, Any]] = {}
    for path in sorted(CORPUS.glob(f"{product}*/**/*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            if line.startswith(b"{") and len(line) < 20_000:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                body = record.get("payload", record)
                inner = body.get("type") if isinstance(body, dict) else None
                shapes.setdefault(f"{record.get('type')}/{inner}/{record.get('subtype')}", record)
    return list(shapes.values())


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every value inside a record."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    return [path] * bool(path) + [found for key, item in inner for found in places(item, (*path, key))]


def replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize(("product", "mapper"), [("claude", ClaudeMapper), ("codex", CodexMapper)])
def test_no_value_in_an_unexpected_place_raises(product: str, mapper: type[Mapper]) -> None:
    found = 0
    for record in samples(product):
        for path in places(record):
            lines = [replaced(record, path, value) for value in VALUES if len(path) <= 4]
            reader = mapper()
            for line in read_lines(io.BytesIO(b"\n".join(json.dumps(line).encode() for line in lines))):
                found += len(reader.feed(line))
            reader.finish()
            assert reader.facts.damage == {}
    assert found


@pytest.mark.parametrize("name", [CLAUDE, CODEX])
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from([b"\n", b"\r\n", b"\0" * 9, b"{", b"}", b'{\n "type": "user"\n}\n', b'"', b"\xef\xbb\xbf"]),
            st.sampled_from(
                [json.dumps(record).encode() for record in (*samples("claude")[:6], *samples("codex")[:9])]
            ),
        ),
        max_size=12,
    ).map(b"".join),
    cut=st.integers(0, 5000),
)
@example(data=GLUED, cut=len(GLUED) - 1)  # an item in front of an envelope, behind a byte that is no JSON
@example(data=b"x" + ENVELOPE[:-20] + b"\n" + ITEM, cut=40)  # an item inside an envelope that is not all there
@example(data=b"1.5\n", cut=1)  # a number that grows
@example(data=b'{\n "type": "user"\n}"\n', cut=19)  # the last line of a pretty-printed object grows
@example(data=b"{\n{\n}\n", cut=3)  # what tears one pretty-printed object begins another
@example(data=b'\xb5"\\udc80"\n', cut=3)  # text that looks like the escape of a byte that is not UTF-8
def test_any_bytes_are_kept_and_imported_in_two_steps_as_in_one(
    tmp_path: Path, name: str, data: bytes, cut: int
) -> None:
    whole, steps = (Desk(tmp_path, MemoryStore()) for _ in range(2))  # type: ignore[arg-type]
    result = whole.bring(data, name)
    if not data:
        assert [found["code"] for found in result.findings] == ["empty_file"]
        return
    assert whole.stored_bytes(result) == data
    if data[:cut]:
        steps.bring(data[:cut], name)
    again = steps.bring(data, name)
    assert steps.stored_bytes(again) == data
    for kind in ("message.user", "tool.proposed", "turn.started", "source.unknown"):
        assert steps.payloads(again, kind) == whole.payloads(result, kind)
