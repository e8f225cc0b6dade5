//! The part of a scan that costs SHA-256: the chain and the digests, on a thread of its own.
//!
//! Owns: the chain state and the faults "chain" and "digest". Invariants: frames arrive in file order, so the
//! result does not depend on timing; where no thread can be had the same work is done by the caller. Must not know:
//! checksums, damage, order.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use crate::chain::{chain_next, digest};
use crate::facts::Fault;
use crate::format::{FLAG_COMMIT, FLAG_REDACTED, KIND_EVENT, KIND_REPAIR_NOTE};
use crate::frame::{FrameHeader, TYPE_AT};
use crate::source::{Chunk, to_usize};

/// One valid frame that is in order.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) offset: u64,
    pub(crate) header: FrameHeader,
    /// Belongs to the unbroken run.
    pub(crate) in_run: bool,
    /// No group is open at its end, and it belongs to the run.
    pub(crate) commits: bool,
    /// Its payload begins with a chain: it sets the chain (`REPAIR_NOTE`) or states it.
    pub(crate) states_chain: bool,
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
}

impl ChainCheck {
    pub(crate) fn new(chain: [u8; 32], digests: bool) -> Self {
        Self { digests, chain, committed: chain, before: 0, awaiting: Vec::new(), faults: Vec::new() }
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
            self.link(link, &job.chunk.data[at..at + to_usize(link.header.frame_length())]);
        }
    }

    fn link(&mut self, link: &Link, frame: &[u8]) {
        let header = &link.header;
        let before = self.before;
        let payload = &frame[header.header_length..header.header_length + header.payload_length as usize];
        if header.kind == KIND_EVENT {
            self.event(link, frame);
        }
        if self.digests && header.flags & FLAG_REDACTED == 0 && digest(payload) != header.digest {
            self.fault("digest", link, before, "SHA-256 of the payload does not match");
        }
        if link.states_chain {
            if header.kind == KIND_REPAIR_NOTE {
                self.chain.copy_from_slice(&payload[..32]);
            } else if link.in_run && payload[..32] != self.chain {
                self.fault("chain", link, self.before, "stated chain differs from the computed one");
            }
        }
        if link.commits {
            self.committed = self.chain;
        }
    }

    fn event(&mut self, link: &Link, frame: &[u8]) {
        let header = &link.header;
        for index in self.awaiting.drain(..) {
            self.faults[index].after = header.ordinal;
        }
        self.before = header.ordinal;
        if link.in_run {
            let type_name = &frame[TYPE_AT..TYPE_AT + header.type_length];
            self.chain = chain_next(
                &self.chain,
                header.ordinal,
                &header.event_id,
                header.time_us,
                &header.digest,
                type_name,
            );
        }
    }

    fn fault(&mut self, code: &'static str, link: &Link, before: u64, detail: &str) {
        self.awaiting.push(self.faults.len());
        self.faults.push(Fault {
            code,
            offset: link.offset,
            end: link.offset + link.header.frame_length(),
            ordinal: link.header.ordinal,
            before,
            after: 0,
            detail: detail.to_owned(),
            signature: false,
        });
    }
}

/// Whether the event closes its group.
pub(crate) fn closes(header: &FrameHeader) -> bool {
    header.flags & FLAG_COMMIT != 0
}
