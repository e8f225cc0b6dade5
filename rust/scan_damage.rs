//! What a scan says where a frame is not valid.
//!
//! Owns: the faults "header", "payload" and "trailer", their ends, and the question whether a write is missing
//! there (FORMAT.md section 6). Invariant: the scan goes on at the next authentic header, in time linear in the
//! bytes between. Must not know: order, groups, chain.

use crate::error::Result;
use crate::facts::Fault;
use crate::format::{FRAME_FIXED_BYTES, FRAME_TRAILER_BYTES, KIND_EVENT, KIND_REPAIR_NOTE};
use crate::frame::{FrameFault, FrameHeader, u32_at};
use crate::scan::Scan;
use crate::source::to_usize;
use crate::walk::{claimed_length, has_zero_sector, is_zero};

impl Scan<'_> {
    /// Note a fault; where it lies over a hole, the hole is its cause.
    pub(crate) fn fault(
        &mut self,
        mut code: &'static str,
        (offset, end): (u64, u64),
        ordinal: u64,
        mut detail: String,
        mut signature: bool,
    ) {
        for hole in &self.window.holes {
            if matches!(code, "header" | "payload" | "trailer") && hole.start < end && hole.end > offset {
                (code, detail, signature) = (hole.code, hole.detail.clone(), false);
            }
        }
        self.awaiting.push(self.facts.faults.len());
        let before = self.before;
        self.facts.faults.push(Fault { code, offset, end, ordinal, before, after: 0, detail, signature });
    }

    /// Note damage that begins at `offset`, where no header can be believed; return where to go on.
    pub(crate) fn unreadable(&mut self, offset: u64, reason: FrameFault) -> Result<u64> {
        let found = self.window.next_authentic(&self.segment_id, offset + 8)?;
        let end = found.map_or(self.facts.size, |(start, _)| start);
        let missing = reason == FrameFault::Short || self.looks_unwritten(offset, end)?;
        self.fault("header", (offset, end), 0, reason.to_string(), missing);
        self.in_run = false;
        self.exact = false;
        Ok(end)
    }

    /// Whether the bytes of a frame with an unreadable header show that a write is missing.
    fn looks_unwritten(&self, offset: u64, mut end: u64) -> Result<bool> {
        let size = self.facts.size;
        let before_zeros = end == size;
        if before_zeros {
            end = size.min(self.facts.zero_from.next_multiple_of(8));
        }
        let mut bytes = Vec::new();
        self.source.read_filled(end - FRAME_TRAILER_BYTES as u64, FRAME_TRAILER_BYTES, &mut bytes)?;
        let whole = bytes.len() == FRAME_TRAILER_BYTES
            && u64::from(u32_at(&bytes, 0)) == end - offset
            && u32_at(&bytes, 0) == !u32_at(&bytes, 4);
        if !whole {
            self.source.read_filled(offset, FRAME_FIXED_BYTES.min(to_usize(size - offset)), &mut bytes)?;
            match claimed_length(&bytes) {
                Some(claimed) if offset + claimed > size => return Ok(true),
                Some(claimed) if before_zeros => end = offset + claimed,
                Some(claimed) => end = end.min(offset + claimed),
                None => {}
            }
            self.source.read_filled(end - FRAME_TRAILER_BYTES as u64, FRAME_TRAILER_BYTES, &mut bytes)?;
            if is_zero(&bytes) {
                return Ok(true);
            }
        }
        has_zero_sector(self.source, offset, end)
    }

    /// Note a frame whose header is authentic and whose body is not valid; return where to go on.
    pub(crate) fn damaged(
        &mut self,
        offset: u64,
        end: u64,
        header: &FrameHeader,
        reason: FrameFault,
    ) -> Result<u64> {
        let passes_end = reason == FrameFault::Short;
        let missing = passes_end || {
            let mut trailer = Vec::new();
            self.source.read_filled(end - FRAME_TRAILER_BYTES as u64, FRAME_TRAILER_BYTES, &mut trailer)?;
            is_zero(&trailer) || has_zero_sector(self.source, offset, end)?
        };
        let code = match reason {
            FrameFault::Padding | FrameFault::Trailer => "trailer",
            _ => "payload",
        };
        self.fault(code, (offset, end), header.ordinal, reason.to_string(), missing);
        self.in_run = false;
        self.epoch = self.epoch.max(header.epoch);
        if matches!(header.kind, KIND_EVENT | KIND_REPAIR_NOTE) {
            self.last = self.last.max(header.ordinal);
            self.exact = true;
        }
        if !passes_end {
            return Ok(end);
        }
        // nothing but a foreign frame can follow a frame that passes the end
        let found = self.window.next_authentic(&self.segment_id, offset + 8)?;
        self.exact &= found.is_none();
        Ok(found.map_or(self.facts.size, |(start, _)| start))
    }
}
