"""Importing into a store: once, again, grown, changed, damaged, interrupted, too large."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.importers.conftest import CODEX
from tools.check_corpus import Facts
from turnlog.importers import importer, lines
from turnlog.importers.importer import import_path
from turnlog.store import Store

if TYPE_CHECKING:
    from tests.importers.conftest import Desk

USAGE = {"input_tokens": 5, "output_tokens": 7}


def record(number: int, kind: str = "user", **message: Any) -> bytes:
    body = {"type": kind, "uuid": f"u-{number}", "sessionId": "s-1", "timestamp": f"2026-01-01T00:00:0{number}.000Z"}
    return json.dumps({**body, "cwd": "/proj", "message": {"content": f"text {number}", **message}}).encode() + b"\n"


TRANSCRIPT = (
    record(1)
    + record(2, "assistant", id="m1", model="m-1", usage=USAGE, content=[{"type": "text", "text": "é"}])
    + record(
        3, "assistant", id="m1", model="m-1", usage=USAGE, content=[{"type": "tool_use", "id": "c1", "name": "Bash"}]
    )
    + record(4, content=[{"type": "tool_result", "tool_use_id": "c1", "content": "a"}])
    + record(5, "assistant", id="m2", model="m-1", usage=USAGE, content=[{"type": "text", "text": "done"}])
)


def essence(desk: Desk, result: Any) -> tuple[Any, ...]:
    """What a reader computes, whatever the number of imports was."""
    facts = Facts(desk.events(result))
    claude = facts.claude()
    common = {name: value for name, value in facts.common().items() if name != "damage"}
    return common, claude


def test_a_first_import_makes_a_session_listed_under_its_prompt(desk: Desk) -> None:
    result = desk.bring(TRANSCRIPT)
    assert (result.status, result.lines, result.appended_lines, result.findings) == ("imported", 5, 5, [])
    created = desk.payloads(result, "session.created")
    assert created == [{"title": "text 1", "cwd": "/proj", "model": "m-1"}]
    assert result.events == len(desk.events(result)) - 1


def test_each_line_is_followed_by_its_events(desk: Desk) -> None:
    kinds = [kind for kind, _ in desk.events(desk.bring(record(1) + record(2)))]
    assert kinds[1:5] == ["source.line", "session.configured", "session.configured", "turn.started"]
    assert kinds[5:] == [
        "message.user",
        "source.line",
        "turn.completed",
        "turn.started",
        "message.user",
        "turn.completed",
        "source.imported",
    ]


@pytest.mark.parametrize("cut", range(1, len(TRANSCRIPT), 11))
def test_a_file_that_grows_at_any_byte_ends_up_like_one_imported_whole(desk: Desk, cut: int) -> None:
    first = desk.bring(TRANSCRIPT[:cut])
    second = desk.bring(TRANSCRIPT)
    whole = desk.bring(TRANSCRIPT, "projects/-p/whole.jsonl")
    assert (first.status, second.status) == ("imported", "grown")
    assert desk.stored_bytes(second) == TRANSCRIPT
    assert essence(desk, second) == essence(desk, whole)
    assert desk.bring(TRANSCRIPT).status == "unchanged"


def test_a_file_that_grows_byte_by_byte_ends_up_like_one_imported_whole(desk: Desk) -> None:
    data = record(1) + b"{\n" + b"\0\0\n" + record(2)[:-1] + record(3)
    for end in range(1, len(data) + 1):
        result = desk.bring(data[:end])
    whole = desk.bring(data, "projects/-p/whole.jsonl")
    assert desk.stored_bytes(result) == data
    assert (
        Facts(desk.events(result)).common()["undecodable_lines"]
        == Facts(desk.events(whole)).common()["undecodable_lines"]
    )
    assert len(desk.payloads(result, "message.user")) == len(desk.payloads(whole, "message.user")) == 3


@pytest.mark.parametrize("data", [TRANSCRIPT.replace(b"text 1", b"text 9"), TRANSCRIPT[:-9], b"\n"])
def test_a_file_whose_imported_part_changed_is_refused(desk: Desk, data: bytes) -> None:
    before = desk.events(desk.bring(TRANSCRIPT))
    result = desk.bring(data)
    assert (result.status, [found["code"] for found in result.findings]) == ("refused", ["source_rewritten"])
    assert desk.events(result) == before


def test_an_import_that_was_cut_off_goes_on_where_it_stopped(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(self: importer.Import) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(importer.Import, "_end", dies)
        with pytest.raises(KeyboardInterrupt):
            desk.bring(TRANSCRIPT)
    result = desk.bring(TRANSCRIPT)
    whole = desk.bring(TRANSCRIPT, "projects/-p/whole.jsonl")
    assert (result.status, result.appended_lines) == ("grown", 0)
    assert essence(desk, result) == essence(desk, whole)


KILLED = """
import os, signal, sys
from turnlog.importers import importer
from turnlog.store import Store
importer.Import._end = lambda self: os.kill(os.getpid(), signal.SIGKILL)
list(importer.import_path(Store.open(sys.argv[1]), sys.argv[2]))
"""


def test_an_import_that_was_killed_goes_on_where_it_stopped(desk: Desk) -> None:
    path = desk.write(TRANSCRIPT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", KILLED, desk.store.path, str(path)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    result = desk.bring(TRANSCRIPT)
    whole = desk.bring(TRANSCRIPT, "projects/-p/whole.jsonl")
    assert result.status == "grown"
    assert desk.stored_bytes(result) == TRANSCRIPT
    assert essence(desk, result) == essence(desk, whole)


@pytest.mark.parametrize(
    ("data", "codes"),
    [
        (record(1) + b"\0" * 4096 + record(2), ["nul_bytes"]),
        (record(1) + record(2)[:30], ["torn_tail"]),
        (record(1)[:-1] + record(2), ["glued"]),
        (json.dumps(json.loads(record(1)), indent=1).encode(), ["pretty_printed"]),
        (record(1).replace(b"text", b"t\xffxt"), ["invalid_utf8"]),
        (b"\xef\xbb\xbf" + record(1), ["bom"]),
        (record(1).replace(b"\n", b"\r\n"), ["crlf"]),
    ],
)
def test_damaged_input_is_a_finding_and_every_byte_is_kept(desk: Desk, data: bytes, codes: list[str]) -> None:
    result = desk.bring(data)
    assert [found["code"] for found in result.findings] == codes
    assert all({"code", "path", "line", "offset", "length", "detail"} <= found.keys() for found in result.findings)
    assert desk.stored_bytes(result) == data
    assert desk.payloads(result, "message.user")


def test_an_empty_file_a_folder_and_a_missing_file_are_findings(desk: Desk) -> None:
    desk.write(b"", "projects/-p/empty.jsonl")
    (desk.home / "projects/-p/folder.jsonl").mkdir()
    found = list(import_path(desk.store, str(desk.home))) + list(import_path(desk.store, str(desk.home / "none.jsonl")))
    assert sorted(result.findings[0]["code"] for result in found) == ["empty_file", "is_a_directory", "missing"]
    assert {result.status for result in found} == {"refused"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_read_permission_is_a_finding(desk: Desk) -> None:
    path = desk.write(TRANSCRIPT)
    path.chmod(0)
    (result,) = import_path(desk.store, str(path))
    assert [found["code"] for found in result.findings] == ["unreadable"]


def test_a_read_error_in_the_middle_keeps_what_was_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(stream: Any) -> Any:
        for line in lines.read_lines(stream):
            if line.number == 3:
                raise OSError(5, "Input/output error")
            yield line

    with monkeypatch.context() as patch:
        patch.setattr(importer, "read_lines", failing)
        first = desk.bring(TRANSCRIPT)
    assert [found["code"] for found in first.findings] == ["unreadable"]
    assert desk.stored_bytes(first) == record(1) + TRANSCRIPT.split(b"\n")[1] + b"\n"
    second = desk.bring(TRANSCRIPT)
    whole = desk.bring(TRANSCRIPT, "projects/-p/whole.jsonl")
    assert essence(desk, second) == essence(desk, whole)


def test_a_file_that_is_no_transcript_is_a_finding(desk: Desk) -> None:
    assert [found["code"] for found in desk.bring(b'{"a":1}\n', "notes.jsonl").findings] == ["unknown_product"]


def test_a_session_that_another_writer_holds_is_refused_and_the_others_are_imported(desk: Desk) -> None:
    held = desk.bring(TRANSCRIPT[:300], "projects/-p/a.jsonl")
    assert held.session is not None
    desk.write(TRANSCRIPT, "projects/-p/a.jsonl")
    desk.write(TRANSCRIPT, "projects/-p/b.jsonl")
    with Store.open(desk.store.path) as other:
        other.session(held.session).append("session.renamed", {"title": "mine"})
        found = list(import_path(desk.store, str(desk.home)))
    assert [(result.status, [entry["code"] for entry in result.findings]) for result in found] == [
        ("refused", ["locked"]),
        ("imported", []),
    ]
    assert [result.status for result in import_path(desk.store, str(desk.home))] == ["grown", "unchanged"]


def test_an_event_that_canonical_json_cannot_hold_costs_only_its_line(desk: Desk) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    data = record(1) + record(2, content=[{"type": "text", "text": deep}]) + record(3)
    result = desk.bring(data)
    assert [(found["code"], found["line"]) for found in result.findings] == [("unstorable", 2)]
    assert desk.stored_bytes(result) == data
    assert [message["content"] for message in desk.payloads(result, "message.user")] == ["text 1", "text 3"]


def test_a_line_beyond_every_limit_is_kept_in_parts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "PART_BYTES_MAX", 1000)
    monkeypatch.setattr(lines, "DECODE_BYTES_MAX", 2000)
    data = record(1) + record(2, content="x" * 9500) + record(3)
    result = desk.bring(data)
    assert [(found["code"], found["line"]) for found in result.findings] == [("oversized", 2)]
    assert desk.stored_bytes(result) == data
    assert max(map(len, desk.payloads(result, "source.line"))) == 1000
    assert result.lines == 3
    assert desk.bring(data).status == "unchanged"
    assert desk.bring(data + record(4)).appended_lines == 1


def test_progress_reaches_all_bytes_and_never_goes_back(desk: Desk) -> None:
    desk.write(TRANSCRIPT, "projects/-p/a.jsonl")
    desk.write(TRANSCRIPT, "projects/-p/b.jsonl")
    seen: list[tuple[int, int]] = []
    list(import_path(desk.store, str(desk.home), lambda done, total: seen.append((done, total))))
    assert seen == sorted(seen)
    assert seen[-1] == (2 * len(TRANSCRIPT), 2 * len(TRANSCRIPT))


def test_a_rollout_is_imported_too(desk: Desk) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi\nthere"}]}
    line = json.dumps({"timestamp": "2026-01-01T00:00:00.000Z", "type": "response_item", "payload": item}).encode()
    result = desk.bring(line + b"\n", CODEX)
    assert desk.payloads(result, "session.created")[0]["title"] == "hi"


def test_a_flipped_bit_hides_no_more_than_the_line_it_hits(desk: Desk) -> None:
    result = desk.bring(TRANSCRIPT)
    session_id = result.session or ""
    desk.store.session(session_id).close()
    (segment,) = Path(desk.store.path).glob(f"sessions/*/{session_id}/*.seg")
    line = TRANSCRIPT.splitlines(keepends=True)[2]
    data = bytearray(segment.read_bytes())
    data[data.index(line) + 10] ^= 1
    segment.write_bytes(data)
    session = desk.store.session(session_id)
    stored = [event.raw for event in session.events(types=["source.line"], on_damage="skip")]
    assert stored == [part for part in TRANSCRIPT.splitlines(keepends=True) if part != line]
