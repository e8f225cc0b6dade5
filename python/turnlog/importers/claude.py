"""Claude Code transcripts (`projects/<slug>/<session>.jsonl` and `subagents/agent-*.jsonl`) as typed events.

Owns: which event a record becomes, one `step.completed` for each model message, turns, pairing by tool call id over
the whole file. Invariants: mapping goes by the shape of a record, never by a version; parent links are not followed,
since they lose parallel results; the `usage` values of all events of one step add up to the largest the file reports
for that message. Must not know: files, stores.
"""

from __future__ import annotations

from turnlog.importers.claude_records import KNOWN_WITHOUT_EVENT, STARTS_TURN, text_of, user_role
from turnlog.importers.claude_steps import Steps
from turnlog.importers.mapper import Mapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turnlog.importers.mapper import Payload

SETTINGS = {
    "sessionId": "session",
    "cwd": "cwd",
    "gitBranch": "branch",
    "version": "version",
    "entrypoint": "entrypoint",
    "agentId": "agent",
}


class ClaudeMapper(Mapper):
    """Maps one Claude Code transcript."""

    product = "claude"

    def __init__(self) -> None:
        """Start in front of line 1."""
        super().__init__()
        self._settings: Payload = {}
        self._steps = Steps()
        self._calls: dict[str, str] = {}
        self._summaries: dict[str, str] = {}
        self._sidechain_file: bool | None = None

    def is_record(self, value: object) -> bool:
        """Tell a record from an object inside one: only records name a session or a leaf."""
        return (
            isinstance(value, dict)
            and isinstance(value.get("type"), str)
            and not value.keys().isdisjoint(("sessionId", "leafUuid", "messageId"))
        )

    def record(self, record: Payload) -> None:
        """Map one record."""
        kind = record.get("type")
        if isinstance(time := record.get("timestamp"), str):
            self.time = time
            if "uuid" in record:
                self.facts.saw_time(time)
        if "uuid" in record:
            self._chain(record)
        mapping = MAPPINGS.get(kind) if isinstance(kind, str) else None
        if mapping is not None:
            mapping(self, record)
        elif str(kind) not in KNOWN_WITHOUT_EVENT:
            self.unknown(str(kind))

    def close(self) -> None:
        """Report the message that is open at the end of the file."""
        self._end_step()

    def configure(self, changes: Payload) -> None:
        """Emit the settings that differ from the last known ones."""
        changed = {
            name: value for name, value in changes.items() if value is not None and self._settings.get(name) != value
        }
        if changed:
            self._settings.update(changed)
            self.emit("session.configured", changed)

    def _chain(self, record: Payload) -> None:
        """Take settings, and titles that were waiting for this message, from a record of the conversation."""
        if self._sidechain_file is None:
            self._sidechain_file = bool(record.get("isSidechain"))
            self.configure({"product": self.product, "sidechain": self._sidechain_file or None})
        if bool(record.get("isSidechain")) == self._sidechain_file:
            self.configure({name: record.get(key) for key, name in SETTINGS.items()})
        if self._summaries and (title := self._summaries.pop(str(record["uuid"]), None)):
            self.emit("session.renamed", {"title": title, "by": "summary"})

    def _lane(self, record: Payload) -> Payload:
        """Return the fields that place a record in the conversation."""
        side = bool(record.get("isSidechain"))
        return {"uuid": record.get("uuid"), "sidechain": side or None, "agent": record.get("agentId") if side else None}

    def user(self, record: Payload) -> None:
        """Map a prompt, a tool result or injected text."""
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks: list[Any] = content if isinstance(content, list) else []
        role = user_role(record, content)
        results = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
        rest = [block for block in blocks if not (isinstance(block, dict) and block.get("type") == "tool_result")]
        lane = self._lane(record)
        main = bool(record.get("isSidechain")) == bool(self._sidechain_file)
        if main and role in STARTS_TURN:
            self._end_step()
            self.start_turn(
                str(record.get("uuid")), {"prompt": record.get("promptId"), "by": STARTS_TURN[role]}, inferred=True
            )
        for block in results:
            self._result(record, block, lane)
        if rest or not results:
            self.emit("message.user", {"kind": role, "content": rest if blocks else content, **lane})
        if main and role == "interrupt_mark" and self.turn is not None:
            self._end_step()
            self.end_turn("turn.aborted", {"reason": "interrupted"})

    def _result(self, record: Payload, block: Payload, lane: Payload) -> None:
        """Map the result of a tool call."""
        call = str(block.get("tool_use_id"))
        detail = record.get("toolUseResult")
        facts = detail if isinstance(detail, dict) else {}
        self.emit(
            "tool.failed" if block.get("is_error") else "tool.completed",
            {
                "call_id": call,
                "name": self._calls.pop(call, None),
                "content": block.get("content"),
                "denial": record.get("toolDenialKind"),
                "interrupted": facts.get("interrupted") or None,
                "child": facts.get("agentId"),
                "background": facts.get("backgroundTaskId"),
                **lane,
            },
        )

    def assistant(self, record: Payload) -> None:
        """Map one line of a model message; a message comes in one line per content block."""
        message = record.get("message")
        if not isinstance(message, dict):
            self.unknown("assistant")
            return
        lane = self._lane(record)
        content = message.get("content")
        blocks: list[Any] = content if isinstance(content, list) else [{"type": "text", "text": content}]
        synthetic = message.get("model") == "<synthetic>"
        identity = message.get("id")
        if not synthetic and isinstance(identity, str):
            self._grow_step(identity, record, message, lane)
        said = []
        for block in blocks:
            kind = block.get("type") if isinstance(block, dict) else None
            if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
                self._call(block, identity, lane)
            elif isinstance(kind, str) and kind.endswith("_tool_result"):
                call = block.get("tool_use_id")
                self.emit(
                    "tool.completed", {"call_id": call, "content": block.get("content"), "by": "provider", **lane}
                )
            else:
                said.append(block)
        if said:
            failed = record.get("isApiErrorMessage") or None
            self.emit(
                "message.assistant",
                {"step": identity, "content": said, "synthetic": synthetic or None, "api_error": failed, **lane},
            )

    def _call(self, block: Payload, step: object, lane: Payload) -> None:
        """Map a tool call."""
        call, name = str(block.get("id")), block.get("name")
        self._calls[call] = str(name)
        by = None if block.get("type") == "tool_use" else "provider"
        self.emit(
            "tool.proposed",
            {"call_id": call, "name": name, "arguments": block.get("input"), "step": step, "by": by, **lane},
        )

    def _grow_step(self, identity: str, record: Payload, message: Payload, lane: Payload) -> None:
        """Take usage and stop reason of one more line; a line of another message ends the one before."""
        if self._steps.identity != identity:
            self._end_step()
        model = message.get("model")
        if not lane["sidechain"] or self._sidechain_file:
            self.configure({"model": model})
        fields = {"request": record.get("requestId"), "model": model, "stop_reason": message.get("stop_reason"), **lane}
        fields |= {"time": self.time, "turn": self.turn, "source": self.place()}
        self._steps.grow(identity, message.get("usage"), fields)

    def _end_step(self) -> None:
        """Report the message that is over."""
        if (report := self._steps.end()) is not None:
            self.emit("step.completed", report)

    def system(self, record: Payload) -> None:
        """Map a system record by its subtype."""
        subtype = record.get("subtype")
        lane = self._lane(record)
        if subtype in ("compact_boundary", "microcompact_boundary"):
            found = record.get("compactMetadata") or record.get("microcompactMetadata")
            facts = found if isinstance(found, dict) else {}
            self.emit(
                "context.compacted",
                {
                    "kind": "micro" if subtype == "microcompact_boundary" else "full",
                    "trigger": facts.get("trigger"),
                    "tokens_before": facts.get("preTokens"),
                    "tokens_after": facts.get("postTokens"),
                    "after": record.get("logicalParentUuid"),
                    **lane,
                },
            )
        elif subtype == "turn_duration":
            self._end_step()
            if self.turn is not None:
                self.end_turn("turn.completed", {"duration_ms": record.get("durationMs")})
        elif subtype == "api_error":
            error = record.get("error")
            status = error.get("status") if isinstance(error, dict) else None
            self.emit(
                "step.failed",
                {
                    "status": status,
                    "attempt": record.get("retryAttempt"),
                    "retry_in_ms": record.get("retryInMs"),
                    **lane,
                },
            )
        else:
            content = record.get("content")
            self.emit("message.system", {"kind": subtype, "content": content, "level": record.get("level"), **lane})

    def attachment(self, record: Payload) -> None:
        """Map injected context; only its text is repeated."""
        body = record.get("attachment")
        facts = body if isinstance(body, dict) else {}
        kind = f"attachment/{facts.get('type')}"
        if facts.get("type") == "queued_command":
            self.emit("turn.input_queued", {"content": facts.get("prompt"), **self._lane(record)})
        else:
            self.emit("message.system", {"kind": kind, "content": text_of(facts.get("content")), **self._lane(record)})

    def queue(self, record: Payload) -> None:
        """Map input that waited for the running turn."""
        operation = record.get("operation")
        kind = "turn.input_queued" if operation == "enqueue" else "turn.input_consumed"
        self.emit(kind, {"content": record.get("content"), "operation": operation})

    def snapshot(self, record: Payload) -> None:
        """Map a checkpoint of edited files; the list itself stays in the line."""
        body = record.get("snapshot")
        files = body.get("trackedFileBackups") if isinstance(body, dict) else None
        count = len(files) if isinstance(files, dict) else 1
        self.emit(
            "file.snapshot",
            {"message": record.get("messageId"), "files": count, "update": record.get("isSnapshotUpdate") or None},
        )

    def title(self, record: Payload) -> None:
        """Map a title; a summary names the session only when its last message is in this file."""
        if record.get("type") == "summary":
            self._summaries[str(record.get("leafUuid"))] = str(record.get("summary"))
        elif record.get("type") == "custom-title":
            self.emit("session.renamed", {"title": record.get("customTitle"), "by": "user"})
        else:
            self.emit("session.renamed", {"title": record.get("aiTitle"), "by": "model"})

    def setting(self, record: Payload) -> None:
        """Map a state line that changes a setting."""
        self.configure(
            {
                "permission_mode": record.get("permissionMode"),
                "mode": record.get("mode"),
                "agent_name": record.get("agentName"),
                "cwd": record.get("relocatedCwd"),
            }
        )

    def tag(self, record: Payload) -> None:
        """Map a tag or a link to a pull request."""
        if record.get("type") == "pr-link":
            self.emit("session.tagged", {"tags": [f"pr:{record.get('prNumber')}"], "url": record.get("prUrl")})
        else:
            self.emit("session.tagged", {"tags": [record.get("tag")]})


MAPPINGS = {
    "user": ClaudeMapper.user,
    "assistant": ClaudeMapper.assistant,
    "system": ClaudeMapper.system,
    "attachment": ClaudeMapper.attachment,
    "queue-operation": ClaudeMapper.queue,
    "file-history-snapshot": ClaudeMapper.snapshot,
    "file-history-delta": ClaudeMapper.snapshot,
    "summary": ClaudeMapper.title,
    "custom-title": ClaudeMapper.title,
    "ai-title": ClaudeMapper.title,
    "permission-mode": ClaudeMapper.setting,
    "mode": ClaudeMapper.setting,
    "agent-name": ClaudeMapper.setting,
    "relocated": ClaudeMapper.setting,
    "tag": ClaudeMapper.tag,
    "pr-link": ClaudeMapper.tag,
}
