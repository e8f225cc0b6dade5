"""Goal: an append that finds no space leaves nothing behind - no byte, ordinal, id or chain step - and the writer stays
usable; where the leftover cannot be cut, the writer is closed for good. Method: pwrite and ftruncate failed by a
preloaded library, RLIMIT_FSIZE, a small tmpfs. Control: a writer that does not cut the leftover is caught by the same
checks.
"""

from __future__ import annotations

import errno
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.faults.preload import run_child

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

# `check` compares the file with the receipts: exactly the acknowledged events, in order, with the chain of the head.
CHECK = """
from turnlog._pure.chain import chain_next
from tests.core.segments import SegmentBuilder
def check(writer, kept):
    events = [frame for frame in frames_of(folder / "a.seg") if frame.header.kind == 1]
    found = [(each.header.ordinal, each.header.event_id, each.header.digest) for each in events]
    assert found == [(each.ordinal, each.event_id, each.digest) for each in kept], (found, kept)
    assert [each.ordinal for each in kept] == list(range(1, len(kept) + 1))
    chain = SegmentBuilder().chain
    for _, each, _ in events:
        chain = chain_next(chain, each.ordinal, each.event_id, each.time_us, each.digest, each.type)
    head = writer.head()
    assert (head["ordinal"], head["chain"]) == (len(kept), chain), head
def refused(call):
    try:
        return not call()
    except errors.NoSpace as error:
        assert error.retryable and error.segment == "a.seg", error
        return True
def id_of(number):
    return number.to_bytes(16, "big")
committer = core.Committer(str(folder), interval_ms=60_000)
ids = core.IdIndex()
writer = open_writer(core, committer, new_segment(folder), ids=ids)
"""

ONE_BY_ONE = """
kept = [writer.append("note", "x" * 3000, id_of(number), number % 2 == 0) for number in (1, 2, 3)]
for durable in (True, False):
    faults["WRITE_FAIL_FROM"] = faults["WRITES"] + 1
    before = writer.head()
    def unchanged():
        return all(writer.head()[name] == before[name] for name in ("ordinal", "chain", "end", "written", "visible"))
    assert refused(lambda: writer.append("note", "lost" * 1000, id_of(9), durable))
    items = [("note", "lost" * 1000, id_of(number), False) for number in (10, 11)]
    assert refused(lambda: writer.append_many(items, durable, True))
    assert (len(ids), ids.get(id_of(9)), ids.get(id_of(10))) == (len(kept), None, None)
    assert unchanged(), (writer.head(), before)
    check(writer, kept)
    faults["WRITE_FAIL_FROM"] = 0
    kept += [writer.append("note", "y" * 2000, id_of(1000 + len(kept) + more), durable) for more in range(100)]
    check(writer, kept)
writer.close()
assert [frame.header.kind for frame in frames_of(folder / "a.seg")][-1] == 3
print("rolled back")
"""

DOES_NOT_CUT = """
os.ftruncate = lambda descriptor, length: None
"""

# A cut that is only in the page cache would let a crash bring back what was refused.
SYNCED_CUT = """
writer.append("note", 0, id_of(1), False)
assert (faults["SYNCS"], faults["TRUNCATES"]) == (0, 0)
faults["WRITE_FAIL_FROM"] = faults["WRITES"] + 1
assert refused(lambda: writer.append("note", 1, id_of(2), False))
assert (faults["SYNC_DONE"], faults["TRUNCATES"]) == (1, 1), "the cut was not synced"
faults["SYNC_FAIL_FROM"] = 2
try:
    writer.append("note", 1, id_of(2), False)
except errors.SyncFailed as error:
    print(error.errno)
"""

# A buffered append writes the bytes of 12 waiters with its own and fails: all of them are told, each once.
WAITERS = """
kept = [writer.append("note", 0, id_of(1), True)]
faults["SYNC_HOLD"] = faults["SYNCS"] + 1
first, outcomes = in_threads(1, lambda _: writer.append("note", "first", id_of(2), True))
wait_until(lambda: faults["SYNC_HELD"] == 1)
faults["WRITE_FAIL_FROM"] = faults["WRITES"] + 1
waiters, answers = in_threads(12, lambda index: writer.append("note", index, id_of(100 + index), True))
wait_until(lambda: writer.head()["ordinal"] == 14)
assert refused(lambda: writer.append("note", "buffered", id_of(3), False))
assert writer.head()["ordinal"] == 2
faults["WRITE_FAIL_FROM"] = 0
kept_late = writer.append("note", "late", id_of(4), False)
faults["SYNC_HOLD"] = 0
join_all(first + waiters)
assert [type(answer) for answer in answers] == [errors.NoSpace] * 12, answers
kept += [*outcomes, kept_late]
check(writer, kept)
assert len(ids) == 3
kept += [writer.append("note", index, id_of(100 + index), True) for index in range(12)]
check(writer, kept)
writer.close()
print("told")
"""

CANNOT_CUT = """
kept = [writer.append("note", 0, id_of(1), True)]
faults["WRITE_FAIL_FROM"] = faults["WRITES"] + 1
faults["TRUNCATE_ERRNO"] = 122
for _ in range(2):
    try:
        writer.append("note", 1, id_of(2), True)
    except errors.SyncFailed as error:
        print(error.errno)
faults["WRITE_FAIL_FROM"] = 0
assert writer.head()["poisoned"] and writer.head()["durable_ordinal"] == 1
writer.close()
"""

# More than the zeros ahead hold, so that the limit is met by appends.
LIMITED = """
import resource
kept, lost = [], 0
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
for number in range(1, 200):
    try:
        kept.append(writer.append("note", "x" * 3000, id_of(number), number % 3 > 0))
    except errors.NoSpace as error:
        lost += 1
        assert error.errno == 27
assert lost > 100 and kept, lost
check(writer, kept)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
kept += [writer.append("note", "y" * 3000, id_of(1000 + number), True) for number in range(100)]
check(writer, kept)
writer.close()
print("limited")
"""

TMPFS = """
filler = folder / "filler"
filler.write_bytes(bytes(700_000))
kept, lost = [], 0
for number in range(1, 2000):
    try:
        kept.append(writer.append("note", "x" * 3000, id_of(number), number % 3 > 0))
    except errors.NoSpace as error:
        lost += 1
        assert error.errno == 28
    if lost == 20:
        break
assert lost == 20 and kept
check(writer, kept)
filler.unlink()
kept += [writer.append("note", "y" * 3000, id_of(5000 + number), True) for number in range(100)]
check(writer, kept)
writer.close()
print("filled")
"""


@pytest.mark.parametrize("cause", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("short_bytes", [0, 130, 2000])
def test_a_refused_append_leaves_nothing_behind(core: ModuleType, tmp_path: Path, cause: int, short_bytes: int) -> None:
    words = {"WRITE_ERRNO": cause, "WRITE_SHORT": short_bytes}
    assert run_child(core.IMPLEMENTATION, CHECK + ONE_BY_ONE, tmp_path, words) == "rolled back\n"


def test_control_a_writer_that_does_not_cut_the_leftover_is_caught(tmp_path: Path) -> None:
    words = {"WRITE_ERRNO": errno.ENOSPC, "WRITE_SHORT": 2000}
    with pytest.raises(AssertionError, match="AssertionError"):
        run_child("pure", CHECK + DOES_NOT_CUT + ONE_BY_ONE, tmp_path, words)


def test_a_cut_counts_only_once_it_is_synced(core: ModuleType, tmp_path: Path) -> None:
    words = {"WRITE_ERRNO": errno.ENOSPC, "SYNC_ERRNO": errno.EIO}
    assert run_child(core.IMPLEMENTATION, CHECK + SYNCED_CUT, tmp_path, words) == f"{errno.EIO}\n"


def test_a_short_write_with_space_left_is_completed(core: ModuleType, tmp_path: Path) -> None:
    code = """
kept = [writer.append("note", "x" * 3000, id_of(1), True)]
faults["WRITE_FAIL_FROM"] = faults["WRITES"] + 1
kept += [writer.append("note", "x" * 3000, id_of(2), True)]
check(writer, kept)
print(faults["WRITES"], faults["TRUNCATES"])
"""
    assert run_child(core.IMPLEMENTATION, CHECK + code, tmp_path, {"WRITE_SHORT": 1000}) == "3 0\n"


@pytest.mark.parametrize("short_bytes", [0, 500])
def test_waiters_whose_bytes_are_rolled_back_are_told_and_their_ids_forgotten(
    core: ModuleType, tmp_path: Path, short_bytes: int
) -> None:
    words = {"WRITE_ERRNO": errno.ENOSPC, "WRITE_SHORT": short_bytes}
    assert run_child(core.IMPLEMENTATION, CHECK + WAITERS, tmp_path, words) == "told\n"


def test_a_leftover_that_cannot_be_cut_closes_the_writer(core: ModuleType, tmp_path: Path) -> None:
    words = {"WRITE_ERRNO": errno.ENOSPC, "WRITE_SHORT": 100}
    assert run_child(core.IMPLEMENTATION, CHECK + CANNOT_CUT, tmp_path, words) == "122\n122\n"


def test_a_write_error_other_than_no_space_closes_the_writer(core: ModuleType, tmp_path: Path) -> None:
    code = """
kept = [writer.append("note", 0, id_of(1), True)]
faults["WRITE_FAIL_FROM"] = faults["WRITES"] + 1
for durable in (True, False, True):
    try:
        writer.append("note", 1, id_of(2), durable)
    except errors.SyncFailed as error:
        print(error.errno)
print(faults["WRITES"], faults["SYNCS"])
"""
    assert run_child(core.IMPLEMENTATION, CHECK + code, tmp_path, {"WRITE_ERRNO": errno.EIO}) == "5\n5\n5\n2 1\n"


def test_a_close_without_space_for_its_frame_keeps_every_event(core: ModuleType, tmp_path: Path) -> None:
    code = """
kept = [writer.append("note", 0, id_of(1), False)]
faults["WRITE_FAIL_FROM"] = faults["WRITES"] + 1
writer.close()
check(writer, kept)
print([frame.header.kind for frame in frames_of(folder / "a.seg")], writer.head()["durable_ordinal"])
"""
    assert run_child(core.IMPLEMENTATION, CHECK + code, tmp_path, {"WRITE_ERRNO": errno.ENOSPC}) == "[1] 1\n"


def test_a_seal_without_space_can_be_repeated(core: ModuleType, tmp_path: Path) -> None:
    code = """
kept = [writer.append("note", 0, id_of(1), True)]
writer.freeze()
faults["WRITE_FAIL_FROM"] = faults["WRITES"] + 1
assert refused(lambda: writer.seal(bytes(16)))
check(writer, kept)
faults["WRITE_FAIL_FROM"] = 0
writer.seal(bytes(16))
print([frame.header.kind for frame in frames_of(folder / "a.seg")])
"""
    assert run_child(core.IMPLEMENTATION, CHECK + code, tmp_path, {"WRITE_ERRNO": errno.ENOSPC}) == "[1, 4]\n"


def test_a_file_size_limit_refuses_appends_until_it_is_lifted(core: ModuleType, tmp_path: Path) -> None:
    assert run_child(core.IMPLEMENTATION, CHECK + LIMITED, tmp_path) == "limited\n"


def test_a_full_file_system_refuses_appends_until_there_is_space(core: ModuleType, tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    probe = [unshare or "", "-Urm", "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if unshare is None or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs in a namespace")
    small = tmp_path / "small"
    small.mkdir()
    mounted = f"""
import subprocess
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", {str(small)!r}], check=True)
folder = Path({str(small)!r})
"""
    prefix = (unshare, "-Urm")
    assert run_child(core.IMPLEMENTATION, mounted + CHECK + TMPFS, tmp_path, prefix=prefix) == "filled\n"
