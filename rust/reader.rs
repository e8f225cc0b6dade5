//! One segment file, raw or compacted, opened for reading.
//!
//! Owns: the open file, its header and the id that salts its checksums. Invariant: nothing is ever written. Must
//! not know: sessions, other segments, verdicts, Python.

use std::path::Path;

use crate::error::Result;
use crate::format::{HEADER_BYTES, HEADER_COPY_OFFSET};
use crate::frame::decode_frame_header;
use crate::header::{DecodedHeader, HeaderFault, decode_header};
use crate::source::Source;

const SEGMENT_ID_AT: usize = 40;

/// A segment opened for reading.
#[derive(Debug)]
pub struct Segment {
    /// Its bytes.
    pub source: Source,
    /// Its header as it was when the file was opened.
    pub header: DecodedHeader,
    /// What its frames are checked with; none if it cannot be had.
    pub segment_id: Option<[u8; 16]>,
}

impl Segment {
    /// Open a segment. `known_id`: the id known from a neighbour; it serves the frames behind a damaged header.
    ///
    /// # Errors
    /// `Io`, also for a missing file; `Damaged` if nothing of a compacted file is readable.
    pub fn open(path: &Path, known_id: Option<[u8; 16]>) -> Result<Self> {
        let source = Source::open(path)?;
        let mut block = Vec::new();
        let holes = source.read_filled(0, HEADER_BYTES, &mut block)?;
        let mut header = decode_header(&block);
        if !holes.is_empty() {
            header.fields = None;
            header.fault = Some(HeaderFault::Damaged);
        }
        header.degraded |= source.blocks.as_ref().is_some_and(|blocks| blocks.degraded);
        let segment_id = match header.fault {
            None => header.fields.as_ref().map(|fields| fields.segment_id),
            Some(HeaderFault::NewerMajor | HeaderFault::UnknownFeature) => None,
            Some(_) => proven_id(&source, &block)?.or(known_id),
        };
        Ok(Self { source, header, segment_id })
    }
}

/// The id in a damaged copy of the header, if the first frame proves it.
fn proven_id(source: &Source, block: &[u8]) -> Result<Option<[u8; 16]>> {
    let mut first = Vec::new();
    source.read_filled(HEADER_BYTES as u64, HEADER_BYTES, &mut first)?;
    let candidates = [SEGMENT_ID_AT, HEADER_COPY_OFFSET + SEGMENT_ID_AT]
        .into_iter()
        .filter_map(|at| block.get(at..at + 16).and_then(|id| <[u8; 16]>::try_from(id).ok()));
    Ok(candidates.into_iter().find(|id| decode_frame_header(&first, id, HEADER_BYTES as u64).is_ok()))
}
