"""The repository is tidy, and each rule of tools/tidy.py can fail."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import tidy

ROOT = Path(__file__).resolve().parents[1]
HEADER = '"""Owns nothing."""\n'


def source(text: str, path: str = "python/turnlog/sample.py") -> tidy.Source:
    return tidy.Source(path, text.splitlines(), ast.parse(text) if path.endswith(".py") else None)


def rules(text: str, path: str = "python/turnlog/sample.py") -> list[str]:
    return [finding.rule for check in tidy.CHECKS for finding in check(source(text, path))]


def test_the_repository_has_no_findings() -> None:
    assert [str(finding) for finding in tidy.findings(str(ROOT))] == []


def test_the_repository_is_read_whole() -> None:
    paths = {source.path for source in tidy.read_sources(str(ROOT))}
    assert {"python/turnlog/errors.py", "rust/lib.rs", "tools/test", "tests/test_tidy.py", "FORMAT.md"} <= paths


def test_a_tidy_module_has_no_findings() -> None:
    assert rules(HEADER + "def frame_size(payload_bytes: int) -> int:\n    return payload_bytes + 8\n") == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x = 1\n", "no header"),
        ('"""' + "long\n" * 31 + '"""\n', "header has 31 lines"),
        (HEADER + "x = 1\n" * 350, "file has 351 lines"),
        (HEADER + f"x = '{'y' * 120}'\n", "line has 126 characters"),
        (HEADER + "def f() -> None:\n" + "    g()\n" * 70, "f has 71 lines"),
        (HEADER + "event_seq = 1\n", "'seq' in event_seq: the word here is ordinal"),
        (HEADER + "class ChatLog: ...\n", "'chat' in ChatLog"),
        (HEADER + "def f(hash: bytes) -> None: ...\n", "'hash' alone"),
        (HEADER + "class LockManager: ...\n", "'manager' in LockManager"),
        (HEADER + "# TO" + "DO later\n", "finish it"),
        (HEADER + "PLACE = '/ho" + "me/someone/store'\n", "path of one machine"),
    ],
)
def test_a_broken_rule_is_a_finding(text: str, part: str) -> None:
    found = rules(text)
    assert len(found) == 1
    assert part in found[0]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("fn f() {}\n", "no header"),
        ("//! Owns nothing.\nfn f() {\n" + "    g();\n" * 69 + "}\n", "f has 71 lines"),
        ("//! Owns nothing.\nfn f(x: u8) {\n    // g(x);\n}\n", "code in a comment"),
        ("//! Owns nothing.\nlet mut seq_max = 1;\n", "'seq' in seq_max"),
    ],
)
def test_a_broken_rule_in_rust_is_a_finding(text: str, part: str) -> None:
    found = rules(text, "rust/sample.rs")
    assert len(found) == 1
    assert part in found[0]


def test_a_file_named_after_nothing_is_a_finding() -> None:
    assert "'utils' in a file name" in rules(HEADER, "python/turnlog/path_utils.py")[0]


def test_a_module_that_nothing_imports_is_a_finding() -> None:
    dead = source(HEADER, "python/turnlog/dead.py")
    live = source(HEADER, "python/turnlog/live.py")
    verb = source(HEADER, "python/turnlog/cli/rebuild_index.py")
    group = source(HEADER + "VERBS = ('rebuild-index',)\nfrom turnlog import live\n", "python/turnlog/cli/__init__.py")
    assert [finding.path for finding in tidy.check_dead_modules([dead, live, verb, group])] == [dead.path]


def test_a_rust_file_that_no_mod_declares_is_a_finding() -> None:
    crate = source("//! Owns the map.\npub(crate) mod frame;\n", "rust/lib.rs")
    files = [source("//! Owns frames.\n", f"rust/{stem}.rs") for stem in ("frame", "stray")]
    assert [finding.path for finding in tidy.check_dead_modules([crate, *files])] == ["rust/stray.rs"]


def test_findings_end_the_program_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "sample.py").write_text("x = 1\n", encoding="utf-8")
    assert tidy.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "tools/sample.py:1: no header that says what the module owns",
        "tidy: 1 findings in 1 files",
    ]
