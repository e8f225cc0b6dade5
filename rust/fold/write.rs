//! The hot part of a state as JSON: the other half of `hot.rs`.
//!
//! Owns: the form of records, lists and counts. Invariant: the order of all fields is that of `hot.rs`. Must not
//! know: what the fields mean.

use super::hot::{Call, Counts, Hot, Step, Turn, Usage};
use crate::canon::write_string;

enum Field<'a> {
    Text(&'a str),
    Number(u64),
    Flag(bool),
}

use Field::{Flag, Number, Text};

/// Write the hot part.
pub(super) fn write(hot: &Hot) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 16);
    out.push(b'[');
    optional(&mut out, hot.turn.as_ref(), turn);
    list(&mut out, hot.recent_turns.values(), turn);
    counts(&mut out, &hot.turn_counts);
    optional(&mut out, hot.step.as_ref(), step);
    optional(&mut out, hot.last_step.as_ref(), step);
    counts(&mut out, &hot.step_counts);
    usage(&mut out, &hot.usage);
    let by_model = hot.usage_by_model.values().map(|entry| (&entry.model, &entry.usage));
    object(&mut out, by_model, usage);
    list(&mut out, hot.open_calls.values(), call);
    list(&mut out, hot.recent_calls.values(), call);
    counts(&mut out, &hot.call_counts);
    field(&mut out, &Number(hot.calls_folded));
    let messages = &hot.messages;
    begin(&mut out, b'[');
    for number in [messages.count, messages.user, messages.assistant, messages.system] {
        field(&mut out, &Number(number));
    }
    for number in [messages.first_ordinal, messages.last_ordinal, messages.stride] {
        field(&mut out, &Number(number));
    }
    list(&mut out, messages.marks.iter(), |out, mark| field(out, &Number(*mark)));
    out.extend_from_slice(b"]]");
    out
}

/// Separate a value from the one before it.
fn separate(out: &mut Vec<u8>) {
    if !matches!(out.last(), Some(b'[' | b'{' | b':')) {
        out.push(b',');
    }
}

fn begin(out: &mut Vec<u8>, opening: u8) {
    separate(out);
    out.push(opening);
}

fn field(out: &mut Vec<u8>, value: &Field<'_>) {
    separate(out);
    match value {
        Text(text) => write_string(out, text.as_bytes()),
        Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Flag(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
    }
}

fn record(out: &mut Vec<u8>, fields: &[Field<'_>]) {
    begin(out, b'[');
    for value in fields {
        field(out, value);
    }
    out.push(b']');
}

fn optional<T>(out: &mut Vec<u8>, value: Option<&T>, write: impl Fn(&mut Vec<u8>, &T)) {
    if let Some(value) = value {
        write(out, value);
    } else {
        separate(out);
        out.extend_from_slice(b"null");
    }
}

fn list<'a, T: 'a>(
    out: &mut Vec<u8>,
    values: impl Iterator<Item = &'a T>,
    write: impl Fn(&mut Vec<u8>, &'a T),
) {
    begin(out, b'[');
    values.for_each(|value| write(out, value));
    out.push(b']');
}

fn object<'a, T: 'a>(
    out: &mut Vec<u8>,
    entries: impl Iterator<Item = (&'a String, &'a T)>,
    write: impl Fn(&mut Vec<u8>, &'a T),
) {
    begin(out, b'{');
    for (name, value) in entries {
        field(out, &Text(name));
        out.push(b':');
        write(out, value);
    }
    out.push(b'}');
}

fn counts(out: &mut Vec<u8>, counts: &Counts) {
    object(out, counts.iter().map(|(name, count)| (name, count)), |out, count| field(out, &Number(*count)));
}

fn usage(out: &mut Vec<u8>, usage: &Usage) {
    record(out, &usage.map(Number));
}

fn turn(out: &mut Vec<u8>, turn: &Turn) {
    let counted = [turn.steps, turn.calls, turn.messages, turn.ended_ordinal, turn.ended_us];
    let [steps, calls, messages, ended_ordinal, ended_us] = counted.map(Number);
    record(
        out,
        &[
            Text(&turn.id),
            Number(turn.ordinal),
            Number(turn.started_us),
            Text(turn.state),
            Text(&turn.input),
            Number(turn.input_ordinal),
            Number(turn.configured_ordinal),
            steps,
            calls,
            messages,
            ended_ordinal,
            ended_us,
        ],
    );
}

fn step(out: &mut Vec<u8>, step: &Step) {
    record(
        out,
        &[
            Text(&step.id),
            Text(&step.turn),
            Number(step.ordinal),
            Number(step.started_us),
            Text(&step.model),
            Number(step.context_ordinal),
            Number(step.context_items),
            Number(step.ended_ordinal),
        ],
    );
}

fn call(out: &mut Vec<u8>, call: &Call) {
    record(
        out,
        &[
            Text(&call.turn),
            Text(&call.call_id),
            Text(&call.name),
            Text(call.state),
            Text(call.effect),
            Flag(call.by_provider),
            Text(&call.idempotency_key),
            Number(call.attempts),
            Text(&call.decided_by),
            Number(call.ordinal),
            Number(call.proposed_ordinal),
            Number(call.started_ordinal),
            Number(call.outcome_ordinal),
        ],
    );
}
