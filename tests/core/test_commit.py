"""Goal: many writers and threads share few syncs, and every answer given agrees with the file afterwards.

Method: threads on both cores, counters of the committer, files taken apart afterwards. No test looks at a clock.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from tests.core.writing import frames_of, new_segment, open_writer, wait_until
from turnlog._pure.format import KIND_EVENT
from turnlog._pure.synccost import MANY, SyncCost
from turnlog.errors import Closed, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

PAYLOAD = {"role": "assistant", "text": "x" * 1480}
THREADS = 16


@pytest.fixture
def committer(core: ModuleType, tmp_path: Path) -> Iterator[Any]:
    made = core.Committer(str(tmp_path), interval_ms=60_000)
    yield made
    made.close()


def run_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Run `work(index)` in threads that begin together; pass on the first error."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []

    def run(index: int) -> None:
        barrier.wait()
        try:
            work(index)
        except BaseException as error:  # noqa: BLE001 - raised below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def events_of(path: Path) -> list[Any]:
    return [frame.header for frame in frames_of(path) if frame.header.kind == KIND_EVENT]


def test_a_lone_writer_syncs_and_writes_once_for_each_durable_append(
    core: ModuleType, committer: Any, tmp_path: Path
) -> None:
    writer = open_writer(core, committer, new_segment(tmp_path))
    for _ in range(2000):
        writer.append("message.assistant", PAYLOAD, None, True)
    counters = committer.counters()
    assert counters["file_syncs"] == counters["write_calls"] == counters["rounds"] == 2000
    assert counters["written_bytes"] <= 1.15 * 2000 * len(core.canonical(PAYLOAD))
    writer.close()


def test_threads_on_one_writer_share_syncs_and_lose_nothing(core: ModuleType, committer: Any, tmp_path: Path) -> None:
    path = new_segment(tmp_path)
    writer = open_writer(core, committer, path)
    ordinals: list[list[int]] = [[] for _ in range(THREADS)]

    def work(index: int) -> None:
        for number in range(60):
            durable = (number + index) % 3 > 0
            receipt = writer.append("note", [index, number], None, durable)
            ordinals[index].append(receipt.ordinal)
            head = writer.head()
            assert (head["durable_ordinal"] if durable else head["ordinal"]) >= receipt.ordinal

    run_threads(work)
    writer.close()
    assert sorted(chain.from_iterable(ordinals)) == list(range(1, THREADS * 60 + 1))
    assert all(each == sorted(each) for each in ordinals)
    payloads = [frame.payload for frame in frames_of(path) if frame.header.kind == KIND_EVENT]
    for index, each in enumerate(ordinals):
        assert [payloads[ordinal - 1] for ordinal in each] == [f"[{index},{number}]".encode() for number in range(60)]
    assert committer.counters()["file_syncs"] < THREADS * 60


@pytest.mark.parametrize("syncfs", [True, False])
def test_writers_of_one_committer_share_rounds(core: ModuleType, tmp_path: Path, syncfs: bool) -> None:
    committer = core.Committer(str(tmp_path), interval_ms=60_000, syncfs=syncfs)
    writers = [open_writer(core, committer, new_segment(tmp_path, f"{n}.seg")) for n in range(THREADS)]

    def work(index: int) -> None:
        for number in range(40):
            receipt = writers[index].append("note", number, None, True)
            assert writers[index].head()["durable_ordinal"] == receipt.ordinal == number + 1

    run_threads(work)
    counters = committer.counters()
    assert counters["rounds"] < THREADS * 40
    assert syncfs or counters["syncfs_calls"] == 0
    assert syncfs or counters["file_syncs"] == THREADS * 40
    for index, writer in enumerate(writers):
        writer.close()
        assert len(events_of(tmp_path / f"{index}.seg")) == 40
    committer.close()


def test_buffered_bytes_are_synced_after_the_interval(core: ModuleType, tmp_path: Path) -> None:
    committer = core.Committer(str(tmp_path), interval_ms=5)
    writer = open_writer(core, committer, new_segment(tmp_path))
    for number in range(1, 4):
        writer.append("note", number, None, False)
        wait_until(lambda number=number: writer.head()["durable_ordinal"] == number)  # type: ignore[misc]
    writer.close()
    committer.close()


def test_a_committers_flush_syncs_all_writers(core: ModuleType, committer: Any, tmp_path: Path) -> None:
    writers = [open_writer(core, committer, new_segment(tmp_path, f"{n}.seg")) for n in range(6)]
    for writer in writers:
        writer.append("note", 1, None, False)
    assert [writer.head()["durable_ordinal"] for writer in writers] == [0] * 6
    committer.flush()
    assert [writer.head()["durable_ordinal"] for writer in writers] == [1] * 6
    for writer in writers:
        writer.close()


def test_one_id_appended_by_many_threads_is_stored_once(core: ModuleType, committer: Any, tmp_path: Path) -> None:
    path = new_segment(tmp_path)
    writer = open_writer(core, committer, path, ids=core.IdIndex())
    answers: list[list[Any]] = [[] for _ in range(THREADS)]

    def work(index: int) -> None:
        for number in range(1, 30):
            answer = writer.append("note", number, number.to_bytes(16, "big"), index % 2 == 0)
            answers[index].append(answer)
            if index % 2 == 0:
                ordinal = answer if isinstance(answer, int) else answer.ordinal
                assert writer.head()["durable_ordinal"] >= ordinal

    run_threads(work)
    writer.close()
    assert len(events_of(path)) == 29
    for row in zip(*answers, strict=True):
        receipts = [answer for answer in row if not isinstance(answer, int)]
        assert len(receipts) == 1
        assert {answer for answer in row if isinstance(answer, int)} == {receipts[0].ordinal}


@pytest.mark.parametrize("ending", ["close", "freeze"])
def test_an_ending_that_races_appends_keeps_what_was_acknowledged(
    core: ModuleType, committer: Any, tmp_path: Path, ending: str
) -> None:
    for turn in range(10):
        path = new_segment(tmp_path, f"{turn}.seg")
        writer = open_writer(core, committer, path)
        kept: list[list[int]] = [[] for _ in range(THREADS)]

        def work(index: int, writer: Any = writer, kept: list[list[int]] = kept) -> None:
            if index == 0:
                wait_until(lambda: writer.head()["ordinal"] > 20)
                getattr(writer, ending)()
                return
            while True:
                try:
                    receipt = writer.append("note", index, None, index % 2 == 0)
                except Closed:
                    return
                if receipt is None:
                    return
                kept[index].append(receipt.ordinal)

        run_threads(work)
        if ending == "freeze":
            head = writer.freeze()
            assert head["durable"] == head["end"]
            writer.seal(bytes(16))
        assert [header.ordinal for header in events_of(path)] == sorted(chain.from_iterable(kept))


def test_abandon_while_others_append_writes_to_no_other_file(core: ModuleType, committer: Any, tmp_path: Path) -> None:
    for turn in range(20):
        path, bystander = new_segment(tmp_path, f"{turn}.seg"), tmp_path / f"{turn}.other"
        writer = open_writer(core, committer, path)
        bystanders: list[BinaryIO] = []

        def work(
            index: int, writer: Any = writer, bystander: Path = bystander, bystanders: list[BinaryIO] = bystanders
        ) -> None:
            if index == 0:
                wait_until(lambda: writer.head()["ordinal"] > 10)
                writer.abandon()
                bystanders.append(bystander.open("w+b"))  # takes the number of the descriptor that was released
                return
            while True:
                try:
                    writer.append("note", index, None, index % 2 == 0)
                except Closed:
                    return

        run_threads(work, 4)
        bystanders[0].close()
        assert bystander.read_bytes() == b""
        assert len(events_of(path)) > 10
        assert not writer.head()["poisoned"]


def test_atomic_groups_of_many_threads_stay_together(core: ModuleType, committer: Any, tmp_path: Path) -> None:
    path = new_segment(tmp_path)
    writer = open_writer(core, committer, path)

    def work(index: int) -> None:
        for _ in range(20):
            writer.append_many([("note", index, None, False)] * 3, index % 2 == 0, True)

    run_threads(work)
    writer.close()
    payloads = [frame.payload for frame in frames_of(path) if frame.header.kind == KIND_EVENT]
    assert all(len(set(payloads[at : at + 3])) == 1 for at in range(0, len(payloads), 3))
    assert [header.flags & 1 for header in events_of(path)] == [0, 0, 1] * (THREADS * 20)


def test_dropped_writers_and_committers_leave_no_descriptor_and_no_thread(core: ModuleType, tmp_path: Path) -> None:
    descriptors, tasks = Path("/proc/self/fd"), Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("needs /proc")

    def opened() -> int:
        return sum(os.path.realpath(each).startswith(str(tmp_path)) for each in descriptors.iterdir())

    def threads() -> int:
        return len(list(tasks.iterdir()))

    gc.collect()
    before = threads()
    committer = core.Committer(str(tmp_path))
    writer = open_writer(core, committer, new_segment(tmp_path))
    writer.append("note", 1, None, False)
    assert threads() == before + 1
    del writer, committer
    gc.collect()
    wait_until(lambda: opened() == 0 and threads() == before)


def test_close_ends_the_thread_and_is_idempotent(core: ModuleType, tmp_path: Path) -> None:
    committer = core.Committer(str(tmp_path))
    writer = open_writer(core, committer, new_segment(tmp_path))
    committer.close()
    committer.close()
    assert writer.append("note", 1, None, True).ordinal == 1
    writer.close()


def test_a_committer_needs_a_directory(core: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        core.Committer(str(tmp_path / "none"))
    assert caught.value.errno == 2


def test_a_process_ends_although_nothing_was_closed(core: ModuleType, tmp_path: Path) -> None:
    code = (
        "import sys; from importlib import import_module; from pathlib import Path;"
        "from tests.core.writing import new_segment, open_writer;"
        "core = import_module(sys.argv[1]); folder = Path(sys.argv[2]);"
        "writer = open_writer(core, core.Committer(str(folder)), new_segment(folder));"
        "writer.append('note', 1, None, True); writer.append('note', 2, None, False)"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "python"), str(root)])}
    command = [sys.executable, "-c", code, core.__name__, str(tmp_path)]
    subprocess.run(command, env=environment, check=True, timeout=60)
    assert [header.ordinal for header in events_of(tmp_path / "a.seg")] == [1, 2]


def test_few_files_are_synced_one_by_one() -> None:
    assert not SyncCost().prefers_syncfs(MANY - 1)
    assert SyncCost().prefers_syncfs(MANY)


def test_a_slow_syncfs_is_left_alone_and_tried_again_ever_more_seldom() -> None:
    cost = SyncCost()
    probes = []
    for number in range(2000):
        if cost.prefers_syncfs(10):
            probes.append(number)
            cost.saw_syncfs(100_000_000, 10)
    assert probes == [0, 1, 129, 385, 897, 1921]


def test_a_syncfs_that_became_fast_is_used_from_then_on() -> None:
    cost = SyncCost()
    cost.saw_syncfs(100_000_000, 10)
    cost.saw_syncfs(100_000, 10)
    assert all(cost.prefers_syncfs(10) for _ in range(100))
