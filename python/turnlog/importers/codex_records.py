"""How Codex rollout records are told apart: eras, record types, typed-in and injected user text, exit codes, token
counts.

Owns: the text markers and the lists of known record types. Invariant: functions of one record, without state.
Must not know: events, lines, files.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RESPONSE_ITEMS = frozenset(
    (
        "message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
        "local_shell_call", "web_search_call", "tool_search_call", "tool_search_output", "image_generation_call",
        "agent_message", "ghost_snapshot", "compaction", "compaction_summary", "context_compaction",
    )
)  # fmt: skip

CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "tool_search_call": "arguments",
    "local_shell_call": "action",
}
OUTPUTS = {"function_call_output": "output", "custom_tool_call_output": "output", "tool_search_output": "tools"}
PROVIDER_CALLS = frozenset(("web_search_call", "image_generation_call"))

KNOWN_WITHOUT_EVENT = frozenset(
    (
        "world_state", "security_risk_score", "inter_agent_communication_metadata", "record/state",
        "response_item/compaction", "response_item/compaction_summary", "response_item/context_compaction",
        "event_msg/user_message", "event_msg/agent_message", "event_msg/agent_reasoning",
        "event_msg/agent_reasoning_raw_content", "event_msg/context_compacted", "event_msg/item_completed",
        "event_msg/exec_command_end", "event_msg/patch_apply_end", "event_msg/mcp_tool_call_end",
        "event_msg/web_search_end", "event_msg/image_generation_end", "event_msg/view_image_tool_call",
        "event_msg/dynamic_tool_call_request", "event_msg/dynamic_tool_call_response",
        "event_msg/collab_agent_spawn_begin", "event_msg/collab_agent_spawn_end",
        "event_msg/collab_agent_interaction_begin", "event_msg/collab_agent_interaction_end",
        "event_msg/collab_waiting_begin", "event_msg/collab_waiting_end", "event_msg/collab_close_begin",
        "event_msg/collab_close_end", "event_msg/collab_resume_begin", "event_msg/collab_resume_end",
        "event_msg/sub_agent_activity", "event_msg/guardian_assessment", "event_msg/undo_completed",
    )
)  # fmt: skip
"""Known records that repeat a response item for the user interface, or that add nothing; their lines are kept."""

SYNTHETIC = (
    "<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<skill", "<apps_instructions>",
    "<plugins_instructions>", "<recommended_plugins>", "<environments_instructions>", "<turn_aborted>",
    "<subagent_notification>", "<user_shell_command>", "<goal_context>", "<model_switch>", "<context_window",
    "<collaboration_mode>", "<current_time_reminder>", "<realtime_", "<image_resize_notice>", "<hook_prompt",
    "<codex_internal_context", "<personality_spec>", "<multi_agent_",
)  # fmt: skip
"""A user message that starts with one of these was put in by the client."""

EXIT_TEXTS = (re.compile(r"^Exit code: (-?\d+)"), re.compile(r"^Process exited with code (-?\d+)", re.MULTILINE))
EXIT_SEARCH_CHARS = 4096

USAGE = {"output_tokens": "output", "cached_input_tokens": "cache_read", "cache_write_input_tokens": "cache_write"}


def envelope(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind of a record (`event_msg/task_started`) and its payload, in every era."""
    kind, payload = record.get("type"), record.get("payload")
    if isinstance(payload, dict):
        if kind in ("response_item", "event_msg"):
            return f"{kind}/{payload.get('type')}", payload
        return str(kind), payload
    if isinstance(kind, str) and kind in RESPONSE_ITEMS:
        return f"response_item/{kind}", record
    if kind is None and "record_type" in record:
        return f"record/{record['record_type']}", record
    if kind is None and isinstance(record.get("session"), dict) and isinstance(record.get("items"), list):
        return "document", record
    if kind is None and "id" in record and "timestamp" in record:
        return "session_meta", record
    return str(kind), {}


def text_of(content: object) -> str:
    """Return the text of a message's content parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def is_synthetic(text: str) -> bool:
    """Tell text put in by the client from what a person typed."""
    return text.lstrip().startswith(SYNTHETIC)


def exit_code(output: object) -> int | None:
    """Read a command's exit code from its output: JSON metadata (to 0.50), a first line, or a header line."""
    text = output if isinstance(output, str) else text_of(output)
    if text.startswith("{") and '"metadata"' in text:
        try:
            metadata = json.loads(text).get("metadata")
        except (ValueError, RecursionError):
            return None
        code = metadata.get("exit_code") if isinstance(metadata, dict) else None
        return code if isinstance(code, int) else None
    head = text[:EXIT_SEARCH_CHARS].partition("\nOutput:\n")[0]
    found = next((match for pattern in EXIT_TEXTS if (match := pattern.search(head))), None)
    return int(found.group(1)) if found else None


def usage_of(usage: object) -> dict[str, int]:
    """Return token counts by kind; `input` is what no cache held, as for other providers."""
    counts = usage if isinstance(usage, dict) else {}
    kinds = {name: counts[key] for key, name in USAGE.items() if isinstance(counts.get(key), int)}
    if isinstance(total := counts.get("input_tokens"), int):
        kinds["input"] = total - kinds.get("cache_read", 0)
    return kinds
