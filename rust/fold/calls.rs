//! What happens to a tool call: `turnlog/state/reduce_calls.py`.
//!
//! Owns: the rule of the family tool. Invariants: see there. Must not know: turns, beyond which one runs.

use std::borrow::Cow;

use super::hot::{
    ABSENT, APPROVAL_REQUESTED, APPROVED, CANCELLED, COMPLETED, Call, DENIED, EFFECTS, EXTERNAL, FAILED,
    OUTCOME_UNKNOWN, PROPOSED, RESOLVED, STARTED, call_key, is_final,
};
use super::json::{is_null, is_text, names, positive, text};
use super::members::members;
use super::ordered::Keyed;
use super::{Folder, Given, PREVIEW_CHARACTERS_MAX, Stored, count, is_observed};

const RECENT_CALLS_MAX: usize = 256;
const NOT_EXECUTED: &str = "not_executed";
const OUTCOMES: [&str; 3] = [COMPLETED, FAILED, NOT_EXECUTED];

/// What an event says: of which call, and what the rule of its type reads.
#[derive(Default)]
struct Said<'a> {
    call_id: Cow<'a, str>,
    turn: Option<Cow<'a, str>>,
    is_observed: bool,
    attempt: u64,
    by: Cow<'a, str>,
    by_provider: bool,
    effect: Option<&'static str>,
    has_odd_effect: bool,
    idempotency_key: Cow<'a, str>,
    tool: Cow<'a, str>,
    outcome: Option<&'static str>,
}

impl Folder {
    /// Apply `tool.NAME`.
    pub(super) fn call(
        &mut self,
        event: &Stored<'_>,
        payload: &[u8],
        name: &str,
        given: &Given<'_>,
    ) -> Option<()> {
        let target = target_of(name)?;
        let said = said(target, payload)?;
        let (call_id, is_observed, is_named) = (&said.call_id, said.is_observed, said.turn.is_some());
        let running = self.hot.turn.as_ref().map_or("", |turn| &turn.id);
        let turn = said.turn.clone().unwrap_or_else(|| Cow::Owned(running.to_owned()));

        let mut key = call_key(&turn, call_id);
        let hot = &self.hot;
        let mut call = hot.open_calls.get(&key).or_else(|| hot.recent_calls.get(&key));
        if call.is_none() && target != PROPOSED && (!is_named || is_observed) {
            call = hot.open_calls.values().find(|other| other.call_id == *call_id);
            key = call.map_or(key, Keyed::key);
        }
        let is_legal = match call {
            None => {
                let is_running =
                    turn.is_empty() || hot.turn.as_ref().is_some_and(|running| running.id == turn);
                target == PROPOSED && is_running && !said.has_odd_effect
            }
            Some(call) => may_follow(call, name) && (target != RESOLVED || said.outcome.is_some()),
        };
        let known = call.map(|call| is_final(call.state));
        if call_id.is_empty() || !is_legal {
            self.refuse(is_observed, given)?;
        }
        if call_id.is_empty() {
            return Some(());
        }
        match known {
            None if target == PROPOSED => self.propose(event, &key, &turn, &said),
            None => {
                self.hot.open_calls.insert(absent(&turn, call_id));
                self.advance(event, &key, name, target, &said);
            }
            Some(true) if target == PROPOSED && is_observed => {
                self.propose(event, &key, &turn, &said);
            }
            Some(false) if target != PROPOSED => self.advance(event, &key, name, target, &said),
            Some(_) => {}
        }
        Some(())
    }

    fn propose(&mut self, event: &Stored<'_>, key: &[u8], turn: &str, said: &Said<'_>) {
        self.hot.recent_calls.remove(key);
        self.hot.open_calls.insert(Call {
            name: said.tool.as_ref().to_owned(),
            state: PROPOSED,
            effect: said.effect.unwrap_or(EXTERNAL),
            by_provider: said.by_provider,
            idempotency_key: said.idempotency_key.as_ref().to_owned(),
            ordinal: event.ordinal,
            proposed_ordinal: event.ordinal,
            ..absent(turn, &said.call_id)
        });
        if let Some(running) = self.hot.turn.as_mut().filter(|running| running.id == turn) {
            running.calls += 1;
        }
    }

    /// Move an open call to the state its event leads to.
    fn advance(&mut self, event: &Stored<'_>, key: &[u8], name: &str, target: &'static str, said: &Said<'_>) {
        let hot = &mut self.hot;
        let Some(call) = hot.open_calls.get_mut(key) else { return };
        let is_undone = target == RESOLVED && said.outcome == Some(NOT_EXECUTED);
        let target = if is_undone { APPROVED } else { target };
        call.state = target;
        call.ordinal = event.ordinal;
        if target == STARTED {
            call.started_ordinal = event.ordinal;
            call.attempts = if said.attempt > 0 { said.attempt } else { call.attempts + 1 };
            if !said.idempotency_key.is_empty() {
                said.idempotency_key.as_ref().clone_into(&mut call.idempotency_key);
            }
        } else if matches!(name, "approved" | "denied") {
            said.by.as_ref().clone_into(&mut call.decided_by);
        }
        if !is_final(target) {
            return;
        }
        if let Some(mut ended) = hot.open_calls.remove(key) {
            ended.outcome_ordinal = event.ordinal;
            hot.recent_calls.insert(ended);
        }
        if hot.recent_calls.len() > RECENT_CALLS_MAX {
            hot.recent_calls.remove_first();
            hot.calls_folded += 1;
        }
        count(&mut hot.call_counts, target);
    }
}

/// Read what the rule of this type reads, in one look at the payload. None if that is not regular.
fn said<'a>(target: &str, payload: &'a [u8]) -> Option<Said<'a>> {
    let mut said = Said::default();
    let [call_id, source, turn, version] = match target {
        PROPOSED => {
            let wanted = ["by", "call_id", "effect", "idempotency_key", "name", "source", "turn", "v"];
            let [by, call_id, effect, key, name, source, turn, version] = members(payload, wanted)?;
            said.by_provider = names(by, "provider");
            said.effect = EFFECTS.into_iter().find(|known| names(effect, known));
            said.has_odd_effect = said.effect.is_none() && !is_null(effect);
            said.idempotency_key = text(key, usize::MAX)?;
            said.tool = text(name, PREVIEW_CHARACTERS_MAX)?;
            [call_id, source, turn, version]
        }
        STARTED => {
            let wanted = ["attempt", "call_id", "idempotency_key", "source", "turn", "v"];
            let [attempt, call_id, key, source, turn, version] = members(payload, wanted)?;
            said.attempt = positive(attempt)?;
            said.idempotency_key = text(key, usize::MAX)?;
            [call_id, source, turn, version]
        }
        APPROVED | DENIED => {
            let [by, named @ ..] = members(payload, ["by", "call_id", "source", "turn", "v"])?;
            said.by = text(by, PREVIEW_CHARACTERS_MAX)?;
            named
        }
        RESOLVED => {
            let [call_id, outcome, named @ ..] =
                members(payload, ["call_id", "outcome", "source", "turn", "v"])?;
            said.outcome = OUTCOMES.into_iter().find(|known| names(outcome, known));
            let [source, turn, version] = named;
            [call_id, source, turn, version]
        }
        _ => members(payload, ["call_id", "source", "turn", "v"])?,
    };
    said.call_id = text(call_id, usize::MAX)?;
    said.turn = if is_text(turn) { Some(text(turn, usize::MAX)?) } else { None };
    said.is_observed = is_observed(source);
    version.is_none().then_some(said)
}

fn absent(turn: &str, call_id: &str) -> Call {
    Call {
        turn: turn.to_owned(),
        call_id: call_id.to_owned(),
        name: String::new(),
        state: ABSENT,
        effect: EXTERNAL,
        by_provider: false,
        idempotency_key: String::new(),
        attempts: 0,
        decided_by: String::new(),
        ordinal: 0,
        proposed_ordinal: 0,
        started_ordinal: 0,
        outcome_ordinal: 0,
    }
}

/// Return the state that `tool.NAME` leads to.
fn target_of(name: &str) -> Option<&'static str> {
    const TARGETS: [&str; 10] = [
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
    TARGETS.into_iter().find(|target| *target == name)
}

/// Whether `tool.NAME` may follow on what is known of a call: the tables of calls in `turnlog/state/transitions.py`.
fn may_follow(call: &Call, name: &str) -> bool {
    let is_repeatable = !call.by_provider && call.effect != EXTERNAL;
    match (call.state, name) {
        (
            PROPOSED,
            APPROVAL_REQUESTED | APPROVED | DENIED | CANCELLED | STARTED | FAILED | OUTCOME_UNKNOWN,
        )
        | (APPROVAL_REQUESTED, APPROVED | DENIED | CANCELLED | FAILED | OUTCOME_UNKNOWN)
        | (APPROVED, DENIED | STARTED | CANCELLED | FAILED | OUTCOME_UNKNOWN)
        | (STARTED, COMPLETED | FAILED | CANCELLED | OUTCOME_UNKNOWN)
        | (OUTCOME_UNKNOWN, RESOLVED) => true,
        (PROPOSED, COMPLETED) => call.by_provider,
        (STARTED | OUTCOME_UNKNOWN, STARTED) => is_repeatable,
        _ => false,
    }
}
