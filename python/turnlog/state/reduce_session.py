"""What the events of the session itself do: identity, lineage, settings, title, tags, files, permissions, history.

Owns: the rules of the families session, file, permission and context. Invariant: identity is set once, and again only
by a fork, which makes another session. Must not know: turns and what happens in them.
"""

from __future__ import annotations

from msgspec.structs import replace

from turnlog.artifacts.offload import references, resolve
from turnlog.errors import ArtifactNotFound
from turnlog.settings import RESERVED
from turnlog.state.records import Context, Files, Grant, Identity, Origin
from turnlog.state.reduce_rules import (
    Payload,
    Refusal,
    Rule,
    is_observed,
    legal,
    missing,
    note,
    positive,
    preview,
    text,
    texts,
)
from turnlog.state.state import NAMES_MAX, State
from turnlog.state.transitions import OPEN, SESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnlog.reference import Reference


def judge_session(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge an event of the session's own machine."""
    if type not in SESSION[state.phase]:
        return Refusal("session_order", f"{type} in a session that is {state.phase}")
    if type == "session.forked" and not (text(payload, "parent") and positive(payload, "fork_ordinal")):
        return missing(type, "parent and fork_ordinal")
    return None


def _move(state: State, type: str, payload: Payload, ordinal: int) -> bool:
    """Take the step in the session's machine; False if the event has no effect."""
    refusal = judge_session(state, type, payload)
    if refusal is None:
        state.phase = SESSION[state.phase][type]
        return True
    if is_observed(payload):
        return True
    note(state, ordinal, refusal)
    return False


def _created(state: State, type: str, payload: Payload, ordinal: int, time_us: int) -> None:
    if _move(state, type, payload, ordinal) and state.identity is None:
        state.identity = Identity(ordinal, time_us, text(payload, "principal"), text(payload, "parent"))
        _describe(state, payload, ordinal)


def _forked(state: State, type: str, payload: Payload, ordinal: int, time_us: int) -> None:
    """Become another session: what came before is its parent's history, what it did there it has done."""
    if _move(state, type, payload, ordinal):
        parent = text(payload, "parent")
        inherited = "" if state.identity is None else state.identity.principal
        state.identity = Identity(ordinal, time_us, text(payload, "principal") or inherited, parent)
        origin = Origin(ordinal, parent, positive(payload, "fork_ordinal"), text(payload, "parent_chain"))
        state.lineage = (*state.lineage, origin)
        state.archived = False
        _describe(state, payload, ordinal)


def _ended(state: State, type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    _move(state, type, payload, ordinal)


def _describe(state: State, payload: Payload, ordinal: int) -> None:
    """Take title, tags and settings."""
    state.title = preview(payload.get("title")) or state.title
    _tagged(state, "", payload, ordinal, 0)
    _configured(state, "", payload, ordinal, 0)


def _configured(state: State, _type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    settings = dict(state.settings)
    for name, value in payload.items():
        if name in RESERVED:
            continue
        if value is None:
            settings.pop(name, None)
        elif name in settings or len(settings) < NAMES_MAX:
            settings[name] = _whole(value)
        else:
            note(state, ordinal, Refusal("settings_full", f"more than {NAMES_MAX} settings"))
            break
    if settings != state.settings:
        state.settings, state.configured_ordinal = settings, ordinal


def _whole(value: object) -> object:
    """Return a setting as it was given: they are stored in place, but for the escape of keys that look like ours."""
    if not isinstance(value, dict | list) or any(references(value)):
        return value
    return resolve(value, _nothing_to_read)


def _nothing_to_read(reference: Reference) -> bytes:
    raise ArtifactNotFound(f"a setting refers to artifact {reference.digest}")


def _renamed(state: State, _type: str, payload: Payload, _ordinal: int, _time_us: int) -> None:
    if "title" in payload:
        state.title = preview(payload["title"])


def _tagged(state: State, _type: str, payload: Payload, _ordinal: int, _time_us: int) -> None:
    added, removed = texts(payload, "tags"), texts(payload, "tags_removed")
    if added or removed:
        kept = [tag for tag in dict.fromkeys((*state.tags, *map(preview, added))) if tag and tag not in removed]
        state.tags = tuple(kept[:NAMES_MAX])


def _archived(state: State, type: str, _payload: Payload, _ordinal: int, _time_us: int) -> None:
    state.archived = type == "session.archived"


def _touched(state: State, _type: str, _payload: Payload, _ordinal: int, _time_us: int) -> None:
    state.files = Files(state.files.snapshot_ordinal, state.files.touched_since + 1)


def _snapshot(state: State, _type: str, _payload: Payload, ordinal: int, _time_us: int) -> None:
    state.files = Files(ordinal)


def judge_permission(state: State, type: str, payload: Payload) -> Refusal | None:
    """Judge an allowance or its end."""
    grant = text(payload, "grant")
    if not grant:
        return missing(type, "grant")
    if type == "permission.revoked" and grant not in state.grants:
        return Refusal("grant_unknown", f"no allowance {grant!r} to revoke")
    return None


def _permission(state: State, type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    refusal = judge_permission(state, type, payload)
    if refusal is not None:
        if not is_observed(payload):
            note(state, ordinal, refusal)
        return
    name = text(payload, "grant")
    state.grants.pop(name, None)
    if type == "permission.granted":
        given = text(payload, "tool"), text(payload, "pattern"), text(payload, "by")
        state.grants[name] = Grant(name, ordinal, *given)


def _compacted(state: State, _type: str, payload: Payload, ordinal: int, _time_us: int) -> None:
    old, first, last = state.context, positive(payload, "first"), positive(payload, "last")
    state.context = Context(old.compactions + 1, ordinal, first, last, old.rolled_back_turns)


def _rolled_back(state: State, _type: str, payload: Payload, _ordinal: int, _time_us: int) -> None:
    old = state.context
    state.context = replace(old, rolled_back_turns=old.rolled_back_turns + positive(payload, "turns"))


def reopen(state: State) -> None:
    """Note that work goes on after an orderly close."""
    if "turn.started" in SESSION[state.phase]:
        state.phase = OPEN


RULES = {
    "session.created": Rule(judge_session, _created, None),
    "session.forked": Rule(judge_session, _forked, None),
    "session.closed": Rule(judge_session, _ended),
    "session.deleted": Rule(judge_session, _ended),
    "session.configured": Rule(legal, _configured, None),
    "session.renamed": Rule(legal, _renamed, ("title",)),
    "session.tagged": Rule(legal, _tagged, ("tags", "tags_removed")),
    "session.archived": Rule(legal, _archived),
    "session.unarchived": Rule(legal, _archived),
    "file.read": Rule(legal, _touched),
    "file.written": Rule(legal, _touched),
    "file.snapshot": Rule(legal, _snapshot),
    "permission.granted": Rule(judge_permission, _permission, ("grant", "tool", "pattern")),
    "permission.revoked": Rule(judge_permission, _permission, ("grant",)),
    "context.compacted": Rule(legal, _compacted, ("first", "last")),
    "context.rolled_back": Rule(legal, _rolled_back, ("turns",)),
}
