//! The payload of a SEAL frame: FORMAT.md section 3.
//!
//! Owns: the sparse index of a segment that is being sealed. Invariant: it also covers frames written before this
//! writer opened the file, by a walk over their headers. Must not know: rounds, how the frame is written.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};
use crate::format::{FRAME_HEADER_MAX_BYTES, HEADER_BYTES, KIND_EVENT, SPARSE_STEP_BYTES};
use crate::frame::decode_frame_header;
use crate::frontier::Frontier;
use crate::medium::{errno_of, error_text};

/// Chain, event count, successor and sparse index. `opened_at` is where this writer's frames begin.
pub(crate) fn seal_payload(
    state: &Frontier,
    file: &File,
    opened_at: u64,
    successor: &[u8; 16],
) -> Result<Vec<u8>> {
    let (events, mut sparse) = walk(state, file, opened_at)?;
    for entry in &state.sparse {
        add(&mut sparse, *entry);
    }
    let mut payload = Vec::with_capacity(56 + sparse.len() * 16);
    payload.extend_from_slice(&state.end.chain);
    payload.extend_from_slice(&(events + state.events).to_le_bytes());
    payload.extend_from_slice(successor);
    for (ordinal, offset) in sparse {
        payload.extend_from_slice(&ordinal.to_le_bytes());
        payload.extend_from_slice(&offset.to_le_bytes());
    }
    Ok(payload)
}

/// Add the event unless its step has one already.
fn add(sparse: &mut Vec<(u64, u64)>, (ordinal, offset): (u64, u64)) {
    if sparse.last().is_none_or(|(_, last)| offset / SPARSE_STEP_BYTES > last / SPARSE_STEP_BYTES) {
        sparse.push((ordinal, offset));
    }
}

/// Event count and sparse entries of the frames before `end`.
fn walk(state: &Frontier, file: &File, end: u64) -> Result<(u64, Vec<(u64, u64)>)> {
    let (mut events, mut sparse) = (0, Vec::new());
    let mut offset = HEADER_BYTES as u64;
    let mut block = [0; FRAME_HEADER_MAX_BYTES];
    while offset < end {
        let length = file.read_at(&mut block, offset).map_err(|cause| {
            let errno = errno_of(&cause);
            let message = format!("cannot read the segment: {}", error_text(errno));
            Error::Io { errno, message, segment: Some(state.name.clone()), offset: Some(offset) }
        })?;
        let Ok(header) = decode_frame_header(&block[..length], &state.segment_id, offset) else {
            let message = "a frame to be sealed cannot be read".to_owned();
            return Err(Error::Damaged { message, segment: Some(state.name.clone()), offset: Some(offset) });
        };
        if header.kind == KIND_EVENT {
            events += 1;
            add(&mut sparse, (header.ordinal, offset));
        }
        offset += header.frame_length();
    }
    Ok((events, sparse))
}
