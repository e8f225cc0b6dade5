"""After a restart: the plan, a step and a call are handles again, made from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from turnlog import NotFound, Store
from turnlog.state.state import RECENT_TURNS_MAX

if TYPE_CHECKING:
    from pathlib import Path


def test_a_plan_is_approved_and_revised_by_another_process(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store") as store, store.create() as session:
        assert session.current_plan is None
        session.plan("1. fix").revise("1. reproduce 2. fix")
    with Store.open(tmp_path / "store") as store, store.resume(session.id) as again:
        plan = again.current_plan
        assert plan is not None
        assert (plan.version, plan.content) == (2, "1. reproduce 2. fix")
        assert plan.approve(by="user").revise("1. bisect").version == 3
        assert again.state.plan is not None
        assert again.state.plan.version == 3


@pytest.mark.parametrize("turns_between", [0, RECENT_TURNS_MAX + 1])
def test_what_any_step_was_sent_is_read_after_a_restart(tmp_path: Path, turns_between: int) -> None:
    contexts = [[f"message {number}" for number in range(size)] for size in (1, 3, 2)]
    with Store.open(tmp_path / "store") as store, store.create() as session:
        with session.turn("go", id="t1") as turn:
            turn.step(context=contexts[0]).complete("ok")
            turn.step(context=contexts[1]).fail("overloaded")
            turn.step(context=contexts[2]).complete("ok")
            turn.complete()
        for _ in range(turns_between):
            with session.turn("more") as turn:
                turn.complete()
    with Store.open(tmp_path / "store") as store:
        steps = [store.session(session.id).step("t1", name) for name in ("s1", "s2", "s3")]
        assert [step.context() for step in steps] == contexts
        assert [step.outcome for step in steps] == ["completed", "failed", "completed"]
        with pytest.raises(NotFound, match="s4"):
            store.session(session.id).step("t1", "s4")
