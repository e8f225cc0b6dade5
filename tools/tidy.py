"""The rules of style that no linter knows, as one program: tools/tidy.py [FOLDER].

Owns: limits on files, functions and lines, the words that names may not hold, dead modules, module headers, left-overs.
Invariant: every finding names a file, a line and the rule; the exit code is 1 when there is one. `tests/test_tidy.py`
runs it. Must not know: what ruff, mypy, rustfmt and clippy check already.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = ("python", "rust", "tests", "tools", "benches", ".ci")
SUFFIXES = ("", ".md", ".py", ".pyi", ".rs", ".sh", ".sql", ".toml")  # "": scripts; data has other suffixes
DATA_FOLDERS = frozenset({"corpus", "fixtures", "vectors"})
FILE_LINES_MAX = 350
TEST_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
LINE_CHARACTERS_MAX = 120
HEADER_LINES_MAX = 30

CATCH_ALLS = frozenset({"base", "common", "helper", "helpers", "manager", "misc", "util", "utils"})
FOREIGN_WORDS = {"seq": "ordinal", "chat": "session", "thread_id": "session_id"}
ALONE = {"hash": "digest, checksum or chain"}  # a word that is wrong only when it is the whole name

LEFT_OVER = re.compile(r"\b([T]ODO|[F]IXME|[X]XX|[H]ACK)\b")  # bracketed, so that this line is none
MACHINE_PATH = re.compile(r"(?<![\w.])/(root|work)/\w")
HOME_PATH = re.compile(r"(?<![\w.])/(root|work|home|Users)/\w")  # sample data may speak of a home
RUST_COMMENTED_CODE = re.compile(r"^\s*//(?![/!]).*[;{}]\s*$")
RUST_NAME = re.compile(r"\b(?:fn|let mut|let|struct|enum|trait|type|mod|const|static)\s+(\w+)")
RUST_FUNCTION = re.compile(r"^(\s*)(?:pub(?:\([a-z]+\))? )?(?:const |unsafe |extern \"C\" )*fn (\w+)")
WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


class Source(NamedTuple):
    """One file, read once."""

    path: str  # from the root, with slashes
    lines: list[str]
    tree: ast.Module | None  # of a Python file

    @property
    def stem(self) -> str:
        """The file's name without folder and suffix."""
        return os.path.splitext(os.path.basename(self.path))[0]

    @property
    def is_test(self) -> bool:
        """Whether the file holds tests or benches."""
        return self.path.startswith(("tests/", "benches/"))


class Finding(NamedTuple):
    """A broken rule, at a place."""

    path: str
    line: int
    rule: str

    def __str__(self) -> str:
        """Show it in the form that editors jump to."""
        return f"{self.path}:{self.line}: {self.rule}"


def read_sources(root: str) -> list[Source]:
    """Read the files that people write: the source folders, and the documents and settings beside them."""
    paths = [name for name in os.listdir(root) if name.endswith((".md", ".toml")) and name != "Cargo.lock"]
    for folder in FOLDERS:
        for parent, folders, names in os.walk(os.path.join(root, folder)):
            folders[:] = [name for name in folders if not name.startswith((".", "__")) and name not in DATA_FOLDERS]
            paths += [os.path.relpath(os.path.join(parent, name), root) for name in names]
    return [_read(root, path) for path in sorted(paths) if os.path.splitext(path)[1] in SUFFIXES]


def _read(root: str, path: str) -> Source:
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    tree = ast.parse(text, path) if path.endswith(".py") else None
    return Source(path.replace(os.sep, "/"), text.splitlines(), tree)


def check_length(source: Source) -> Iterator[Finding]:
    """A file that outgrows one sitting is two files."""
    limit = TEST_LINES_MAX if source.is_test else FILE_LINES_MAX
    if source.path.endswith((".py", ".rs")) and len(source.lines) > limit:
        yield Finding(source.path, limit, f"file has {len(source.lines)} lines, {limit} at most")
    for number, line in enumerate(source.lines, 1):
        if len(line) > LINE_CHARACTERS_MAX and not source.path.endswith(".md"):
            yield Finding(source.path, number, f"line has {len(line)} characters, {LINE_CHARACTERS_MAX} at most")


def check_functions(source: Source) -> Iterator[Finding]:
    """A function fits on a screen."""
    for name, first, last in _functions(source):
        if last - first + 1 > FUNCTION_LINES_MAX:
            yield Finding(source.path, first, f"{name} has {last - first + 1} lines, {FUNCTION_LINES_MAX} at most")


def _functions(source: Source) -> Iterator[tuple[str, int, int]]:
    if source.tree:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, node.lineno, node.end_lineno or node.lineno
    elif source.path.endswith(".rs"):
        for number, line in enumerate(source.lines, 1):
            if found := RUST_FUNCTION.match(line):
                closing = found[1] + "}"  # rustfmt puts it under the first column of the function
                last = next((i for i, text in enumerate(source.lines[number:], number + 1) if text == closing), number)
                yield found[2], number, last if not line.endswith((";", "}")) else number


def check_words(source: Source) -> Iterator[Finding]:
    """Names use the words of the glossary, and say what the thing is."""
    for part in source.path.split("/"):
        if found := CATCH_ALLS & set(_words(os.path.splitext(part)[0])):
            yield Finding(source.path, 1, f"'{next(iter(found))}' in a file name says nothing about what the file does")
    for name, line, is_class in _defined_names(source):
        words = _words(name)
        for word, better in FOREIGN_WORDS.items():
            if word in words or word == name:
                yield Finding(source.path, line, f"'{word}' in {name}: the word here is {better}")
        if name in ALONE:
            yield Finding(source.path, line, f"'{name}' alone is unclear: say {ALONE[name]}")
        if is_class and (found := CATCH_ALLS & set(words)):
            yield Finding(source.path, line, f"'{next(iter(found))}' in {name} says nothing about what it does")


def _words(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def _defined_names(source: Source) -> Iterator[tuple[str, int, bool]]:
    if source.path.endswith(".rs"):
        for number, line in enumerate(source.lines, 1):
            for name in RUST_NAME.findall(line.split("//")[0]):
                yield name, number, name[0].isupper()
    for node in ast.walk(source.tree) if source.tree else ():
        match node:
            case ast.ClassDef():
                yield node.name, node.lineno, True
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node.lineno, False
            case ast.arg():
                yield node.arg, node.lineno, False
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno, False
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno, False


def check_header(source: Source) -> Iterator[Finding]:
    """Each module opens by saying what it is for."""
    if source.tree:
        lines = len((ast.get_docstring(source.tree) or "").splitlines())
    elif source.path.endswith(".rs"):
        lines = sum(line.startswith("//!") for line in source.lines)
    else:
        return
    if lines == 0:
        yield Finding(source.path, 1, "no header that says what the module owns")
    elif lines > HEADER_LINES_MAX:
        yield Finding(source.path, 1, f"header has {lines} lines, {HEADER_LINES_MAX} at most")


def check_left_overs(source: Source) -> Iterator[Finding]:
    """Nothing unfinished, switched off, or true on one machine only."""
    for number, line in enumerate(source.lines, 1):
        if found := LEFT_OVER.search(line):
            yield Finding(source.path, number, f"{found[0]}: finish it, or open an issue")
        if found := (MACHINE_PATH if source.is_test else HOME_PATH).search(line):
            yield Finding(source.path, number, f"{found[0]}... is a path of one machine")
        if source.path.endswith(".rs") and RUST_COMMENTED_CODE.match(line):
            yield Finding(source.path, number, "code in a comment")


def check_dead_modules(sources: list[Source]) -> Iterator[Finding]:
    """Every module is imported, or named as text by the `__init__` of its folder, which then imports it when needed."""
    imported = {name for source in sources if source.tree for name in _imports(source.tree)}
    named = {
        (os.path.dirname(source.path), text.replace("-", "_"))
        for source in sources
        if source.tree and source.stem in ("__init__", "_core")
        for text in _texts(source.tree)
    }
    rust_modules = {name for source in sources if source.path.endswith(".rs") for name in _rust_modules(source)}
    for source in sources:
        folder = os.path.dirname(source.path)
        if source.path.startswith("python/") and source.tree and not source.stem.startswith("__"):
            module = source.path.removeprefix("python/").removesuffix(".py").replace("/", ".")
            if module not in imported and not {(folder, source.stem), (folder, module)} & named:
                yield Finding(source.path, 1, "no module imports this one")
        if source.path.startswith("rust/") and source.stem not in rust_modules | {"lib", "mod"}:
            yield Finding(source.path, 1, f"no `mod {source.stem};` declares this file")


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.split()


def _rust_modules(source: Source) -> Iterator[str]:
    for line in source.lines:
        if found := re.match(r"\s*(?:pub(?:\([a-z]+\))? )?mod (\w+);", line):
            yield found[1]


CHECKS = (check_length, check_functions, check_words, check_header, check_left_overs)


def findings(root: str) -> list[Finding]:
    """Return every broken rule under `root`, sorted by place."""
    sources = read_sources(root)
    found = [finding for source in sources for check in CHECKS for finding in check(source)]
    return sorted(found + list(check_dead_modules(sources)))


def main(arguments: list[str]) -> int:
    """Print the findings of the given folder, or of this repository; return the exit code."""
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = findings(root)
    for finding in found:
        print(finding)
    print(f"tidy: {len(found)} findings in {len(read_sources(root))} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
