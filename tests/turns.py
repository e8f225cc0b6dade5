"""One turn of an agent, event by event, with what may have happened when it is cut short after any of them.

Method: the expectations are written down beside the events, by hand; nothing here asks the code under test.
"""

from __future__ import annotations

from typing import Any

CREATED = "session.created"

TURN: list[tuple[str, dict[str, Any]]] = [
    ("turn.started", {"turn": "t1", "input": "Send the report."}),
    ("step.started", {"turn": "t1", "step": "s1"}),
    ("step.completed", {"turn": "t1", "step": "s1", "response": "First the files.", "usage": {"input": 9}}),
    ("tool.proposed", {"turn": "t1", "call_id": "c1", "name": "bash", "arguments": {"cmd": "ls"}, "effect": "none"}),
    (
        "tool.proposed",
        {"turn": "t1", "call_id": "c2", "name": "send", "arguments": {"to": "x"}, "idempotency_key": "k"},
    ),
    ("tool.approved", {"turn": "t1", "call_id": "c1", "by": "policy"}),
    ("tool.started", {"turn": "t1", "call_id": "c1"}),
    ("tool.completed", {"turn": "t1", "call_id": "c1", "content": "report.txt"}),
    ("tool.approved", {"turn": "t1", "call_id": "c2", "by": "user"}),
    ("tool.started", {"turn": "t1", "call_id": "c2"}),
    ("tool.completed", {"turn": "t1", "call_id": "c2", "content": "sent"}),
    ("message.assistant", {"turn": "t1", "step": "s2", "content": [{"type": "text", "text": "Done."}]}),
    ("turn.completed", {"turn": "t1"}),
]

# After how many events of the turn: the classes of the two calls (None: not proposed), whether the turn was cut short.
STANDINGS: list[tuple[str | None, str | None, bool]] = [
    (None, None, False),
    (None, None, True),
    (None, None, True),
    (None, None, True),
    ("not_started", None, True),
    ("not_started", "not_started", True),
    ("not_started", "not_started", True),
    ("unknown", "not_started", True),
    ("finished", "not_started", True),
    ("finished", "not_started", True),
    ("finished", "unknown", True),
    ("finished", "finished", True),
    ("finished", "finished", True),
    ("finished", "finished", False),
]
