"""KeyboardInterrupt between any two lines of the pure core: nothing acknowledged is lost, nothing hangs.

A tracer raises at the n-th line that the core runs during one operation, for every n until the operation ends unhurt.
Afterwards the writer goes on or says that it is closed, and the log holds every acknowledged event exactly once. The
native core runs no Python lines: a signal cannot come between two of its steps.
"""

from __future__ import annotations

import itertools
import sys
import threading
from linecache import getline
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store, SyncFailed, _pure
from turnlog._core import IMPLEMENTATION
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnlog import Session

pytestmark = pytest.mark.skipif(IMPLEMENTATION != "pure", reason="only the pure core runs Python lines")

CORE = str(Path(_pure.__file__).parent)
OPERATIONS: dict[str, Callable[[Session], object]] = {
    "buffered": lambda session: session.append("acme.hit", {"n": 1}, durability="buffered"),
    "durable": lambda session: session.append("acme.hit", {"n": 1}),
    "many": lambda session: session.append_many([("acme.hit", {"n": 1}), ("acme.hit", {"n": 2})], atomic=True),
    "flush": lambda session: session.flush(),
}


UNHURT = ("with ", "try:")
"""Lines that are traced where the interpreter itself never raises a signal: as a lock is being released, and outside
the reach of the `with` around a `try`."""


class Interrupt:
    """Raises KeyboardInterrupt before the given line that the core runs in this thread, once."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: Any, event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(CORE):
            return None
        if event == "line" and not getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith(UNHURT):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupted(operation: Callable[[Session], object], session: Session, at: int) -> bool:
    """Run the operation and hit it; return whether it was hit."""
    tracer = Interrupt(at)
    sys.settrace(tracer)
    try:
        operation(session)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    assert tracer.left > 0, "an interrupt was swallowed"
    return False


def within_seconds(seconds: float, work: Callable[[], object]) -> None:
    """Run the work in a thread; fail if it does not come back."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "an append hangs after an interrupt"


def append_after(session: Session, acknowledged: list[str]) -> None:
    """Append one durable event after the interrupt; a writer that says it is closed is right, too."""
    try:
        acknowledged.append(session.append("acme.after", {}).id)
    except SyncFailed as error:
        assert "interrupt" in error.message.lower()  # noqa: PT017 - one of two right answers


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_at_any_line_loses_and_doubles_nothing(name: str, tmp_path: Path) -> None:
    ended, made = 0, list[str]()
    with Store.open(tmp_path / "store") as store:
        for at in itertools.count(1):
            session = store.create()
            made.append(session.id)
            acknowledged = [session.append("acme.before", {}, durability="buffered").id for _ in range(2)]
            hit = interrupted(OPERATIONS[name], session, at)
            within_seconds(20, lambda: append_after(session, acknowledged))  # noqa: B023 - it runs in this round
            ended += len(acknowledged) == 2
            session.close()
            held = [event.id for event in store.session(session.id).events()]
            assert [held.count(id) for id in acknowledged] == [1] * len(acknowledged)
            assert len(held) == len(set(held))
            if not hit:
                break
        assert at > 20
        assert all(check_session(store.path, id, full=True).ok for id in made)
    assert ended < at  # the writer goes on after most of them


def test_control_bytes_written_twice_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnlog._pure.active.ActiveSegment.interrupted", lambda *_: None)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - damage, a lost event or a hang, by the line that was hit
        test_an_interrupt_at_any_line_loses_and_doubles_nothing("buffered", tmp_path)
