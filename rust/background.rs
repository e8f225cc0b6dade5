//! The committer's background thread: what nobody waits for.
//!
//! Owns: when buffered bytes are synced, when a quiet segment gets its `SYNC_MARK`, when zeros are written ahead.
//! Invariants: the thread keeps nothing alive while it sleeps, so dropped writers and committers vanish; nobody joins
//! it, and it ends with the process. Must not know: who appends, Python.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Instant;

use crate::active::ActiveSegment;
use crate::commit::{Committer, Counters};
use crate::error::{Error, Result};
use crate::format::{FRAME_HEADER_MAX_BYTES, KIND_SYNC_MARK};
use crate::frontier::Mode;
use crate::medium::{errno_of, error_text};
use crate::zerofill;

/// Wakes the background thread.
pub(crate) struct Alarm {
    set: Mutex<Setting>,
    changed: Condvar,
}

#[derive(Default)]
struct Setting {
    rung: bool,
    due: Option<Instant>,
    stop: bool,
    running: bool,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Self { set: Mutex::default(), changed: Condvar::new() }
    }

    /// Wake the thread now.
    pub(crate) fn ring(&self) {
        self.setting().rung = true;
        self.changed.notify_all();
    }

    /// Make sure that the thread wakes at `due` or earlier.
    pub(crate) fn ring_at(&self, due: Instant) {
        let mut set = self.setting();
        if set.due.is_none_or(|earlier| due < earlier) {
            set.due = Some(due);
            drop(set);
            self.changed.notify_all();
        }
    }

    /// End the thread.
    pub(crate) fn stop(&self) {
        self.setting().stop = true;
        self.changed.notify_all();
    }

    pub(crate) fn wait_until_stopped(&self) {
        let mut set = self.setting();
        while set.running {
            set = self.changed.wait(set).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sleep until there is something to do; false when the thread should end.
    fn sleep(&self) -> bool {
        let mut set = self.setting();
        loop {
            let now = Instant::now();
            if set.stop {
                return false;
            }
            if set.rung || set.due.is_some_and(|due| due <= now) {
                set.rung = false;
                set.due = None;
                return true;
            }
            set = match set.due {
                Some(due) => {
                    let waited = self.changed.wait_timeout(set, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(set).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn setting(&self) -> MutexGuard<'_, Setting> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner) // four plain values
    }
}

/// Says that the thread has ended, by whatever way.
struct Running(Arc<Alarm>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.setting().running = false;
        self.0.changed.notify_all();
    }
}

/// Start the thread of this committer unless it runs or was stopped.
pub(crate) fn start(committer: &Arc<Committer>) -> Result<()> {
    let mut set = committer.alarm.setting();
    if set.running || set.stop {
        return Ok(());
    }
    let (weak, alarm) = (Arc::downgrade(committer), Arc::clone(&committer.alarm));
    let spawned = thread::Builder::new().name("turnlog-commit".to_owned()).spawn(move || run(&weak, alarm));
    set.running = spawned.is_ok();
    drop(set);
    spawned.map(drop).map_err(|cause| {
        let errno = errno_of(&cause);
        let message = format!("cannot start the commit thread: {}", error_text(errno));
        Error::Io { errno, message, segment: None, offset: None }
    })
}

fn run(committer: &Weak<Committer>, alarm: Arc<Alarm>) {
    let running = Running(alarm);
    while running.0.sleep() {
        let Some(committer) = committer.upgrade() else { return };
        tend(&committer);
    }
}

/// Do what is due, and set the alarm to the next deadline.
fn tend(committer: &Committer) {
    let segments = committer.segments();
    for segment in &segments {
        if segment.lock().zero_asked {
            let (bytes, syncs) = zerofill::fill(segment);
            Counters::add(&committer.counters.zero_bytes, bytes);
            Counters::add(&committer.counters.zero_syncs, syncs);
        }
    }
    sync_due(committer, &segments);
    for segment in &segments {
        mark(committer, segment);
    }
    let due = segments.iter().filter_map(|segment| segment.lock().deadline(committer.interval)).min();
    if let Some(due) = due {
        committer.alarm.ring_at(due);
    }
}

fn sync_due(committer: &Committer, segments: &[Arc<ActiveSegment>]) {
    let now = Instant::now();
    let is_due = |since: Option<Instant>| since.is_some_and(|since| since + committer.interval <= now);
    if segments.iter().any(|segment| is_due(segment.lock().dirty_since)) {
        let dirty = segments.iter().filter(|segment| segment.lock().needs_sync());
        committer.commit(&dirty.map(Arc::clone).collect::<Vec<_>>());
    }
}

/// Write a `SYNC_MARK` into a quiet segment: it carries the durable offset of the last commit, for a recovery without
/// the index.
fn mark(committer: &Committer, segment: &ActiveSegment) {
    if segment.lock().mark_due.is_none_or(|due| due > Instant::now()) {
        return;
    }
    let mut state = segment.lock_clear_of_zeros(FRAME_HEADER_MAX_BYTES as u64);
    state.mark_due = None;
    if state.mode != Mode::Open || state.poison.is_some() || state.end.offset != state.durable.offset {
        return;
    }
    state.push_control(KIND_SYNC_MARK, b"");
    // A failure was rolled back, or is kept as the poison that the next caller meets.
    committer.counters.wrote(state.write_pending().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_earlier_deadline_replaces_a_later_one() {
        let alarm = Alarm::new();
        let now = Instant::now();
        alarm.ring_at(now + Duration::from_secs(60));
        alarm.ring_at(now);
        assert!(alarm.sleep());
    }

    #[test]
    fn a_stopped_alarm_lets_nobody_sleep() {
        let alarm = Alarm::new();
        alarm.stop();
        assert!(!alarm.sleep());
    }
}
