//! One segment that is being appended to, shared by its writer, the committer and those who wait.
//!
//! Owns: the lock around the frontier, and the verdict on every waiter. Invariants: what a sync makes durable is noted
//! before the sync begins; a poison that comes in during a sync wins over its success; a waiter is told only of bytes
//! it waited for. Must not know: rounds, other segments.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::frontier::{Frontier, Mark, Ticket};
use crate::medium::{errno_of, error_text};
use crate::receipt::Start;

/// One segment file being appended to; shared by its writer and the committer.
pub(crate) struct ActiveSegment {
    pub(crate) path: PathBuf,
    pub(crate) device: u64,
    pub(crate) zero_done: Condvar,
    /// Number of the last round joined; written under the committer's gate.
    pub(crate) round: AtomicU64,
    pub(crate) state: Mutex<Frontier>,
}

/// Written bytes that wait for a sync.
pub(crate) struct Unsynced {
    pub(crate) file: Arc<File>,
    pub(crate) mark: Mark,
}

impl ActiveSegment {
    /// Open the file; its bytes before `end` are valid and durable.
    pub(crate) fn open(path: &Path, start: &Start) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let failed = |cause: io::Error| {
            let errno = errno_of(&cause);
            let message = format!("cannot open the segment for writing: {}", error_text(errno));
            Error::Io { errno, message, segment: Some(name.clone()), offset: None }
        };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let status = file.metadata().map_err(failed)?;
        if status.len() < start.end {
            let message = "the segment ends before its last durable byte".to_owned();
            return Err(Error::Damaged { message, segment: Some(name), offset: Some(status.len()) });
        }
        let frontier = Frontier::new(name, file, start, status.len());
        Ok(Self {
            path: path.to_owned(),
            device: status.dev(),
            zero_done: Condvar::new(),
            round: AtomicU64::new(0),
            state: Mutex::new(frontier),
        })
    }

    /// Take the lock. After a panic inside it nothing is known about the bytes, so the writer is poisoned.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Frontier> {
        self.state.lock().unwrap_or_else(|broken| {
            let mut state = broken.into_inner();
            state.fail("a panic interrupted the writer", libc::EIO);
            state
        })
    }

    /// Take the lock once no range is being zeroed that pending bytes and `more_bytes` after them would reach.
    pub(crate) fn lock_clear_of_zeros(&self, more_bytes: u64) -> MutexGuard<'_, Frontier> {
        let mut state = self.lock();
        while state.zero_claim.is_some_and(|(start, _)| state.end.offset.saturating_add(more_bytes) > start) {
            state = self.zero_done.wait(state).unwrap_or_else(|broken| {
                let mut state = broken.into_inner();
                state.fail("a panic interrupted the writer", libc::EIO);
                state
            });
        }
        state
    }

    /// Write what is pending; return what a sync would make durable, or None when there is nothing. Also (write calls,
    /// bytes).
    pub(crate) fn write_for_sync(&self) -> (Option<Unsynced>, (u64, u64)) {
        let mut state = self.lock_clear_of_zeros(0);
        // A failure is kept in `rollbacks` or `poison`, where each waiter finds its own verdict.
        let wrote = state.write_pending().unwrap_or_default();
        if state.poison.is_some() || state.durable.offset >= state.written.offset {
            return (None, wrote);
        }
        (state.file.clone().map(|file| Unsynced { file, mark: state.written }), wrote)
    }

    /// Publish the outcome of a sync that began after `mark` was written.
    pub(crate) fn settle_sync(&self, mark: Mark, outcome: io::Result<()>) -> MutexGuard<'_, Frontier> {
        let mut state = self.lock();
        if let Err(cause) = outcome {
            state.fail("cannot sync the segment", errno_of(&cause));
        }
        // A poison that came in during the sync wins: a failed sync elsewhere may have taken the error report with it.
        if state.poison.is_none() && mark.offset > state.durable.offset {
            state.publish(mark);
        }
        state
    }

    /// Some(verdict) on the waiter's bytes, None if no round decided.
    pub(crate) fn redeem(&self, ticket: Ticket) -> Option<Result<()>> {
        let mut state = self.lock();
        let lost = state.rollbacks.get(ticket.seen).copied().filter(|(offset, _)| *offset < ticket.end);
        let verdict = match (lost, &state.poison) {
            (Some((_, errno)), _) => Err(state.no_space(errno)),
            (None, _) if state.durable.offset >= ticket.end => Ok(()),
            (None, Some(poison)) => Err(poison.clone()),
            (None, None) if state.file.is_none() => {
                Err(Error::Closed("the writer was abandoned before the event was durable".to_owned()))
            }
            (None, None) => return None,
        };
        state.waiting -= 1;
        if state.waiting == 0 {
            state.rollbacks.clear();
        }
        Some(verdict)
    }
}
