//! What happens in a turn: `turnlog/state/reduce_turns.py`.
//!
//! Owns: the rules of the families turn, step and message. Invariants: see there. Must not know: tool calls, beyond
//! whether a turn has open ones.

use super::hot::{ABORTED, COMPLETED, FAILED, INTERRUPTED, ModelUsage, RUNNING, Step, Turn, Usage};
use super::json::{COUNT_MAX, each_element, each_member, first, is_null, positive, text, value_end};
use super::members::{may_reach, members};
use super::{Folder, Given, NAMES_MAX, OTHER, PREVIEW_CHARACTERS_MAX, Stored, count, is_observed};

const RECENT_TURNS_MAX: usize = 64;
const MARKS_MAX: usize = 4096;
const PREVIEW_SEEN_CHARACTERS: usize = 4 * PREVIEW_CHARACTERS_MAX;
/// What an object begins with by which a payload refers to an artifact.
const ARTIFACT: &[u8] = b"{\"$artifact\":";

impl Folder {
    pub(super) fn turn_started(
        &mut self,
        event: &Stored<'_>,
        payload: &[u8],
        given: &Given<'_>,
    ) -> Option<()> {
        let [input, source, name, version] = members(payload, ["input", "source", "turn", "v"])?;
        let name = text(name, usize::MAX)?;
        let preview = preview(input)?;
        if version.is_some() || !given.is_open {
            return None;
        }
        let is_known = self.hot.recent_turns.get(name.as_bytes()).is_some();
        if name.is_empty() || self.hot.turn.is_some() || is_known {
            self.refuse(is_observed(source), given)?;
        }
        if name.is_empty() {
            return Some(());
        }
        self.end_turn(INTERRUPTED, event);
        self.hot.turn = Some(Turn {
            id: name.into_owned(),
            ordinal: event.ordinal,
            started_us: event.time_us,
            state: RUNNING,
            input: preview,
            input_ordinal: if is_null(input) { 0 } else { event.ordinal },
            configured_ordinal: given.configured_ordinal,
            steps: 0,
            calls: 0,
            messages: 0,
            ended_ordinal: 0,
            ended_us: 0,
        });
        Some(())
    }

    pub(super) fn turn_ended(
        &mut self,
        event: &Stored<'_>,
        payload: &[u8],
        outcome: &str,
        given: &Given<'_>,
    ) -> Option<()> {
        let outcome =
            [COMPLETED, ABORTED, FAILED, INTERRUPTED].into_iter().find(|known| *known == outcome)?;
        let [source, name, version] = members(payload, ["source", "turn", "v"])?;
        let name = text(name, usize::MAX)?;
        if version.is_some() {
            return None;
        }
        let (hot, is_observed) = (&self.hot, is_observed(source));
        let is_current = hot.turn.as_ref().is_some_and(|turn| name.is_empty() || turn.id == name);
        let ended = hot.recent_turns.get(name.as_bytes());
        let leaves_open = hot.turn.as_ref().is_some_and(|turn| {
            hot.step.is_some() || hot.open_calls.values().any(|call| call.turn == turn.id)
        });
        let state = ended.map(|turn| turn.state);
        let known = state.and_then(|state| hot.turn_counts.iter().position(|(name, _)| name == state));
        let is_current_or_lost = is_current || (hot.turn.is_some() && is_observed && ended.is_none());
        if !is_current || (outcome == COMPLETED && leaves_open) {
            self.refuse(is_observed, given)?;
        }
        if is_current_or_lost {
            self.end_turn(outcome, event);
        } else if is_observed && state.is_some() {
            let counted = &mut self.hot.turn_counts[known?].1;
            *counted = counted.checked_sub(1)?;
            count(&mut self.hot.turn_counts, outcome);
            let turn = self.hot.recent_turns.get_mut(name.as_bytes())?;
            (turn.state, turn.ended_ordinal, turn.ended_us) = (outcome, event.ordinal, event.time_us);
        }
        Some(())
    }

    /// End the turn that runs, if there is one.
    fn end_turn(&mut self, outcome: &'static str, event: &Stored<'_>) {
        let hot = &mut self.hot;
        let Some(mut turn) = hot.turn.take() else { return };
        if hot.step.take().is_some() {
            count(&mut hot.step_counts, INTERRUPTED);
        }
        (turn.state, turn.ended_ordinal, turn.ended_us) = (outcome, event.ordinal, event.time_us);
        hot.recent_turns.remove(turn.id.as_bytes()); // so that the latest is last
        hot.recent_turns.insert(turn);
        if hot.recent_turns.len() > RECENT_TURNS_MAX {
            hot.recent_turns.remove_first();
        }
        count(&mut hot.turn_counts, outcome);
    }

    pub(super) fn step_started(
        &mut self,
        event: &Stored<'_>,
        payload: &[u8],
        given: &Given<'_>,
    ) -> Option<()> {
        let wanted = ["context", "model", "source", "step", "turn", "v"];
        let [context, model, source, name, turn, version] = members(payload, wanted)?;
        let (name, turn, model) =
            (text(name, usize::MAX)?, text(turn, usize::MAX)?, text(model, usize::MAX)?);
        let context_items = context_items(context)?;
        if version.is_some() {
            return None;
        }
        let hot = &self.hot;
        let runs = turn.is_empty() || hot.turn.as_ref().is_some_and(|running| running.id == turn);
        if name.is_empty() || !runs || hot.step.is_some() {
            self.refuse(is_observed(source), given)?;
        }
        if name.is_empty() {
            return Some(());
        }
        let hot = &mut self.hot;
        if hot.step.is_some() {
            count(&mut hot.step_counts, INTERRUPTED);
        }
        hot.step = Some(Step {
            id: name.into_owned(),
            turn: hot.turn.as_ref().map_or_else(|| turn.into_owned(), |running| running.id.clone()),
            ordinal: event.ordinal,
            started_us: event.time_us,
            model: model.into_owned(),
            context_ordinal: if is_null(context) { 0 } else { event.ordinal },
            context_items,
            ended_ordinal: 0,
        });
        if let Some(turn) = &mut hot.turn {
            turn.steps += 1;
        }
        Some(())
    }

    pub(super) fn step_ended(
        &mut self,
        event: &Stored<'_>,
        payload: &[u8],
        outcome: &str,
        given: &Given<'_>,
    ) -> Option<()> {
        let [model, source, name, usage, version] =
            members(payload, ["model", "source", "step", "usage", "v"])?;
        let name = text(name, usize::MAX)?;
        let spent = usage.filter(|usage| usage.starts_with(b"{")).map(kinds);
        let model = text(model, usize::MAX)?;
        let hot = &self.hot;
        let model = match &hot.step {
            Some(step) if model.is_empty() => step.model.clone(),
            _ => model.into_owned(),
        };
        let model = if model.is_empty() { given.model?.to_owned() } else { model };
        if version.is_some() || spent == Some(None) {
            return None;
        }
        let is_refused = hot.step.as_ref().is_none_or(|step| !name.is_empty() && step.id != name);
        if is_refused {
            self.refuse(is_observed(source), given)?;
        }
        if let Some(spent) = spent.flatten() {
            self.spend(&spent, model);
        }
        let hot = &mut self.hot;
        if !is_refused {
            hot.last_step = hot.step.take().map(|step| Step { ended_ordinal: event.ordinal, ..step });
        } else if let Some(turn) = &mut hot.turn {
            turn.steps += 1;
        }
        count(&mut hot.step_counts, outcome);
        Some(())
    }

    /// Add up tokens.
    fn spend(&mut self, spent: &Usage, model: String) {
        let by_model = &mut self.hot.usage_by_model;
        let is_full = by_model.len() >= NAMES_MAX && by_model.get(model.as_bytes()).is_none();
        let model = if is_full { OTHER.to_owned() } else { model };
        if let Some(entry) = by_model.get_mut(model.as_bytes()) {
            add(&mut entry.usage, spent);
        } else {
            by_model.insert(ModelUsage { model, usage: *spent });
        }
        add(&mut self.hot.usage, spent);
    }

    pub(super) fn message(&mut self, event: &Stored<'_>, payload: &[u8]) -> Option<()> {
        if may_reach(payload, "v") {
            let [version] = members(payload, ["v"])?;
            if version.is_some() {
                return None;
            }
        }
        let (is_user, is_assistant) =
            (event.type_name == "message.user", event.type_name == "message.assistant");
        let messages = &mut self.hot.messages;
        if messages.count % messages.stride == 0 {
            messages.marks.push(event.ordinal);
            if messages.marks.len() > MARKS_MAX {
                messages.marks = messages.marks.iter().copied().step_by(2).collect();
                messages.stride *= 2;
            }
        }
        messages.count += 1;
        messages.user += u64::from(is_user);
        messages.assistant += u64::from(is_assistant);
        messages.system += u64::from(!is_user && !is_assistant);
        if messages.first_ordinal == 0 {
            messages.first_ordinal = event.ordinal;
        }
        messages.last_ordinal = event.ordinal;
        if let Some(turn) = &mut self.hot.turn {
            turn.messages += 1;
            if is_user && turn.input_ordinal == 0 {
                turn.input_ordinal = event.ordinal;
            }
        }
        Some(())
    }
}

/// Return text as one short line: white space joined, cut to `PREVIEW_CHARACTERS_MAX`; of text that became an
/// artifact, the summary that stands in its place.
fn preview(input: Option<&[u8]>) -> Option<String> {
    let input = match input.filter(|input| input.starts_with(b"{")) {
        Some(object) => summary(object)?,
        None => input,
    };
    let mut line = String::new();
    for characters in [PREVIEW_SEEN_CHARACTERS / 3, PREVIEW_SEEN_CHARACTERS] {
        line = joined(&text(input, characters)?);
        if line.chars().count() >= PREVIEW_CHARACTERS_MAX {
            break; // the rest would only make it longer
        }
    }
    line.truncate(first(&line, PREVIEW_CHARACTERS_MAX).len());
    Some(line)
}

/// Join the words of a text by single spaces.
fn joined(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_space).unwrap_or(rest.len());
        if end > 0 && !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    line
}

/// What Python's `str.split` calls white space: four separators of ASCII more than Unicode's property.
fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
}

/// Return the summary of an artifact; nothing if the object refers to none.
#[expect(clippy::option_option, reason = "no summary, and what is not read")]
fn summary(object: &[u8]) -> Option<Option<&[u8]>> {
    let Some(reference) = object.strip_prefix(ARTIFACT) else {
        let begins_behind = object.get(2).is_some_and(u8::is_ascii_alphanumeric);
        return (begins_behind || object.starts_with(b"{}")).then_some(None);
    };
    if !reference.starts_with(b"{") {
        return Some(None);
    }
    members(&reference[..value_end(reference, 0)?], ["summary"]).map(|[summary]| summary)
}

/// Return how many items a context refers to.
fn context_items(context: Option<&[u8]>) -> Option<u64> {
    let Some(context) = context.filter(|context| context.starts_with(b"{")) else {
        return Some(0);
    };
    let (mut kept, mut added) = (0, 0);
    each_member(context, |key, value| {
        if key == b"\"added\"" && value.starts_with(b"[") {
            return each_element(value, |_| added += 1);
        }
        if key == b"\"kept\"" {
            kept = positive(Some(value))?;
        }
        value_end(value, 0)
    })?;
    Some(kept + added)
}

fn kinds(usage: &[u8]) -> Option<Usage> {
    let usage = &usage[..value_end(usage, 0)?];
    let [cache_read, cache_write, input, output] =
        members(usage, ["cache_read", "cache_write", "input", "output"])?.map(positive);
    Some([input?, output?, cache_read?, cache_write?])
}

fn add(total: &mut Usage, spent: &Usage) {
    for (sum, more) in total.iter_mut().zip(spent) {
        *sum = (*sum + more).min(COUNT_MAX);
    }
}
