"""`sessionctl import`: results, findings with their places, exit codes; again changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Runner, assert_fits_schema
from turnlog import Store

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
CLAUDE = CORPUS / "claude"
DAMAGED = CORPUS / "codex-damaged"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the store will be."""
    path = tmp_path / "imported"
    monkeypatch.setenv("TURNLOG_STORE", str(path))
    return path


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.jsonl") if path.name != "session_index.jsonl")


def test_a_home_is_imported_into_a_new_store(run: Runner, store: Path) -> None:
    done = run("import", CLAUDE)
    assert done.code in (0, 3)
    assert done.lines[-1].endswith(f"({store})") or "unknown record types" in done.lines[-1]
    assert run("verify", "--full").code == 0
    assert len(run("list", "--json").objects) == sum(line.startswith("imported") for line in done.lines)


def test_importing_again_changes_nothing_and_is_exit_0(run: Runner, store: Path) -> None:
    run("import", CLAUDE)
    before = run("list", "--json").out
    again = run("import", CLAUDE, "--json")
    assert again.code == 0
    assert {item["status"] for item in again.objects[:-1]} == {"unchanged"}
    assert again.objects[-1]["events"] == 0
    assert run("list", "--json").out == before


def test_json_fits_the_schema(run: Runner, store: Path) -> None:
    assert_fits_schema(run, "import", run("import", CORPUS / "codex", "--json").objects)
    assert_fits_schema(run, "import", run("import", DAMAGED, "--json").objects)


def test_findings_have_a_line_and_an_offset_and_are_exit_3(run: Runner, store: Path) -> None:
    done = run("import", DAMAGED, "-v")
    assert done.code == 3
    places = [line for line in done.lines if line.startswith("  ")]
    assert any("line " in line and "offset " in line for line in places)


def test_cat_raw_gives_an_imported_file_back(run: Runner, store: Path) -> None:
    for path in sources(CLAUDE)[:3] + sources(DAMAGED)[:3]:
        done = run("import", path, "--json")
        if done.objects[0]["status"] == "imported":
            session = done.objects[0]["session"]
            assert run("cat", session, "--type", "source.line", "--raw").raw == path.read_bytes()


def test_a_file_that_has_grown_adds_its_new_lines(run: Runner, store: Path, tmp_path: Path) -> None:
    whole = sources(CLAUDE)[0].read_bytes()
    cut = whole.index(b"\n") + 1
    path = tmp_path / "projects" / "p" / sources(CLAUDE)[0].name
    path.parent.mkdir(parents=True)
    path.write_bytes(whole[:cut])
    assert run("import", "claude", path, "--json").objects[0]["status"] == "imported"
    path.write_bytes(whole)
    grown = run("import", "claude", path, "--json").objects[0]
    assert grown["status"] == "grown"
    assert run("cat", grown["session"], "--type", "source.line", "--raw").raw == whole


def test_a_product_alone_means_its_own_folder(run: Runner, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(CLAUDE))
    monkeypatch.setenv("CODEX_HOME", str(CORPUS / "codex"))
    paths = {item["path"] for item in run("import", "claude", "codex", "--json").objects if "path" in item}
    assert any(path.startswith(str(CLAUDE)) for path in paths)
    assert any(path.startswith(str(CORPUS / "codex")) for path in paths)


def test_a_file_that_is_no_transcript_is_exit_1(run: Runner, store: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("hello\n", encoding="utf-8")
    done = run("import", path)
    assert done.code == 1
    assert done.lines[0].startswith("refused")


def test_a_session_that_a_live_writer_holds_is_exit_11(run: Runner, store: Path, tmp_path: Path) -> None:
    path = tmp_path / "projects" / "p" / sources(CLAUDE)[0].name
    path.parent.mkdir(parents=True)
    path.write_bytes(sources(CLAUDE)[0].read_bytes())
    session_id = run("import", path, "--json").objects[0]["session"]
    with path.open("ab") as file:
        file.write(b'{"type": "user"}\n')
    with Store.open(store) as other:
        other.session(session_id).append("note.written", {})
        done = run("import", path)
    assert done.code == 11
    assert "locked" in done.out


@pytest.mark.parametrize("words", [[], ["claude", "/does/not/exist"], ["/does/not/exist"], ["codex"]])
def test_a_path_that_is_not_there_is_wrong_usage(
    run: Runner, store: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CODEX_HOME", raising=False)
    assert run("import", *words).code == 2
    assert not store.exists()


def test_a_folder_without_transcripts_is_exit_1(run: Runner, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "nothing"
    folder.mkdir()
    done = run("import", folder)
    assert (done.code, done.out) == (1, f"no transcripts were found in {folder}\n")
    assert done.err == f"making the store {store}\n"
    assert run("import", folder).err == ""


@pytest.mark.parametrize(
    ("folder", "named", "other"), [(CORPUS / "codex", "claude", "codex"), (CLAUDE, "codex", "claude")]
)
def test_files_of_another_program_than_the_one_named_are_refused_with_the_command_that_imports_them(
    run: Runner, store: Path, folder: Path, named: str, other: str
) -> None:
    done = run("import", named, folder)
    assert done.code == 2
    assert done.err.endswith(f"  next   sessionctl import {other} {folder}\n")
    assert done.err.count("  next ") == 1
    assert run("list").code == 1, "no session was made"
    told = run("import", named, folder, "--json")
    assert_fits_schema(run, "import", told.objects)
    assert told.objects[-1]["next"] == [f"sessionctl import {other} {folder}"]
    assert run("import", other, folder).code in (0, 3)
