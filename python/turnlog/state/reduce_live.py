"""What ephemeral events do: notifications, dialogs and progress that are on the screen now.

Owns: their bounds: the oldest goes when there are too many. Invariant: a payload of any shape is accepted. Must not
know: what is stored.
"""

from __future__ import annotations

from turnlog.state.records import Notice
from turnlog.state.reduce_rules import Payload, preview, text
from turnlog.state.state import NOTICES_MAX, Live

_KINDS = {"notification": "notifications", "dialog": "dialogs", "progress": "progress"}
_GONE = frozenset({"notification.cleared", "dialog.answered", "dialog.closed"})


def apply(live: Live, type: str, time_us: int, payload: Payload) -> None:
    """Put a notice on the screen or take it away; a type of another family has no effect.

    >>> live = Live()
    >>> apply(live, "notification.shown", 0, {"notification": "n1", "text": "Saved"})
    >>> list(live.notifications)
    ['n1']
    """
    family = type.partition(".")[0]
    kind = _KINDS.get(family)
    if kind is None:
        return
    notices: dict[str, Notice] = getattr(live, kind)
    name = text(payload, "call_id" if family == "progress" else family)
    notices.pop(name, None)
    if type in _GONE:
        return
    notices[name] = Notice(name, time_us, preview(payload.get("text")), dict(payload))
    if len(notices) > NOTICES_MAX:
        del notices[next(iter(notices))]
