"""Goal: prune takes what nothing refers to and never anything else. Method: references in every place where one may
stand (own and inherited events, events that are not acknowledged, quarantine, other names, compacted segments), damage
of each kind, and writers at work beside it.
"""

from __future__ import annotations

import os
import time
from errno import EIO
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.faults import damage
from tests.forks import fill, folder
from turnlog import Session, Store, names
from turnlog import prune as module
from turnlog.artifacts.artifacts import ArtifactStore
from turnlog.compact.compact import compact_session
from turnlog.errors import Damaged, InvalidInput, StorageError
from turnlog.log.segments import list_segments
from turnlog.prune import Prune
from turnlog.repair.repair import plan_session
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnlog.log.recovery import Witness
    from turnlog.reference import Reference

DAY_S = 86_400


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store", roll_bytes=8192) as opened:
        yield opened


def put(store: Store, content: str) -> Reference:
    """Put an artifact a month ago."""
    reference = ArtifactStore(store.path).put(content.encode())
    month_ago_s = time.time() - 30 * DAY_S
    for packed in (False, True):
        path = names.artifact_path(store.path, reference.digest, packed=packed)
        if os.path.exists(path):
            os.utime(path, (month_ago_s, month_ago_s))
    return reference


def refer(session: Session, reference: Reference, *, durability: str = "durable") -> int:
    payload = {"file": {"$artifact": reference.as_payload()}}
    return session.append("report.written", payload, durability=durability).ordinal


def swept(store: Store) -> list[str]:
    """Prune; return what went, after a look at what a dry run says and at what is there afterwards."""
    before = set(digests(store))
    planned = Prune(store.path).sweep(dry_run=True)
    assert set(digests(store)) == before
    done = Prune(store.path).sweep(dry_run=False)
    assert (done.digests, done.kept, done.young) == (planned.digests, planned.kept, planned.young)
    assert set(digests(store)) == before - set(done.digests)
    assert len(digests(store)) == done.kept + done.young
    return done.digests


def digests(store: Store) -> list[str]:
    files = (Path(store.path) / names.ARTIFACTS).rglob("*")
    return [path.name.removesuffix(names.PACKED_SUFFIX) for path in files if path.is_file()]


def test_what_nothing_refers_to_goes_and_the_rest_stays(store: Store) -> None:
    session = store.create()
    kept = put(store, "kept")
    refer(session, kept)
    left = [put(store, f"left {number}").digest for number in range(3)]
    young = ArtifactStore(store.path).put(b"young")
    assert swept(store) == sorted(left)
    assert set(digests(store)) == {kept.digest, young.digest}
    assert check_session(store.path, session.id, full=True).ok


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("compacted", [False, True])
def test_what_any_segment_of_a_session_names_stays(store: Store, closed: bool, compacted: bool) -> None:
    session = store.create()
    for number in range(12):
        refer(session, put(store, f"kept {number}"))
        fill(session, 5)
    assert len(list_segments(folder(store, session.id))) > 2
    if closed:
        session.close()
    if compacted:
        compact_session(store.path, session.id)
    assert swept(store) == []


def test_what_only_a_fork_inherits_stays_with_its_parent(store: Store) -> None:
    parent = store.create()
    refer(parent, put(store, "inherited"))
    child = store.fork(parent)
    refer(child, put(store, "own"))
    left = put(store, "left")
    assert swept(store) == [left.digest]


def test_a_reference_that_is_not_durable_yet_counts(store: Store) -> None:
    session = store.create()
    refer(session, put(store, "buffered"), durability="buffered")
    assert swept(store) == []


def test_a_reference_of_a_torn_group_counts(store: Store) -> None:
    session = store.create()
    reference = put(store, "torn")
    items = [("report.written", {"file": {"$artifact": reference.as_payload()}}), ("report.written", {"n": "x" * 900})]
    session.append_many(items, atomic=True)
    end = session.event(3).offset
    session.close()
    (file,) = list_segments(folder(store, session.id))
    os.truncate(file.path, end + 100)
    assert check_session(store.path, session.id).ok
    assert swept(store) == []


def test_what_repair_took_out_of_a_log_still_counts(store: Store) -> None:
    session = store.create()
    at = session.event(refer(session, put(store, "lost"))).offset
    refer(session, put(store, "kept"))
    session.close()
    (file,) = list_segments(folder(store, session.id))
    damage.flip(file.path, at + 20)
    plan_session(store.path, session.id).apply()
    assert check_session(store.path, session.id).ok
    assert swept(store) == []


def test_a_folder_under_another_name_counts(store: Store) -> None:
    session = store.create()
    refer(session, put(store, "set aside"))
    session.close()
    os.rename(folder(store, session.id), folder(store, session.id) + ".old")
    assert swept(store) == []


def test_while_a_session_is_damaged_nothing_goes(store: Store) -> None:
    session, other = store.create(), store.create()
    refer(other, put(store, "other"))
    at = session.event(refer(session, put(store, "kept"))).offset
    put(store, "left")
    refer(session, put(store, "behind"))
    session.close()
    (file,) = list_segments(folder(store, session.id))
    damage.flip(file.path, at + 150)
    before = sorted(digests(store))
    prune = Prune(store.path)
    assert [check.session for check in prune.damaged] == [session.id]
    for dry_run in (True, False):
        with pytest.raises(Damaged, match="nothing was removed") as caught:
            prune.sweep(dry_run=dry_run)
        assert caught.value.session == session.id
    assert sorted(digests(store)) == before


def test_a_fork_whose_parent_is_gone_forbids_it(store: Store, tmp_path: Path) -> None:
    parent = store.create()
    refer(parent, put(store, "inherited"))
    child = store.fork(parent)
    parent.close()
    os.rename(folder(store, parent.id), tmp_path / "elsewhere")
    assert [check.session for check in Prune(store.path).damaged] == [child.id]


def test_what_the_index_saw_and_the_log_lost_forbids_it(store: Store) -> None:
    session = store.create()
    refer(session, put(store, "lost"))
    store.index().catch_up()
    witness = cast("Witness", store.index().witness(session.id))
    session.close()
    (file,) = list_segments(folder(store, session.id))
    os.truncate(file.path, 4096)
    assert Prune(store.path).damaged == []
    assert len(Prune(store.path, witness_of=lambda _: witness).damaged) == 1


def test_a_segment_that_was_compacted_meanwhile_is_read_in_its_new_form(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = store.create()
    for number in range(12):
        refer(session, put(store, f"kept {number}"))
        fill(session, 5)
    session.close()
    pieces = module._pieces

    def after_a_compaction(path: str, *, whole: bool) -> Iterator[bytes]:
        compact_session(store.path, session.id)
        return pieces(path, whole=whole)

    monkeypatch.setattr(module, "_pieces", after_a_compaction)
    assert Prune(store.path).sweep(dry_run=True).digests == []


def test_a_digest_across_two_pieces_is_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create()
    refer(session, put(store, "kept"))
    for piece in range(80, 90):
        monkeypatch.setattr(module, "_PIECE_BYTES", piece)
        assert Prune(store.path).sweep(dry_run=True).digests == []


def test_what_is_put_again_after_it_began_stays(store: Store) -> None:
    reference = put(store, "old and wanted again")
    prune = Prune(store.path, grace_days=0)
    ArtifactStore(store.path).put(b"old and wanted again")
    swept = prune.sweep(dry_run=False)
    assert (swept.digests, swept.young, digests(store)) == ([], 1, [reference.digest])


def test_the_grace_period_is_an_hour_at_least_while_somebody_writes(store: Store) -> None:
    session = store.create()
    put(store, "left")
    with pytest.raises(InvalidInput, match="an hour at least") as caught:
        Prune(store.path, grace_days=1 / 25)
    assert caught.value.session == session.id
    assert len(Prune(store.path, grace_days=1 / 24).sweep(dry_run=True).digests) == 1
    session.close()
    assert len(Prune(store.path, grace_days=0).sweep(dry_run=True).digests) == 1


@pytest.mark.parametrize("grace_days", [-1.0, float("nan")])
def test_a_grace_period_that_cannot_be_meant_is_refused(store: Store, grace_days: float) -> None:
    with pytest.raises(InvalidInput):
        Prune(store.path, grace_days=grace_days).sweep(dry_run=True)


def test_files_of_any_length_and_kind_may_lie_in_quarantine(store: Store) -> None:
    kept, left = put(store, "kept"), put(store, "left")
    folder = Path(store.path) / names.QUARANTINE / "session"
    folder.mkdir(parents=True)
    (folder / "empty").write_bytes(b"")
    (folder / "blocks").write_bytes(b"\x28\xb5\x2f\xfd damaged")
    (folder / "piece").write_bytes(b'..."digest":"' + kept.digest.encode("ascii") + b'"...')
    assert swept(store) == [left.digest]


def test_a_file_that_cannot_be_read_is_an_error_and_nothing_goes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    session = store.create()
    refer(session, put(store, "kept"))

    def refuse(path: str) -> None:
        raise StorageError(f"cannot read {path}", EIO)

    monkeypatch.setattr(module, "_core", SimpleNamespace(SegmentReader=refuse))
    with pytest.raises(StorageError, match="cannot read"):
        Prune(store.path)


def test_a_store_without_artifacts_has_nothing_to_prune(store: Store) -> None:
    done = Prune(store.path).sweep(dry_run=False)
    assert (done.digests, done.kept, done.young, done.bytes) == ([], 0, 0, 0)
