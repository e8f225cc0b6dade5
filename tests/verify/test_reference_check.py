"""A full check finds each artifact that an event refers to and that is not there as the event says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults import damage
from tests.forks import fill, folder
from turnlog import Store, _core, names
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.artifacts.offload import MARK, offload
from turnlog.compact.compact import compact_session
from turnlog.log.log import Log
from turnlog.log.segments import list_segments
from turnlog.reference import Reference
from turnlog.verify import reference_check
from turnlog.verify.verify import check_session, check_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog import Session

TEXT = "a long output " * 6000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", roll_bytes=8192) as opened:
        yield opened


def findings(store: Store, session: Session, *, full: bool = True) -> list[dict[str, Any]]:
    return check_session(store.path, session.id, full=full).findings


def remove(store: Store, reference: Reference) -> None:
    for packed in (False, True):
        Path(names.artifact_path(store.path, reference.digest, packed=packed)).unlink(missing_ok=True)


def refer(session: Session, store: Store, text: str = TEXT) -> tuple[int, Reference]:
    """Append an event whose text is put aside; return its ordinal and the reference."""
    artifacts = ArtifactStore(store.path)
    stored = offload({"output": text}, put=artifacts.put)
    receipt = session.append("note.written", stored)
    return receipt.ordinal, Reference.from_payload(stored["output"]["$artifact"])


def test_what_is_there_is_no_finding(store: Store) -> None:
    session = store.create()
    turn = session.turn(TEXT)
    turn.complete()
    refer(session, store)
    assert findings(store, session) == []


@pytest.mark.parametrize("compacted", [False, True])
def test_a_missing_artifact_names_session_ordinal_digest_and_next_command(store: Store, compacted: bool) -> None:
    session = store.create()
    fill(session, 30)
    ordinal, reference = refer(session, store)
    offset = session.event(ordinal).offset
    fill(session, 30)
    session.close()
    if compacted:
        assert compact_session(store.path, session.id)["compacted"]
    remove(store, reference)
    (finding,) = findings(store, session)
    stated = {name: finding[name] for name in ("session", "ordinal", "digest", "verdict", "code", "offset", "next")}
    assert stated == {
        "session": session.id,
        "ordinal": ordinal,
        "digest": reference.digest,
        "verdict": "LOST_DATA",
        "code": "reference",
        "offset": offset,
        "next": [f"sessionctl show {session.id}:{ordinal}"],
    }
    size = len(TEXT)
    assert finding["detail"] == (
        f"event {ordinal} refers to artifact {reference.digest} ({size} bytes), which is not in the store"
    )
    assert findings(store, session, full=False) == []
    checks = check_store(store.path, full=True)
    assert (checks.ok, [check.findings for check in checks.sessions]) == (False, [[finding]])


def test_an_artifact_of_another_size_is_a_finding(store: Store) -> None:
    session = store.create()
    ordinal, reference = refer(session, store)
    remove(store, reference)
    Path(names.artifact_path(store.path, reference.digest)).write_bytes(b"short")
    (finding,) = findings(store, session)
    assert (finding["verdict"], finding["ordinal"]) == ("CORRUPT", ordinal)
    assert "the file holds 5 bytes of content, not 84000" in finding["detail"]


def test_each_artifact_is_one_finding_however_often_it_is_referred_to(store: Store) -> None:
    session = store.create()
    first, reference = refer(session, store)
    for _ in range(3):
        refer(session, store)
    other, second = refer(session, store, TEXT + "!")
    remove(store, reference)
    remove(store, second)
    found = findings(store, session)
    assert [(finding["ordinal"], finding["digest"]) for finding in found] == [
        (first, reference.digest),
        (other, second.digest),
    ]
    assert found[0]["detail"].endswith("which is not in the store (and 3 more)")


def test_what_only_looks_like_a_reference_is_none(store: Store) -> None:
    session = store.create()
    like = {"$artifact": {"digest": "0" * 64, "size": 1}}
    session.append("note.written", offload(like, put=ArtifactStore(store.path).put))
    session.append("note.written", {"text": _core.canonical(like).decode("ascii")})
    session.append("source.line", _core.canonical(like), raw=True)
    assert findings(store, session) == []
    session.append("note.written", like)
    assert [finding["ordinal"] for finding in findings(store, session)] == [5]


def test_the_mark_is_found_across_the_pieces_that_are_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create()
    ordinal, reference = refer(session, store)
    remove(store, reference)
    path = Path(session.log().open_reader(list_segments(folder(store, session.id))[0]).path)
    at = path.read_bytes().index(MARK) - _core.HEADER_BYTES
    for piece in range(max(1, at - 1), at + len(MARK) + 2):
        monkeypatch.setattr(reference_check, "_PIECE_BYTES", piece)
        assert [finding["ordinal"] for finding in findings(store, session)] == [ordinal]


def test_a_segment_without_a_mark_is_not_replayed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create()
    fill(session, 30)
    session.close()

    def refuse(*_: object) -> None:
        raise AssertionError("it was replayed")

    monkeypatch.setattr(Log, "own_batches", refuse)
    assert findings(store, session) == []


def test_only_payloads_with_the_mark_are_decoded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create()
    fill(session, 3)
    ordinal, _ = refer(session, store)
    decoded: list[object] = []

    def noted(payload: object) -> Iterator[Reference]:
        decoded.append(payload)
        return iter(())

    monkeypatch.setattr(reference_check, "references", noted)
    assert findings(store, session) == []
    assert decoded == [session.event(ordinal).payload]


def test_behind_damage_references_are_looked_for_too(store: Store) -> None:
    session = store.create()
    fill(session, 3)
    refer(session, store, "other " * 20_000)
    ordinal, reference = refer(session, store)
    offset = session.event(2).offset
    session.close()
    (file, *_) = list_segments(folder(store, session.id))
    damage.flip(file.path, offset + 150)
    remove(store, reference)
    found = {finding["code"]: finding for finding in findings(store, session)}
    assert found["reference"]["ordinal"] == ordinal
    assert len(found) > 1


def test_inherited_events_are_the_parents_to_answer_for(store: Store) -> None:
    parent = store.create()
    ordinal, reference = refer(parent, store)
    child = store.fork(parent)
    remove(store, reference)
    assert findings(store, child) == []
    assert [finding["ordinal"] for finding in findings(store, parent)] == [ordinal]
