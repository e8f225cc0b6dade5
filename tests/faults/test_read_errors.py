"""A medium that fails to read: named as such, never taken for an end, and the bytes around it are served.

The reference core meets a patched `os.pread`; the native one meets strace, which makes the n-th `pread64` fail.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.segments import SegmentBuilder
from turnlog import _pure
from turnlog._pure.format import FLAG_COMMIT, HEADER_BYTES
from turnlog.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

PAGE_BYTES = 4096
RAW = FLAG_COMMIT | 2


def segment(path: Path) -> tuple[str, SegmentBuilder]:
    """Write a segment of some pages."""
    builder = SegmentBuilder()
    for _ in range(20):
        builder.event(b"x" * 3000, flags=RAW)
    builder.sync_mark()
    file = path / "a.seg"
    file.write_bytes(builder.data)
    return str(file), builder


def fail_at(monkeypatch: pytest.MonkeyPatch, low: int, high: int) -> None:
    """Let every read that touches the range fail."""
    pread = os.pread

    def failing(fd: int, length: int, offset: int) -> bytes:
        if offset < high and offset + length > low:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", failing)


def test_an_unreadable_page_is_a_fault_and_the_rest_is_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, builder = segment(tmp_path)
    low, high = 5 * PAGE_BYTES, 6 * PAGE_BYTES
    with _pure.SegmentReader(file) as reader:
        fail_at(monkeypatch, low, high)
        facts = reader.scan()
        ends = [*builder.starts[1:], builder.end]
        hit = [n + 1 for n, (a, b) in enumerate(zip(builder.starts, ends, strict=True)) if a < high and b > low]
        assert {fault["code"] for fault in facts["faults"]} == {"io"}
        assert not any(fault["signature"] for fault in facts["faults"])
        assert facts["events"] == 20 - len(hit)
        assert facts["durable_mark"] == builder.starts[-1]
        with pytest.raises(StorageError) as caught:
            reader.read(low, 1)
        assert (caught.value.errno, caught.value.offset) == (errno.EIO, low)
        events, offset, ordinal, _, _, fault = reader.replay(HEADER_BYTES, 1)
        assert ([event.ordinal for event in events], fault) == (list(range(1, hit[0])), None)
        with pytest.raises(StorageError) as caught:
            reader.replay(offset, ordinal)
        assert (caught.value.errno, caught.value.offset) == (errno.EIO, low)


def test_an_unreadable_tail_is_not_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, builder = segment(tmp_path)
    with open(file, "ab") as tail:
        tail.write(bytes(3 * PAGE_BYTES))
    with _pure.SegmentReader(file) as reader:
        fail_at(monkeypatch, builder.end // PAGE_BYTES * PAGE_BYTES + PAGE_BYTES, 2**60)
        assert [fault["code"] for fault in reader.scan()["faults"]] == ["io"]


CHILD = """
import json, sys
from turnlog import _native
with _native.SegmentReader(sys.argv[1]) as reader:
    facts = reader.scan()
    print(json.dumps({"faults": facts["faults"], "events": facts["events"]}))
"""


def under_strace(inject: str, file: str) -> subprocess.CompletedProcess[str]:
    """Run a native scan while strace makes reads fail."""
    command = ["strace", "-f", "-qq", "-o", os.devnull, "-P", file, "-e", "trace=pread64", "-e", inject]
    return subprocess.run(
        [*command, sys.executable, "-c", CHILD, file],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )


def native_scan(inject: str, file: str) -> dict[str, Any]:
    """Return what a native scan says; skip where reads cannot be made to fail."""
    done = under_strace(inject, file)
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
@pytest.mark.usefixtures("native")
def test_a_failed_read_is_read_again_page_by_page(tmp_path: Path) -> None:
    file, builder = segment(tmp_path)
    counts = [native_scan(f"inject=pread64:error=EIO:when={first}+", file) for first in (3, 4, 5)]
    for facts in counts:
        assert {fault["code"] for fault in facts["faults"]} == {"io"}
        assert facts["events"] < 20
    once = native_scan("inject=pread64:error=EIO:when=5", file)
    assert (once["faults"], once["events"]) == ([], 20)
    assert builder.events == 20


@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
@pytest.mark.usefixtures("native")
def test_a_refused_read_is_a_storage_error(tmp_path: Path) -> None:
    file, _ = segment(tmp_path)
    done = under_strace("inject=pread64:error=EACCES:when=1+", file)
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert "turnlog.errors.StorageError: cannot read" in done.stderr
