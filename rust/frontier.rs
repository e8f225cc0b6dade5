//! How far one segment is framed, written and synced, and the way back when a write fails.
//!
//! Owns: three marks (end >= written >= durable) and the pending bytes between `end` and `written`. Invariants:
//! `written` moves only after a write returned, `durable` only after a sync returned success, neither after a poison;
//! a roll-back goes to `written` and leaves no byte behind it; ids of rolled-back events are forgotten with them. Must
//! not know: locks, rounds, other segments.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::chain::{chain_next, digest};
use crate::error::{Error, Result};
use crate::format::{
    CHAIN_STEP_EVENTS, FLAG_COMMIT, FLAG_DURABLE, HEADER_BYTES, KIND_CHAIN_MARK, KIND_EVENT, KIND_SYNC_MARK,
    SPARSE_STEP_BYTES,
};
use crate::frame::{FrameFields, encode_frame};
use crate::identity::now_us;
use crate::idindex::IdIndex;
use crate::medium::{errno_of, error_text, is_no_space, sync_file, write_all};
use crate::receipt::Start;

/// Idle time after which a segment gets its `SYNC_MARK`.
const MARK_AFTER: Duration = Duration::from_secs(1);

/// A frame end: its offset and the last ordinal and chain before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) offset: u64,
    pub(crate) ordinal: u64,
    pub(crate) chain: [u8; 32],
}

/// An event that needs only its place: made outside the lock.
pub(crate) struct Encoded<'a> {
    pub(crate) type_name: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) digest: [u8; 32],
    pub(crate) event_id: [u8; 16],
    /// Whether the caller gave the id, so that it may be known.
    pub(crate) given: bool,
    pub(crate) flags: u16,
    pub(crate) time_us: u64,
}

/// What the segment still takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Open,
    Frozen,
    Closed,
}

/// What a waiter waits for: all bytes up to `end`, appended when `seen` roll-backs had been kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) end: u64,
    pub(crate) seen: usize,
}

/// The state of a segment that is appended to.
pub(crate) struct Frontier {
    pub(crate) name: String,
    /// None once released; a leader keeps a reference while it syncs.
    pub(crate) file: Option<Arc<File>>,
    pub(crate) segment_id: [u8; 16],
    epoch: u32,
    pub(crate) roll_bytes: u64,
    pub(crate) ids: Option<Arc<IdIndex>>,
    pub(crate) mode: Mode,
    pub(crate) poison: Option<Error>,
    pub(crate) end: Mark,
    pub(crate) written: Mark,
    pub(crate) durable: Mark,
    pending: Vec<u8>,
    pending_ids: Vec<[u8; 16]>,
    /// First bytes of durable frames that no sync covers yet.
    durable_starts: VecDeque<u64>,
    /// (offset, errno) of the roll-backs that a waiter may ask about.
    pub(crate) rollbacks: Vec<(u64, i32)>,
    pub(crate) waiting: usize,
    pub(crate) events: u64,
    pub(crate) sparse: Vec<(u64, u64)>,
    /// End of the last frame that is worth a sync.
    pub(crate) dirty_end: u64,
    pub(crate) dirty_since: Option<Instant>,
    pub(crate) mark_due: Option<Instant>,
    pub(crate) zeroed: u64,
    pub(crate) zero_claim: Option<(u64, u64)>,
    pub(crate) zero_asked: bool,
    /// Whether somebody waited for a sync since the last step of zeros was asked for; without waiters zeros are wasted
    /// work.
    pub(crate) waited: bool,
}

impl Frontier {
    /// The state right after opening; `size` is the length of the file.
    pub(crate) fn new(name: String, file: File, start: &Start, size: u64) -> Self {
        let end = Mark { offset: start.end, ordinal: start.ordinal, chain: start.chain };
        Self {
            name,
            file: Some(Arc::new(file)),
            segment_id: start.segment_id,
            epoch: start.epoch,
            roll_bytes: start.roll_bytes.max(HEADER_BYTES as u64 + 1),
            ids: start.ids.clone(),
            mode: Mode::Open,
            poison: None,
            end,
            written: end,
            durable: end,
            pending: Vec::new(),
            pending_ids: Vec::new(),
            durable_starts: VecDeque::new(),
            rollbacks: Vec::new(),
            waiting: 0,
            events: 0,
            sparse: Vec::new(),
            dirty_end: end.offset,
            dirty_since: None,
            mark_due: None,
            zeroed: size,
            zero_claim: None,
            zero_asked: false,
            waited: false,
        }
    }

    /// Whether events are accepted; false once frozen.
    pub(crate) fn check_open(&self) -> Result<bool> {
        match (&self.poison, self.mode) {
            (Some(poison), _) => Err(poison.clone()),
            (None, Mode::Closed) => Err(Error::Closed("the writer is closed".to_owned())),
            (None, mode) => Ok(mode == Mode::Open),
        }
    }

    /// Whether the segment has reached the size at which it rolls.
    pub(crate) fn is_full(&self) -> bool {
        self.end.offset >= self.roll_bytes
    }

    /// Frame the event behind the last one, and before it a `CHAIN_MARK` where one is due; return its ordinal.
    pub(crate) fn push_event(&mut self, event: &Encoded<'_>, flags: u16) -> u64 {
        if self.chain_mark_is_due() {
            let chain = self.end.chain;
            self.push_control(KIND_CHAIN_MARK, &chain);
        }
        let start = self.end.offset;
        let ordinal = self.end.ordinal + 1;
        let type_name = event.type_name.as_bytes();
        let chain =
            chain_next(&self.end.chain, ordinal, &event.event_id, event.time_us, &event.digest, type_name);
        let fields = FrameFields {
            kind: KIND_EVENT,
            flags: event.flags | flags,
            epoch: self.epoch,
            ordinal,
            durable_off: self.durable.offset,
            event_id: event.event_id,
            time_us: event.time_us,
            digest: event.digest,
            type_name,
            payload: event.payload,
        };
        self.push(&fields, flags & FLAG_DURABLE != 0);
        self.end = Mark { ordinal, chain, ..self.end };
        self.dirty_end = self.end.offset;
        let step = start / SPARSE_STEP_BYTES;
        if self.sparse.last().is_none_or(|(_, last)| step > last / SPARSE_STEP_BYTES) {
            self.sparse.push((ordinal, start));
        }
        self.events += 1;
        if let Some(ids) = &self.ids {
            ids.add(event.event_id, ordinal);
            self.pending_ids.push(event.event_id);
        }
        ordinal
    }

    /// Whether the next event's ordinal is a whole number of steps plus one; a segment's header is a mark itself.
    fn chain_mark_is_due(&self) -> bool {
        let Mark { ordinal, offset, .. } = self.end;
        ordinal > 0 && ordinal % CHAIN_STEP_EVENTS == 0 && offset > HEADER_BYTES as u64
    }

    /// Frame a control frame behind the last frame.
    pub(crate) fn push_control(&mut self, kind: u8, payload: &[u8]) {
        let fields = FrameFields {
            kind,
            flags: FLAG_COMMIT,
            epoch: self.epoch,
            ordinal: self.end.ordinal,
            durable_off: self.durable.offset,
            event_id: [0; 16],
            time_us: now_us(),
            digest: digest(payload),
            type_name: b"",
            payload,
        };
        let worth_a_sync = !matches!(kind, KIND_SYNC_MARK | KIND_CHAIN_MARK);
        self.push(&fields, worth_a_sync);
        if worth_a_sync {
            self.dirty_end = self.end.offset;
        }
    }

    fn push(&mut self, fields: &FrameFields<'_>, durable: bool) {
        if durable {
            self.durable_starts.push_back(self.end.offset);
        }
        let before = self.pending.len();
        encode_frame(&mut self.pending, &self.segment_id, self.end.offset, fields);
        self.end.offset += (self.pending.len() - before) as u64;
    }

    /// Write all pending bytes; return (write calls, bytes). `NoSpace`: rolled back; `SyncFailed`: poisoned.
    pub(crate) fn write_pending(&mut self) -> Result<(u64, u64)> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        let Some(file) = self.file.clone() else { return Ok((0, 0)) };
        if self.pending.is_empty() {
            return Ok((0, 0));
        }
        match write_all(&file, &self.pending, self.written.offset) {
            Ok(calls) => {
                let bytes = self.pending.len() as u64;
                self.written = self.end;
                self.forget_pending();
                Ok((calls, bytes))
            }
            Err(cause) if is_no_space(errno_of(&cause)) => {
                self.roll_back(&file, errno_of(&cause))?;
                Err(self.no_space(errno_of(&cause)))
            }
            Err(cause) => Err(self.fail("cannot write the segment", errno_of(&cause))),
        }
    }

    /// Return to `written`; poison if the leftover cannot be cut.
    fn roll_back(&mut self, file: &File, errno: i32) -> Result<()> {
        let back = self.written;
        // Without a sync a crash could bring frames back whose callers were told that they do not exist.
        if let Err(cause) = file.set_len(back.offset).and_then(|()| sync_file(file)) {
            return Err(self.fail("cannot cut a failed write", errno_of(&cause)));
        }
        if let Some(ids) = &self.ids {
            ids.remove(&self.pending_ids);
        }
        self.forget_pending();
        self.durable_starts.retain(|start| *start < back.offset);
        self.sparse.retain(|(_, offset)| *offset < back.offset);
        self.events -= self.end.ordinal - back.ordinal;
        self.end = back;
        self.dirty_end = self.dirty_end.min(back.offset);
        self.zeroed = back.offset;
        if self.waiting > 0 {
            self.rollbacks.push((back.offset, errno));
        }
        Ok(())
    }

    fn forget_pending(&mut self) {
        const KEEP_BYTES: usize = 1 << 20;
        self.pending.clear();
        self.pending.shrink_to(KEEP_BYTES);
        self.pending_ids.clear();
    }

    /// Poison the writer, unless it is already; return the error for everyone.
    pub(crate) fn fail(&mut self, action: &str, errno: i32) -> Error {
        let poison = self.poison.get_or_insert_with(|| Error::SyncFailed {
            errno,
            message: format!("{action}: {}; this writer is closed, reopen the session", error_text(errno)),
            segment: Some(self.name.clone()),
        });
        poison.clone()
    }

    pub(crate) fn no_space(&self, errno: i32) -> Error {
        let message = format!("cannot write the segment: {}; the append was rolled back", error_text(errno));
        Error::NoSpace { errno, message, segment: Some(self.name.clone()) }
    }

    /// Whether written bytes that are worth it are not synced.
    pub(crate) fn needs_sync(&self) -> bool {
        self.poison.is_none() && self.durable.offset < self.dirty_end.min(self.written.offset)
    }

    /// Move `durable` after a successful sync.
    pub(crate) fn publish(&mut self, mark: Mark) {
        self.durable = mark;
        while self.durable_starts.front().is_some_and(|start| *start < mark.offset) {
            self.durable_starts.pop_front();
        }
        if mark.offset >= self.dirty_end {
            self.dirty_since = None;
            self.mark_due = Some(Instant::now() + MARK_AFTER);
        }
    }

    /// When the background thread has to do something here.
    pub(crate) fn deadline(&self, interval: Duration) -> Option<Instant> {
        if self.poison.is_some() || self.mode == Mode::Closed {
            return None;
        }
        let sync = self.dirty_since.map(|since| since + interval);
        let mark = self.mark_due.filter(|_| self.mode == Mode::Open);
        sync.into_iter().chain(mark).min()
    }

    /// Register a waiter for all bytes up to `end`.
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.waiting += 1;
        self.waited = true;
        Ticket { end: self.end.offset, seen: self.rollbacks.len() }
    }

    /// Offset up to which every frame has been acknowledged at its own level.
    pub(crate) fn visible(&self) -> u64 {
        self.durable_starts.front().map_or(self.written.offset, |start| self.written.offset.min(*start))
    }
}
