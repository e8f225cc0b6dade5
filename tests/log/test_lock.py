"""One writer per session: the lock across descriptors, processes, forks, and a file that is replaced or cannot be
written.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from turnlog.errors import Locked, ReadOnly, WrongProcess
from turnlog.log import lock
from turnlog.log.lock import SessionLock, holder, is_locked

if TYPE_CHECKING:
    from pathlib import Path


def test_a_second_hold_is_refused_and_told_who_holds(tmp_path: Path) -> None:
    first = SessionLock(str(tmp_path))
    with pytest.raises(Locked, match=f"pid {os.getpid()} on "):
        SessionLock(str(tmp_path))
    assert is_locked(str(tmp_path))
    first.release()
    assert not is_locked(str(tmp_path))
    SessionLock(str(tmp_path)).release()


def test_asking_creates_nothing_and_hinders_nobody(tmp_path: Path) -> None:
    assert is_locked(str(tmp_path)) is False
    assert holder(str(tmp_path)) == ""
    assert os.listdir(tmp_path) == []
    SessionLock(str(tmp_path)).release()
    assert is_locked(str(tmp_path)) is False
    assert holder(str(tmp_path)).startswith(f"pid {os.getpid()} on ")


def test_releasing_twice_is_harmless(tmp_path: Path) -> None:
    held = SessionLock(str(tmp_path))
    held.release()
    held.release()
    again = SessionLock(str(tmp_path))
    held.release()
    assert is_locked(str(tmp_path)), "a late release must not free the next holder's lock"
    again.release()


def test_the_death_of_the_holder_frees_the_lock(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\nfrom turnlog.log.lock import SessionLock\n"
        "held = SessionLock(sys.argv[1])\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode < 0
    SessionLock(str(tmp_path)).release()


@pytest.mark.parametrize("replace", [False, True])
def test_a_lock_file_that_was_taken_away_is_not_held_any_more(tmp_path: Path, *, replace: bool) -> None:
    held = SessionLock(str(tmp_path))
    held.check()
    (tmp_path / "LOCK").unlink()
    if replace:
        (tmp_path / "LOCK").touch()
    with pytest.raises(Locked, match="deleted or replaced"):
        held.check()
    held.release()


def test_a_forked_child_is_refused_and_does_not_free_the_lock(tmp_path: Path) -> None:
    held = SessionLock(str(tmp_path))
    child = os.fork()
    if child == 0:
        try:
            held.check()
        except WrongProcess:
            held.release()
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert is_locked(str(tmp_path))
    held.check()
    held.release()


def test_a_full_disk_keeps_nobody_from_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(lock, "_describe", full)
    held = SessionLock(str(tmp_path))
    assert is_locked(str(tmp_path))
    held.release()
    assert not is_locked(str(tmp_path))


def test_an_interrupted_hold_leaves_no_lock_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lock, "_describe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SessionLock(str(tmp_path))
    assert not is_locked(str(tmp_path))


def test_a_folder_that_cannot_be_written_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ReadOnly):
        SessionLock(str(tmp_path))
