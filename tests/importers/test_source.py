"""Which files are sessions, of which product, under which key."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
import zstandard

from tests.importers.conftest import CLAUDE, CODEX
from turnlog.errors import InvalidInput
from turnlog.importers.importer import import_path
from turnlog.importers.source import find_sources, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.importers.conftest import Desk
    from turnlog.importers.source import SourceFile

PROMPT = b'{"type":"user","uuid":"u","sessionId":"s","message":{"content":"hi"}}\n'
ROLLOUT = b'{"timestamp":"t","type":"session_meta","payload":{"id":"01a22d81-0000-7000-8000-000000000001"}}\n'
CHILD = "sessions/2026/01/02/rollout-2026-01-02T03-04-06-01a22d81-0000-7000-8000-000000000002.jsonl"


def found(path: Path) -> tuple[list[SourceFile], list[str]]:
    findings: list[dict[str, Any]] = []
    sources = list(find_sources(str(path), findings))
    return sources, [finding["code"] for finding in findings]


def test_a_claude_key_is_the_path_below_projects() -> None:
    assert key_of("/a/projects/-p/s.jsonl", "claude") == "-p/s.jsonl"
    assert key_of("/a/projects/projects/-p/s/subagents/agent-1.jsonl", "claude") == "-p/s/subagents/agent-1.jsonl"
    assert key_of("/elsewhere/s/subagents/agent-1.jsonl", "claude") == "s/subagents/agent-1.jsonl"
    assert key_of("/elsewhere/s.jsonl", "claude") == "s.jsonl"


def test_a_codex_key_is_the_file_name_compressed_or_not() -> None:
    assert key_of(f"/a/{CODEX}.zst", "codex") == key_of(f"/b/archived_sessions/{CODEX.rpartition('/')[2]}", "codex")


def test_a_subagent_belongs_to_its_session(desk: Desk) -> None:
    desk.write(PROMPT)
    desk.write(PROMPT, CLAUDE.replace(".jsonl", "/subagents/agent-a1.jsonl"))
    results = list(import_path(desk.store, str(desk.home)))
    parents = [desk.payloads(result, "session.created")[0].get("parent") for result in results]
    assert parents == [None, results[0].session]


def test_a_home_leaves_out_lists_and_settings(desk: Desk) -> None:
    for name in ("history.jsonl", "sessions/2026/notes.txt", "session_index.jsonl"):
        desk.write(b"{}\n", name)
    desk.write(ROLLOUT, CODEX)
    sources, codes = found(desk.home)
    assert ([source.product for source in sources], codes) == (["codex"], [])


def test_the_last_name_in_the_list_of_names_is_the_title(desk: Desk) -> None:
    names = [{"id": "01a22d81-0000-7000-8000-000000000001", "thread_name": name} for name in ("old", "new")]
    desk.write(b"".join(json.dumps(name).encode() + b"\n" for name in names) + b"{torn", "session_index.jsonl")
    desk.write(ROLLOUT, CODEX)
    sources, codes = found(desk.home)
    assert ([source.title for source in sources], codes) == (["new"], ["torn"])


@pytest.mark.parametrize("field", ["forked_from_id", "parent_thread_id"])
def test_a_fork_comes_after_its_origin_and_points_at_it(desk: Desk, field: str) -> None:
    fork = {"id": "x", field: "01a22d81-0000-7000-8000-000000000009"}
    origin = CODEX.replace("03-04-05", "09-09-09").replace("0001.jsonl", "0009.jsonl")
    path = desk.write(json.dumps({"timestamp": "t", "type": "session_meta", "payload": fork}).encode() + b"\n", CHILD)
    desk.write(ROLLOUT, origin)
    sources, _ = found(desk.home)
    assert [source.key for source in sources] == [origin.rpartition("/")[2], CHILD.rpartition("/")[2]]
    assert sources[1].parent_key == sources[0].key == found(path)[0][0].parent_key


def test_an_origin_that_is_not_there_is_no_parent(desk: Desk) -> None:
    fork = {"timestamp": "t", "type": "session_meta", "payload": {"id": "x", "forked_from_id": "gone"}}
    assert found(desk.write(json.dumps(fork).encode(), CHILD))[0][0].parent_key is None


def test_sessions_that_name_each_other_as_origin_are_all_found(desk: Desk) -> None:
    for name, other in ((CODEX, "2"), (CHILD, "1")):
        meta = {"id": "x", "forked_from_id": f"01a22d81-0000-7000-8000-00000000000{other}"}
        desk.write(json.dumps({"timestamp": "t", "type": "session_meta", "payload": meta}).encode() + b"\n", name)
    assert len(found(desk.home)[0]) == 2


def test_the_product_can_be_named(desk: Desk) -> None:
    path = desk.write(b'{"tomorrow":1}\n', "saved.jsonl")
    (source,) = find_sources(str(path), [], "codex")
    assert source.product == "codex"
    with pytest.raises(InvalidInput, match="claude and codex"):
        list(find_sources(str(path), [], "other"))


def test_a_rollout_of_the_first_kind_is_one_object_in_a_json_file(desk: Desk) -> None:
    document = {
        "session": {"id": "t", "timestamp": "t"},
        "items": [{"type": "message", "role": "user", "content": "hi"}],
    }
    name = "sessions/rollout-2025-04-20-0b6f3a52-1111-4c3e-9a55-3f0d8d4f0001.json"
    desk.write(json.dumps(document, indent=2).encode(), name)
    desk.write(b"{}", "sessions/settings.json")
    (result,) = import_path(desk.store, str(desk.home))
    assert [message["content"] for message in desk.payloads(result, "message.user")] == ["hi"]
    assert desk.payloads(result, "session.created")[0]["title"] == "hi"


def test_a_compressed_rollout_is_the_same_session(desk: Desk) -> None:
    plain = desk.bring(ROLLOUT, CODEX)
    (desk.home / CODEX).unlink()
    (again,) = import_path(desk.store, str(desk.write(zstandard.compress(ROLLOUT), f"{CODEX}.zst")))
    assert (again.session, again.status) == (plain.session, "unchanged")


def test_a_plain_rollout_wins_over_its_compressed_copy(desk: Desk) -> None:
    desk.write(ROLLOUT, CODEX)
    desk.write(zstandard.compress(ROLLOUT), f"{CODEX}.zst")
    assert [source.path.endswith(".jsonl") for source in found(desk.home)[0]] == [True]


def test_a_damaged_compressed_file_is_a_finding(desk: Desk) -> None:
    (result,) = import_path(desk.store, str(desk.write(b"no zstd", f"{CODEX}.zst")))
    assert [finding["code"] for finding in result.findings] == ["unreadable"]


@pytest.mark.parametrize(
    ("data", "product"), [(PROMPT, "claude"), (ROLLOUT, "codex"), (b'{"type":"message"}\n', "codex")]
)
def test_a_file_without_a_telling_name_is_known_by_its_records(desk: Desk, data: bytes, product: str) -> None:
    sources, _ = found(desk.write(data, "saved.jsonl"))
    assert [source.product for source in sources] == [product]


@pytest.mark.parametrize(("data", "product", "other"), [(PROMPT, "claude", "codex"), (ROLLOUT, "codex", "claude")])
@pytest.mark.parametrize("name", [CLAUDE, CODEX, "saved.jsonl"])
def test_the_records_say_whose_a_file_is_whatever_its_name(
    desk: Desk, name: str, data: bytes, product: str, other: str
) -> None:
    path = desk.write(b"\n" + data, name)
    sources, codes = found(path)
    assert ([source.product for source in sources], codes) == ([product], [])
    findings: list[dict[str, Any]] = []
    assert list(find_sources(str(path), findings, other)) == []
    (finding,) = findings
    assert (finding["code"], finding["product"], finding["path"]) == ("other_product", product, str(path))
    (result,) = import_path(desk.store, str(path), product=other)
    assert (result.status, result.session, desk.store.session_ids()) == ("refused", None, [])


def test_where_the_records_do_not_tell_the_name_does(desk: Desk) -> None:
    for name, product in ((CLAUDE, "claude"), (CODEX, "codex")):
        sources, _ = found(desk.write(b'{"tomorrow":1}\n', name))
        assert [source.product for source in sources] == [product]


ITEM = b'{"type":"message","id":null,"role":"user","content":[{"type":"input_text","text":"hi"}]}\n'
HEADER = b'{"id":"x","timestamp":"2025-08-19T08:31:17.743Z","instructions":null}\n'


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize(
    ("name", "data", "expected", "origin"),
    [
        (CODEX, HEADER + ITEM, "2025-08-19T08:31:17.743Z", "header"),
        (CODEX, ITEM, "2026-01-01T18:04:05.000Z", "file_name"),  # the name has local time, nine hours ahead
        (CODEX.replace("2026-01-02T03-04-05", "2026-01-02"), ITEM, "2026-01-01T15:00:00.000Z", "file_name"),
        (CODEX.replace("2026-01-02T03-04-05", "2026-21-02T03-04-05"), ITEM, "2023-11-14T22:13:20.000Z", "file_time"),
        ("saved.jsonl", ITEM, "2023-11-14T22:13:20.000Z", "file_time"),
    ],
)
def test_a_file_without_times_has_that_of_its_header_its_name_or_its_last_write(
    desk: Desk, name: str, data: bytes, expected: str, origin: str
) -> None:
    result = desk.bring(data, name)
    (message,) = desk.payloads(result, "message.user")
    assert (message["time"], message["source"]["time_from"]) == (expected, origin)
    (end,) = desk.payloads(result, "source.imported")
    assert (end["first_time"], end["last_time"], end["time_from"]) == (expected, expected, origin)
    rows, _ = desk.store.list()
    assert rows[0]["created_us"] == rows[0]["last_activity_us"]
    assert abs(rows[0]["created_us"] - datetime.fromisoformat(expected).timestamp() * 1e6) < 1000


def test_a_time_of_its_own_is_not_said_to_be_from_elsewhere(desk: Desk) -> None:
    stamped = json.dumps(
        {"timestamp": "2025-09-19T08:31:17.743Z", "type": "response_item", "payload": json.loads(ITEM)}
    )
    result = desk.bring(stamped.encode() + b"\n", CODEX)
    assert "time_from" not in desk.payloads(result, "message.user")[0]["source"]
    assert "time_from" not in desk.payloads(result, "source.imported")[0]
    prompt = desk.bring(PROMPT)  # of the other product: no record has a time
    assert desk.payloads(prompt, "source.imported")[0]["time_from"] == "file_time"
