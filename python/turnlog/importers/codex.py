"""Codex rollouts (`rollout-*.jsonl`, bare lines, envelopes, envelopes with ordinals) as typed events.

Owns: which event a record becomes, turns, one `step.completed` for each change of the token total, exit codes of tool
outputs. Invariants: mapping goes by the shape of a record, never by a version; the model's view (response items) is
mapped, its copies for the user interface are not, so nothing counts twice. Must not know: files, stores, other
rollouts a file refers to.
"""

from __future__ import annotations

from turnlog.importers.codex_records import (
    CALLS,
    KNOWN_WITHOUT_EVENT,
    OUTPUTS,
    PROVIDER_CALLS,
    envelope,
    exit_code,
    is_synthetic,
    text_of,
    usage_of,
)
from turnlog.importers.mapper import Mapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from turnlog.importers.mapper import Payload

META = {
    "id": "session", "cwd": "cwd", "cli_version": "version", "originator": "entrypoint", "model_provider": "provider",
    "history_mode": "history_mode", "forked_from_id": "forked_from", "parent_thread_id": "parent_thread",
    "history_base": "history_base", "git": "git", "source": "origin", "thread_source": "thread_source",
    "agent_nickname": "agent",
}  # fmt: skip
CONTEXT = {
    "cwd": "cwd", "model": "model", "effort": "effort", "reasoning_effort": "effort", "approval_policy":
    "approval_policy", "sandbox_policy": "sandbox_policy", "permission_profile": "permission_profile",
    "model_provider_id": "provider",
}  # fmt: skip


class CodexMapper(Mapper):
    """Maps one rollout file."""

    product = "codex"

    def __init__(self) -> None:
        """Start in front of line 1."""
        super().__init__()
        self._settings: Payload = {}
        self._session: str | None = None
        self._enveloped = self._envelopes_only = False
        self._statuses: dict[str, Payload] = {}
        self._total: object = None
        self._pending: Payload | None = None

    def begin_line(self) -> None:
        """Expect envelopes once there was one."""
        self._envelopes_only = self._enveloped

    def is_record(self, value: object) -> bool:
        """Tell a record from an object inside one: an envelope, or an item in files without envelopes."""
        if not isinstance(value, dict):
            return False
        if isinstance(value.get("payload"), dict) and {"timestamp", "type"} <= value.keys():
            return True
        if self._envelopes_only:
            return False
        return envelope(value)[0].startswith(("response_item/", "event_msg/", "record/", "session_meta"))

    def record(self, record: Payload) -> None:
        """Map one record."""
        kind, payload = envelope(record)
        if "payload" in record:
            self._enveloped = True
            if isinstance(time := record.get("timestamp"), str):
                self.time = time
                self.facts.saw_time(time)
        elif not self._enveloped:
            self._time_without_envelope(kind, payload)
        family, _, name = kind.partition("/")
        if family == "response_item" and (name in CALLS or name in PROVIDER_CALLS):
            self._call(name, payload)
        elif family == "response_item" and name in OUTPUTS:
            self._output(name, payload)
        elif mapping := MAPPINGS.get(kind):
            mapping(self, payload)
        elif kind not in KNOWN_WITHOUT_EVENT:
            self.unknown(kind)
        if kind in {"event_msg/item_completed", "event_msg/exec_command_end"}:
            self._remember_status(payload)

    def _time_without_envelope(self, kind: str, payload: Payload) -> None:
        """Take the time of a header, which is the only one in files without envelopes, for all that follows it."""
        header = payload.get("session") if kind == "document" else payload if kind == "session_meta" else None
        time = header.get("timestamp") if isinstance(header, dict) else None
        if isinstance(time, str):
            self.other_time = time, "header"
            self.time = time
        else:
            self.infer_time()

    def close(self) -> None:
        """Report a model response whose token count has not come."""
        self._end_step()

    def configure(self, changes: Payload) -> None:
        """Emit the settings that differ from the last known ones."""
        changed = {
            name: value for name, value in changes.items() if value is not None and self._settings.get(name) != value
        }
        if changed:
            self._settings.update(changed)
            self.emit("session.configured", changed)

    def meta(self, payload: Payload) -> None:
        """Map a session header: the first one is the session's, another id is history copied from that session."""
        identity = payload.get("id")
        if self._session is None:
            self._session = str(identity)
            self.configure({"product": self.product, **{name: payload.get(key) for key, name in META.items()}})
            if isinstance(payload.get("timestamp"), str):
                self.configure({"started": payload["timestamp"]})
        elif str(identity) != self._session:
            self.emit("session.configured", {"copied_from": str(identity)})

    def context(self, payload: Payload) -> None:
        """Map the settings of a turn or of the session."""
        settings = payload.get("thread_settings")
        source = settings if isinstance(settings, dict) else payload
        self.configure({name: source.get(key) for key, name in CONTEXT.items() if source.get(key) is not None})

    def message(self, payload: Payload) -> None:
        """Map a message of the model's view."""
        role = payload.get("role")
        content = payload.get("content")
        fields = {"role": role, "content": content, "id": payload.get("id"), "phase": payload.get("phase")}
        if role == "user":
            text = text_of(content)
            kind = "synthetic" if is_synthetic(text) else "prompt"
            if kind == "prompt" and (self.turn is None or self.turn_inferred):
                self._end_step()
                self.start_turn(f"line-{self.place()['line']}", {"by": "user"}, inferred=True)
            self.emit("message.user", {"kind": kind, **fields})
        elif role == "assistant":
            self.emit("message.assistant", fields)
        else:
            self.emit("message.system", {"kind": role, **fields})

    def reasoning(self, payload: Payload) -> None:
        """Map reasoning; what is encrypted stays in the line."""
        fields = {"content": payload.get("content"), "summary": payload.get("summary") or None, "id": payload.get("id")}
        self.emit("message.assistant", {"kind": "reasoning", **fields})

    def between_agents(self, payload: Payload) -> None:
        """Map a message from one agent to another."""
        fields = {
            "content": payload.get("content"),
            "author": payload.get("author"),
            "recipient": payload.get("recipient"),
        }
        self.emit("message.system", {"kind": "agent_message", **fields})

    def _call(self, name: str, payload: Payload) -> None:
        """Map a tool call. Call ids come from the provider and may repeat, so a reader pairs in file order."""
        provider = name in PROVIDER_CALLS
        place = self.place()
        call = str(payload.get("call_id") or payload.get("id") or f"line-{place['line']}-{place['offset']}")
        arguments = payload.get("action") if provider else payload.get(CALLS[name])
        fields = {
            "call_id": call,
            "name": payload.get("name") or name,
            "kind": name,
            "by": "provider" if provider else None,
        }
        self.emit("tool.proposed", {"arguments": arguments, "namespace": payload.get("namespace"), **fields})
        if provider and payload.get("status") == "completed":
            self.emit("tool.completed", fields)

    def _output(self, name: str, payload: Payload) -> None:
        """Map the output of a tool call."""
        call = str(payload.get("call_id"))
        content = payload.get(OUTPUTS[name])
        status = self._statuses.pop(call, {})
        code, copied = (None if name == "tool_search_output" else exit_code(content)), None
        if code is None and (code := status.get("exit_code")) is not None:
            copied = True
        failed = bool(code) or status.get("status") in ("failed", "declined")
        fields = {"call_id": call, "kind": name, "content": content, "exit_code": code, "exit_code_copied": copied}
        fields["status"] = status.get("status")
        self.emit("tool.failed" if failed else "tool.completed", fields)

    def _remember_status(self, payload: Payload) -> None:
        """Keep what the interface's copy of a tool result knows about its outcome until the output comes."""
        item = payload.get("item")
        facts = item if isinstance(item, dict) else payload
        call = facts.get("call_id") or facts.get("id")
        if isinstance(call, str) and facts.get("status") is not None:
            self._statuses[call] = {"status": facts.get("status"), "exit_code": facts.get("exit_code")}

    def turn_started(self, payload: Payload) -> None:
        """Map the start of a turn."""
        self._end_step()
        fields = {"context_window_tokens": payload.get("model_context_window"), "by": "user"}
        self.start_turn(str(payload.get("turn_id")), fields, inferred=False)

    def turn_completed(self, payload: Payload) -> None:
        """Map the end of a turn."""
        self._end_step()
        kind = "turn.failed" if payload.get("error") else "turn.completed"
        fields = {
            "turn": payload.get("turn_id"),
            "duration_ms": payload.get("duration_ms"),
            "error": payload.get("error"),
        }
        self.end_turn(kind, fields)

    def turn_aborted(self, payload: Payload) -> None:
        """Map a turn that was stopped."""
        self._end_step()
        self.end_turn("turn.aborted", {"turn": payload.get("turn_id"), "reason": payload.get("reason")})

    def token_count(self, payload: Payload) -> None:
        """Map a token count: a model call ended if the total has changed, else it only repeats the last one."""
        info = payload.get("info")
        total = info.get("total_token_usage") if isinstance(info, dict) else None
        if not isinstance(info, dict) or total is None:
            return
        if total != self._total:
            step = self._pending or {}
            self._pending = None
            self._total = total
            usage = usage_of(info.get("last_token_usage"))
            window = info.get("model_context_window")
            self.emit(
                "step.completed",
                {
                    "usage": usage,
                    "total": total,
                    "context_window_tokens": window,
                    **step,
                    "model": self._settings.get("model"),
                },
            )
        self._end_step()

    def usage_record(self, payload: Payload) -> None:
        """Keep the usage of one response until its token count comes."""
        self._end_step()
        usage = payload.get("usage")
        self._pending = {"step": payload.get("response_id"), "usage": usage_of(usage)}

    def _end_step(self) -> None:
        """Report a response whose token count did not come."""
        if self._pending is not None:
            step, self._pending = self._pending, None
            self.emit("step.completed", {**step, "model": self._settings.get("model")})

    def failed(self, payload: Payload) -> None:
        """Map an error of a model call."""
        self.emit("step.failed", {"message": payload.get("message"), "info": payload.get("codex_error_info")})

    def compacted(self, payload: Payload) -> None:
        """Map a compaction; the history that replaces the context stays in the line."""
        items = payload.get("replacement_history")
        count = len(items) if isinstance(items, list) else None
        fields = {"summary": payload.get("message"), "items": count, "window": payload.get("window_number")}
        self.emit("context.compacted", {"kind": "full", **fields})

    def rolled_back(self, payload: Payload) -> None:
        """Map a rollback: the last user turns are no longer part of the context."""
        self.emit("context.rolled_back", {"turns": payload.get("num_turns")})

    def renamed(self, payload: Payload) -> None:
        """Map a new name."""
        self.emit("session.renamed", {"title": payload.get("thread_name"), "by": "user"})

    def snapshot(self, payload: Payload) -> None:
        """Map a snapshot of the work tree."""
        commit = payload.get("ghost_commit")
        self.emit("file.snapshot", {"commit": commit.get("id") if isinstance(commit, dict) else None})

    def goal(self, payload: Payload) -> None:
        """Map a change of the session's goal."""
        self.emit("task.updated", {"kind": "goal", "goal": payload.get("goal")})

    def review(self, payload: Payload) -> None:
        """Map the start or end of a review."""
        self.emit("message.system", {"kind": payload.get("type"), "content": payload.get("user_facing_hint")})

    def document(self, payload: Payload) -> None:
        """Map a file that is one object with all items."""
        self.meta(payload["session"])
        for item in payload["items"]:
            if isinstance(item, dict):
                self.record(item)


MAPPINGS: dict[str, Callable[[CodexMapper, Payload], None]] = {
    "session_meta": CodexMapper.meta,
    "turn_context": CodexMapper.context,
    "compacted": CodexMapper.compacted,
    "token_usage_record": CodexMapper.usage_record,
    "inter_agent_communication": CodexMapper.between_agents,
    "document": CodexMapper.document,
    "response_item/message": CodexMapper.message,
    "response_item/reasoning": CodexMapper.reasoning,
    "response_item/agent_message": CodexMapper.between_agents,
    "response_item/ghost_snapshot": CodexMapper.snapshot,
    "event_msg/task_started": CodexMapper.turn_started,
    "event_msg/turn_started": CodexMapper.turn_started,
    "event_msg/task_complete": CodexMapper.turn_completed,
    "event_msg/turn_complete": CodexMapper.turn_completed,
    "event_msg/turn_aborted": CodexMapper.turn_aborted,
    "event_msg/token_count": CodexMapper.token_count,
    "event_msg/error": CodexMapper.failed,
    "event_msg/thread_rolled_back": CodexMapper.rolled_back,
    "event_msg/thread_name_updated": CodexMapper.renamed,
    "event_msg/thread_settings_applied": CodexMapper.context,
    "event_msg/thread_goal_updated": CodexMapper.goal,
    "event_msg/entered_review_mode": CodexMapper.review,
    "event_msg/exited_review_mode": CodexMapper.review,
}
