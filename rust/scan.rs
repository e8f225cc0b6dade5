//! All facts about one segment in one pass: what verify, recovery and repair judge by.
//!
//! Owns: the state that goes from frame to frame (order, epoch, groups) and the list of faults. Invariants: the
//! facts of the unbroken run end where the first frame is not valid; nothing after it is taken for part of the run,
//! though its events are counted; a few buffers, whatever the size of the file. Must not know: verdicts, other
//! segments, the index.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use crate::error::Result;
use crate::facts::{Committed, Facts, Note, Seal};
use crate::format::{
    FLAG_COMMIT, HEADER_BYTES, KIND_CHAIN_MARK, KIND_CLOSE, KIND_EVENT, KIND_OPEN, KIND_REPAIR_NOTE,
    KIND_SEAL,
};
use crate::frame::{FrameHeader, u64_at};
use crate::header::DecodedHeader;
use crate::scan_chain::{ChainCheck, Job, Link};
use crate::source::{Chunk, Source, to_usize};
use crate::walk::{CHUNK_BYTES, Window, is_seal, zeros_from};

const FIRST: u64 = HEADER_BYTES as u64;
const CHAIN_BYTES: u32 = 32;
const QUEUE_JOBS: usize = 1;

/// One pass over a segment.
pub(crate) struct Scan<'a> {
    pub(crate) source: &'a Source,
    pub(crate) window: Window<'a>,
    pub(crate) segment_id: [u8; 16],
    pub(crate) facts: Facts,
    pub(crate) in_run: bool,
    pub(crate) exact: bool, // whether the next ordinal is known
    pub(crate) last: u64,
    pub(crate) epoch: u32,
    time_us: u64,
    first_event: u64,
    has_event: bool,
    pub(crate) before: u64,          // last valid event
    pub(crate) awaiting: Vec<usize>, // faults after which no valid event was seen yet
    open_events: u64,                // of the group that is open
    links: Vec<Link>,
    job_chunk: Arc<Chunk>, // the chunk that `links` lie in
    checker: Checker,
}

/// Where the chain is checked: on another thread, or here.
enum Checker {
    Thread(SyncSender<Job>),
    Here(Box<ChainCheck>),
    Done,
}

/// Walk all frames of a segment. `helper` allows a second thread, which helps unless other segments are scanned at the
/// same time. `segment_id` is none if the header tells none: then no frame can be believed.
///
/// # Errors
/// `Io`.
pub fn scan(
    source: &Source,
    header: &DecodedHeader,
    segment_id: Option<[u8; 16]>,
    end: Option<u64>,
    digests: bool,
    helper: bool,
) -> Result<Facts> {
    let chain = header.fields.as_ref().map_or([0; 32], |fields| fields.prev_chain);
    let check = ChainCheck::new(chain, digests);
    let size = source.size()?;
    let size = end.map_or(size, |end| end.min(size));
    let here = |check| {
        let mut scan = Scan::new(source, header, segment_id, size, Checker::Here(Box::new(check)))?;
        scan.run(segment_id.is_some())?;
        Ok(scan.finish(None))
    };
    if !helper || size <= 2 * CHUNK_BYTES as u64 {
        return here(check);
    }
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(QUEUE_JOBS);
        let worker = thread::Builder::new().spawn_scoped(scope, move || check.serve(&receiver));
        let Ok(worker) = worker else {
            return here(ChainCheck::new(chain, digests)); // no thread can be had
        };
        let mut scan = Scan::new(source, header, segment_id, size, Checker::Thread(sender))?;
        scan.run(segment_id.is_some())?;
        scan.flush();
        drop(std::mem::replace(&mut scan.checker, Checker::Done)); // lets go of the sender
        match worker.join() {
            Ok(check) => Ok(scan.finish(Some(check))),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

impl<'a> Scan<'a> {
    fn new(
        source: &'a Source,
        header: &DecodedHeader,
        segment_id: Option<[u8; 16]>,
        size: u64,
        checker: Checker,
    ) -> Result<Self> {
        let fields = header.fields.as_ref();
        let first = fields.map_or(0, |fields| fields.first_ordinal);
        let is_sound = header.fault.is_none();
        let mut scan = Self {
            source,
            window: Window::new(source, size, CHUNK_BYTES),
            segment_id: segment_id.unwrap_or_default(),
            facts: Facts {
                size,
                valid_end: FIRST,
                durable_mark: FIRST,
                zero_from: zeros_from(source, size)?,
                ..Facts::default()
            },
            in_run: is_sound,
            exact: is_sound,
            last: first.saturating_sub(1),
            epoch: fields.map_or(0, |fields| fields.writer_epoch),
            time_us: 0,
            first_event: first,
            has_event: false,
            before: 0,
            awaiting: Vec::new(),
            open_events: 0,
            links: Vec::new(),
            job_chunk: Arc::default(),
            checker,
        };
        scan.commit(FIRST);
        Ok(scan)
    }

    /// Walk all frames; without an id only the header is looked at.
    fn run(&mut self, has_id: bool) -> Result<()> {
        let mut block = Vec::new();
        let holes = self.source.read_filled(0, to_usize(FIRST.min(self.facts.size)), &mut block)?;
        for hole in holes {
            self.fault(hole.code, (hole.start, hole.end.min(FIRST)), 0, hole.detail, false);
        }
        let mut offset = FIRST;
        while has_id && offset < self.facts.size {
            let header = match self.window.header(&self.segment_id, offset)? {
                Ok(header) => header,
                Err(_) if offset >= self.facts.zero_from => break,
                Err(reason) => {
                    offset = self.unreadable(offset, reason)?;
                    continue;
                }
            };
            self.facts.durable_mark = self.facts.durable_mark.max(header.durable_off);
            let end = self.facts.size.min(offset + header.frame_length());
            if !header.is_supported() {
                let (kind, flags) = (header.kind, header.flags);
                let detail = format!("kind {kind} with flags {flags} is not known to this version");
                self.fault("unsupported", (offset, end), header.ordinal, detail, false);
                break;
            }
            if let Some(reason) = self.window.body_fault(&header, &self.segment_id, offset)? {
                offset = self.damaged(offset, end, &header, reason)?;
                continue;
            }
            self.valid(offset, end, &header)?;
            offset = end;
        }
        if self.source.blocks.as_ref().is_some_and(|blocks| blocks.tail_damaged) {
            let size = self.facts.size;
            self.fault(
                "block",
                (size, size),
                0,
                "both copies of the seek table are damaged".to_owned(),
                false,
            );
        }
        Ok(())
    }

    /// Take in a frame that is valid by itself.
    fn valid(&mut self, offset: u64, end: u64, header: &FrameHeader) -> Result<()> {
        self.facts.frame_bytes += header.frame_length();
        let (kind, ordinal) = (header.kind, header.ordinal);
        let in_order = self.in_order(kind, ordinal);
        if !in_order || header.epoch < self.epoch {
            let detail = if in_order {
                format!("epoch {} after epoch {}", header.epoch, self.epoch)
            } else {
                format!("ordinal {ordinal} after ordinal {}", self.last)
            };
            self.fault("order", (offset, end), ordinal, detail, false);
            self.in_run = false;
            self.exact = true;
            (self.last, self.epoch) = (ordinal, header.epoch);
            return Ok(());
        }
        (self.last, self.epoch, self.exact) = (ordinal, header.epoch, true);
        let states_chain = if kind == KIND_EVENT {
            self.event(header);
            false
        } else {
            self.control(offset, end, header)?
        };
        let commits = self.in_run && self.open_events == 0;
        if self.in_run {
            self.facts.valid_end = end;
            self.facts.closed = matches!(kind, KIND_CLOSE | KIND_SEAL);
        }
        if commits {
            self.commit(end);
        }
        if !Arc::ptr_eq(&self.job_chunk, &self.window.chunk) {
            self.flush();
            self.job_chunk = Arc::clone(&self.window.chunk);
        }
        self.links.push(Link::new(offset, header, self.in_run, commits, states_chain));
        Ok(())
    }

    fn in_order(&self, kind: u8, ordinal: u64) -> bool {
        match kind {
            KIND_REPAIR_NOTE => ordinal >= self.last,
            KIND_EVENT if self.exact => self.last.checked_add(1) == Some(ordinal),
            KIND_EVENT => ordinal > self.last,
            _ if self.exact => ordinal == self.last,
            _ => ordinal >= self.last,
        }
    }

    fn event(&mut self, header: &FrameHeader) {
        self.before = header.ordinal;
        for index in self.awaiting.drain(..) {
            self.facts.faults[index].after = header.ordinal;
        }
        if self.in_run {
            if !self.has_event {
                self.first_event = header.ordinal;
                self.has_event = true;
            }
            self.time_us = header.time_us;
        }
        self.open_events += 1;
        if header.flags & FLAG_COMMIT != 0 {
            self.facts.events += std::mem::take(&mut self.open_events);
        }
    }

    /// Take in a control frame; return whether its payload begins with a chain.
    fn control(&mut self, offset: u64, end: u64, header: &FrameHeader) -> Result<bool> {
        let (kind, length) = (header.kind, header.payload_length);
        let payload_at = offset + header.header_length as u64;
        if kind == KIND_REPAIR_NOTE {
            let payload = self.window.view(payload_at, u64::from(length))?.to_vec();
            self.facts.notes.push(Note { offset, ordinal: header.ordinal, payload });
        }
        if matches!(kind, KIND_CLOSE | KIND_SEAL) {
            self.facts.durable_mark = self.facts.durable_mark.max(end);
        }
        if !matches!(kind, KIND_CLOSE | KIND_SEAL | KIND_OPEN | KIND_REPAIR_NOTE | KIND_CHAIN_MARK) {
            return Ok(false);
        }
        if length < CHAIN_BYTES || (kind == KIND_SEAL && !is_seal(length as usize)) {
            let detail = format!("control frame of kind {kind} is malformed");
            self.fault("chain", (offset, end), header.ordinal, detail, false);
            return Ok(false);
        }
        if kind == KIND_SEAL {
            let payload = self.window.view(payload_at, u64::from(length))?;
            self.facts.seal = Some(Seal {
                offset,
                end,
                count: u64_at(payload, 32),
                chain: payload[..32].to_vec(),
                successor: payload[40..56].to_vec(),
            });
        }
        Ok(true)
    }

    /// Keep the state at the end of a frame of the run at which no group is open.
    fn commit(&mut self, end: u64) {
        self.facts.committed = Committed {
            commit_end: end,
            first_ordinal: self.first_event,
            last_ordinal: self.last,
            epoch: self.epoch,
            last_time_us: self.time_us,
        };
    }

    /// Hand the frames of one chunk to the checker.
    fn flush(&mut self) {
        if self.links.is_empty() {
            return;
        }
        let next = Vec::with_capacity(self.links.len());
        let links = std::mem::replace(&mut self.links, next);
        let job = Job { chunk: std::mem::take(&mut self.job_chunk), links };
        match &mut self.checker {
            Checker::Here(check) => check.run(&job),
            Checker::Thread(sender) => {
                let sent = sender.send(job);
                debug_assert!(sent.is_ok(), "the thread ends only when the sender is gone");
            }
            Checker::Done => {}
        }
    }

    /// Join the two halves of the facts.
    fn finish(mut self, checked: Option<ChainCheck>) -> Facts {
        self.flush();
        let here = match std::mem::replace(&mut self.checker, Checker::Done) {
            Checker::Here(check) => Some(*check),
            Checker::Thread(_) | Checker::Done => None,
        };
        if let Some(check) = checked.or(here) {
            self.facts.chain = check.committed;
            self.facts.payload_bytes = check.payload_bytes;
            self.facts.types = check.visible_types();
            self.facts.faults.extend(check.faults);
        }
        self.facts.faults.sort_by_key(|fault| fault.offset);
        self.facts
    }
}
