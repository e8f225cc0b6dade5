"""The group: versions, unknown verbs, errors of every kind, closed pipes, Ctrl-C, start-up."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, violations
from tests.cli.stores import DAMAGED, FLAKY
from turnlog import Store, cli, errors
from turnlog.cli import VERBS, exits
from turnlog.cli.failure import describe
from turnlog.cli.schema import ERROR, document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEAVY = {"asyncio", "dataclasses", "logging", "msgspec", "pathlib", "subprocess", "tempfile", "xxhash", "zstandard"}


def test_the_versions_name_everything_that_reads_and_writes(run: Runner) -> None:
    text = run("--version").out
    assert re.fullmatch(
        r"sessionctl \S+\ncore (native|pure) \(contract \d+\)\n"
        r"SQLite 3\.\d+\.\d+, zstd \d+\.\d+\.\d+, Python 3\.\d+\.\d+\n",
        text,
    )
    versions = run("--version", "--json").objects[0]
    assert versions["type"] == "versions"
    assert f"core {versions['core']}" in text


def test_no_verb_shows_the_help_and_is_exit_2(run: Runner) -> None:
    done = run()
    assert (done.code, done.out) == (2, "")
    assert all(f"  {verb} " in done.err for verb in VERBS)


def test_the_help_of_the_group_lists_every_exit_code(run: Runner) -> None:
    section = run("--help").out.partition("EXIT STATUS:\n")[2]
    assert [int(code) for code in re.findall(r"^  (\d+) ", section, re.MULTILINE)] == [*exits.MEANINGS]


def test_an_unknown_verb_is_exit_2_with_the_nearest_one(run: Runner) -> None:
    done = run("lst")
    assert done.code == 2
    assert done.err == "error[usage]: there is no verb lst; did you mean list?\n  next   sessionctl --help\n"


def test_every_verb_of_the_table_has_codes_and_a_command(run: Runner) -> None:
    assert sorted(exits.CODES) == sorted(VERBS)
    assert {code for verb in VERBS for code in exits.codes_of(verb)} <= set(exits.MEANINGS)


def test_every_error_class_has_an_exit_code_of_the_table() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TurnlogError)]
    assert {kind.exit_code for kind in kinds} <= set(exits.MEANINGS)


def test_an_error_says_what_where_why_and_what_next(run: Runner, whole: Path) -> None:
    done = run("show", f"{FLAKY}:99", "--store", whole)
    assert done.err == (
        f"error[not_found]: the session has no event 99\n  where  session {FLAKY}, ordinal 99\n"
        f"  next   sessionctl --store {whole} show {FLAKY}\n"
    )
    error = errors.Locked("held by process 7", session=FLAKY)
    error.__cause__ = OSError(errno.EAGAIN, "busy")
    code, fields = describe(error)
    assert (code, fields["retryable"], fields["cause"]) == (11, True, "[Errno 11] busy")


def test_an_error_in_json_is_one_object_on_stderr(run: Runner, whole: Path) -> None:
    for words in (["show", "ffff"], ["list", "--nonsense"], ["show"], ["nonsense"]):
        done = run(*words, "--json")
        assert done.out == ""
        assert len(done.err.splitlines()) == 1
        assert violations(done.error, document("any", {"error": ERROR})) == []
        assert done.error["exit_code"] == done.code


@pytest.mark.parametrize(
    ("error", "code", "name"),
    [
        (OSError(errno.EIO, "Input/output error", "/x"), 14, "storage_error"),
        (errors.NoSpace("disk full"), 14, "no_space"),
        (errors.ReadOnly("damage"), 4, "read_only"),
        (errors.Damaged("gone"), 1, "damaged"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 141, "closed_pipe"),
        (KeyError("x"), 70, "bug"),
        (RecursionError(), 70, "bug"),
    ],
)
def test_an_exception_has_a_code(error: BaseException, code: int, name: str) -> None:
    found, fields = describe(error)
    assert (found, fields["code"]) == (code, name)


@pytest.mark.parametrize("words", [["list"], ["list", "--json"]])
def test_a_bug_is_exit_70_on_one_line_and_tells_how_to_see_more(
    run: Runner, whole: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by \x1b[31mzero")

    monkeypatch.setattr(Store, "open", broken)
    done = run(*words)
    assert done.code == 70
    assert len(done.err.splitlines()) == 1
    assert "--traceback" in done.err
    assert "\x1b" not in done.err
    assert "Traceback" in run(*words, "--traceback").err
    monkeypatch.setenv("TURNLOG_TRACEBACK", "1")
    assert "Traceback" in run(*words).err


def test_an_error_message_cannot_drive_the_terminal(run: Runner, whole: Path) -> None:
    for words in (["show", "\x1b]0;owned\x07"], ["\x1b[2J"], ["list", "--store", "/no\x1b[2J"]):
        done = run(*words)
        assert done.code in (2, 10)
        assert not set("\x1b\x07") & set(done.err)


def test_what_stands_before_the_verb_counts_for_errors_too(run: Runner, damaged: Path) -> None:
    assert run("--json", "--store", damaged, "show", "ffff").error["next"] == [f"sessionctl --store {damaged} list"]
    assert run("--json", "list", "--bad").error["code"] == "usage"
    assert "Traceback" in run("--traceback", "--store", damaged, "show", "ffff").err


@pytest.mark.parametrize("verb", ["verify", "repair", "cat", "resume"])
def test_next_commands_beside_an_answer_speak_of_the_same_store(run: Runner, damaged: Path, verb: str) -> None:
    done = run("--store", damaged, verb, DAMAGED)
    (following,) = [line.split("next   ")[1] for line in done.err.splitlines() if "next   " in line]
    assert following.startswith(f"sessionctl --store {damaged} ")
    assert run(*following.split()[1:]).code in {exits.OK, exits.NO}


def test_input_that_does_not_fit_names_the_help_and_a_missing_event_its_session(run: Runner, whole: Path) -> None:
    assert "  next   sessionctl list --help\n" in run("list", "--state", "opn").err
    assert f"  next   sessionctl show {FLAKY}\n" in run("show", "latest:99").err
    assert whole.exists()


def test_next_commands_speak_of_the_same_store(run: Runner, damaged: Path) -> None:
    done = run("show", "ffff", "--store", damaged)
    assert f"next   sessionctl --store {damaged} list" in done.err


@pytest.mark.parametrize("words", [["cat"], ["cat", "--json"], ["tail", "-n", "5000"]])
@pytest.mark.timeout(60)
def test_a_closed_pipe_is_exit_141_and_quiet(
    tmp_path: Path, program: Callable[..., subprocess.Popen[bytes]], words: list[str]
) -> None:
    with Store.open(tmp_path / "long") as store, store.create() as session:
        session.append_many([("note.written", {"text": "x" * 100})] * 5000)
        session_id = session.id
    with program(words[0], session_id, *words[1:], "--store", str(tmp_path / "long")) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        assert started.stdout.readline()
        started.stdout.close()
        err = started.stderr.read()
    assert (started.returncode, err) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_device_behind_stdout_is_exit_14(whole: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "turnlog", "list"], stdout=full, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert done.returncode == 14
    assert done.stderr.startswith(b"error[storage_error]: No space left on device")
    assert b"Traceback" not in done.stderr


def test_a_closed_stdout_is_no_error(whole: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    command = f"{sys.executable} -m turnlog list >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.timeout(60)
def test_ctrl_c_is_exit_130_and_quiet(whole: Path, program: Callable[..., subprocess.Popen[bytes]]) -> None:
    with program("tail", "-f", "latest") as started:
        assert started.stdout is not None
        assert started.stdout.readline()
        started.send_signal(signal.SIGINT)
        _, err = started.communicate()
    assert (started.returncode, err.strip()) == (130, b"")


def test_ascii_output_loses_nothing_but_fails_nothing(golden: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "turnlog", "cat", FLAKY]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0
    assert rb"caf\ufffd" in done.stdout


def test_a_list_imports_nothing_heavy_and_no_other_verb(whole: Path) -> None:
    code = "import sys; from turnlog.cli import main; main(['list']); print(*sorted(sys.modules), file=sys.stderr)"
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    subprocess.run([sys.executable, "-m", "turnlog", "rebuild-index"], env=environment, check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    loaded = set(done.stderr.split())
    verbs = {f"turnlog.cli.{module}" for module, _ in VERBS.values()} - {"turnlog.cli.list"}
    assert not loaded & verbs
    if "turnlog._pure.canon" not in loaded:  # the native core is in use
        assert not loaded & HEAVY


def test_help_imports_no_verb() -> None:
    code = "import sys; from turnlog.cli import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert not {f"turnlog.cli.{module}" for module, _ in VERBS.values()} & set(done.stderr.split())


def test_the_module_runs_as_the_program(run: Runner, whole: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    command = [sys.executable, "-m", "turnlog", "list", "--json"]
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert done.stdout == run("list", "--json").raw
    assert json.loads(done.stdout)["id"] == FLAKY
    assert cli.main(["path"]) == 0
