"""Goal: nothing is acknowledged before its sync returned success; after the first failed sync nobody hangs, nobody is
told "stored", and no sync is retried. Method: fdatasync and syncfs held or failed by a preloaded library, 16 waiters.
Controls: a writer that acknowledges before the sync, and one that retries it, are caught by the same checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.preload import run_child

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

EIO = 5

# Ends in `print("ordered")` if no append returned while its sync was held back.
HELD = """
committer = core.Committer(str(folder), interval_ms=60_000)
writer = open_writer(core, committer, new_segment(folder))
first = writer.append("note", 0, None, True)
end = writer.head()["end"]
faults["SYNC_HOLD"] = faults["SYNCS"] + 1
threads, outcomes = in_threads(8, lambda index: writer.append("note", index, None, True))
wait_until(lambda: (faults["SYNC_HELD"] == 1 and writer.head()["ordinal"] == 9) or any(outcomes))
buffered = writer.append("note", "buffered", None, False)
head = writer.head()
early = [outcome for outcome in outcomes if outcome is not None]
assert not early, f"acknowledged before the sync: {early}"
assert (head["durable_ordinal"], head["durable"]) == (1, end), head
assert head["visible"] == end, "a reader would see an event that is not durable yet"
assert head["written"] == head["end"] and head["ordinal"] == buffered.ordinal, head
faults["SYNC_HOLD"] = 0
join_all(threads)
done = writer.head()
assert done["visible"] == done["written"] and done["durable_ordinal"] >= max(each.ordinal for each in outcomes), done
writer.close()
assert [frame.header.ordinal for frame in frames_of(folder / "a.seg")] == [*range(1, 11), 10]
print("ordered")
"""

ACKNOWLEDGES_EARLY = """
from turnlog._pure.active import ActiveSegment
def redeem(self, ticket):
    return True
ActiveSegment.redeem = redeem
from turnlog._pure.commit import Committer
Committer.commit = lambda self, segments, commit=Committer.commit: threading.Thread(
    target=commit, args=(self, list(segments)), daemon=True
).start()
"""

# Ends in `print("failed")` if all 16 waiters and all later calls got SyncFailed, and the failed sync was the last.
POISONED = """
committer = core.Committer(str(folder), interval_ms=60_000)
writer = open_writer(core, committer, new_segment(folder), ids=core.IdIndex())
kept = [writer.append("note", 0, None, True) for _ in range(faults["SYNC_FAIL_AT"] - 1)]
faults["SYNC_HOLD"] = faults["SYNCS"] + 1
threads, outcomes = in_threads(16, lambda index: writer.append("note", index, index.to_bytes(16, "big"), True))
wait_until(lambda: faults["SYNC_HELD"] == 1 and writer.head()["ordinal"] == len(kept) + 16)
durable = writer.head()["durable"]
faults["SYNC_HOLD"] = 0
join_all(threads)
assert [type(outcome) for outcome in outcomes] == [errors.SyncFailed] * 16, outcomes
assert {(each.errno, each.segment) for each in outcomes} == {(5, "a.seg")}
for call in (
    lambda: writer.append("note", 1, None, True),
    lambda: writer.append("note", 1, None, False),
    lambda: writer.append("note", 1, bytes(16), True),
    lambda: writer.append_many([("note", 1, None, False)], True, True),
    lambda: writer.note(5, bytes(32)),
    writer.flush,
    writer.freeze,
):
    try:
        call()
    except errors.SyncFailed as error:
        assert str(error) == str(outcomes[0])
    else:
        raise AssertionError("a poisoned writer answered")
head = writer.head()
assert head["poisoned"] and (head["durable"], head["durable_ordinal"]) == (durable, len(kept)), head
assert head["visible"] <= durable, head
committer.flush()
writer.close()
committer.close()
assert faults["SYNCS"] == faults["SYNC_FAIL_AT"], "a failed sync was retried"
assert [frame.header.ordinal for frame in frames_of(folder / "a.seg")][: len(kept)] == [each.ordinal for each in kept]
print("failed")
"""

RETRIES = """
from turnlog._pure import commit
def sync_file(fd):
    try:
        os.fdatasync(fd)
    except OSError:
        os.fdatasync(fd)
commit.medium.sync_file = sync_file
"""


def test_no_append_returns_before_its_sync_and_no_reader_sees_it(core: ModuleType, tmp_path: Path) -> None:
    assert run_child(core.IMPLEMENTATION, HELD, tmp_path) == "ordered\n"


def test_control_a_writer_that_acknowledges_before_the_sync_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="acknowledged before the sync"):
        run_child("pure", ACKNOWLEDGES_EARLY + HELD, tmp_path)


@pytest.mark.parametrize("failing", [1, 3])
def test_a_failed_sync_reaches_every_waiter_and_every_later_call(
    core: ModuleType, tmp_path: Path, failing: int
) -> None:
    words = {"SYNC_FAIL_AT": failing, "SYNC_ERRNO": EIO}
    assert run_child(core.IMPLEMENTATION, POISONED, tmp_path, words) == "failed\n"


def test_control_a_writer_that_retries_a_failed_sync_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Error"):
        run_child("pure", RETRIES + POISONED, tmp_path, {"SYNC_FAIL_AT": 3, "SYNC_ERRNO": EIO})


REOPENED = """
os.environ["TURNLOG_CORE"] = core.IMPLEMENTATION
from turnlog import Store
from turnlog.verify.verify import check_session
with Store.open(folder / "store") as store:
    session = store.create()
    kept = [session.append("note.written", {"n": n}).ordinal for n in range(3)]
    faults["SYNC_FAIL_AT"] = faults["SYNCS"] + 1
    for level in ("durable", "durable", "buffered"):
        try:
            session.append("note.written", {"n": "lost"}, durability=level)
        except errors.SyncFailed as error:
            assert error.session == session.id and error.next_commands() == [f"sessionctl verify {session.id}"]
        else:
            raise AssertionError("a poisoned session answered")
    assert [event.ordinal for event in session.events()] == [1, *kept], "an event that nobody acknowledged is shown"
    session.close()
    again = store.session(session.id)
    kept.append(again.append("note.written", {"n": "after"}).ordinal)
    found = {event.ordinal: event.payload for event in again.events()}
    assert [found[ordinal].get("n") for ordinal in kept] == [0, 1, 2, "after"]
assert check_session(str(folder / "store"), session.id, full=True).ok
print("reopened")
"""


def test_a_session_is_usable_again_once_it_is_closed_and_reopened(core: ModuleType, tmp_path: Path) -> None:
    assert run_child(core.IMPLEMENTATION, REOPENED, tmp_path, {"SYNC_ERRNO": EIO}) == "reopened\n"


def test_a_failed_background_sync_poisons_the_writer(core: ModuleType, tmp_path: Path) -> None:
    code = """
committer = core.Committer(str(folder), interval_ms=5)
writer = open_writer(core, committer, new_segment(folder))
writer.append("note", 1, None, False)
wait_until(lambda: writer.head()["poisoned"])
try:
    writer.append("note", 1, None, False)
except errors.SyncFailed:
    print(faults["SYNCS"])
"""
    assert run_child(core.IMPLEMENTATION, code, tmp_path, {"SYNC_FAIL_AT": 1, "SYNC_ERRNO": EIO}) == "1\n"


MANY_FILES = """
committer = core.Committer(str(folder), interval_ms=60_000)
writers = [open_writer(core, committer, new_segment(folder, f"{n}.seg")) for n in range(8)]
for writer in writers:
    writer.append("note", 1, None, False)
faults["SYNC_FAIL_AT"] = faults["SYNCS"] + int(os.environ.get("FAIL_NTH", "0")) if os.environ.get("FAIL_NTH") else 0
try:
    committer.flush()
except errors.SyncFailed as error:
    print(error.segment)
print(faults["SYNCFS_CALLS"], sum(writer.head()["poisoned"] for writer in writers))
print(sum(writer.head()["durable_ordinal"] == 1 for writer in writers))
"""


def test_after_a_failed_syncfs_each_file_is_asked(core: ModuleType, tmp_path: Path) -> None:
    calls, poisoned, durable = run_child(core.IMPLEMENTATION, MANY_FILES, tmp_path, {"SYNCFS_ERRNO": EIO}).split()
    if calls == "0":
        pytest.skip("syncfs is not used on this file system")
    assert (calls, poisoned, durable) == ("1", "0", "8")


def test_after_a_failed_syncfs_only_the_file_that_is_hurt_is_poisoned(
    core: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIL_NTH", "5")
    words = {"SYNCFS_ERRNO": EIO, "SYNC_ERRNO": EIO}
    hurt, calls, poisoned, durable = run_child(core.IMPLEMENTATION, MANY_FILES, tmp_path, words).split()
    assert hurt.endswith(".seg")
    assert (poisoned, durable) == ("1", "7")
    assert calls in {"0", "1"}


@pytest.mark.parametrize("ending", ["close", "seal"])
def test_a_failed_sync_at_the_end_is_reported_and_releases_the_file(
    core: ModuleType, tmp_path: Path, ending: str
) -> None:
    code = f"""
committer = core.Committer(str(folder), interval_ms=60_000)
writer = open_writer(core, committer, new_segment(folder))
writer.append("note", 1, None, True)
writer.freeze()
faults["SYNC_FAIL_FROM"] = faults["SYNCS"] + 1
try:
    writer.{ending}({"bytes(16)" if ending == "seal" else ""})
except errors.SyncFailed:
    print("told")
writer.close()
descriptors = Path("/proc/self/fd")
wait_until(lambda: not any(os.path.realpath(each).endswith(".seg") for each in descriptors.iterdir()))
"""
    assert run_child(core.IMPLEMENTATION, code, tmp_path, {"SYNC_ERRNO": EIO}) == "told\n"
