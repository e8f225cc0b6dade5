//! The part of a scan that reads frames a second time: the chain, the digests, the tally of types, on a thread of its
//! own because SHA-256 costs as much as all other checks together.
//!
//! Owns: the chain state and the faults "chain" and "digest". Invariants: frames arrive in file order, so the result
//! does not depend on timing; where no thread can be had the same work is done by the caller. Must not know:
//! checksums, damage, order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::chain::{chain_next, digest};
use crate::facts::Fault;
use crate::format::{FLAG_COMMIT, FLAG_REDACTED, KIND_EVENT, KIND_REPAIR_NOTE};
use crate::frame::{FrameHeader, TYPE_AT, bytes_at, u64_at};
use crate::source::{Chunk, to_usize};

const EARLY_TYPES: usize = 8;

/// One valid frame that is in order; the rest is read from its bytes.
#[derive(Debug)]
pub(crate) struct Link {
    offset: u64,
    frame_length: u32,
    payload_length: u32,
    flags: u16,
    kind: u8,
    header_length: u8,
    type_length: u8,
    in_run: bool,
    commits: bool,
    states_chain: bool,
}

impl Link {
    /// `in_run`: it belongs to the unbroken run; `commits`: it does, and no group is open at its end; `states_chain`:
    /// its payload begins with a chain, which it sets (`REPAIR_NOTE`) or states.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a frame is limited to 16 MiB, its header to 176 bytes"
    )]
    pub(crate) fn new(
        offset: u64,
        header: &FrameHeader,
        in_run: bool,
        commits: bool,
        states_chain: bool,
    ) -> Self {
        Self {
            offset,
            frame_length: header.frame_length() as u32,
            payload_length: header.payload_length,
            flags: header.flags,
            kind: header.kind,
            header_length: header.header_length as u8,
            type_length: header.type_length as u8,
            in_run,
            commits,
            states_chain,
        }
    }
}

/// Frames of one chunk.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) chunk: Arc<Chunk>,
    pub(crate) links: Vec<Link>,
}

/// State that goes from frame to frame.
#[derive(Debug)]
pub(crate) struct ChainCheck {
    digests: bool,
    chain: [u8; 32],
    /// Chain where the run had no open group last.
    pub(crate) committed: [u8; 32],
    before: u64,
    awaiting: Vec<usize>,
    pub(crate) faults: Vec<Fault>,
    types: Vec<(Box<[u8]>, u64)>, // each type with its visible events, in order of appearance
    indexes: HashMap<Box<[u8]>, usize>, // of a type in `types`
    group: Vec<(usize, u32)>,     // type and size of the events of the open group
    pub(crate) payload_bytes: u64,
}

impl ChainCheck {
    pub(crate) fn new(chain: [u8; 32], digests: bool) -> Self {
        Self {
            digests,
            chain,
            committed: chain,
            before: 0,
            awaiting: Vec::new(),
            faults: Vec::new(),
            types: Vec::new(),
            indexes: HashMap::new(),
            group: Vec::new(),
            payload_bytes: 0,
        }
    }

    /// Do all jobs until the sender is gone.
    pub(crate) fn serve(mut self, jobs: &Receiver<Job>) -> Self {
        for job in jobs {
            self.run(&job);
        }
        self
    }

    pub(crate) fn run(&mut self, job: &Job) {
        for link in &job.links {
            let at = to_usize(link.offset - job.chunk.base);
            self.link(link, &job.chunk.data[at..at + link.frame_length as usize]);
        }
    }

    /// Visible events of each type.
    pub(crate) fn visible_types(&self) -> Vec<(String, u64)> {
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let visible = self.types.iter().filter(|(_, count)| *count > 0);
        visible.map(|(type_name, count)| (name(type_name), *count)).collect()
    }

    fn link(&mut self, link: &Link, frame: &[u8]) {
        let before = self.before;
        let payload = &frame[usize::from(link.header_length)..][..link.payload_length as usize];
        if link.kind == KIND_EVENT {
            self.event(link, frame);
        }
        if self.digests && link.flags & FLAG_REDACTED == 0 && digest(payload) != frame[48..80] {
            self.fault("digest", link, frame, before, "SHA-256 of the payload does not match");
        }
        if link.states_chain {
            if link.kind == KIND_REPAIR_NOTE {
                self.chain.copy_from_slice(&payload[..32]);
            } else if link.in_run && payload[..32] != self.chain {
                self.fault("chain", link, frame, self.before, "stated chain differs from the computed one");
            }
        }
        if link.commits {
            self.committed = self.chain;
        }
    }

    fn event(&mut self, link: &Link, frame: &[u8]) {
        let ordinal = u64_at(frame, 16);
        for index in self.awaiting.drain(..) {
            self.faults[index].after = ordinal;
        }
        self.before = ordinal;
        let type_name = &frame[TYPE_AT..TYPE_AT + usize::from(link.type_length)];
        if link.in_run {
            let (id, payload_digest) = (bytes_at(frame, 32), bytes_at(frame, 48));
            let time_us = u64_at(frame, 88);
            self.chain = chain_next(&self.chain, ordinal, &id, time_us, &payload_digest, type_name);
        }
        let index = self.index_of(type_name);
        self.group.push((index, link.payload_length));
        if link.flags & FLAG_COMMIT != 0 {
            for (index, size) in self.group.drain(..) {
                self.types[index].1 += 1;
                self.payload_bytes += u64::from(size);
            }
        }
    }

    /// The place of a type in `types`. Few types make up nearly all events, and are found sooner than hashed.
    fn index_of(&mut self, type_name: &[u8]) -> usize {
        let early = self.types.iter().take(EARLY_TYPES).position(|(known, _)| **known == *type_name);
        if let Some(index) = early.or_else(|| self.indexes.get(type_name).copied()) {
            return index;
        }
        let index = self.types.len();
        self.types.push((type_name.into(), 0));
        self.indexes.insert(type_name.into(), index);
        index
    }

    fn fault(&mut self, code: &'static str, link: &Link, frame: &[u8], before: u64, detail: &str) {
        self.awaiting.push(self.faults.len());
        self.faults.push(Fault {
            code,
            offset: link.offset,
            end: link.offset + u64::from(link.frame_length),
            ordinal: u64_at(frame, 16),
            before,
            after: 0,
            detail: detail.to_owned(),
            signature: false,
        });
    }
}
