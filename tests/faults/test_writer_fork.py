"""Goal: a forked child that touches its parent's writer is refused at once and disturbs nothing, even when a lock was
held at the fork; the parent goes on. Method: os.fork in a child process, while another thread is inside a sync.
Control: without the check of the process the same child hangs on the inherited lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.preload import run_child

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

FORK = """
import gc, signal
committer = core.Committer(str(folder), interval_ms=60_000)
writer = open_writer(core, committer, new_segment(folder))
writer.append("note", 1, None, True)
faults["SYNC_HOLD"] = faults["SYNCS"] + 1
threads, outcomes = in_threads(3, lambda index: writer.append("note", index, None, True))
wait_until(lambda: faults["SYNC_HELD"] == 1 and writer.head()["ordinal"] == 4)
before = (folder / "a.seg").read_bytes().rstrip(bytes(1))  # the parent may go on writing zeros ahead
child = os.fork()
if child == 0:
    signal.alarm(20)
    calls = [
        lambda: writer.append("note", 1, None, True),
        lambda: writer.append("note", 1, None, False),
        lambda: writer.append_many([("note", 1, None, False)], True, True),
        lambda: writer.note(5, bytes(32)),
        lambda: writer.track(core.IdIndex()),
        lambda: writer.seal(bytes(16)),
        lambda: open_writer(core, committer, new_segment(folder, "b.seg")),
        writer.flush, writer.freeze, writer.close, writer.head, committer.flush, committer.close,
    ]
    refused = 0
    for call in calls:
        try:
            call()
        except errors.WrongProcess:
            refused += 1
    writer.abandon()
    del call, calls, writer, committer
    gc.collect()
    os._exit(0 if refused == 13 else 1)
_, status = os.waitpid(child, 0)
assert status == 0, f"the child ended with {status}"
assert (folder / "a.seg").read_bytes().rstrip(bytes(1)) == before
faults["SYNC_HOLD"] = 0
join_all(threads)
writer.append("note", 5, None, True)
writer.close()
committer.close()
print([frame.header.ordinal for frame in frames_of(folder / "a.seg")])
"""

NO_CHECK = """
from turnlog._pure.commit import Committer
Committer.check_process = lambda self: None
"""


def test_a_forked_child_is_refused_and_the_parent_goes_on(core: ModuleType, tmp_path: Path) -> None:
    assert run_child(core.IMPLEMENTATION, FORK, tmp_path) == "[1, 2, 3, 4, 5, 5]\n"


def test_control_a_child_that_is_not_refused_is_caught(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the child ended with"):
        run_child("pure", NO_CHECK + FORK.replace("alarm(20)", "alarm(2)"), tmp_path)
