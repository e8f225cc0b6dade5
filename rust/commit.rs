//! Commit rounds: one sync for all who wait, across the writers of one store.
//!
//! Owns: rounds and who leads them, and the choice between `fdatasync` and `syncfs`. Invariants: one round syncs at a
//! time; a round is closed before its first write, so whoever joined it has its bytes in it; every member is woken,
//! whatever happens to the leader; no sync is retried. Locks: the gate is never held together with a segment's lock.
//! Must not know: events, how a frame looks.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::active::{ActiveSegment, Unsynced};
use crate::background::{self, Alarm};
use crate::error::{Error, Result};
use crate::frontier::Frontier;
use crate::medium;
use crate::synccost::SyncCost;
use crate::zerofill;

/// How often what was done, since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Rounds that wrote or synced.
    pub rounds: AtomicU64,
    /// `fdatasync` calls on segments.
    pub file_syncs: AtomicU64,
    /// `syncfs` calls.
    pub syncfs_calls: AtomicU64,
    /// Bytes zeroed ahead.
    pub zero_bytes: AtomicU64,
    /// `fdatasync` calls after zeroing.
    pub zero_syncs: AtomicU64,
    /// Bytes of frames written.
    pub written_bytes: AtomicU64,
    /// Write calls for frames.
    pub write_calls: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    /// Each counter with its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("rounds", &self.rounds),
            ("file_syncs", &self.file_syncs),
            ("syncfs_calls", &self.syncfs_calls),
            ("zero_bytes", &self.zero_bytes),
            ("zero_syncs", &self.zero_syncs),
            ("written_bytes", &self.written_bytes),
            ("write_calls", &self.write_calls),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }

    pub(crate) fn wrote(&self, (calls, bytes): (u64, u64)) {
        Self::add(&self.write_calls, calls);
        Self::add(&self.written_bytes, bytes);
    }
}

/// One per store and process: syncs for all its writers, and a background thread for what nobody waits for.
pub struct Committer {
    pid: u32,
    directory: File,
    device: u64,
    syncfs: bool,
    cost: Mutex<SyncCost>,
    gate: Mutex<Gate>,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) interval: Duration,
    /// How often what was done.
    pub counters: Counters,
}

#[derive(Default)]
struct Gate {
    busy: bool,
    open: Option<Arc<Round>>,
    /// Members of the open round.
    joined: Vec<Arc<ActiveSegment>>,
    rounds: u64,
    segments: Vec<Weak<ActiveSegment>>,
}

/// A round that somebody waits for. Each has its own conditions, so that its end wakes nobody else.
struct Round {
    number: u64,
    over: Mutex<bool>,
    members: Condvar,
    leader: Condvar,
}

/// The leader's turn; its end, by whatever way, wakes the others.
struct Turn<'a> {
    committer: &'a Committer,
    round: Option<Arc<Round>>,
}

/// A segment whose bytes before `mark` wait for a sync.
struct Job<'a> {
    segment: &'a ActiveSegment,
    unsynced: Unsynced,
    outcome: Option<io::Result<()>>,
}

impl Committer {
    /// `interval` bounds how long buffered bytes stay unsynced; `syncfs` allows one call for many files.
    ///
    /// # Errors
    /// `Io` if the directory cannot be opened.
    pub fn new(directory: &Path, interval: Duration, syncfs: bool) -> Result<Arc<Self>> {
        let failed = |cause: io::Error| {
            let errno = medium::errno_of(&cause);
            let message = format!("cannot open the store's directory: {}", medium::error_text(errno));
            Error::Io { errno, message, segment: None, offset: None }
        };
        let directory = File::open(directory).map_err(failed)?;
        Ok(Arc::new(Self {
            pid: process::id(),
            device: directory.metadata().map_err(failed)?.dev(),
            syncfs: syncfs && medium::syncfs_is_trusted(&directory),
            directory,
            cost: Mutex::new(SyncCost::new()),
            gate: Mutex::default(),
            alarm: Arc::new(Alarm::new()),
            interval,
            counters: Counters::default(),
        }))
    }

    /// Sync everything that all writers of this committer have written.
    ///
    /// # Errors
    /// `SyncFailed`, `WrongProcess`.
    pub fn flush(&self) -> Result<()> {
        self.check_process()?;
        let mut dirty = self.segments();
        dirty.retain(|segment| segment.lock().needs_sync());
        if !dirty.is_empty() {
            self.commit(&dirty);
        }
        for segment in dirty {
            if let Some(poison) = &segment.lock().poison {
                return Err(poison.clone());
            }
        }
        Ok(())
    }

    /// Stop the background thread; idempotent.
    ///
    /// # Errors
    /// `WrongProcess`.
    pub fn close(&self) -> Result<()> {
        self.check_process()?;
        self.alarm.stop();
        self.alarm.wait_until_stopped();
        Ok(())
    }

    /// # Errors
    /// `WrongProcess` in a child of the process that made this. No lock is touched before this check.
    pub(crate) fn check_process(&self) -> Result<()> {
        if process::id() == self.pid {
            return Ok(());
        }
        let message = "the writer belongs to the parent process; open the session again in this one";
        Err(Error::WrongProcess(message.to_owned()))
    }

    /// Look after this segment until it is dropped.
    pub(crate) fn register(self: &Arc<Self>, segment: &Arc<ActiveSegment>) -> Result<()> {
        let mut gate = self.gate();
        gate.segments.retain(|known| known.strong_count() > 0);
        gate.segments.push(Arc::downgrade(segment));
        drop(gate);
        background::start(self)
    }

    /// The segments that are still in use.
    pub(crate) fn segments(&self) -> Vec<Arc<ActiveSegment>> {
        self.gate().segments.iter().filter_map(Weak::upgrade).collect()
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner) // no step under it can panic half-way
    }

    /// Take part in one round with these segments; each segment knows the outcome afterwards.
    pub(crate) fn commit(&self, segments: &[Arc<ActiveSegment>]) {
        let mut gate = self.gate();
        if let Some(round) = gate.open.clone() {
            gate.join(round.number, segments);
            drop(gate);
            round.wait();
            return;
        }
        gate.rounds += 1;
        if !gate.busy {
            gate.busy = true;
            drop(gate);
            let _turn = Turn { committer: self, round: None };
            self.run(segments);
            return;
        }
        let round = Arc::new(Round::new(gate.rounds));
        gate.open = Some(Arc::clone(&round));
        gate.join(round.number, segments);
        while gate.busy {
            gate = round.leader.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        gate.busy = true;
        gate.open = None;
        let members = std::mem::take(&mut gate.joined);
        drop(gate);
        let _turn = Turn { committer: self, round: Some(round) };
        self.run(&members);
    }

    fn run(&self, segments: &[Arc<ActiveSegment>]) {
        let mut jobs = Vec::with_capacity(segments.len());
        for segment in segments {
            let (work, wrote) = segment.write_for_sync();
            self.counters.wrote(wrote);
            if let Some(unsynced) = work {
                jobs.push(Job { segment, unsynced, outcome: None });
            }
        }
        self.sync(&mut jobs);
        Counters::add(&self.counters.rounds, 1);
        for mut job in jobs {
            if let Some(outcome) = job.outcome.take() {
                self.look_after(&mut job.segment.settle_sync(job.unsynced.mark, outcome));
            }
        }
    }

    /// Have the background thread do what is due for this segment: zeros, a sync, a mark.
    pub(crate) fn look_after(&self, state: &mut Frontier) {
        if zerofill::ask(state) {
            self.alarm.ring();
        } else if let Some(due) = state.deadline(self.interval) {
            self.alarm.ring_at(due);
        }
    }

    /// Sync each job and keep the outcome in it.
    fn sync(&self, jobs: &mut [Job<'_>]) {
        let mut cost = self.cost.lock().unwrap_or_else(PoisonError::into_inner); // only estimates
        let shared = jobs.iter().filter(|job| self.syncfs && job.segment.device == self.device).count();
        if shared > 1 && cost.prefers_syncfs(shared) {
            let mut left = shared;
            if cost.wants_sample() {
                if let Some(job) = jobs.iter_mut().find(|job| job.segment.device == self.device) {
                    self.sync_one(&mut cost, job);
                    left -= 1;
                }
            }
            let start = Instant::now();
            Counters::add(&self.counters.syncfs_calls, 1);
            // A failure is not the last word: each file is asked then, which tells which one is hurt.
            if medium::sync_file_system(&self.directory).is_ok() {
                cost.saw_syncfs(start.elapsed(), left);
                let open =
                    jobs.iter_mut().filter(|job| job.outcome.is_none() && job.segment.device == self.device);
                open.for_each(|job| job.outcome = Some(Ok(())));
            }
        }
        for job in jobs.iter_mut().filter(|job| job.outcome.is_none()) {
            self.sync_one(&mut cost, job);
        }
    }

    fn sync_one(&self, cost: &mut SyncCost, job: &mut Job<'_>) {
        let start = Instant::now();
        let outcome = medium::sync_file(&job.unsynced.file);
        Counters::add(&self.counters.file_syncs, 1);
        if outcome.is_ok() {
            cost.saw_file(start.elapsed());
        }
        job.outcome = Some(outcome);
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        if process::id() == self.pid {
            self.alarm.stop();
        }
    }
}

impl Gate {
    fn join(&mut self, number: u64, segments: &[Arc<ActiveSegment>]) {
        for segment in segments {
            if segment.round.swap(number, Ordering::Relaxed) != number {
                self.joined.push(Arc::clone(segment));
            }
        }
    }
}

impl Round {
    fn new(number: u64) -> Self {
        Self { number, over: Mutex::new(false), members: Condvar::new(), leader: Condvar::new() }
    }

    fn wait(&self) {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over {
            over = self.members.wait(over).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Turn<'_> {
    /// End the round: first the next leader, whose sync others wait for already, then the members.
    fn drop(&mut self) {
        let mut gate = self.committer.gate();
        gate.busy = false;
        if let Some(next) = &gate.open {
            next.leader.notify_one();
        }
        drop(gate);
        if let Some(round) = &self.round {
            *round.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
            round.members.notify_all();
        }
    }
}
