"""Memory is bounded: what works on a session of 1 GiB stays below 256 MiB. Measured as the peak RSS of a fresh
process."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from benches.workload import Rollout
from turnlog import IMPLEMENTATION, Store

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1024**3
LIMIT_KIB = 256 * 1024
LINE = (
    b'{"type":"user","uuid":"%032x","timestamp":"2026-03-01T10:00:00.000Z","message":{"role":"user","content":"%s"}}\n'
)
WORK = {
    "verify": "from turnlog.verify.verify import check_session\nassert check_session(path, session_id).ok",
    "verify --full": (
        "from turnlog.verify.verify import check_session\nassert check_session(path, session_id, full=True).ok"
    ),
    "rebuild-index": "from turnlog import Store\nwith Store.open(path) as store:\n    store.index().rebuild()",
    "replay": (
        "from turnlog import Store\nwith Store.open(path, read_only=True) as store:\n"
        "    assert sum(len(event.payload['text']) for event in store.session(session_id).events(after=1)) > 2**29"
    ),
    "replay in reverse": (
        "from turnlog import Store\nwith Store.open(path, read_only=True) as store:\n"
        "    assert sum(1 for _ in store.session(session_id).events(reverse=True)) > 2**17"
    ),
    "compact": (
        "from turnlog.compact.compact import compact_session\n"
        "assert compact_session(path, session_id)['compacted'] > 10"
    ),
}
REPORT = """
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM")))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(IMPLEMENTATION == "pure", reason="the bound is the native core's; the pure core takes minutes"),
]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Make a store with one session of 1 GiB."""
    path = tmp_path_factory.mktemp("big") / "store"
    text = os.urandom(3000).hex()
    with Store.open(path) as store:
        session = store.create(durability="buffered")
        for start in range(0, GIB // 6000, 500):
            batch = [("note.written", {"number": start + number, "text": text}) for number in range(500)]
            session.append_many(batch, durability="buffered")
        return path, session.id


def peak_kib(code: str, path: Path, session_id: str) -> int:
    """Run `code` in a fresh interpreter and return its peak RSS.

    The kernel's VmHWM begins anew with the program; what wait4 tells of a child begins with the size of its parent.
    """
    script = f"import sys\npath, session_id = sys.argv[1:]\n{code}\n{REPORT}"
    command = [sys.executable, "-c", script, str(path), session_id]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("work", list(WORK))
def test_work_on_a_session_of_a_gibibyte_stays_below_the_bound(big: tuple[Path, str], work: str) -> None:
    assert peak_kib(WORK[work], *big) <= LIMIT_KIB


def test_importing_a_file_of_a_gibibyte_stays_below_the_bound(tmp_path: Path) -> None:
    source = tmp_path / "0192f0c4-7a1b-7c3d-8e4f-0123456789ab.jsonl"
    text = os.urandom(3000).hex().encode()
    with source.open("wb") as file:
        for number in range(GIB // 6100):
            file.write(LINE % (number, text))
    code = (
        "from turnlog.cli import main\nimport sys\n"
        "sys.argv = ['sessionctl', '--store', path, 'import', 'claude', session_id]\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert not done.code, done.code"
    )
    assert peak_kib(code, tmp_path / "store", str(source)) <= LIMIT_KIB


TURNS = 300_000
GROWTH_KIB = 24 * 1024  # kept handles of so many events would take more, and a resume keeps none
RESUME = """
from turnlog import Store
from turnlog.resume.resume import preview
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
with Store.open(path, read_only=True) as store:
    before = peak()
    session, report, state = preview(store, session_id)
    kept = list(session.events()) if {keeping} else []
    print(peak() - before)
assert report.snapshot_ordinal == 0 and report.events > 300_000
"""


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Make a store with one session of many turns."""
    path = tmp_path_factory.mktemp("turns") / "store"
    with Store.open(path) as store:
        session = store.create(durability="buffered")
        events = Rollout().turns(TURNS)
        while piece := list(islice(events, 1000)):
            session.append_many(piece, durability="buffered")
        return path, session.id


def growth_kib(keeping: bool, path: Path, session_id: str) -> int:
    script = f"import sys\npath, session_id = sys.argv[1:]\n{RESUME.format(keeping=keeping)}"
    command = [sys.executable, "-c", script, str(path), session_id]
    return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def test_a_resume_without_a_snapshot_does_not_grow_with_the_history(turns: tuple[Path, str]) -> None:
    assert growth_kib(False, *turns) <= GROWTH_KIB
    assert growth_kib(True, *turns) > GROWTH_KIB  # the measurement sees what grows with it


def test_the_measurement_sees_a_process_that_takes_more(big: tuple[Path, str]) -> None:
    assert peak_kib("kept = b'x' * 2**29", *big) > LIMIT_KIB
