"""A seeded agent rollout: turns of messages, tool calls, results and usage, in the sizes real sessions have.

Owns: the data of every bench. Invariant: one seed gives the same events everywhere; mean payload about 1.5 KB. The
texts are slices of Python's own library and generated listings and logs, so they compress about as real transcripts do.
"""

from __future__ import annotations

import math
import os
import random
import sysconfig
from functools import cache
from itertools import islice
from pydoc_data import topics
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from turnlog import Session

SEED = 7
MODELS = ("model-large", "model-small", "model-code")
_SKIPPED = {"site-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3"}


@cache
def _prose() -> str:
    return " ".join(" ".join(topics.topics[name] for name in sorted(topics.topics)).split())


@cache
def _words() -> list[str]:
    return [word for word in _prose().split() if len(word) < 24]


@cache
def _sources() -> list[tuple[str, list[str]]]:
    library = sysconfig.get_paths()["stdlib"]
    found = []
    for root, folders, files in os.walk(library):
        folders[:] = sorted(set(folders) - _SKIPPED)
        for name in sorted(files):
            if name.endswith(".py"):
                path = os.path.join(root, name)
                with open(path, encoding="utf-8", errors="replace") as file:
                    found.append((os.path.relpath(path, library), file.read().split("\n")))
    return [source for source in found if len(source[1]) > 10]


def fill(session: Session, events: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Append the events, buffered, a thousand at a time."""
    rest = iter(events)
    while batch := list(islice(rest, 1000)):
        session.append_many(batch, durability="buffered")


class Rollout:
    """Generates the events of sessions from one seed."""

    def __init__(self, seed: int = SEED) -> None:
        """Start the generator."""
        self._random = random.Random(seed)

    def session(self, events: int, cwd: str = "/home/dev/project") -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (type, payload) of one session, about `events` of them, whole turns."""
        pick = self._random
        yield "session.created", {"title": self._sentence(60), "cwd": cwd, "model": pick.choice(MODELS)}
        made = 1
        while made < events:
            for event in self._turn():
                yield event
                made += 1
                if made >= events:
                    return

    def _turn(self) -> Iterator[tuple[str, dict[str, Any]]]:
        pick = self._random
        yield "message.user", {"content": [{"type": "text", "text": self._text(int(200 + pick.random() ** 2 * 1800))}]}
        for _ in range(pick.randrange(1, 9)):
            text = self._text(int(500 + pick.random() ** 2 * 3500))
            yield "message.assistant", {"content": [{"type": "text", "text": text}], "stop_reason": "tool_use"}
            given, made = pick.randrange(2000, 90000), pick.randrange(50, 2000)
            usage = {"input": given, "output": made, "cache_read": pick.randrange(given), "cache_write": 0}
            yield "step.completed", {"usage": usage, "cost_usd": round(given * 3e-6 + made * 1.5e-5, 6)}
            make, tool = self._tool()
            call = f"call_{pick.getrandbits(96):024x}"
            yield "tool.proposed", {"call_id": call, "name": tool, "input": self._arguments()}
            size = max(40, min(200_000, int(1500 * math.exp(pick.gauss(0, 1.3)))))
            output = {"exit_code": 0, "duration_ms": round(pick.expovariate(1 / 800), 2), "text": make(size)}
            yield "tool.completed", {"call_id": call, "name": tool, "output": output}

    def turns(self, events: int, cwd: str = "/home/dev/project") -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (type, payload) of a session that the session model wrote: about `events` of them, all legal, the last
        turn and a call of it left open. Mean payload about 1 KB.
        """
        pick, model = self._random, self._random.choice(MODELS)
        yield "session.created", {"title": self._sentence(60), "cwd": cwd, "model": model}
        made, turn, step = 1, "", 0
        while made < events:
            if turn:
                yield "turn.completed", {"turn": turn}
            turn = f"{pick.getrandbits(128):032x}"
            goal = self._text(int(200 + pick.random() ** 2 * 1800))
            yield "turn.started", {"turn": turn, "input": goal}
            added: list[Any] = [{"role": "user", "content": goal}]
            for _ in range(pick.randrange(2, 12)):
                step += 1
                for event in self._call(turn, f"s{step}", model, added):
                    yield event
                    made += 1
                    if made >= events:
                        return
            made += 2

    def _call(self, turn: str, step: str, model: str, added: list[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield a step and the call it asks for; `added` holds what the next step is sent."""
        pick = self._random
        context = {"base": None if len(added) == 1 else 1, "kept": pick.randrange(200), "added": list(added)}
        yield "step.started", {"turn": turn, "step": step, "model": model, "context": context}
        call = f"call_{pick.getrandbits(128):032x}"
        make, tool = self._tool()
        arguments = self._arguments()
        blocks = [{"type": "text", "text": self._text(int(100 + pick.random() ** 2 * 2500))}]
        asked = {"type": "tool_use", "id": call, "name": tool, "input": arguments}
        given, written = pick.randrange(2000, 90000), pick.randrange(50, 2000)
        usage = {"input": given, "output": written, "cache_read": pick.randrange(given), "cache_write": 0}
        response = {"role": "assistant", "content": [*blocks, asked]}
        named = {"turn": turn, "step": step}
        yield "step.completed", {**named, "response": response, "stop_reason": "tool_use", "usage": usage}
        named = {"turn": turn, "call_id": call}
        key = f"{pick.getrandbits(128):032x}"
        effect = pick.choice(("none", "idempotent", "external"))
        proposal = {"step": step, "name": tool, "effect": effect, "idempotency_key": key, "arguments": arguments}
        yield "tool.proposed", {**named, **proposal}
        yield "tool.approved", {**named, "by": "user"}
        yield "tool.started", {**named, "idempotency_key": key, "attempt": 1}
        text = make(max(40, min(200_000, int(1100 * math.exp(pick.gauss(0, 1.2))))))
        yield "tool.completed", {**named, "content": text, "duration_ms": round(pick.expovariate(1 / 800))}
        result = {"type": "tool_result", "tool_use_id": call, "content": text[:2000]}
        added[:] = [{"event": 1, "path": ["response"]}, {"role": "user", "content": [result]}]

    def _tool(self) -> tuple[Callable[[int], str], str]:
        makers = (
            (self.code, "read"),
            (self._matches, "grep"),
            (self._log, "shell"),
            (self._listing, "glob"),
            (self._text, "fetch"),
        )
        return self._random.choices(makers, weights=(40, 20, 22, 10, 8))[0]

    def _arguments(self) -> dict[str, Any]:
        pick = self._random
        path = _sources()[pick.randrange(len(_sources()))][0]
        command = self._text(pick.randrange(40, 600))
        return {"path": f"src/{path}", "command": command, "timeout_ms": pick.choice((1000, 30000, 120000))}

    def _sentence(self, size: int) -> str:
        start = self._random.randrange(len(_prose()) - size)
        return _prose()[start : start + size]

    def _text(self, size: int) -> str:
        if self._random.random() < 0.5:
            return self._sentence(size)
        return self._gather(size, lambda: self._random.choice(_words()), " ")

    def code(self, size: int) -> str:
        """Return numbered lines of source, as a file read shows them."""
        _, lines = self._random.choice(_sources())
        start = self._random.randrange(max(1, len(lines) - 5))
        numbered = (f"{number:6d}\t{line}" for number, line in enumerate(lines[start:], start + 1))
        return "\n".join(numbered)[:size] or "\n"

    def _matches(self, size: int) -> str:
        def match() -> str:
            path, lines = self._random.choice(_sources())
            row = self._random.randrange(len(lines))
            return f"lib/{path}:{row + 1}:{lines[row].strip()[:160]}"

        return self._gather(size, match, "\n")

    def _log(self, size: int) -> str:
        clock = self._random.randrange(86_400)

        def line() -> str:
            nonlocal clock
            clock += self._random.randrange(3)
            stamp = f"2026-03-05T{clock // 3600 % 24:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}Z"
            words = " ".join(self._random.choice(_words()) for _ in range(6))
            level = self._random.choice(("INFO", "INFO", "DEBUG", "WARNING", "ERROR"))
            return f"{stamp} {level} worker-{self._random.randrange(8)} req={self._random.getrandbits(64):016x} {words}"

        return self._gather(size, line, "\n")

    def _listing(self, size: int) -> str:
        def row() -> str:
            path = self._random.choice(_sources())[0]
            size, day = self._random.randrange(100, 99999), self._random.randrange(1, 28)
            return f"-rw-r--r-- 1 dev dev {size:>7} Mar {day:>2} {path}"

        return self._gather(size, row, "\n")

    def _gather(self, size: int, make: Callable[[], str], joint: str) -> str:
        parts: list[str] = []
        length = 0
        while length < size:
            part = make()
            parts.append(part)
            length += len(part) + len(joint)
        return joint.join(parts)[:size]
