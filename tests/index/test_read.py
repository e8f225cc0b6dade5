"""Reading a log for the index: what may become a witness, and what damage does to a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.index.logs import Logs, session_id
from turnlog import _core, names
from turnlog.index import read
from turnlog.log import segments

if TYPE_CHECKING:
    from typing import Self

    from turnlog.index.index import Index

A = session_id(1)


def assert_witness_is_durable(logs: Logs, index: Index) -> None:
    """The rule: a witness promises nothing that the writer has not synced."""
    witness, head = index.witness(A), logs.heads()[A]
    assert witness is not None
    assert witness["durable_off"] <= head["durable"]
    assert witness["ordinal"] <= head["durable_ordinal"]


def write_buffered(logs: Logs) -> None:
    logs.create(A)
    for number in range(5):
        logs.append(A, "message.user", {"content": f"{number}"}, durable=False)
    head = logs.heads()[A]
    assert (head["durable_ordinal"], head["ordinal"]) == (1, 6)


def test_events_that_are_not_synced_stay_out_of_row_and_witness(logs: Logs) -> None:
    index = logs.index()
    write_buffered(logs)
    index.catch_up(logs.heads())
    assert_witness_is_durable(logs, index)
    row = index.get(A)
    assert row is not None
    assert row["head_ordinal"] == 1
    logs.open[A].flush()
    index.catch_up(logs.heads())
    witness, head = index.witness(A), logs.heads()[A]
    assert witness is not None
    assert (witness["ordinal"], witness["chain"]) == (6, head["durable_chain"])
    assert witness["durable_off"] == head["durable"]
    index.close()


def test_control_a_projection_that_forgets_the_rule_is_caught(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(visit: Any, directory: str, *, head: Any, live: bool, sync: bool) -> bool:
        return read.read_on(visit, directory, head=None, live=live, sync=False)

    monkeypatch.setattr("turnlog.index.catch_up.read_on", forgetful)
    index = logs.index()
    write_buffered(logs)
    index.catch_up(logs.heads())
    with pytest.raises(AssertionError):
        assert_witness_is_durable(logs, index)
    index.close()


class Spy:
    """Counts the syncs of segment readers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs = 0
        spy, real = self, _core.SegmentReader

        class Reader:
            def __init__(self, path: str, known_id: bytes | None = None) -> None:
                self.real = real(path, known_id)

            def __getattr__(self, name: str) -> Any:
                return getattr(self.real, name)

            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                self.real.close()

            def sync(self) -> None:
                spy.syncs += 1
                self.real.sync()

        monkeypatch.setattr(_core, "SegmentReader", Reader)


def test_the_log_of_a_foreign_writer_is_synced_before_its_witness_is_stored(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = logs.index()
    write_buffered(logs)
    spy = Spy(monkeypatch)
    index.catch_up()  # as another process would: it has no head to ask
    assert spy.syncs == 1
    witness = index.witness(A)
    assert witness is not None
    assert witness["ordinal"] == 6
    index.catch_up()
    assert spy.syncs == 1
    index.close()


def test_a_session_that_was_closed_needs_no_sync(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    write_buffered(logs)
    logs.close(A)
    spy = Spy(monkeypatch)
    index = logs.index()
    index.catch_up()
    assert spy.syncs == 0
    assert index.witness(A) is not None
    index.close()


def test_a_killed_session_is_not_damaged(logs: Logs) -> None:
    write_buffered(logs)
    logs.kill(A)
    path = logs.segment(A)
    content = path.read_bytes().rstrip(b"\0")
    path.write_bytes(content[:-40] + bytes(4_096))  # the last write reached the disk in part
    index = logs.index()
    row = index.get(A)
    assert row is not None
    assert (row["damaged"], row["head_ordinal"]) == (False, 5)
    logs.resume(A, index)
    logs.append(A, "message.user", {"content": "again"})
    index.catch_up(logs.heads())
    row = index.get(A)
    assert row is not None
    assert (row["damaged"], row["head_ordinal"], row["messages"]) == (False, 6, 5)
    index.close()


def closed_session(logs: Logs) -> None:
    logs.create(A, title="t")
    for number in range(5):
        logs.append(A, "message.user", {"content": f"number {number} " * 20})
    logs.close(A)


def test_events_behind_damage_are_still_counted(logs: Logs) -> None:
    closed_session(logs)
    path = logs.segment(A)
    content = bytearray(path.read_bytes())
    content[content.index(b"number 2")] ^= 1
    path.write_bytes(content)
    logs.marker(A).unlink()
    index = logs.index()
    row = index.get(A)
    assert row is not None
    assert (row["damaged"], row["messages"], row["head_ordinal"], row["head_chain"]) == (True, 4, 6, "")
    index.close()


def test_a_cut_log_keeps_the_witness_that_proves_the_loss(logs: Logs) -> None:
    closed_session(logs)
    index = logs.index()
    before = index.witness(A)
    path = logs.segment(A)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"number 3") & ~4_095])
    assert index.catch_up() == 1
    row = index.get(A)
    assert row is not None
    assert row["damaged"] is True
    assert index.witness(A) == before
    index.close()


def test_a_lost_segment_keeps_the_witness_that_proves_the_loss(logs: Logs) -> None:
    logs.create(A)
    for _ in range(4):
        logs.append(A, "custom.big", {"text": "x" * 40_000})
    logs.close(A)
    index = logs.index()
    before = index.witness(A)
    assert before is not None
    assert before["segment_number"] > 1
    logs.segment(A).unlink()
    index.catch_up()
    row = index.get(A)
    assert row is not None
    assert row["damaged"] is True
    assert index.witness(A) == before
    index.close()


@pytest.mark.parametrize("content", [b"", bytes(4_096), b"not a segment" * 400])
def test_a_session_without_a_readable_segment_is_listed_as_damaged(logs: Logs, content: bytes) -> None:
    closed_session(logs)
    logs.segment(A).write_bytes(content)
    index = logs.index()
    assert [(row["id"], row["damaged"]) for row in index.list()[0]] == [(A, True)]
    index.close()


def test_a_session_in_another_ones_folder_is_damage(logs: Logs) -> None:
    closed_session(logs)
    other = session_id(2)
    logs.session_folder(A).rename(logs.session_folder(other))
    index = logs.index()
    assert [(row["id"], row["damaged"], row["events"]) for row in index.list()[0]] == [(other, True, 0)]
    index.close()


def test_a_folder_without_a_segment_is_no_session_yet(logs: Logs) -> None:
    folder = logs.session_folder(A)
    folder.mkdir(parents=True)
    index = logs.index()
    assert index.list()[0] == []
    other = session_id(2)
    logs.create(other)
    logs.close(other)
    index.catch_up()
    logs.segment(other).rename(folder / logs.segment(other).name)
    index.catch_up()
    assert A in [row["id"] for row in index.list()[0]]
    index.close()


def test_a_segment_replaced_by_its_compacted_twin_between_listing_and_opening_is_found(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_session(logs)
    calls: list[str] = []

    def late(directory: str) -> Any:
        files = segments.list_segments(directory)
        if not calls:
            files[0].path += ".gone"
        calls.append(directory)
        return files

    monkeypatch.setattr("turnlog.index.read.list_segments", late)
    index = logs.index()
    row = index.get(A)
    assert row is not None
    assert (row["messages"], row["damaged"], len(calls)) == (5, False, 1)
    index.close()


def test_what_began_after_the_writers_were_asked_is_left_to_the_next_visit(logs: Logs) -> None:
    index = logs.index()
    logs.create(A)
    logs.append(A, "message.user", {"content": "first"})
    before = logs.heads()
    for number in range(100):
        logs.append(A, "message.user", {"content": f"{number} " + "x" * 2_000})
    index.catch_up(before)
    row = index.get(A)
    assert row is not None
    assert (row["head_ordinal"], row["damaged"]) == (2, False)
    index.catch_up(logs.heads())
    fresh = logs.index(name="fresh.db")
    assert index.get(A) == fresh.get(A)
    index.close()
    fresh.close()


@pytest.mark.parametrize("kept", [0, 30, 120])
def test_a_seal_that_is_just_being_written_is_no_damage_and_leaves_no_trace(logs: Logs, kept: int) -> None:
    logs.create(A)
    for number in range(100):
        logs.append(A, "message.user", {"content": f"{number} " + "x" * 2_000})
    logs.close(A)
    first, second = segments.list_segments(segments_folder(logs))[:2]
    fields = segments.read_header(second.path)["fields"]
    with open(first.path, "r+b") as file:
        file.seek(fields["prev_length"])
        seal = file.read()
        file.seek(fields["prev_length"])
        file.write(seal[:kept] + bytes(len(seal) - kept))
    index = logs.index()
    row = index.get(A)
    with open(first.path, "r+b") as file:
        file.seek(fields["prev_length"])
        file.write(seal)
    fresh = logs.index(name="fresh.db")
    assert row is not None
    assert row["damaged"] is False
    assert row == fresh.get(A)
    index.close()
    fresh.close()


def segments_folder(logs: Logs) -> str:
    return names.session_dir(logs.store, A)
