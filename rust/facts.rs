//! What a scan answers: the facts about one segment.
//!
//! Owns: their names and types; they are those of the contract's `scan`. Must not know: how they are found.

/// A finding; FORMAT.md sections 3 and 6 say what its parts mean.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub struct Fault {
    pub code: &'static str,
    pub offset: u64,
    pub end: u64,
    pub ordinal: u64,
    pub before: u64,
    pub after: u64,
    pub detail: String,
    pub signature: bool,
}

/// A `SEAL` frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub struct Seal {
    pub offset: u64,
    pub end: u64,
    pub count: u64,
    pub chain: Vec<u8>,
    pub successor: Vec<u8>,
}

/// A `REPAIR_NOTE` frame.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub struct Note {
    pub offset: u64,
    pub ordinal: u64,
    pub payload: Vec<u8>,
}

/// State at the end of a frame of the run at which no group is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub struct Committed {
    pub commit_end: u64,
    pub first_ordinal: u64,
    pub last_ordinal: u64,
    pub epoch: u32,
    pub last_time_us: u64,
}

/// The result of a scan.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names are those of the contract")]
pub struct Facts {
    pub size: u64,
    pub valid_end: u64,
    pub committed: Committed,
    pub chain: [u8; 32],
    pub events: u64,
    pub durable_mark: u64,
    pub seal: Option<Seal>,
    pub closed: bool,
    pub zero_from: u64,
    pub frame_bytes: u64,
    pub payload_bytes: u64,
    pub types: Vec<(String, u64)>,
    pub notes: Vec<Note>,
    pub faults: Vec<Fault>,
}
