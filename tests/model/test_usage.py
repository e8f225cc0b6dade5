"""The counts of every provider end under the four names that a session adds up, each token once."""

from __future__ import annotations

from typing import Any

import pytest

from turnlog import InvalidInput, Store
from turnlog.model.usage import counted

ANTHROPIC = {
    "input_tokens": 12,
    "output_tokens": 7,
    "cache_read_input_tokens": 300,
    "cache_creation_input_tokens": 40,
    "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 0},
    "service_tier": "standard",
}
RESPONSES = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 109,
}
COMPLETIONS = {
    "prompt_tokens": 100,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 109,
}
OWN = {"input": 5, "output": 1, "cache_read": 3, "cache_creation": 4}


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        pytest.param(ANTHROPIC, (12, 7, 300, 40), id="anthropic"),
        pytest.param(RESPONSES, (40, 9, 60, 0), id="openai responses"),
        pytest.param(COMPLETIONS, (40, 9, 60, 0), id="openai completions"),
        pytest.param(
            {"prompt_tokens": 8, "completion_tokens": 2}, (8, 2, 0, 0), id="openai completions without details"
        ),
        pytest.param(OWN, (5, 1, 3, 4), id="own"),
        pytest.param({"input_tokens": 1, "cache_read_input_tokens": None}, (1, 0, 0, 0), id="null says nothing"),
        pytest.param({"input_tokens": 1, "input_tokens_details": None}, (1, 0, 0, 0), id="no details"),
        pytest.param({"input": 4, "input_tokens": 4}, (4, 0, 0, 0), id="twice the same"),
    ],
)
def test_what_a_provider_reports_is_counted(usage: dict[str, Any], counts: tuple[int, ...]) -> None:
    session = Store.ephemeral().create()
    step = session.turn("goal").step()
    step.complete("hi", usage=usage)
    found = session.state.usage
    assert (found.input, found.output, found.cache_read, found.cache_write) == counts
    assert counted(step.usage) == step.usage  # what is read can be given again


def test_members_that_count_no_tokens_of_a_kind_are_kept() -> None:
    assert counted(ANTHROPIC) == {
        "input": 12,
        "output": 7,
        "cache_read": 300,
        "cache_write": 40,
        "cache_creation": ANTHROPIC["cache_creation"],
        "service_tier": "standard",
    }
    found = counted(COMPLETIONS)
    assert found is not None
    assert {name: found[name] for name in found if name not in {"input", "output", "cache_read"}} == {
        name: COMPLETIONS[name] for name in COMPLETIONS if name not in {"prompt_tokens", "completion_tokens"}
    }


@pytest.mark.parametrize(
    "usage",
    [
        {"cache_creation": 1, "cache_write": 2},
        {"input": 1, "input_tokens": 2},
        {"input_tokens": 1, "prompt_tokens": 2},
        {"output_tokens": 1, "completion_tokens": 0},
        {"cache_read": 1, "prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}},
        {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}},
        {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": "2"}},
        {"output_tokens": -1},
        {"input_tokens": 1.5},
        {"completion_tokens": True},
        {"cache_creation": "4"},
        {"input": None},
    ],
    ids=str,
)
def test_numbers_that_contradict_each_other_or_are_none_are_refused(usage: dict[str, Any]) -> None:
    session = Store.ephemeral().create()
    step = session.turn("goal").step()
    with pytest.raises(InvalidInput, match="usage"):
        step.complete("hi", usage=usage)
    with pytest.raises(InvalidInput, match="usage"):
        step.fail("no", usage=usage)
    assert (session.head()[0], step.outcome) == (3, None)
