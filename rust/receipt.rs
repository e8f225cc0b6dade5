//! What goes into a writer and what comes out of it.
//!
//! Owns: plain values. Must not know: files, locks.

use std::path::PathBuf;
use std::sync::Arc;

use crate::idindex::IdIndex;

/// An event to append; `payload` is what will be stored.
#[derive(Clone, Copy, Debug)]
pub struct NewEvent<'a> {
    /// 1 to 64 bytes of printable ASCII.
    pub type_name: &'a str,
    /// Canonical JSON, or anything when `raw`.
    pub payload: &'a [u8],
    /// None: a UUID version 7 is made.
    pub event_id: Option<[u8; 16]>,
    /// Whether the payload is opaque.
    pub raw: bool,
}

/// Proof of one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Position in the session.
    pub ordinal: u64,
    /// UUID.
    pub event_id: [u8; 16],
    /// SHA-256 of the payload.
    pub digest: [u8; 32],
    /// Microseconds since 1970, UTC.
    pub time_us: u64,
    /// The level it was appended at.
    pub durable: bool,
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was appended.
    New(Receipt),
    /// An event with this id is there, under this ordinal.
    Known(u64),
}

/// The state of a writer's segment.
#[derive(Clone, Debug)]
pub struct Head {
    /// Last ordinal framed.
    pub ordinal: u64,
    /// Chain at `ordinal`.
    pub chain: [u8; 32],
    /// End of the frames.
    pub end: u64,
    /// End of what is written.
    pub written: u64,
    /// End of what is synced.
    pub durable: u64,
    /// Offset up to which every frame has been acknowledged at its own level.
    pub visible: u64,
    /// Last synced ordinal.
    pub durable_ordinal: u64,
    /// Chain at `durable_ordinal`.
    pub durable_chain: [u8; 32],
    /// Whether a write or sync failed.
    pub poisoned: bool,
    /// The file.
    pub path: PathBuf,
}

/// Where and how to continue a segment: all before `end` is valid and durable.
#[derive(Clone, Debug)]
pub struct Start {
    /// Id in the segment's header.
    pub segment_id: [u8; 16],
    /// Offset of the next frame.
    pub end: u64,
    /// Last ordinal before `end`.
    pub ordinal: u64,
    /// Chain at `ordinal`.
    pub chain: [u8; 32],
    /// Epoch of this writer.
    pub epoch: u32,
    /// Size at which the segment counts as full.
    pub roll_bytes: u64,
    /// Known event ids of the log.
    pub ids: Option<Arc<IdIndex>>,
}

impl Answer {
    /// The ordinal, either way.
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        match self {
            Self::New(receipt) => receipt.ordinal,
            Self::Known(ordinal) => *ordinal,
        }
    }
}
