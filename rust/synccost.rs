//! Whether a round with many dirty files calls `syncfs` once or `fdatasync` for each.
//!
//! Owns: the running estimate of both costs. Invariant: `syncfs` is used only while it is not dearer than the files
//! alone would be; a bad one is tried again after a growing number of rounds, because a neighbour's flood of dirty
//! pages ends some day. Must not know: files, writers.

use std::time::Duration;

/// Fewer files are synced one by one.
const MANY: usize = 4;
const SAMPLE_ROUNDS: u64 = 64;
const PROBE_ROUNDS_MAX: u64 = 4096;

/// Running cost estimates.
#[derive(Debug)]
pub(crate) struct SyncCost {
    file: Duration,
    syncfs: Option<Duration>,
    rounds: u64,
    probe_rounds: u64,
    next_probe: u64,
}

impl SyncCost {
    pub(crate) fn new() -> Self {
        let file = Duration::from_micros(100);
        Self { file, syncfs: None, rounds: 0, probe_rounds: SAMPLE_ROUNDS, next_probe: 0 }
    }

    /// Decide for a round with this many files on the same file system.
    pub(crate) fn prefers_syncfs(&mut self, files: usize) -> bool {
        if files < MANY {
            return false;
        }
        self.rounds += 1;
        if self.syncfs.is_none_or(|syncfs| syncfs <= self.files(files)) {
            return true;
        }
        if self.rounds < self.next_probe {
            return false;
        }
        self.probe_rounds = (self.probe_rounds * 2).min(PROBE_ROUNDS_MAX);
        self.next_probe = self.rounds + self.probe_rounds;
        true
    }

    /// Whether this syncfs round should sync one file alone first, to learn what that costs now.
    pub(crate) fn wants_sample(&self) -> bool {
        self.rounds % SAMPLE_ROUNDS == 1
    }

    /// Learn from one fdatasync.
    pub(crate) fn saw_file(&mut self, spent: Duration) {
        self.file = nearer(self.file, spent);
    }

    /// Learn from one syncfs that stood for this many files.
    pub(crate) fn saw_syncfs(&mut self, spent: Duration, files: usize) {
        let mut estimate = self.syncfs.map_or(spent, |before| nearer(before, spent));
        if spent <= self.files(files) {
            self.probe_rounds = SAMPLE_ROUNDS;
            estimate = estimate.min(spent);
        }
        self.syncfs = Some(estimate);
    }

    fn files(&self, files: usize) -> Duration {
        self.file.saturating_mul(u32::try_from(files).unwrap_or(u32::MAX))
    }
}

fn nearer(before: Duration, seen: Duration) -> Duration {
    (before * 3 + seen) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Duration = Duration::from_micros(100);

    #[test]
    fn few_files_are_synced_one_by_one() {
        assert!(!SyncCost::new().prefers_syncfs(MANY - 1));
        assert!(SyncCost::new().prefers_syncfs(MANY));
    }

    #[test]
    fn a_slow_syncfs_is_left_alone_and_tried_again_ever_more_seldom() {
        let mut cost = SyncCost::new();
        let mut probes = Vec::new();
        for round in 0..2000 {
            if cost.prefers_syncfs(10) {
                probes.push(round);
                cost.saw_syncfs(FILE * 1000, 10);
            }
        }
        assert_eq!(probes, [0, 1, 129, 385, 897, 1921]);
    }

    #[test]
    fn a_syncfs_that_became_fast_is_used_from_then_on() {
        let mut cost = SyncCost::new();
        cost.saw_syncfs(FILE * 1000, 10);
        cost.saw_syncfs(FILE, 10);
        assert!((0..100).all(|_| cost.prefers_syncfs(10)));
    }

    #[test]
    fn dear_files_make_a_dear_syncfs_worth_it() {
        let mut cost = SyncCost::new();
        cost.saw_syncfs(FILE * 20, 10);
        assert!(cost.prefers_syncfs(10)); // a first probe
        assert!(!cost.prefers_syncfs(10));
        (0..20).for_each(|_| cost.saw_file(FILE * 5));
        assert!(cost.prefers_syncfs(10));
    }
}
