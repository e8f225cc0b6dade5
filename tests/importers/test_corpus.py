"""Every transcript of the corpus, imported into a store: what its events say equals what was counted from the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tools.check_corpus import Facts, differences
from turnlog.importers.claude import ClaudeMapper
from turnlog.importers.codex import CodexMapper
from turnlog.importers.importer import import_path

if TYPE_CHECKING:
    from tests.importers.conftest import Desk
    from turnlog.importers.mapper import Mapper
    from turnlog.store import Store

CORPUS = Path(__file__).parents[1] / "corpus"
EXPECTED: dict[str, Any] = json.loads((CORPUS / "expected.json").read_text())
FILES: dict[str, Any] = EXPECTED["files"]
FORK = next(link for link in EXPECTED["links"] if link["relation"] == "fork of")


def imported(desk: Desk, name: str) -> list[tuple[str, Any]]:
    (result,) = import_path(desk.store, str(CORPUS / name))
    assert result.status == "imported"
    return desk.events(result)


@pytest.mark.parametrize("name", FILES)
def test_events_say_what_the_file_says(desk: Desk, name: str) -> None:
    assert differences(FILES[name], imported(desk, name)) == []


@pytest.mark.parametrize("name", FILES)
def test_the_source_lines_of_a_session_are_the_file(desk: Desk, name: str) -> None:
    lines = [payload for kind, payload in imported(desk, name) if kind == "source.line"]
    assert b"".join(lines) == (CORPUS / name).read_bytes()


@pytest.mark.parametrize("name", FILES)
def test_importing_the_same_file_again_writes_nothing(desk: Desk, name: str) -> None:
    before = imported(desk, name)
    (again,) = import_path(desk.store, str(CORPUS / name))
    assert (again.status, again.events, again.findings) == ("unchanged", 0, [])
    assert desk.events(again) == before


@pytest.mark.parametrize(
    ("mapper", "method"),
    [
        (ClaudeMapper, "user"),
        (ClaudeMapper, "_call"),
        (ClaudeMapper, "_end_step"),
        (CodexMapper, "_output"),
        (CodexMapper, "message"),
        (CodexMapper, "token_count"),
    ],
)
def test_the_comparison_notices_a_mapping_that_is_left_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, mapper: type[Mapper], method: str
) -> None:
    def nothing(self: Mapper, *values: object) -> None:
        """Stand in for the mapping."""

    module = __import__(mapper.__module__, fromlist=["MAPPINGS"])
    table = {kind: nothing if mapping.__name__ == method else mapping for kind, mapping in module.MAPPINGS.items()}
    monkeypatch.setattr(module, "MAPPINGS", table)
    monkeypatch.setattr(mapper, method, nothing)
    names = [name for name in FILES if FILES[name]["kind"] == mapper.product]
    found = [difference for name in names for difference in differences(FILES[name], imported(desk, name))]
    assert found


def test_a_home_is_imported_parents_first_and_links_a_fork_to_its_origin(desk: Desk) -> None:
    home = CORPUS / FORK["of"].partition("/sessions/")[0]
    results = {result.path: result for result in import_path(desk.store, str(home))}
    fork, origin = results[str(CORPUS / FORK["file"])], results[str(CORPUS / FORK["of"])]
    assert [result.status for result in results.values()] == ["imported"] * 3
    assert list(results).index(origin.path) < list(results).index(fork.path)
    assert desk.payloads(fork, "session.created")[0]["parent"] == origin.session
    assert desk.payloads(fork, "session.archived") == [{}]


def test_a_file_alone_has_the_id_and_parent_it_has_in_its_home(desk: Desk, store: Store) -> None:
    (alone,) = import_path(store, str(CORPUS / FORK["file"]))
    home = CORPUS / FORK["of"].partition("/sessions/")[0]
    again = {result.path: result for result in import_path(store, str(home))}
    assert again[alone.path].session == alone.session
    assert again[alone.path].status == "unchanged"
    assert desk.payloads(alone, "session.created")[0]["parent"] == again[str(CORPUS / FORK["of"])].session


def test_the_lines_of_the_corpus_are_not_changed_by_a_checkout() -> None:
    for name, facts in FILES.items():
        lines = [("source.line", (CORPUS / name).read_bytes()), ("source.imported", {})]
        assert Facts(lines).sha256 == facts["sha256"]
