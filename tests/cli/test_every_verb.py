"""What holds for every verb: missing and newer stores, ids that fit nothing or too much, help, schema, no writes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import Runner, violations
from tests.cli.stores import FLAKY, HOSTILE, fingerprint, make_store
from turnlog import Store
from turnlog.cli import VERBS, exits
from turnlog.cli.schema import ERROR, document

if TYPE_CHECKING:
    from pathlib import Path

OF_A_SESSION = (
    "show",
    "cat",
    "tail",
    "stats",
    "verify",
    "repair",
    "compact",
    "path",
    "fork",
    "resume",
    "settle",
    "forget",
    "archive",
    "rename",
    "tag",
)
MORE = {"settle": ["c1", "--outcome", "completed"], "rename": ["a title"]}  # what a verb needs beside the session
OF_A_STORE = ("list", "stats", "verify", "repair", "compact", "rebuild-index", "prune")
READERS = (
    ["list"],
    ["list", "--json"],
    ["show", "latest"],
    ["cat", "latest"],
    ["cat", "latest", "--reverse", "--json"],
    ["tail", "latest"],
    ["stats"],
    ["stats", "latest"],
    ["verify"],
    ["verify", "--full"],
    ["repair"],
    ["prune"],
    ["prune", "--dry-run", "--json"],
    ["path"],
    ["resume", "latest"],
    ["path", "latest"],
    ["tag", "latest"],
    ["diff", "latest", "latest"],
)
WRITER = """
import sys, time
from turnlog import Store
session = Store.open(sys.argv[1]).create(title="cut short")
session.append("note.written", {"text": "durable"})
session.append("note.written", {"text": "buffered"}, durability="buffered")
print("written", flush=True)
time.sleep(600)
"""


def errors_fit_the_schema(objects: list[dict[str, object]]) -> bool:
    return all(not violations(item, document("any", {"error": ERROR})) for item in objects) and bool(objects)


@pytest.mark.parametrize("verb", OF_A_STORE)
def test_a_missing_store_is_exit_10(run: Runner, verb: str, tmp_path: Path) -> None:
    done = run(verb, "--store", tmp_path / "absent")
    assert (done.code, done.out) == (10, "")
    assert done.err.startswith(f"error[store_not_found]: there is no store at {tmp_path / 'absent'}")
    assert f"next   sessionctl --store {tmp_path / 'absent'} path" in done.err
    assert "  why " not in done.err
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("verb", OF_A_SESSION)
def test_a_missing_store_is_exit_10_also_with_an_id(run: Runner, verb: str, tmp_path: Path) -> None:
    done = run(verb, FLAKY, *MORE.get(verb, []), "--store", tmp_path / "absent", "--json")
    assert (done.code, done.error["code"]) == (10, "store_not_found")


@pytest.mark.parametrize("verb", [*OF_A_SESSION, "list", "rebuild-index", "prune", "import"])
def test_a_newer_store_is_exit_13_and_untouched(run: Runner, verb: str, golden: Path, tmp_path: Path) -> None:
    (golden / "store.json").write_text('{"created_us":1,"format":2,"store_id":"x"}', encoding="utf-8")
    before = fingerprint(golden)
    arguments = [FLAKY, *MORE.get(verb, [])] if verb in OF_A_SESSION else [str(tmp_path)] if verb == "import" else []
    done = run(verb, *arguments)
    assert (done.code, done.out) == (13, "")
    assert done.err.startswith("error[newer_format]: ")
    assert fingerprint(golden) == before


@pytest.mark.parametrize("verb", OF_A_SESSION)
def test_an_unknown_id_is_exit_10(run: Runner, verb: str, golden: Path) -> None:
    for given in ("ffff", "0196", FLAKY[:-1] + "f"):
        done = run(verb, given, *MORE.get(verb, []), "--json")
        assert (done.code, done.out) == ((2, "") if given == "0196" else (10, ""))
        assert errors_fit_the_schema([done.error])


@pytest.mark.parametrize("verb", OF_A_SESSION)
def test_an_ambiguous_prefix_is_exit_2_and_names_two_it_fits(run: Runner, verb: str, golden: Path) -> None:
    done = run(verb, "0196", *MORE.get(verb, []))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error[ambiguous_id]: ")
    assert FLAKY in done.err
    assert HOSTILE in done.err


@pytest.mark.parametrize("verb", OF_A_SESSION)
def test_a_prefix_of_three_characters_is_too_short(run: Runner, verb: str, whole: Path) -> None:
    assert run(verb, FLAKY[:3], *MORE.get(verb, [])).code == 10


@pytest.mark.parametrize("verb", [verb for verb in OF_A_SESSION if verb not in ("show", "cat", "fork")])
def test_a_verb_about_sessions_takes_no_ordinal(run: Runner, verb: str, whole: Path) -> None:
    assert run(verb, f"{FLAKY}:3", *MORE.get(verb, [])).code == 2


@pytest.mark.parametrize("verb", VERBS)
def test_help_lists_exactly_the_codes_of_the_table(run: Runner, verb: str) -> None:
    done = run(verb, "--help")
    assert done.code == 0
    section = done.out.partition("EXIT STATUS:\n")[2]
    assert [int(code) for code in re.findall(r"^  (\d+) ", section, re.MULTILINE)] == exits.codes_of(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_the_short_help_of_the_group_is_not_longer_than_a_line(run: Runner, verb: str) -> None:
    assert len(VERBS[verb][1]) <= 70
    assert VERBS[verb][1].endswith(".")


@pytest.mark.parametrize("verb", VERBS)
def test_the_schema_is_printed_without_a_store_or_arguments(run: Runner, verb: str) -> None:
    done = run(verb, "--schema")
    assert done.code == 0
    assert json.loads(done.out)["$id"] == f"sessionctl/{verb}/1"


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_exit_2_with_the_help_as_next_command(run: Runner, verb: str) -> None:
    done = run(verb, "--nonsense")
    assert (done.code, done.out) == (2, "")
    assert f"next   sessionctl {verb} --help" in done.err


def test_nothing_that_reads_writes_a_byte_after_a_crash(run: Runner, tmp_path: Path) -> None:
    store = tmp_path / "crashed"
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": os.path.join(root, "python")}
    command = [sys.executable, "-c", WRITER, str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        writer.send_signal(signal.SIGKILL)
    before = fingerprint(store)
    for words in READERS:
        done = run(*words, "--store", store)
        assert done.code in (0, 1), (words, done.err)
        assert fingerprint(store) == before, words
    assert "cut short" in run("list", "--store", store).out


def test_nothing_that_reads_writes_a_byte_beside_a_live_writer(run: Runner, tmp_path: Path) -> None:
    with Store.open(tmp_path / "live") as store, store.create(title="at work") as session:
        session.append("note.written", {"text": "durable"})
        for words in READERS:
            assert run(*words, "--store", tmp_path / "live").code in (0, 11), words
        assert run("list", "--store", tmp_path / "live").out.count("at work") == 1


def test_a_read_only_folder_can_be_read(run: Runner, tmp_path: Path) -> None:
    store = make_store(tmp_path / "fixed", FLAKY)
    folders = [store, *(path for path in store.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        for words in READERS:
            assert run(*words, "--store", store).code == 0, words
    finally:
        for folder in folders:
            folder.chmod(0o700)
