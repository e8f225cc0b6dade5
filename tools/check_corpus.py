"""Import every transcript of a corpus folder and compare what its events say with the folder's `expected.json`.

Owns: the facts a reader of the store can compute from events, and their comparison with facts counted from the files
by another program. Invariants: facts come from events only, never from the importer's own counters. Must not know:
how a mapper works.

Usage: python -m tools.check_corpus FOLDER
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from turnlog.importers.importer import import_path
from turnlog.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Event = tuple[str, Any]

CLAUDE_USAGE = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_creation_input_tokens": "cache_write",
    "cache_read_input_tokens": "cache_read",
}


class Facts:
    """What the events of one session say, read once in order."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.by_type: dict[str, list[dict[str, Any]]] = {}
        self.lines = self.bytes = 0
        self.damage: dict[int, dict[str, Any]] = {}
        digest, last = hashlib.sha256(), b"\n"
        for kind, payload in events:
            if kind == "source.line":
                digest.update(payload)
                self.bytes += len(payload)
                self.lines += payload.count(b"\n")
                last = payload
            elif kind == "source.damaged":
                self.damage[payload["source"]["line"]] = payload
            elif kind == "source.mended":
                self.damage.pop(payload["source"]["line"], None)
            self.by_type.setdefault(kind, []).append(payload)
        self.lines += not last.endswith(b"\n")
        self.sha256 = digest.hexdigest()

    def get(self, *kinds: str) -> list[dict[str, Any]]:
        """Return the payloads of some types, in the order of the file."""
        found = [payload for kind in kinds for payload in self.by_type.get(kind, [])]
        return sorted(found, key=lambda payload: payload["source"]["offset"]) if len(kinds) > 1 else found

    def common(self) -> dict[str, Any]:
        """Return the facts every product has."""
        imported = self.get("source.imported")[-1]
        names = {"first_in_file": "first_time", "last_in_file": "last_time", "min": "min_time", "max": "max_time"}
        return {
            "bytes": self.bytes,
            "sha256": self.sha256,
            "lines": self.lines,
            "records": imported["records"],
            "undecodable_lines": [
                [
                    line,
                    found["source"]["offset"],
                    found["length"],
                    found["code"].removesuffix("_tail"),
                    found["whole_records"],
                ]
                for line, found in sorted(self.damage.items())
            ],
            "unknown": dict(Counter(payload["type"] for payload in self.get("source.unknown"))),
            "timestamps": {name: None if "time_from" in imported else imported[key] for name, key in names.items()},
        }

    def claude(self) -> dict[str, Any]:
        """Return the facts of a Claude Code session."""
        proposed = [call for call in self.get("tool.proposed") if call.get("by") != "provider"]
        ended = [call for call in self.get("tool.completed", "tool.failed") if call.get("by") != "provider"]
        calls, results = {call["call_id"] for call in proposed}, {call["call_id"] for call in ended}
        steps = self.get("step.completed")
        said = self.get("message.assistant")
        titles = self.get("session.renamed")
        return {
            "user_messages_main": _roles(self.get("message.user"), ended, sidechain=False),
            "user_messages_sidechain": _roles(self.get("message.user"), ended, sidechain=True),
            "assistant_messages": len({step["step"] for step in steps}),
            "models_by_message": dict(Counter({step["step"]: step["model"] for step in steps}.values())),
            "synthetic_assistant_lines": sum(bool(message.get("synthetic")) for message in said),
            "tool_calls": len(calls),
            "tool_calls_by_name": dict(Counter({call["call_id"]: call["name"] for call in proposed}.values())),
            "tool_results": len(results),
            "tool_results_is_error": len({call["call_id"] for call in self.get("tool.failed")}),
            "calls_without_result": [
                {"line": call["source"]["line"], "id": call["call_id"]}
                for call in proposed
                if call["call_id"] not in results
            ],
            "results_without_call": [
                {"line": call["source"]["line"], "id": call["call_id"]}
                for call in ended
                if call["call_id"] not in calls
            ],
            "usage": _usage(steps),
            "usage_main": _usage([step for step in steps if not step.get("sidechain")]),
            "usage_sidechain": _usage([step for step in steps if step.get("sidechain")]),
            "compactions": [
                {"line": found["source"]["line"], "trigger": found["trigger"], "pre_tokens": found["tokens_before"]}
                for found in self.get("context.compacted")
                if found["kind"] == "full"
            ],
            "custom_title": [title["title"] for title in titles if title["by"] == "user"],
            "ai_title": [title["title"] for title in titles if title["by"] == "model"],
        }

    def codex(self) -> dict[str, Any]:
        """Return the facts of a Codex rollout."""
        proposed = [call for call in self.get("tool.proposed") if call.get("by") != "provider"]
        ended = [call for call in self.get("tool.completed", "tool.failed") if call.get("by") != "provider"]
        messages = self.get("message.user", "message.assistant", "message.system")
        totals = [step["total"] for step in self.get("step.completed") if "total" in step]
        open_calls, orphans = _pair(proposed, ended)
        texts = [call for call in ended if call["kind"] != "tool_search_output"]
        codes = [None if call.get("exit_code_copied") else call.get("exit_code") for call in texts]
        started = [turn for turn in self.get("turn.started") if not turn.get("inferred")]
        return {
            "messages_by_role": dict(Counter(message["role"] for message in messages if "role" in message)),
            "user_messages_human": sum(message["kind"] == "prompt" for message in self.get("message.user")),
            "user_messages_synthetic": sum(message["kind"] == "synthetic" for message in self.get("message.user")),
            "reasoning_items": sum(message.get("kind") == "reasoning" for message in self.get("message.assistant")),
            "turns_started": len(started),
            "turns_complete": len(
                [turn for turn in self.get("turn.completed", "turn.failed") if not turn.get("inferred")]
            ),
            "turns_aborted": len(self.get("turn.aborted")),
            "tool_calls": len(proposed),
            "tool_call_ids": len({call["call_id"] for call in proposed}),
            "tool_calls_by_name": dict(Counter(call["name"] for call in proposed)),
            "tool_outputs": len(ended),
            "calls_of_other_kinds": dict(
                Counter(call["kind"] for call in self.get("tool.proposed") if call.get("by") == "provider")
            ),
            "calls_without_output": open_calls,
            "outputs_without_call": orphans,
            "exit_codes": dict(Counter("none" if code is None else "nonzero" if code else "zero" for code in codes)),
            "tokens.last_total": totals[-1] if totals else None,
            "tokens.decreases": sum(
                after["total_tokens"] < before["total_tokens"] for before, after in pairwise(totals)
            ),
            "compactions": [
                {
                    "line": found["source"]["line"],
                    "replacement_items": found.get("items"),
                    "window_number": found.get("window"),
                }
                for found in self.get("context.compacted")
            ],
            "rollbacks": [
                {"line": found["source"]["line"], "turns": found["turns"]} for found in self.get("context.rolled_back")
            ],
            "thread_names": [title["title"] for title in self.get("session.renamed") if "source" in title],
        }


def _roles(messages: list[dict[str, Any]], results: list[dict[str, Any]], *, sidechain: bool) -> dict[str, int]:
    """Count user lines by role; a line with tool results counts once."""
    places = {
        (call["source"]["line"], call["source"]["offset"]): "tool_result"
        for call in results
        if bool(call.get("sidechain")) == sidechain
    }
    places |= {
        (message["source"]["line"], message["source"]["offset"]): message["kind"]
        for message in messages
        if bool(message.get("sidechain")) == sidechain
    }
    return dict(Counter(places.values()))


def _usage(steps: list[dict[str, Any]]) -> dict[str, int]:
    """Add up token counts under the names of the file."""
    sums = {key: sum(step["usage"].get(name, 0) for step in steps) for key, name in CLAUDE_USAGE.items()}
    return sums if steps else {}


def _pair(
    proposed: list[dict[str, Any]], ended: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give each output to the nearest call before it with its id; return calls and outputs that stay alone."""
    waiting: dict[str, list[dict[str, Any]]] = {}
    orphans: list[dict[str, Any]] = []
    ends = {id(call) for call in ended}
    for call in sorted(proposed + ended, key=lambda call: call["source"]["offset"]):
        if id(call) not in ends:
            waiting.setdefault(call["call_id"], []).append(call)
        elif waiting.get(call["call_id"]):
            waiting[call["call_id"]].pop()
        else:
            orphans.append(call)
    alone = sorted((call for calls in waiting.values() for call in calls), key=lambda call: call["source"]["offset"])
    return [_named(call) for call in alone], [_named(call) for call in orphans]


def _named(call: dict[str, Any]) -> dict[str, Any]:
    return {"line": call["source"]["line"], "call_id": call["call_id"]}


def differences(expected: dict[str, Any], events: Iterable[Event]) -> list[str]:
    """Compare the events of one imported file with its entry in `expected.json`; return a line per difference."""
    facts = Facts(events)
    found = facts.common() | (facts.claude() if expected["kind"] == "claude" else facts.codex())
    known = _flattened(expected)
    return [
        f"{name}: expected {known[name]!r}, events say {value!r}"
        for name, value in sorted(found.items())
        if name in known and known[name] != value
    ]


def _flattened(expected: dict[str, Any]) -> dict[str, Any]:
    """Bring an entry of `expected.json` into the shape of the facts."""
    known = dict(expected)
    known["undecodable_lines"] = [
        [
            line["line"],
            line["offset"],
            line["length"],
            line["kind"].split(",")[0].replace(" ", "_"),
            line["whole_records"],
        ]
        for line in expected["undecodable_lines"]
    ]
    if not known["types"].get("future_record"):
        known["unknown"] = {}
    else:
        known["unknown"] = {"future_record": known["types"]["future_record"]}
    known["timestamps"] = {
        name: expected["timestamps"][name] for name in ("first_in_file", "last_in_file", "min", "max")
    }
    if expected["kind"] == "claude":
        known |= {name: expected["titles"][name] for name in ("custom_title", "ai_title")}
        known["compactions"] = [
            {name: found[name] for name in ("line", "trigger", "pre_tokens")} for found in expected["compactions"]
        ]
    else:
        known |= {f"tokens.{name}": expected["tokens"][name] for name in ("last_total", "decreases")}
    return known


def check(folder: str) -> Iterator[str]:
    """Import every home of the corpus into a store of its own, and yield what differs, one line each."""
    with open(os.path.join(folder, "expected.json"), "rb") as file:
        expected = json.load(file)
    files = {name: facts for name, facts in expected["files"].items() if facts["kind"] in {"claude", "codex"}}
    homes = sorted({re.split(r"/(?:projects|sessions|archived_sessions)/", name)[0] for name in files})
    for home in homes:
        yield from _check_paths([os.path.join(folder, home)], folder, files)
    for link in expected["links"]:
        if link["relation"] == "byte prefix":
            paths = [os.path.join(folder, link[end]) for end in ("file", "of")]
            yield from _check_paths(paths, folder, {link["of"]: files[link["of"]]})


def _check_paths(paths: list[str], folder: str, files: dict[str, Any]) -> Iterator[str]:
    """Import paths, one after the other, into a new store and compare the sessions with the facts of their files."""
    with tempfile.TemporaryDirectory() as place, Store.open(place) as store:
        results = [result for path in paths for result in import_path(store, path)]
        for result in results:
            name = os.path.relpath(result.path, folder).replace(os.sep, "/")
            if name not in files:
                continue
            if result.session is None:
                yield f"{name}: {result.status}, {result.findings}"
                continue
            events = [(event.type, event.payload) for event in store.session(result.session).events()]
            found = differences(files[name], events)
            print(
                f"{result.status:9} {result.lines:6} lines {result.events:6} events {len(found):3} differences  {name}"
            )
            yield from (f"{name}: {line}" for line in found)


def main() -> int:
    """Check the folder named on the command line; return 1 when something differs."""
    found = list(check(sys.argv[1]))
    print("\n".join(found) or "no differences")
    return min(1, len(found))


if __name__ == "__main__":
    sys.exit(main())
