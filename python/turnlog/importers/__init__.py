"""Importers of agent transcripts: each file becomes one session.

Every line is kept as RAW `source.line` events (several for a line above 8 MiB; joined, they are the file). In the same
atomic group follow the events derived from it; each has `source` {line, offset}, `time` as the file gives it, `turn`:

| type | payload |
| --- | --- |
| session.configured | only what changed: session, cwd, model, version, branch, effort, approval_policy, ... |
| session.renamed, tagged, archived | title, by; tags |
| turn.started, completed, aborted, failed, interrupted | by, prompt; `inferred` when the file has no such record |
| turn.input_queued, input_consumed | content |
| message.user, assistant, system | kind or role, content parts as they are, sidechain, agent, step |
| step.completed, failed | step, model, usage {input, output, cache_read, cache_write}, total, stop_reason |
| tool.proposed, completed, failed | call_id, name, arguments; content, exit_code; `by` provider |
| context.compacted, rolled_back | kind, summary, items, tokens_before; turns |
| file.snapshot, task.updated | files; goal |
| source.unknown | type: the line is kept, no rule maps it |
| source.damaged, mended | code, length, whole_records, unread, head; what was damaged has become whole |
| source.imported | at the end of each import: bytes, sha256, lines, records, first, last, min and max time |

`usage` values of all `step.completed` of one step add up to its usage; `again` marks later additions. Tool calls pair
by `call_id`, in order where an id repeats. Read `importer.py`, then `mapper.py`, then a product.
"""
