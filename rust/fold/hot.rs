//! The hot part of a state: what the common events change, as records and as the JSON that crosses to Python.
//!
//! Owns: that form, the arrays of `turnlog/state/records.py` in the order of its fields. Invariant: what was read
//! and not changed is written as it was; a state that cannot be held exactly is not read at all. Must not know: how
//! events change it.

use super::json::{each_member, elements, positive, text, value_end};
use super::ordered::{Keyed, Ordered};

pub(super) const RUNNING: &str = "running";
pub(super) const COMPLETED: &str = "completed";
pub(super) const FAILED: &str = "failed";
pub(super) const ABORTED: &str = "aborted";
pub(super) const INTERRUPTED: &str = "interrupted";
pub(super) const PROPOSED: &str = "proposed";
pub(super) const APPROVAL_REQUESTED: &str = "approval_requested";
pub(super) const APPROVED: &str = "approved";
pub(super) const DENIED: &str = "denied";
pub(super) const STARTED: &str = "started";
pub(super) const CANCELLED: &str = "cancelled";
pub(super) const OUTCOME_UNKNOWN: &str = "outcome_unknown";
pub(super) const RESOLVED: &str = "resolved";
pub(super) const ABSENT: &str = "absent";
pub(super) const NONE: &str = "none";
pub(super) const IDEMPOTENT: &str = "idempotent";
pub(super) const EXTERNAL: &str = "external";

const TURN_STATES: [&str; 5] = [RUNNING, COMPLETED, FAILED, ABORTED, INTERRUPTED];
const CALL_STATES: [&str; 10] = [
    PROPOSED,
    APPROVAL_REQUESTED,
    APPROVED,
    DENIED,
    STARTED,
    COMPLETED,
    FAILED,
    CANCELLED,
    OUTCOME_UNKNOWN,
    RESOLVED,
];
pub(super) const EFFECTS: [&str; 3] = [NONE, IDEMPOTENT, EXTERNAL];

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) ordinal: u64,
    pub(super) started_us: u64,
    pub(super) state: &'static str,
    pub(super) input: String,
    pub(super) input_ordinal: u64,
    pub(super) configured_ordinal: u64,
    pub(super) steps: u64,
    pub(super) calls: u64,
    pub(super) messages: u64,
    pub(super) ended_ordinal: u64,
    pub(super) ended_us: u64,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) turn: String,
    pub(super) ordinal: u64,
    pub(super) started_us: u64,
    pub(super) model: String,
    pub(super) context_ordinal: u64,
    pub(super) context_items: u64,
    pub(super) ended_ordinal: u64,
}

#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "the names of the record in Python")]
pub(super) struct Call {
    pub(super) turn: String,
    pub(super) call_id: String,
    pub(super) name: String,
    pub(super) state: &'static str,
    pub(super) effect: &'static str,
    pub(super) by_provider: bool,
    pub(super) idempotency_key: String,
    pub(super) attempts: u64,
    pub(super) decided_by: String,
    pub(super) ordinal: u64,
    pub(super) proposed_ordinal: u64,
    pub(super) started_ordinal: u64,
    pub(super) outcome_ordinal: u64,
}

/// Tokens: input, output, read from and written to a cache.
pub(super) type Usage = [u64; 4];

#[derive(Debug)]
pub(super) struct ModelUsage {
    pub(super) model: String,
    pub(super) usage: Usage,
}

/// How often something came, by its name.
pub(super) type Counts = Vec<(String, u64)>;

#[derive(Debug, Default)]
pub(super) struct Messages {
    pub(super) count: u64,
    pub(super) user: u64,
    pub(super) assistant: u64,
    pub(super) system: u64,
    pub(super) first_ordinal: u64,
    pub(super) last_ordinal: u64,
    pub(super) stride: u64,
    pub(super) marks: Vec<u64>,
}

/// The fields of a state, in the order in which they cross.
#[derive(Debug, Default)]
pub(super) struct Hot {
    pub(super) turn: Option<Turn>,
    pub(super) recent_turns: Ordered<Turn>,
    pub(super) turn_counts: Counts,
    pub(super) step: Option<Step>,
    pub(super) last_step: Option<Step>,
    pub(super) step_counts: Counts,
    pub(super) usage: Usage,
    pub(super) usage_by_model: Ordered<ModelUsage>,
    pub(super) open_calls: Ordered<Call>,
    pub(super) recent_calls: Ordered<Call>,
    pub(super) call_counts: Counts,
    pub(super) calls_folded: u64,
    pub(super) messages: Messages,
}

impl Keyed for Turn {
    fn key(&self) -> Vec<u8> {
        self.id.clone().into_bytes()
    }
}

impl Keyed for ModelUsage {
    fn key(&self) -> Vec<u8> {
        self.model.clone().into_bytes()
    }
}

impl Keyed for Call {
    fn key(&self) -> Vec<u8> {
        call_key(&self.turn, &self.call_id)
    }
}

/// Whether nothing may follow on the state of a call.
pub(super) fn is_final(state: &str) -> bool {
    matches!(state, COMPLETED | FAILED | DENIED | CANCELLED | RESOLVED)
}

/// A call is named by its turn and its id; the length keeps the two apart.
pub(super) fn call_key(turn: &str, call_id: &str) -> Vec<u8> {
    [&turn.len().to_le_bytes(), turn.as_bytes(), call_id.as_bytes()].concat()
}

// -- from JSON --------------------------------------------------------------------------------

/// Read the hot part; none if it holds something that is not held exactly here.
pub(super) fn read(json: &[u8]) -> Option<Hot> {
    let [turn, recent_turns, turn_counts, step, last_step, step_counts, rest @ ..] = &elements(json)?[..]
    else {
        return None;
    };
    let &[usage, by_model, open_calls, recent_calls, call_counts, calls_folded, messages] = rest else {
        return None;
    };
    let by_model = pairs(by_model)?
        .into_iter()
        .map(|(model, usage)| Some(ModelUsage { model: owned(model)?, usage: usage_of(usage)? }));
    let hot = Hot {
        turn: optional(turn, turn_of)?,
        recent_turns: all(recent_turns, turn_of)?,
        turn_counts: counts(turn_counts)?,
        step: optional(step, step_of)?,
        last_step: optional(last_step, step_of)?,
        step_counts: counts(step_counts)?,
        usage: usage_of(usage)?,
        usage_by_model: by_model.collect::<Option<_>>()?,
        open_calls: all(open_calls, call_of)?,
        recent_calls: all(recent_calls, call_of)?,
        call_counts: counts(call_counts)?,
        calls_folded: number(calls_folded)?,
        messages: messages_of(messages)?,
    };
    let is_regular = hot.turn.iter().all(|turn| turn.state == RUNNING)
        && hot.recent_turns.values().all(|turn| turn.state != RUNNING)
        && hot.open_calls.values().all(|call| !is_final(call.state))
        && hot.recent_calls.values().all(|call| is_final(call.state));
    is_regular.then_some(hot)
}

fn fields<const N: usize>(record: &[u8]) -> Option<[&[u8]; N]> {
    elements(record)?.try_into().ok()
}

#[expect(clippy::option_option, reason = "null, and what is not read")]
fn optional<T>(value: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Option<Option<T>> {
    if value == b"null" { Some(None) } else { read(value).map(Some) }
}

fn all<T, C: FromIterator<T>>(array: &[u8], read: impl Fn(&[u8]) -> Option<T>) -> Option<C> {
    elements(array)?.into_iter().map(read).collect()
}

fn owned(value: &[u8]) -> Option<String> {
    if value.starts_with(b"\"") { text(Some(value), usize::MAX).map(Into::into) } else { None }
}

fn number(value: &[u8]) -> Option<u64> {
    let number = positive(Some(value))?;
    (number > 0 || value == b"0").then_some(number)
}

fn one_of(names: &[&'static str], value: &[u8]) -> Option<&'static str> {
    let name = owned(value)?;
    names.iter().find(|known| **known == name).copied()
}

fn pairs(object: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    each_member(object, |name, value| {
        let end = value_end(value, 0)?;
        found.push((name, &value[..end]));
        Some(end)
    })?;
    Some(found)
}

fn counts(object: &[u8]) -> Option<Counts> {
    pairs(object)?.into_iter().map(|(name, value)| Some((owned(name)?, number(value)?))).collect()
}

fn usage_of(record: &[u8]) -> Option<Usage> {
    let [input, output, cache_read, cache_write] = fields(record)?.map(number);
    Some([input?, output?, cache_read?, cache_write?])
}

fn turn_of(record: &[u8]) -> Option<Turn> {
    let [id, ordinal, started, state, input, asked, configured, steps, calls, messages, ended, ended_us] =
        fields(record)?;
    Some(Turn {
        id: owned(id)?,
        ordinal: number(ordinal)?,
        started_us: number(started)?,
        state: one_of(&TURN_STATES, state)?,
        input: owned(input)?,
        input_ordinal: number(asked)?,
        configured_ordinal: number(configured)?,
        steps: number(steps)?,
        calls: number(calls)?,
        messages: number(messages)?,
        ended_ordinal: number(ended)?,
        ended_us: number(ended_us)?,
    })
}

fn step_of(record: &[u8]) -> Option<Step> {
    let [id, turn, ordinal, started_us, model, context_ordinal, context_items, ended_ordinal] =
        fields(record)?;
    Some(Step {
        id: owned(id)?,
        turn: owned(turn)?,
        ordinal: number(ordinal)?,
        started_us: number(started_us)?,
        model: owned(model)?,
        context_ordinal: number(context_ordinal)?,
        context_items: number(context_items)?,
        ended_ordinal: number(ended_ordinal)?,
    })
}

fn call_of(record: &[u8]) -> Option<Call> {
    let [
        turn,
        call_id,
        name,
        state,
        effect,
        provider,
        key,
        attempts,
        by,
        ordinal,
        proposed,
        started,
        outcome,
    ] = fields(record)?;
    Some(Call {
        turn: owned(turn)?,
        call_id: owned(call_id)?,
        name: owned(name)?,
        state: one_of(&CALL_STATES, state)?,
        effect: one_of(&EFFECTS, effect)?,
        by_provider: provider == b"true",
        idempotency_key: owned(key)?,
        attempts: number(attempts)?,
        decided_by: owned(by)?,
        ordinal: number(ordinal)?,
        proposed_ordinal: number(proposed)?,
        started_ordinal: number(started)?,
        outcome_ordinal: number(outcome)?,
    })
}

fn messages_of(record: &[u8]) -> Option<Messages> {
    let [count, user, assistant, system, first, last, stride, marks] = fields(record)?;
    Some(Messages {
        count: number(count)?,
        user: number(user)?,
        assistant: number(assistant)?,
        system: number(system)?,
        first_ordinal: number(first)?,
        last_ordinal: number(last)?,
        stride: number(stride).filter(|stride| *stride > 0)?,
        marks: all(marks, number)?,
    })
}
