//! The ways a segment ends: freeze, seal, close, abandon.
//!
//! Owns: the last frame and the cut behind it. Invariants: the last frame is written only when all before it is
//! durable; one ending at a time; after any of them the zeros ahead are no longer written to. Must not know: how
//! events are appended.

use std::fs::File;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::commit::Counters;
use crate::error::{Error, Result};
use crate::format::{KIND_CLOSE, KIND_SEAL};
use crate::frontier::{Frontier, Mode};
use crate::medium::{errno_of, sync_file};
use crate::receipt::Head;
use crate::seal::seal_payload;
use crate::writer::Writer;

impl Writer {
    /// Refuse further events, sync everything, return the head.
    ///
    /// # Errors
    /// `SyncFailed`, `Closed`, `WrongProcess`.
    pub fn freeze(&self) -> Result<Head> {
        self.committer.check_process()?;
        let ending = self.ending();
        self.finish_appends(Mode::Frozen)?;
        drop(ending);
        self.head()
    }

    /// End a frozen segment with a SEAL frame that names its successor, cut the zeros behind it, sync, release the
    /// file.
    ///
    /// # Errors
    /// `NoSpace` (still frozen, may be repeated), `SyncFailed`, `Damaged`, `Io`, `Closed`, `WrongProcess`.
    pub fn seal(&self, successor: &[u8; 16]) -> Result<()> {
        self.committer.check_process()?;
        let _ending = self.ending();
        self.finish_appends(Mode::Frozen)?;
        let mut state = self.segment().lock_clear_of_zeros(u64::MAX);
        let Some(file) = state.file.clone() else { return Ok(()) };
        let payload = seal_payload(&state, &file, self.opened_at, successor)?;
        self.finish(&mut state, &file, KIND_SEAL, &payload)?;
        state.mode = Mode::Closed;
        state.file = None;
        Ok(())
    }

    /// Sync everything, write a CLOSE frame, cut the zeros behind it, sync, release the file; idempotent.
    ///
    /// Without space for the CLOSE frame the file is left as after a crash: all events are durable, and the next
    /// writer starts a new segment. After a poison it only releases the file.
    ///
    /// # Errors
    /// `SyncFailed` (the file is released), `WrongProcess`.
    pub fn close(&self) -> Result<()> {
        self.committer.check_process()?;
        let _ending = self.ending();
        let state = self.segment().lock();
        let finished = state.poison.is_some() || state.file.is_none();
        drop(state);
        let drained = if finished { Ok(()) } else { self.finish_appends(Mode::Closed) };
        let mut state = self.segment().lock_clear_of_zeros(u64::MAX);
        state.mode = Mode::Closed;
        let file = state.file.take();
        let (Some(file), false) = (file, finished) else { return Ok(()) };
        drained?;
        state.file = Some(Arc::clone(&file));
        let chain = state.end.chain;
        let outcome = self.finish(&mut state, &file, KIND_CLOSE, &chain);
        state.file = None;
        match outcome {
            // What was promised is kept; only the note of an orderly end is missing.
            Err(Error::NoSpace { .. }) => Ok(()),
            other => other,
        }
    }

    /// Release the file and touch nothing; allowed in a forked child and after a poison.
    pub fn abandon(&self) {
        let in_child = self.committer.check_process().is_err();
        let state = if in_child { self.segment().state.try_lock().ok() } else { Some(self.segment().lock()) };
        if let Some(mut state) = state {
            state.mode = Mode::Closed;
            state.file = None;
        }
    }

    fn ending(&self) -> MutexGuard<'_, ()> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Return when the bytes up to `goal` are durable.
    pub(crate) fn drain(&self, goal: impl Fn(&Frontier) -> u64) -> Result<()> {
        loop {
            let mut state = self.segment().lock();
            if let Some(poison) = &state.poison {
                return Err(poison.clone());
            }
            if state.durable.offset >= goal(&state) {
                return Ok(());
            }
            let ticket = state.ticket();
            drop(state);
            match self.commit(ticket) {
                // Others' frames; they are told, and what was acknowledged is still there.
                Err(Error::NoSpace { .. }) => {}
                other => return other,
            }
        }
    }

    fn finish_appends(&self, mode: Mode) -> Result<()> {
        let mut state = self.segment().lock();
        if state.check_open()? || mode == Mode::Closed {
            state.mode = mode;
        }
        drop(state);
        // A trailing SYNC_MARK is synced too: the successor's header promises all bytes up to `end`.
        self.drain(|state| state.end.offset)
    }

    /// Write the last frame, sync, cut the file at its end, sync.
    fn finish(&self, state: &mut Frontier, file: &File, kind: u8, payload: &[u8]) -> Result<()> {
        state.push_control(kind, payload);
        self.committer.counters.wrote(state.write_pending()?);
        let end = state.end.offset;
        let first = if kind == KIND_CLOSE { sync_file(file) } else { Ok(()) };
        let outcome = first.and_then(|()| file.set_len(end)).and_then(|()| sync_file(file));
        Counters::add(&self.committer.counters.file_syncs, if kind == KIND_CLOSE { 2 } else { 1 });
        outcome.map_err(|cause| state.fail("cannot sync the end of the segment", errno_of(&cause)))?;
        state.publish(state.written);
        Ok(())
    }
}
