//! The fold of the common events: turns, steps, messages, tool calls. The one place of the cores that knows types.
//!
//! Theory of operation: the rules are those of `turnlog/state/reduce_turns.py` and `reduce_calls.py`, and nothing is
//! ever decided differently: `tests/state/test_fold.py` compares the two over every family. A rule here first reads
//! all it needs, then judges, then changes; up to the change it may answer `None`, and the event is given back, to be
//! applied in Python. Given back is whatever is not regular: a payload that is not read exactly, one of another
//! version, an event out of order or behind a lost one, a violation that is to be kept with its words, every type not
//! named here.
//! Must not know: where events come from, the rest of the state.

mod calls;
mod hot;
mod json;
mod members;
mod ordered;
mod turns;
mod write;

use hot::{COMPLETED, Counts, FAILED, Hot};

/// Counters that hold more names put the rest under a common one.
const NAMES_MAX: usize = 256;
/// The longest name and the longest line of input that a record holds, in characters.
const PREVIEW_CHARACTERS_MAX: usize = 200;

/// Where the fold stands: the parts of a state that every event changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Ordinal of the last event.
    pub ordinal: u64,
    /// Its time.
    pub time_us: u64,
    /// How many events were folded.
    pub events: u64,
    /// How many of them were not legal.
    pub violations: u64,
}

impl Place {
    fn follow(&mut self, event: &Stored<'_>) {
        self.ordinal = event.ordinal;
        self.time_us = event.time_us;
        self.events += 1;
    }
}

/// What the rules read of the rest of the state.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Whether a turn can start without a change of the session's phase.
    pub is_open: bool,
    /// Ordinal of the settings in force.
    pub configured_ordinal: u64,
    /// The model in use; none if its name is no text that can be held here.
    pub model: Option<&'a str>,
    /// Whether violations are only counted from now on.
    pub only_counts: bool,
}

/// One stored event with a payload of canonical JSON.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Its type.
    pub type_name: &'a str,
    /// Its ordinal.
    pub ordinal: u64,
    /// Its time.
    pub time_us: u64,
    /// Its payload; none if that is not JSON.
    pub payload: Option<&'a [u8]>,
}

/// A state's hot part, and the fold of events onto it.
#[derive(Debug)]
pub struct Folder {
    hot: Hot,
    place: Place,
}

impl Folder {
    /// Take over the hot part of a state; none if it cannot be held exactly.
    #[must_use]
    pub fn new(json: &[u8]) -> Option<Self> {
        let place = Place { ordinal: 0, time_us: 0, events: 0, violations: 0 };
        hot::read(json).map(|hot| Self { hot, place })
    }

    /// The hot part as it is now.
    #[must_use]
    pub fn hot(&self) -> Vec<u8> {
        write::write(&self.hot)
    }

    /// Move `place` on over an event of a type that changes nothing else. False gives it back.
    pub fn pass_by(&self, place: &mut Place, event: &Stored<'_>) -> bool {
        let is_next = event.ordinal == place.ordinal + 1;
        if is_next {
            place.follow(event);
        }
        is_next
    }

    /// Apply an event and move `place` on. False gives it back: then nothing has changed.
    pub fn fold(&mut self, place: &mut Place, event: &Stored<'_>, given: &Given<'_>) -> bool {
        if event.ordinal != place.ordinal + 1 {
            return false;
        }
        self.place = *place;
        if self.apply(event, given).is_none() {
            return false;
        }
        place.violations = self.place.violations;
        place.follow(event);
        true
    }

    fn apply(&mut self, event: &Stored<'_>, given: &Given<'_>) -> Option<()> {
        let payload = event.payload?;
        let name = event.type_name;
        if let Some(name) = name.strip_prefix("tool.") {
            return self.call(event, payload, name, given);
        }
        if let Some(outcome) = name.strip_prefix("turn.") {
            return match outcome {
                "started" => self.turn_started(event, payload, given),
                _ => self.turn_ended(event, payload, outcome, given),
            };
        }
        match name {
            "step.started" => self.step_started(event, payload, given),
            "step.completed" => self.step_ended(event, payload, COMPLETED, given),
            "step.failed" => self.step_ended(event, payload, FAILED, given),
            "message.user" | "message.assistant" | "message.system" => self.message(event, payload),
            _ => None,
        }
    }

    /// Note that an event is not legal where it stands, unless another product wrote it. None if the words are wanted.
    fn refuse(&mut self, is_observed: bool, given: &Given<'_>) -> Option<()> {
        if is_observed {
            return Some(());
        }
        self.place.violations += 1;
        given.only_counts.then_some(())
    }
}

/// Whether another product wrote this history: it recorded only part, so nothing missing is a violation.
fn is_observed(source: Option<&[u8]>) -> bool {
    !json::is_null(source)
}

/// Add one to a counter; beyond `NAMES_MAX` names, to a common one.
fn count(counts: &mut Counts, name: &str) {
    let is_full = counts.len() >= NAMES_MAX;
    if let Some((_, number)) = counts.iter_mut().find(|(known, _)| known == name) {
        *number += 1;
    } else if is_full && name != OTHER {
        count(counts, OTHER);
    } else {
        counts.push((name.to_owned(), 1));
    }
}

const OTHER: &str = "(other)";
