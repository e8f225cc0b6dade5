"""Valid session histories, made at random: what an application that keeps to the rules may append.

Goal: material for every test that needs a history, small or large. Method: a little simulation of an agent with its
own books, which knows nothing of the tables it is used to test. `history` is deterministic in its random source;
`histories` is the same as a hypothesis strategy.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

Item = tuple[str, dict[str, Any]]

OPEN_STAGES = ("proposed", "asked", "approved", "started", "lost")


class StoredEvent:
    """An event handle with the parts that a fold reads."""

    def __init__(self, ordinal: int, type: str, payload: Any, *, is_raw: bool = False) -> None:
        self.ordinal = ordinal
        self.type = type
        self.time_us = ordinal * 1_000
        self.is_raw = is_raw
        self.raw = payload if is_raw else json.dumps(payload).encode()

    @property
    def payload(self) -> Any:
        return self.raw if self.is_raw else json.loads(self.raw)


def stored(items: list[Item], first: int = 1) -> list[StoredEvent]:
    return [StoredEvent(ordinal, type, payload) for ordinal, (type, payload) in enumerate(items, first)]


class Agent:
    """Plays an agent: each move appends one or a few events that are legal now."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.items: list[Item] = []
        self.turns = self.steps = self.inputs = self.tasks_made = self.grants_made = 0
        self.turn = self.step = ""
        self.calls: dict[tuple[str, str], dict[str, Any]] = {}
        self.calls_in_turn = 0
        self.waiting: list[str] = []
        self.plan = ("", 0)
        self.tasks: dict[str, str] = {}
        self.needs: dict[str, list[str]] = {}
        self.grants: list[str] = []
        self.deleted = False
        self.add("session.created", title="A session", model="m1", principal="p")

    def add(self, type: str, **payload: Any) -> None:
        self.items.append((type, payload))

    def play(self, events: int) -> None:
        moves: list[Callable[[], None]] = [
            *[self.begin_or_work] * 6,
            *[self.move_call] * 6,
            self.end_turn,
            self.move_input,
            self.move_plan,
            self.move_task,
            self.move_grant,
            self.settle,
            self.remark,
        ]
        while len(self.items) < events:
            self.random.choice(moves)()

    def begin_or_work(self) -> None:
        if not self.turn:
            self.turns += 1
            self.turn, self.calls_in_turn = f"t{self.turns}", 0
            self.add("turn.started", turn=self.turn, input="Why does it fail?")
            self.add("message.user", turn=self.turn, content="Why does it fail?")
        elif not self.step:
            self.steps += 1
            self.step = f"s{self.steps}"
            self.add("step.started", turn=self.turn, step=self.step, context={"kept": 1, "added": ["d"]})
        elif self.random.random() < 0.2:
            self.add("step.failed", turn=self.turn, step=self.step, error="overloaded")
            self.step = ""
        else:
            usage = {"input": self.random.randrange(99), "output": 3, "cache_read": 2, "other": 1}
            self.add("step.completed", turn=self.turn, step=self.step, model="m1", usage=usage)
            self.add("message.assistant", turn=self.turn, step=self.step, content=[{"type": "text", "text": "So."}])
            self.step = ""
            for _ in range(self.random.randrange(3)):
                self.propose()

    def propose(self) -> None:
        self.calls_in_turn += 1
        call_id = f"c{self.calls_in_turn}"  # as providers do: the same ids again in the next turn
        call: dict[str, Any] = {"stage": "proposed", "effect": self.random.choice(["none", "idempotent", "external"])}
        call["provider"] = self.random.random() < 0.1
        self.calls[self.turn, call_id] = call
        by = {"by": "provider"} if call["provider"] else {}
        self.add("tool.proposed", turn=self.turn, call_id=call_id, name="bash", effect=call["effect"], **by)

    def move_call(self) -> None:
        if not self.calls:
            return
        key = self.random.choice(list(self.calls))
        call = self.calls[key]
        moves = {
            "proposed": ["approval_requested", "approved", "denied", "started", "cancelled", "failed"],
            "asked": ["approved", "denied", "cancelled"],
            "approved": ["started", "started", "started", "cancelled"],
            "started": ["completed", "completed", "failed", "cancelled", "outcome_unknown"],
            "lost": ["resolved"],
        }[call["stage"]]
        if call["stage"] in ("started", "lost") and call["effect"] != "external":
            moves = [*moves, "started"]
        if call["stage"] == "proposed" and call["provider"]:
            moves = ["completed"]
        name = self.random.choice(moves)
        more: dict[str, Any] = {}
        if name == "resolved":
            more["outcome"] = self.random.choice(["completed", "failed", "not_executed"])
        self.add(f"tool.{name}", turn=key[0], call_id=key[1], **more)
        stages = {"approval_requested": "asked", "approved": "approved", "started": "started"}
        stages["outcome_unknown"] = "lost"
        if more.get("outcome") == "not_executed":
            call["stage"] = "approved"
        elif name in stages:
            call["stage"] = stages[name]
        else:
            del self.calls[key]

    def end_turn(self) -> None:
        if not self.turn:
            return
        clean = not self.step and not any(turn == self.turn for turn, _ in self.calls)
        name = self.random.choice(["completed"] * 6 + ["failed"] if clean else ["aborted", "failed", "interrupted"])
        self.add(f"turn.{name}", turn=self.turn)
        self.turn = self.step = ""

    def move_input(self) -> None:
        if self.waiting and self.random.random() < 0.5:
            name = self.waiting.pop(self.random.randrange(len(self.waiting)))
            self.add("turn.input_consumed", input_id=name)
        else:
            self.inputs += 1
            self.waiting.append(f"i{self.inputs}")
            self.add("turn.input_queued", input_id=self.waiting[-1], content="And this?")

    def move_plan(self) -> None:
        stage, version = self.plan
        if not stage:
            self.plan = ("proposed", 1)
            self.add("plan.proposed", plan="p1", version=1, content="First this.")
        elif stage == "proposed" and self.random.random() < 0.5:
            self.plan = ("approved", version)
            self.add("plan.approved", version=version, by="user")
        else:
            self.plan = ("proposed", version + 1)
            self.add("plan.revised", version=version + 1, content="First that.")

    def move_task(self) -> None:
        if not self.tasks or self.random.random() < 0.4:
            self.tasks_made += 1
            name = f"k{self.tasks_made}"
            needs = self.random.sample(sorted(self.tasks), k=min(len(self.tasks), self.random.randrange(3)))
            self.tasks[name], self.needs[name] = "pending", needs
            self.add("task.added", task=name, title="Do it", depends_on=needs)
            return
        name = self.random.choice(sorted(self.tasks))
        if all(self.tasks[other] == "completed" for other in self.needs[name]) and self.tasks[name] == "pending":
            self.tasks[name] = "running"
        elif self.tasks[name] == "running":
            self.tasks[name] = self.random.choice(["completed", "failed", "pending"])
        else:
            return
        self.add("task.updated", task=name, state=self.tasks[name])

    def move_grant(self) -> None:
        if self.grants and self.random.random() < 0.5:
            self.add("permission.revoked", grant=self.grants.pop())
        else:
            self.grants_made += 1
            self.grants.append(f"g{self.grants_made}")
            self.add("permission.granted", grant=self.grants[-1], tool="bash", pattern="ls *")

    def settle(self) -> None:
        names = ["configured", "renamed", "tagged", "archived", "unarchived"]
        name = self.random.choice(names if self.turn else [*names, "closed"])
        more: dict[str, dict[str, Any]] = {
            "configured": {"model": self.random.choice(["m1", "m2"]), "effort": self.random.choice(["low", None])},
            "renamed": {"title": f"Title {len(self.items)}"},
            "tagged": {"tags": [f"x{self.random.randrange(5)}"], "tags_removed": ["x0"]},
        }
        self.add(f"session.{name}", **more.get(name, {}))

    def remark(self) -> None:
        name = self.random.choice(["message.system", "file.read", "file.snapshot", "context.compacted", "acme.note"])
        more: dict[str, dict[str, Any]] = {
            "file.read": {"path": "a.py"},
            "file.snapshot": {"files": {}},
            "context.compacted": {"first": 1, "last": len(self.items)},
        }
        self.add(name, **more.get(name, {"content": "Noted."}))


def history(random: Random, events: int) -> list[Item]:
    """Return a valid history of at least this many events."""
    agent = Agent(random)
    agent.play(events)
    return agent.items


@st.composite
def histories(draw: st.DrawFn, events_max: int = 120) -> list[Item]:
    """Draw a valid history."""
    random = draw(st.randoms(use_true_random=False))
    return history(random, draw(st.integers(1, events_max)))
