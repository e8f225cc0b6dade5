"""A step has one outcome, and gives back exactly what the model was sent, stored once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from turnlog import InvalidInput, InvalidPayload, InvalidTransition, Session, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["disk", "memory"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    store = Store.open(tmp_path / "store") if request.param == "disk" else Store.ephemeral()
    with store, store.create() as made:
        yield made


def test_a_growing_context_is_given_back_and_stored_once(session: Session) -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "x" * 1000}]
    sent: list[list[dict[str, Any]]] = []
    with session.turn("goal") as turn:
        for number in range(30):
            with turn.step(context=history) as step:
                sent.append(list(history))
                response = {"role": "assistant", "content": f"{number} " + "y" * 1000}
                step.complete(response, usage={"input": 1, "output": 2}, stop_reason="end_turn")
            assert step.context() == sent[-1]
            history += [response, {"role": "user", "content": f"{number} " + "z" * 1000}]
        turn.complete()
    messages = sum(len(str(message)) for message in history)
    assert sum(event.size for event in session.events()) < messages * 1.3
    assert (session.state.usage.input, session.state.usage.output) == (30, 60)
    assert session.state.violation_count == 0


def test_a_session_that_goes_on_refers_to_the_contexts_before(tmp_path: Path) -> None:
    history = [{"role": "user", "content": f"{number}" + "x" * 1000} for number in range(50)]
    with Store.open(tmp_path) as store, store.create().turn("first") as turn:
        turn.step(context=history).complete("hi")
        turn.complete()
    with Store.open(tmp_path) as store, store.session("latest").turn("second") as turn:
        step = turn.step(context=[*history, "more"])
        assert step.context() == [*history, "more"]
        assert store.session("latest").event(step.ordinal).size < 500
        step.complete("hi")
        turn.complete()


def test_a_large_image_of_many_steps_is_stored_once(tmp_path: Path) -> None:
    image = {"role": "user", "content": [{"type": "image", "data": "A" * 1_000_000}]}
    with Store.open(tmp_path) as store, store.create() as session, session.turn("goal") as turn:
        for number in range(5):
            with turn.step(context=[image, f"step {number}"]) as step:
                step.complete("seen")
        assert step.context() == [image, "step 4"]
        turn.complete()
        assert sum(event.size for event in session.events()) < 5000


def test_an_exception_in_the_block_is_a_failure_of_the_step(session: Session) -> None:
    with pytest.raises(TimeoutError), session.turn("goal") as turn, turn.step(context=["hello"]) as step:
        raise TimeoutError("the provider is slow")
    assert step.outcome == "failed"
    failed = next(session.events(types=["step.failed"]))
    assert failed.payload["error"] == {"type": "TimeoutError", "message": "the provider is slow"}
    assert turn.outcome == "failed"
    assert session.state.violation_count == 0


def test_a_block_left_without_a_response_is_a_failure(session: Session) -> None:
    turn = session.turn("goal")
    with turn.step() as step:
        pass
    assert step.outcome == "failed"
    turn.complete()


def test_a_step_has_one_outcome(session: Session) -> None:
    step = session.turn("goal").step()
    step.complete("hi")
    with pytest.raises(InvalidTransition):
        step.complete("again")
    with pytest.raises(InvalidTransition):
        step.fail("late")
    assert session.state.step_counts == {"completed": 1}


def test_a_second_step_is_refused_while_one_runs_and_nothing_is_written(session: Session) -> None:
    turn = session.turn("goal")
    turn.step(context=["a"])
    before = session.head()
    with pytest.raises(InvalidTransition, match=r"while .*'s1'"):
        turn.step(context=["a", "b"])
    assert session.head() == before


def test_a_context_that_is_no_json_is_refused_and_the_next_one_is_right(session: Session) -> None:
    turn = session.turn("goal")
    with pytest.raises(InvalidPayload):
        turn.step(context=[{"content": float("nan")}])
    step = turn.step(context=["a"])
    assert step.context() == ["a"]


@pytest.mark.parametrize("usage", [{"input": -1}, {"output": 1.5}, {"cache_read": "many"}, {"cache_write": True}])
def test_a_count_of_tokens_that_is_none_is_refused(session: Session, usage: dict[str, Any]) -> None:
    step = session.turn("goal").step()
    with pytest.raises(InvalidInput, match="counts tokens"):
        step.complete("hi", usage=usage)
    step.complete("hi", usage={"input": 1, "output": 2, "cache_read": 3, "cache_creation": 4, "reasoning": 5})
    assert tuple(getattr(session.state.usage, name) for name in ("input", "cache_read", "cache_write")) == (1, 3, 4)


@pytest.mark.parametrize(
    "response",
    [
        {"role": "assistant", "content": "m" * 2000},
        {"message": {"role": "assistant", "content": "m" * 2000}},
        {"choices": [{"message": {"role": "assistant", "content": "m" * 2000}}]},
        {"output": [{"type": "message", "content": "m" * 2000}]},
    ],
)
def test_a_response_that_the_next_context_repeats_is_stored_once(session: Session, response: dict[str, Any]) -> None:
    turn = session.turn("goal")
    turn.step(context=["hello"]).complete(response)
    message = response.get("message") or response
    message = response["choices"][0]["message"] if "choices" in response else message
    message = response["output"][0] if "output" in response else message
    step = turn.step(context=["hello", message])
    assert step.context() == ["hello", message]
    assert session.event(step.ordinal).size < 500
