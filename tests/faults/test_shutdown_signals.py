"""Goal: a process that is told to end, or just ends, closes its stores in order and in time. Method: children that
append, hang or forget to close; the parent signals them, then looks at exit status, log and lock. Control: without
`close_on_signals` the same signal leaves no orderly end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store
from turnlog.log.lock import is_locked
from turnlog.log.segments import list_segments
from turnlog.log.survey import examine
from turnlog.names import session_dir
from turnlog.signals import _is_inside
from turnlog.verify.verify import check_session

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = """
import os, signal, subprocess, sys, threading, time
from turnlog import Store
store = Store.open(sys.argv[1])
session = store.create(id="019b76da-a800-7000-8000-000000000001")
"""
APPENDS = """
number = 0
os.write(1, b"ready\\n")
while True:
    receipt = session.append("note.written", {"number": number}, durability=LEVEL)
    os.write(1, b"%d\\n" % receipt.ordinal)
    number += 1
"""
ID = "019b76da-a800-7000-8000-000000000001"


def run(path: Path, code: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", BEGIN + code, str(path)]
    # unbuffered: `communicate` reads past what a buffer has taken in already
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    return child


def ended_in_order(path: Path) -> bool:
    newest = list_segments(session_dir(str(path), ID))[-1]
    scan = examine(newest, ID, witness=None).scan
    return bool(scan["closed"]) and scan["valid_end"] == scan["size"]


def end(child: subprocess.Popen[bytes], signum: int) -> tuple[int, list[bytes], bytes]:
    """Signal a child and wait; return its status, the lines that it had written, its errors."""
    os.kill(child.pid, signum)
    out, errors = child.communicate(timeout=60)
    return child.returncode, out.splitlines(), errors


@pytest.mark.parametrize("level", ["durable", "buffered"])
@pytest.mark.parametrize("after", [0, 50])
def test_a_signal_during_appends_ends_the_process_by_it_and_the_log_in_order(
    tmp_path: Path, level: str, after: int
) -> None:
    child = run(tmp_path, "store.close_on_signals()\n" + APPENDS.replace("LEVEL", repr(level)))
    assert child.stdout is not None
    for _ in range(after):
        child.stdout.readline()
    status, lines, errors = end(child, signal.SIGTERM)
    assert (status, errors) == (-signal.SIGTERM, b"")
    acknowledged = int(lines[-1]) if lines else after + 1
    check = check_session(str(tmp_path), ID)
    assert check.ok, check.findings
    assert ended_in_order(tmp_path)
    assert not is_locked(session_dir(str(tmp_path), ID))
    with Store.open(tmp_path) as store:
        ordinals = [event.ordinal for event in store.session(ID).events()]
        assert acknowledged <= ordinals[-1] <= acknowledged + 1
        assert os.listdir(tmp_path / "live") == []


def test_without_it_the_signal_leaves_no_orderly_end(tmp_path: Path) -> None:
    child = run(tmp_path, APPENDS.replace("LEVEL", "'durable'"))
    assert end(child, signal.SIGTERM)[0] == -signal.SIGTERM
    assert not ended_in_order(tmp_path)


def test_a_signal_while_threads_append_and_a_tool_runs_ends_in_order(tmp_path: Path) -> None:
    code = """
store.close_on_signals()
def work():
    other = store.create()
    with other.turn("work") as turn:
        for number in range(100000):
            turn.tool_call("count", {"n": number}, effect="none").run(lambda n: n)
for _ in range(3):
    threading.Thread(target=work).start()
def tool():
    os.write(1, b"ready\\n")
    time.sleep(600)
session.turn("goal").tool_call("wait").run(tool)
"""
    child = run(tmp_path, code)
    status, _, _errors = end(child, signal.SIGTERM)
    assert status == -signal.SIGTERM
    assert ended_in_order(tmp_path)
    with Store.open(tmp_path) as store:
        for session_id in store.session_ids():
            assert check_session(str(tmp_path), session_id).ok
        with store.resume(ID) as session:
            assert session.recovery is not None
            assert len(session.recovery.unknown) == 1


def test_a_child_that_ignores_the_request_is_killed_in_time(tmp_path: Path) -> None:
    code = """
store.close_on_signals(deadline_ms=400)
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
child = session.children.add(subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE))
child.stdout.readline()
os.write(1, b"ready\\n%d\\n" % child.pid)
time.sleep(600)
"""
    child = run(tmp_path, code)
    assert child.stdout is not None
    grandchild = int(child.stdout.readline())
    began = time.monotonic()
    assert end(child, signal.SIGTERM)[0] == -signal.SIGTERM
    assert time.monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, 0)
    assert ended_in_order(tmp_path)


def test_a_handler_that_was_there_is_called_after_the_close(tmp_path: Path) -> None:
    code = """
def handler(signum, frame):
    os.write(1, b"handler\\n")
    assert not os.listdir(os.path.join(sys.argv[1], "live"))
    sys.exit(7)
signal.signal(signal.SIGTERM, handler)
with store.close_on_signals(signal.SIGTERM):
    pass
assert signal.getsignal(signal.SIGTERM) is handler
store.close_on_signals(signal.SIGTERM)
os.write(1, b"ready\\n")
time.sleep(600)
"""
    status, lines, errors = end(run(tmp_path, code), signal.SIGTERM)
    assert (status, lines, errors) == (7, [b"handler"], b"")
    assert ended_in_order(tmp_path)


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise RuntimeError('as it happens')"])
def test_a_store_that_nobody_closed_is_closed_when_the_interpreter_exits(tmp_path: Path, ending: str) -> None:
    code = """
os.write(1, b"ready\\n")
turn = session.turn("goal")
session.append("note.written", {}, durability="buffered")
"""
    child = run(tmp_path, code + ending)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == {"": 0, "sys.exit(3)": 3}.get(ending, 1)
    assert (b"as it happens" in errors) == (child.returncode == 1)
    assert ended_in_order(tmp_path)
    assert os.listdir(tmp_path / "live") == []


def test_a_daemon_thread_with_a_turn_does_not_hold_the_exit(tmp_path: Path) -> None:
    code = """
import turnlog.shutdown
turnlog.shutdown.DEADLINE_MS = 300
begun = threading.Event()
def work():
    with session.turn("goal"):
        begun.set()
        time.sleep(600)
threading.Thread(target=work, daemon=True).start()
begun.wait()
os.write(1, b"ready\\n")
"""
    child = run(tmp_path, code)
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert ended_in_order(tmp_path)


def test_a_forked_process_that_exits_closes_nothing_of_its_parent(tmp_path: Path) -> None:
    code = """
store.close_on_signals()
pid = os.fork()
if pid == 0:
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
session.append("note.written", {})
pid = os.fork()
if pid == 0:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
assert os.waitpid(pid, 0)[1] == signal.SIGTERM
session.append("note.written", {})
os.write(1, b"ready\\n")
time.sleep(600)
"""
    child = run(tmp_path, code)
    assert end(child, signal.SIGTERM)[0] == -signal.SIGTERM
    with Store.open(tmp_path) as store:
        assert len(list(store.session(ID).events())) == 3


def turn_events(path: Path) -> list[tuple[str, str | None]]:
    """Return the turn events of the log with their reasons."""
    with Store.open(path, read_only=True) as store:
        events = [event for event in store.session(ID).events() if event.type.startswith("turn.")]
        return [(event.type, event.payload.get("reason")) for event in events]


BLOCKS = """
try:
    with store, store.close_on_signals(deadline_ms=2000), session:
        with session.turn("goal") as turn:
            os.write(1, b"ready\\n")
            WORK
finally:
    os.write(1, b"cleaned up\\n")
"""


def test_a_turn_of_the_main_thread_is_interrupted_and_its_blocks_are_left_before_the_signal_ends_the_process(
    tmp_path: Path,
) -> None:
    child = run(tmp_path, BLOCKS.replace("WORK", "time.sleep(600)"))
    assert end(child, signal.SIGTERM) == (-signal.SIGTERM, [b"cleaned up"], b"")
    assert turn_events(tmp_path) == [("turn.started", None), ("turn.aborted", "interrupted by SIGTERM")]
    assert ended_in_order(tmp_path)
    assert os.listdir(tmp_path / "live") == []


def test_a_turn_of_the_main_thread_that_looks_at_its_flag_ends_as_it_likes(tmp_path: Path) -> None:
    code = "turn.cancelled.wait(); turn.abort('tidied up'); time.sleep(600)"
    status, _, errors = end(run(tmp_path, BLOCKS.replace("WORK", code)), signal.SIGTERM)
    assert (status, errors) == (-signal.SIGTERM, b"")
    assert turn_events(tmp_path) == [("turn.started", None), ("turn.aborted", "tidied up")]
    assert ended_in_order(tmp_path)


def test_a_tool_of_the_main_thread_is_interrupted_and_its_outcome_is_unknown(tmp_path: Path) -> None:
    blocks = BLOCKS.replace('os.write(1, b"ready\\n")', "pass")
    code = "turn.tool_call('wait', call_id='c1').run(lambda: (os.write(1, b'ready\\n'), time.sleep(600)))"
    child = run(tmp_path, blocks.replace("WORK", code))
    assert end(child, signal.SIGTERM) == (-signal.SIGTERM, [b"cleaned up"], b"")
    with Store.open(tmp_path) as store:
        session = store.session(ID)
        (unknown,) = session.events(types=["tool.outcome_unknown"])
        assert unknown.payload["reason"] == "interrupted by SIGTERM"
        turn_id = unknown.payload["turn"]
        assert session.call(turn_id, "c1").state == "outcome_unknown"


def test_new_work_in_a_turn_that_is_asked_to_stop_aborts_it(tmp_path: Path) -> None:
    code = "turn.cancelled.wait(); turn.step()"
    status, _, errors = end(run(tmp_path, BLOCKS.replace("WORK", code)), signal.SIGTERM)
    assert status == -signal.SIGTERM
    assert turn_events(tmp_path) == [("turn.started", None), ("turn.aborted", "interrupted by SIGTERM")]
    assert b"the session is closing" in errors or ends_early(errors)


def ends_early(errors: bytes) -> bool:
    """Tell whether the process was ended, at its deadline, before its last traceback was printed to the end."""
    return not errors or (errors.startswith(b"Traceback") and b"\nturnlog.errors." not in errors)


def test_a_turn_without_a_block_is_aborted_with_the_name_of_the_signal(tmp_path: Path) -> None:
    code = """
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests may ignore it
store.close_on_signals(signal.SIGHUP, deadline_ms=1000)
turn = session.turn("goal")
os.write(1, b"ready\\n")
time.sleep(600)
"""
    assert end(run(tmp_path, code), signal.SIGHUP)[0] == -signal.SIGHUP
    assert turn_events(tmp_path) == [("turn.started", None), ("turn.aborted", "interrupted by SIGHUP")]
    assert ended_in_order(tmp_path)


@pytest.mark.parametrize("work", ["time.sleep(600)", "threading.Event().wait()"])
def test_a_program_that_catches_the_exception_and_goes_on_is_ended_at_the_deadline(tmp_path: Path, work: str) -> None:
    code = f"""
store.close_on_signals(deadline_ms=1000)
turn = session.turn("goal")
os.write(1, b"ready\\n")
while True:
    try:
        {work}
    except BaseException as error:
        os.write(1, type(error).__name__.encode() + b"\\n")
        if isinstance(error, Exception):
            time.sleep(600)
"""
    status, lines, errors = end(run(tmp_path, code), signal.SIGTERM)
    assert (status, lines[0], errors) == (-signal.SIGTERM, b"SignalExit", b"")
    assert turn_events(tmp_path) == [("turn.started", None), ("turn.aborted", "interrupted by SIGTERM")]
    assert ended_in_order(tmp_path)


def test_a_main_thread_that_never_leaves_turnlog_is_ended_at_the_deadline_with_a_good_log(tmp_path: Path) -> None:
    code = """
store.close_on_signals(deadline_ms=1000)
turn = session.turn("goal")
os.write(1, b"ready\\n")
while True:
    try:
        session.append("note.written", {})
    except SystemExit:
        os.write(1, b"caught\\n")
"""
    status, lines, _ = end(run(tmp_path, code), signal.SIGTERM)
    assert (status, lines) == (-signal.SIGTERM, [b"caught"])
    assert check_session(str(tmp_path), ID).ok
    assert not is_locked(session_dir(str(tmp_path), ID))


def test_a_handler_that_was_there_is_called_when_the_blocks_have_closed_the_store(tmp_path: Path) -> None:
    code = """
def handler(signum, frame):
    os.write(1, b"handler\\n")
    sys.exit(7)
signal.signal(signal.SIGTERM, handler)
"""
    status, lines, errors = end(run(tmp_path, code + BLOCKS.replace("WORK", "time.sleep(600)")), signal.SIGTERM)
    assert (status, lines, errors) == (7, [b"handler", b"cleaned up"], b"")
    assert turn_events(tmp_path)[-1] == ("turn.aborted", "interrupted by SIGTERM")


def test_threads_that_never_end_do_not_hold_a_process_whose_main_thread_was_interrupted(tmp_path: Path) -> None:
    thread = "threading.Thread(target=time.sleep, args=(600,)).start()\n"
    child = run(tmp_path, thread + BLOCKS.replace("WORK", "time.sleep(600)"))
    assert end(child, signal.SIGTERM)[0] == -signal.SIGTERM
    assert turn_events(tmp_path)[-1] == ("turn.aborted", "interrupted by SIGTERM")


def frames(*modules: str) -> Any:
    """Return a stack of such modules, the innermost first."""
    found = None
    for name in reversed(modules):
        found = SimpleNamespace(f_globals={"__name__": name}, f_back=found)
    return found


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (["turnlog.store", "__main__"], True),
        (["threading", "turnlog.projector", "app.main"], True),
        (["msgspec._utils", "turnlog.state.fold", "importlib._bootstrap", "turnlog.session", "__main__"], True),
        (["hooks", "importlib._bootstrap", "turnlog.resume.snapshots", "importlib._bootstrap", "__main__"], True),
        (["app.late", "importlib._bootstrap", "app.tool", "turnlog.model.call_run", "__main__"], False),
        (["app.tool", "turnlog.model.call_run", "importlib._bootstrap", "turnlog.session"], False),
        (["time", "app.tool", "turnlog.model.call_run"], False),
        (["importlib._bootstrap", "app.tool"], False),
        (["__main__"], False),
        ([], False),
    ],
)
def test_a_signal_knows_whether_it_met_turnlogs_own_code(stack: list[str], expected: bool) -> None:
    assert _is_inside(frames(*stack)) == expected
