"""Documents that a user sent come back in every shape that takes them, and are named in those that do not."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from turnlog import Store
from turnlog.history.check import problems

if TYPE_CHECKING:
    from pathlib import Path

SHAPES = ("anthropic", "openai_responses", "openai_chat")
DATA = base64.b64encode(b"%PDF-1.7 a report").decode()
DATA_URL = f"data:application/pdf;base64,{DATA}"
PDF = {
    "type": "document",
    "title": "report",
    "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
}
NAMED = {"filename": "report.pdf", "file_data": DATA_URL}
QUESTION = {"type": "text", "text": "What does it say?"}


def sent(block: dict[str, Any], shape: str) -> Any:
    """Return the first part of the message that a user's document became."""
    session = Store.ephemeral().create()
    session.turn([block, QUESTION]).complete()
    messages = list(session.history(shape))
    assert problems(shape, messages) == []
    content = messages[0]["content"]
    return content[0] if isinstance(content, list) else content.split("\n")[0]


@pytest.mark.parametrize(
    "block",
    [PDF, {"type": "input_file", **NAMED}, {"type": "file", "file": NAMED}],
    ids=["document", "input_file", "file"],
)
def test_the_bytes_of_a_document_are_sent_in_every_shape(block: dict[str, Any]) -> None:
    assert sent(block, "anthropic")["source"] == PDF["source"]
    assert sent(block, "openai_responses") == {"type": "input_file", **NAMED}
    assert sent(block, "openai_chat") == {"type": "file", "file": NAMED}


def test_what_only_one_provider_knows_of_a_document_is_kept_for_it() -> None:
    block = {**PDF, "context": "the third one", "citations": {"enabled": True}, "cache_control": {"type": "ephemeral"}}
    assert sent(block, "anthropic") == {**PDF, "context": "the third one", "citations": {"enabled": True}}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_document_that_is_plain_text_is_a_text_everywhere(shape: str) -> None:
    given = base64.b64encode(b"It works.").decode()
    for source in (
        {"type": "text", "media_type": "text/plain", "data": "It works."},
        {"type": "base64", "media_type": "text/plain", "data": given},
        {"type": "content", "content": [{"type": "text", "text": "It works."}]},
    ):
        found = sent({"type": "document", "source": source}, shape)
        if shape == "anthropic":
            assert found == {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "It works."},
            }
        else:
            assert found in ("It works.", {"type": "input_text", "text": "It works."})


def test_an_address_is_sent_where_the_provider_fetches_it() -> None:
    url = "https://example.org/a.pdf"
    block = {"type": "document", "source": {"type": "url", "url": url}}
    assert sent(block, "anthropic") == block
    assert sent(block, "openai_responses") == {"type": "input_file", "file_url": url}
    assert sent(block, "openai_chat") == "[document: not shown]"


def test_a_file_that_a_provider_holds_is_sent_to_no_other_one() -> None:
    theirs = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
    assert sent(theirs, "anthropic") == theirs
    assert sent(theirs, "openai_chat") == "[document: not shown]"
    held = {"type": "input_file", "file_id": "file-1", "filename": "a.pdf"}
    assert sent(held, "openai_responses") == {"type": "input_file", "file_id": "file-1"}
    assert sent(held, "openai_chat") == {"type": "file", "file": {"file_id": "file-1"}}
    assert sent(held, "anthropic") == {"type": "text", "text": "[document a.pdf: not shown]"}


def test_bytes_that_a_shape_does_not_take_are_named() -> None:
    source = {"type": "base64", "media_type": "application/msword", "data": DATA}
    assert (
        sent({"type": "document", "title": "memo", "source": source}, "anthropic")["text"]
        == "[document memo: not shown]"
    )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_large_document_comes_back_from_its_artifact(tmp_path: Path, shape: str, as_bytes: bool) -> None:
    whole = b"%PDF-1.7" + bytes(300_000)
    data: Any = whole if as_bytes else base64.b64encode(whole).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    with Store.open(tmp_path / "store") as store:
        session = store.create()
        with session.turn([{"type": "document", "source": source}, QUESTION]) as turn:
            turn.complete()
        session.close()
        (stored,) = store.session(session.id).events(types=["turn.started"])
        assert len(str(stored.payload)) < 2000
        found = str(list(store.session(session.id).history(shape)))
        assert base64.b64encode(whole).decode() in found


@pytest.mark.parametrize("shape", SHAPES)
def test_a_document_in_a_result_is_sent_where_results_may_hold_one(shape: str) -> None:
    session = Store.ephemeral().create()
    with session.turn("read it") as turn:
        turn.tool_call("read", {}, call_id="c1").run(lambda: [PDF])
        turn.complete()
    messages = list(session.history(shape))
    assert problems(shape, messages) == []
    assert (DATA in str(messages)) == (shape == "anthropic")
    assert shape == "anthropic" or "[document report: not shown]" in str(messages)
