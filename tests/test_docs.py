"""What the documents say is so: snippets run, commands, options and files exist, help is complete, errors match."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from turnlog import cli, errors

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(path.name for path in ROOT.glob("*.md"))
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("python", "rust", "tests", "tools", "benches")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".rs")
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
FILE = re.compile(r"(?<![\w/<-])((?:\.ci|benches|python|rust|tests|tools)/[\w./-]*\w|[A-Z]{4,}\.md)(?![\w/*<{-])")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, *languages: str) -> list[str]:
    return [body for language, body in FENCE.findall(text_of(name)) if language in languages]


def group() -> click.Group:
    """Return the click group of `sessionctl`."""
    return next(value for value in vars(cli).values() if isinstance(value, click.Group))


def verbs() -> dict[str, click.Command]:
    """Return each verb with its click command."""
    top = group()
    context = click.Context(top)
    found = {name: top.get_command(context, name) for name in top.list_commands(context)}
    assert found
    return {name: command for name, command in found.items() if command is not None}


def commands_in(name: str) -> Iterator[list[str]]:
    """Yield the words of each `sessionctl` command in a document, from its shell blocks and its code spans."""
    lines = [line for body in blocks(name, "sh", "bash", "console") for line in body.splitlines()]
    for line in lines + SPAN.findall(FENCE.sub("", text_of(name))):
        command = line.strip().removeprefix("$ ").split(" | ")[0].split("  #")[0]
        if command.startswith("sessionctl "):
            yield shlex.split(command)[1:]


def is_complete(command: click.Command, words: list[str]) -> bool:
    """Tell whether each option among the words is one of the command's, or of the group's."""
    known = {option for part in (command, group()) for item in part.params for option in item.opts}
    used = {word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
    return used <= known | {"--help"}


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if blocks(name, "python")])
def test_the_python_snippets_of_a_document_run_one_after_the_other(name: str, tmp_path: Path) -> None:
    script = tmp_path / "snippets.py"
    script.write_text("\n".join(blocks(name, "python")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_command_in_a_document_exists_with_its_options(name: str) -> None:
    known = verbs()
    for words in commands_in(name):
        verb = next((word for word in words if not word.startswith("-")), None)
        if verb is not None and re.fullmatch(r"[a-z-]+", verb):
            assert verb in known, f"{name} mentions sessionctl {verb}"
            assert is_complete(known[verb], words), f"{name} gives unknown options: {' '.join(words)}"


@pytest.mark.parametrize("name", [*DOCUMENTS, *SOURCES])
def test_a_document_or_header_names_only_files_that_exist(name: str) -> None:
    text = text_of(name)
    if name.endswith(".py"):
        text = ast.get_docstring(ast.parse(text)) or ""
    elif name.endswith(".rs"):
        text = "\n".join(line for line in text.splitlines() if line.startswith("//!"))
    assert [path for path in FILE.findall(text) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_link_leads_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", FENCE.sub("", text_of(name)))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_help_of_each_verb_says_what_its_exit_codes_mean() -> None:
    top = group()
    for verb in verbs():
        shown = CliRunner().invoke(top, [verb, "--help"])
        assert shown.exit_code == 0, verb
        assert re.search(r"exit (codes?|status)", shown.output, re.IGNORECASE), f"{verb} --help has no exit codes"
        assert re.search(r"^\s*0\b", shown.output, re.MULTILINE), f"{verb} --help does not say what 0 means"


@pytest.mark.parametrize("kind", [kind for _, kind in inspect.getmembers(errors, inspect.isclass)])
def test_the_next_commands_of_an_error_exist(kind: type[errors.TurnlogError]) -> None:
    known = verbs()
    for command in kind.next:
        words = shlex.split(command)
        assert words[0] == "sessionctl"
        assert words[1].startswith("--") or words[1] in known


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    written: dict[str, str] = {}
    branch: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([│ ├└─]*)(\w+)(?: \((\w+)\))?(?:  |$)", line):
            depth = len(found[1]) // 4
            branch[depth:] = [found[2]]
            written[found[2]] = " ".join([*branch[-2:-1], *filter(None, [found[3]])])
    real = {
        name: " ".join(base.__name__ for base in kind.__bases__ if base is not Exception)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
    }
    assert written == real
