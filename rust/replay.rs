//! Reading events in order: one batch of verified events at a time.
//!
//! Owns: where a batch may end. Invariants: every frame of a batch met all eight conditions of FORMAT.md section 3;
//! events of an atomic group are handed out together or not at all; damage is never taken for an end. Must not
//! know: recovery, other segments.

use std::collections::HashSet;
use std::sync::Arc;

use crate::chain::chain_next;
use crate::error::{Error, Result};
use crate::format::{FLAG_COMMIT, FRAME_MAGIC, KIND_EVENT, KIND_REPAIR_NOTE};
use crate::frame::{FrameFault, FrameHeader, TYPE_AT};
use crate::source::{Chunk, Source, to_usize};
use crate::walk::{CHUNK_BYTES, Window, is_zero};

const READ_MIN_BYTES: usize = 16 * 1024;
const EVENT_GUESS_BYTES: usize = 2048;
const CHAIN_BYTES: usize = 32;

/// One verified event.
#[derive(Debug)]
pub struct Found {
    /// Logical offset of its frame.
    pub offset: u64,
    /// Its header.
    pub header: FrameHeader,
    /// Index in `Batch::chunks` of the chunk that holds its frame.
    pub chunk: usize,
}

/// Why the frame at `offset` could not be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// "torn", "checksum", "order" or "unsupported".
    pub code: &'static str,
    /// Logical offset.
    pub offset: u64,
    /// The sentence for people.
    pub detail: String,
}

/// Where reading stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the next frame.
    pub offset: u64,
    /// Ordinal of the next event; 0 takes what comes.
    pub ordinal: u64,
    /// Chain after the last event, if it is asked for.
    pub chain: Option<[u8; 32]>,
    /// Time of the last event read, 0 if none was.
    pub time_us: u64,
}

/// The events of one call.
#[derive(Debug)]
pub struct Batch {
    /// Events of closed groups.
    pub events: Vec<Found>,
    /// What they lie in.
    pub chunks: Vec<Arc<Chunk>>,
    /// Where to go on.
    pub next: Place,
    /// Why reading cannot go on there.
    pub fault: Option<Stop>,
}

/// What the caller asks for.
#[derive(Debug)]
pub struct Wanted {
    /// Logical end; none is the end of the file.
    pub end: Option<u64>,
    /// About how many events.
    pub limit: usize,
    /// Only events of these types.
    pub types: Option<HashSet<Vec<u8>>>,
}

struct Replay<'a> {
    source: &'a Source,
    window: Window<'a>,
    segment_id: [u8; 16],
}

/// Read a batch of about `limit` events or 1 MiB of frames; a group is never cut.
///
/// # Errors
/// `Io`.
pub fn replay(source: &Source, segment_id: [u8; 16], start: Place, wanted: &Wanted) -> Result<Batch> {
    let size = source.size()?;
    let end = wanted.end.map_or(size, |end| end.min(size));
    let limit = wanted.limit.max(1);
    let chunk_bytes = limit.saturating_mul(EVENT_GUESS_BYTES).clamp(READ_MIN_BYTES, CHUNK_BYTES);
    let mut replay = Replay { source, window: Window::new(source, end, chunk_bytes), segment_id };
    let mut batch = Batch { events: Vec::new(), chunks: Vec::new(), next: start, fault: None };
    let mut place = start;
    let (mut kept, mut is_open, mut looked_again) = (0, false, false);
    while place.offset < replay.window.end {
        let header = replay.window.header(&segment_id, place.offset)?;
        let progress = place.offset - start.offset;
        if !is_open
            && progress > 0
            && replay.is_full(kept >= limit, progress, place.offset, header.as_ref().ok())
        {
            break;
        }
        let fault = replay.fault(place, header)?;
        if fault.is_some() && !looked_again {
            // another process may have been writing this frame
            replay.window.forget();
            looked_again = true;
            continue;
        }
        looked_again = false;
        let (None, Ok(header)) = (&fault, header) else {
            batch.fault = fault;
            break;
        };
        if header.kind == KIND_EVENT {
            is_open = header.flags & FLAG_COMMIT == 0;
            replay.event(&mut batch, &mut place, &header, wanted)?;
        } else if header.kind == KIND_REPAIR_NOTE {
            place.ordinal = header.ordinal.saturating_add(1);
            if let Some(chain) = &mut place.chain {
                let stated = place.offset + header.header_length as u64;
                chain.copy_from_slice(replay.window.view(stated, CHAIN_BYTES as u64)?);
            }
        }
        place.offset += header.frame_length();
        if !is_open {
            kept = batch.events.len();
            batch.next = place;
        }
    }
    batch.events.truncate(kept);
    let has_progress = batch.next.offset > start.offset;
    batch.fault = replay.explained(batch.fault, has_progress)?;
    Ok(batch)
}

impl Replay<'_> {
    /// Whether the batch may end here: it has enough events, or its next frame would make it read beyond 1 MiB.
    fn is_full(&self, has_enough: bool, progress: u64, offset: u64, header: Option<&FrameHeader>) -> bool {
        let limit = CHUNK_BYTES as u64;
        has_enough
            || progress >= limit
            || header.is_some_and(|header| {
                let length = header.frame_length();
                progress + length > limit && !self.window.holds(offset, length)
            })
    }

    /// Take in an event.
    fn event(
        &mut self,
        batch: &mut Batch,
        place: &mut Place,
        header: &FrameHeader,
        wanted: &Wanted,
    ) -> Result<()> {
        place.ordinal = header.ordinal.saturating_add(1);
        place.time_us = header.time_us;
        if place.chain.is_none() && wanted.types.is_none() {
            self.push(batch, place.offset, header);
            return Ok(());
        }
        let type_name = self.window.view(place.offset + TYPE_AT as u64, header.type_length as u64)?;
        let is_wanted = wanted.types.as_ref().is_none_or(|types| types.contains(type_name));
        if let Some(chain) = &mut place.chain {
            *chain = chain_next(
                chain,
                header.ordinal,
                &header.event_id,
                header.time_us,
                &header.digest,
                type_name,
            );
        }
        if is_wanted {
            self.push(batch, place.offset, header);
        }
        Ok(())
    }

    fn push(&self, batch: &mut Batch, offset: u64, header: &FrameHeader) {
        if batch.chunks.last().is_none_or(|chunk| !Arc::ptr_eq(chunk, &self.window.chunk)) {
            batch.chunks.push(Arc::clone(&self.window.chunk));
        }
        batch.events.push(Found { offset, header: *header, chunk: batch.chunks.len() - 1 });
    }

    /// Say why the frame at `place` cannot be replayed; none if it can, or if only zeros follow.
    fn fault(
        &mut self,
        place: Place,
        header: std::result::Result<FrameHeader, FrameFault>,
    ) -> Result<Option<Stop>> {
        let offset = place.offset;
        let stop = |code, detail| Ok(Some(Stop { code, offset, detail }));
        let header = match header {
            Ok(header) => header,
            Err(_) if self.ends_at(offset)? => return Ok(None),
            Err(reason) => return stop("torn", reason.to_string()),
        };
        if !header.is_supported() {
            let (kind, flags) = (header.kind, header.flags);
            return stop(
                "unsupported",
                format!("kind {kind} with flags {flags} is not known to this version"),
            );
        }
        if let Some(reason) = self.window.body_fault(&header, &self.segment_id, offset)? {
            let code = if reason == FrameFault::Short { "torn" } else { "checksum" };
            return stop(code, reason.to_string());
        }
        let is_note = header.kind == KIND_REPAIR_NOTE;
        if is_note && (header.payload_length as usize) < CHAIN_BYTES {
            return stop("checksum", "control frame of kind 7 is malformed".to_owned());
        }
        let expected = place.ordinal;
        let misplaced = (header.kind == KIND_EVENT && header.ordinal != expected)
            || (is_note && header.ordinal.saturating_add(1) < expected);
        if expected != 0 && misplaced {
            return stop("order", format!("ordinal {} instead of {expected}", header.ordinal));
        }
        Ok(None)
    }

    /// Name the hole that made a frame invalid; a failed read is an error, once all before it is returned.
    fn explained(&self, fault: Option<Stop>, has_progress: bool) -> Result<Option<Stop>> {
        let Some(stop) = fault else {
            return Ok(None);
        };
        match self.window.holes.iter().find(|hole| hole.end > stop.offset) {
            None => Ok(Some(stop)),
            Some(hole) if hole.code != "io" => {
                Ok(Some(Stop { code: "checksum", detail: hole.detail.clone(), ..stop }))
            }
            Some(_) if has_progress => Ok(None),
            Some(hole) => Err(Error::Io {
                errno: libc::EIO,
                message: hole.detail.clone(),
                segment: Some(self.source.file.name.clone()),
                offset: Some(hole.start),
            }),
        }
    }

    /// Whether only zeros follow.
    fn ends_at(&mut self, mut offset: u64) -> Result<bool> {
        if !is_zero(self.window.view(offset, FRAME_MAGIC.len() as u64)?) {
            return Ok(false);
        }
        let mut data = Vec::new();
        while offset < self.window.end {
            let left = to_usize(self.window.end - offset);
            self.source.read_filled(offset, left.min(CHUNK_BYTES), &mut data)?;
            if !is_zero(&data) {
                return Ok(false);
            }
            offset += data.len().max(1) as u64;
        }
        Ok(true)
    }
}
