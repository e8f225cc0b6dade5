"""Goal: a full disk loses nothing and hangs nothing; with space again the session goes on. Method: RLIMIT_FSIZE in a
child (writes
beyond the limit fail with EFBIG), and a small tmpfs in a namespace of its own (ENOSPC).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from turnlog import Store
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from pathlib import Path

LIMITED = """
import resource, sys
from turnlog import NoSpace, Store
path, level = sys.argv[1:3]
with Store.open(path, roll_bytes=int(sys.argv[3])) as store:
    session = store.create()
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    kept, refused = [1], 0
    for number in range(400):
        try:
            kept.append(session.append("note.written", {"number": number, "text": "x" * 1500},
            durability=level).ordinal)
        except NoSpace as error:
            assert error.retryable
            refused += 1
    assert refused > 0 or int(sys.argv[3]) < 300_000, refused
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for number in range(100):
        kept.append(session.append("note.written", {"number": number, "text": "y" * 1500}, durability=level).ordinal)
    assert kept == [event.ordinal for event in session.events()] == list(range(1, len(kept) + 1))
    print(session.id)
"""

TMPFS = """
import os, sys
from turnlog import NoSpace, Store, StorageError
path = sys.argv[1]
filler = path + "/filler"
with open(filler, "wb") as file:
    file.write(bytes(600_000))
with Store.open(path + "/store", roll_bytes=200_000) as store:
    session = store.create()
    kept, refused = [1], 0
    for number in range(4000):
        try:
            kept.append(session.append("note.written", {"number": number, "text": "x" * 1500}).ordinal)
        except NoSpace:
            refused += 1
            if refused == 5:
                break
    assert refused == 5
    os.unlink(filler)
    for number in range(100):
        kept.append(session.append("note.written", {"number": number}).ordinal)
    assert kept == [event.ordinal for event in session.events()] == list(range(1, len(kept) + 1))
    print(session.id)
"""


@pytest.mark.parametrize("level", ["durable", "buffered"])
@pytest.mark.parametrize("roll_bytes", [64 * 1024 * 1024, 100_000])
def test_a_size_limit_refuses_what_does_not_fit_and_keeps_the_rest(tmp_path: Path, level: str, roll_bytes: int) -> None:
    path = tmp_path / "store"
    command = [sys.executable, "-c", LIMITED, str(path), level, str(roll_bytes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check = check_session(str(path), done.stdout.strip())
    assert check.ok, check.findings
    with Store.open(path, read_only=True) as store:
        assert store.list()[0][0]["events"] == check.events


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="mounting a small tmpfs needs root and unshare"
)
def test_a_full_file_system_refuses_then_goes_on(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    (tmp_path / "job.py").write_text(TMPFS, encoding="utf-8")
    shell = (
        f"mount -t tmpfs -o size=2m none {mount} && {sys.executable} {tmp_path}/job.py {mount}"
        f" && cp -r {mount}/store {tmp_path}/copy"
    )
    done = subprocess.run(["unshare", "-m", "sh", "-c", shell], capture_output=True, text=True, check=False)
    if "permission denied" in done.stderr.lower() or "not permitted" in done.stderr.lower():
        pytest.skip("this machine forbids mounting")
    assert done.returncode == 0, done.stderr
    check = check_session(str(tmp_path / "copy"), done.stdout.strip())
    assert check.ok, check.findings
