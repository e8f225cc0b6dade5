//! Frames one after the other: what replay, scan, resync and the sparse index share.
//!
//! Owns: the read window, decoding at an offset, the search for the next frame after damage, questions about zeros.
//! Invariants: one buffer of about 1 MiB, which grows to at most one frame; every search is linear in the bytes it
//! passes. Must not know: order, groups, verdicts.

use std::sync::Arc;

use crate::error::Result;
use crate::format::{
    FRAME_FIXED_BYTES, FRAME_HEADER_MAX_BYTES, FRAME_HEADER_MIN_BYTES, FRAME_MAGIC, FRAME_TRAILER_BYTES,
    HEADER_BYTES, KIND_EVENT, KIND_SEAL, PAYLOAD_MAX_BYTES, SPARSE_STEP_BYTES,
};
use crate::frame::{FrameFault, FrameHeader, check_body, decode_frame_header, pad8, u32_at, u64_at};
use crate::source::{Chunk, Hole, Source, to_usize};

/// Bytes that one read asks for.
pub const CHUNK_BYTES: usize = 1 << 20;
const NEAR_BYTES: usize = 16 * 1024; // the next frame is nearly always as near
const SECTOR_BYTES: u64 = 512;
const SEAL_FIXED_BYTES: usize = 56; // chain, event count, successor
const FIRST: u64 = HEADER_BYTES as u64;
const SPARE_CHUNKS: usize = 4; // a scan has one in work, one queued, one filling, one being read

type Decoded = std::result::Result<FrameHeader, FrameFault>;

/// The part of a source that was read last.
#[derive(Debug)]
pub struct Window<'a> {
    source: &'a Source,
    /// Where the source ends for this walk.
    pub end: u64,
    chunk_bytes: usize,
    /// The bytes read last.
    pub chunk: Arc<Chunk>,
    spare: Vec<Arc<Chunk>>,
    /// Unreadable ranges met so far.
    pub holes: Vec<Hole>,
}

impl<'a> Window<'a> {
    /// A window that has read nothing yet.
    #[must_use]
    pub fn new(source: &'a Source, end: u64, chunk_bytes: usize) -> Self {
        Self { source, end, chunk_bytes, chunk: Arc::default(), spare: Vec::new(), holes: Vec::new() }
    }

    /// Whether no read is needed for this range, cut at the end.
    #[must_use]
    pub fn holds(&self, offset: u64, length: u64) -> bool {
        let base = self.chunk.base;
        base <= offset && self.end.min(offset.saturating_add(length)) <= base + self.chunk.data.len() as u64
    }

    /// Read again what is asked for next.
    pub fn forget(&mut self) {
        self.chunk = Arc::default();
        self.holes.clear();
    }

    /// The bytes of this range, fewer where the source ends.
    ///
    /// # Errors
    /// `Io`.
    pub fn view(&mut self, offset: u64, length: u64) -> Result<&[u8]> {
        if !self.holds(offset, length) {
            let left = to_usize(self.end.saturating_sub(offset));
            self.load(offset, to_usize(length).max(self.chunk_bytes).min(left))?;
        }
        let at = to_usize(offset - self.chunk.base).min(self.chunk.data.len());
        let after = at.saturating_add(to_usize(length)).min(self.chunk.data.len());
        Ok(&self.chunk.data[at..after])
    }

    /// Read into a buffer that nobody uses any more, if there is one.
    fn load(&mut self, offset: u64, length: usize) -> Result<()> {
        let last = std::mem::take(&mut self.chunk);
        self.spare.insert(0, last);
        self.spare.retain(|chunk| chunk.data.capacity() <= 2 * CHUNK_BYTES);
        self.spare.truncate(SPARE_CHUNKS);
        let free = self.spare.iter_mut().position(|chunk| Arc::get_mut(chunk).is_some());
        let mut chunk = free.map_or_else(Arc::default, |index| self.spare.swap_remove(index));
        if let Some(unshared) = Arc::get_mut(&mut chunk) {
            unshared.base = offset;
            let holes = self.source.read_filled(offset, length, &mut unshared.data)?;
            self.holes
                .extend(holes.into_iter().filter(|hole| !self.holes.contains(hole)).collect::<Vec<_>>());
        }
        self.chunk = chunk;
        Ok(())
    }

    /// Decode the frame header at `offset`; the answer is authentic, or says what is wrong.
    ///
    /// # Errors
    /// `Io`.
    pub fn header(&mut self, segment_id: &[u8; 16], offset: u64) -> Result<Decoded> {
        let bytes = self.view(offset, FRAME_HEADER_MAX_BYTES as u64)?;
        Ok(decode_frame_header(bytes, segment_id, offset))
    }

    /// Check payload, padding and trailer of an authentic frame.
    ///
    /// # Errors
    /// `Io`.
    pub fn body_fault(
        &mut self,
        header: &FrameHeader,
        segment_id: &[u8; 16],
        offset: u64,
    ) -> Result<Option<FrameFault>> {
        if offset + header.frame_length() > self.end {
            return Ok(Some(FrameFault::Short));
        }
        let frame = self.view(offset, header.frame_length())?;
        Ok(check_body(frame, header, segment_id).err())
    }

    /// Find the first authentic frame header at or after `offset`.
    ///
    /// # Errors
    /// `Io`.
    pub fn next_authentic(
        &mut self,
        segment_id: &[u8; 16],
        offset: u64,
    ) -> Result<Option<(u64, FrameHeader)>> {
        let magic = u32::from_le_bytes(FRAME_MAGIC);
        let mut offset = FIRST.max(offset.next_multiple_of(8));
        while offset < self.end {
            self.view(offset, FRAME_HEADER_MIN_BYTES as u64)?;
            let at = to_usize(offset - self.chunk.base).min(self.chunk.data.len());
            let rest = &self.chunk.data[at..];
            if rest.is_empty() {
                return Ok(None); // the file became shorter
            }
            let whole = rest.chunks_exact(8);
            let tail = whole.remainder();
            let found = whole.into_iter().position(|word| u32_at(word, 0) == magic).map(|word| word * 8);
            let found = found.or_else(|| tail.starts_with(&FRAME_MAGIC).then(|| rest.len() - tail.len()));
            let Some(found) = found else {
                offset = (offset + rest.len() as u64).next_multiple_of(8);
                self.chunk_bytes = (2 * self.chunk_bytes).min(CHUNK_BYTES); // it is far
                continue;
            };
            offset += found as u64;
            if let Ok(header) = self.header(segment_id, offset)? {
                return Ok(Some((offset, header)));
            }
            offset += 8;
        }
        Ok(None)
    }
}

/// Offset and ordinal of the first wholly valid frame after `offset`.
///
/// # Errors
/// `Io`.
pub fn resync(source: &Source, segment_id: &[u8; 16], offset: u64) -> Result<Option<(u64, u64)>> {
    let mut window = Window::new(source, source.size()?, NEAR_BYTES);
    let mut offset = offset.saturating_add(1).min(window.end);
    while let Some((found, header)) = window.next_authentic(segment_id, offset)? {
        if window.body_fault(&header, segment_id, found)?.is_none() {
            return Ok(Some((found, header.ordinal)));
        }
        offset = found + 8;
    }
    Ok(None)
}

/// Walk the authentic headers from `offset` on, over damage too; payloads are not checked.
///
/// # Errors
/// `Io`.
pub fn headers(
    source: &Source,
    segment_id: &[u8; 16],
    mut offset: u64,
    mut each: impl FnMut(u64, &FrameHeader),
) -> Result<()> {
    let mut window = Window::new(source, source.size()?, to_usize(SPARSE_STEP_BYTES));
    while offset < window.end {
        let header = if let Ok(header) = window.header(segment_id, offset)? {
            header
        } else if let Some((found, header)) = window.next_authentic(segment_id, offset + 8)? {
            offset = found;
            header
        } else {
            break;
        };
        if !header.is_supported() || offset + header.frame_length() > window.end {
            break;
        }
        each(offset, &header);
        offset += header.frame_length();
    }
    Ok(())
}

/// (ordinal, offset) of the first event at or after each 64 KiB, from the SEAL frame if there is a valid one.
///
/// # Errors
/// `Io`.
pub fn sparse(source: &Source, segment_id: &[u8; 16]) -> Result<Vec<(u64, u64)>> {
    if let Some(index) = sealed_index(source, segment_id)? {
        return Ok(index);
    }
    let (mut index, mut boundary) = (Vec::new(), 0);
    headers(source, segment_id, FIRST, |offset, header| {
        if header.kind == KIND_EVENT && offset >= boundary {
            index.push((header.ordinal, offset));
            boundary = (offset / SPARSE_STEP_BYTES + 1) * SPARSE_STEP_BYTES;
        }
    })?;
    Ok(index)
}

/// The index of the SEAL frame that ends the file; none if it does not end in a valid one.
fn sealed_index(source: &Source, segment_id: &[u8; 16]) -> Result<Option<Vec<(u64, u64)>>> {
    let size = source.size()?;
    if size < FIRST + FRAME_HEADER_MIN_BYTES as u64 {
        return Ok(None);
    }
    let mut window = Window::new(source, size, to_usize(SPARSE_STEP_BYTES));
    let trailer = window.view(size - FRAME_TRAILER_BYTES as u64, FRAME_TRAILER_BYTES as u64)?;
    let length = if trailer.len() == FRAME_TRAILER_BYTES { u64::from(u32_at(trailer, 0)) } else { 0 };
    let Some(start) = size.checked_sub(length).filter(|&start| start >= FIRST && length > 0) else {
        return Ok(None);
    };
    let Ok(header) = window.header(segment_id, start)? else {
        return Ok(None);
    };
    if header.kind != KIND_SEAL || !is_seal(header.payload_length as usize) || header.frame_length() != length
    {
        return Ok(None);
    }
    if window.body_fault(&header, segment_id, start)?.is_some() {
        return Ok(None);
    }
    let frame = window.view(start, length)?;
    let payload = &frame[header.header_length..header.header_length + header.payload_length as usize];
    let index: Vec<(u64, u64)> =
        payload[SEAL_FIXED_BYTES..].chunks_exact(16).map(|row| (u64_at(row, 0), u64_at(row, 8))).collect();
    let in_file = index.iter().all(|&(_, offset)| (FIRST..start).contains(&offset) && offset % 8 == 0);
    let rising = index.is_sorted_by(|low, high| low < high);
    Ok((in_file && rising).then_some(index))
}

/// Whether a SEAL payload has its fixed part and whole index rows.
#[must_use]
pub fn is_seal(payload_length: usize) -> bool {
    payload_length >= SEAL_FIXED_BYTES && (payload_length - SEAL_FIXED_BYTES) % 16 == 0
}

/// First offset of the zeros that end the source, `size` if there are none; never inside the segment header.
///
/// # Errors
/// `Io`.
pub fn zeros_from(source: &Source, size: u64) -> Result<u64> {
    let (mut stop, mut data) = (size, Vec::new());
    while stop > FIRST {
        let base = FIRST.max((stop - 1) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64);
        source.read_filled(base, to_usize(stop - base), &mut data)?;
        if let Some(last) = last_nonzero(&data) {
            return Ok(base + last as u64 + 1);
        }
        stop = base;
    }
    Ok(size.min(FIRST))
}

/// Index of the last byte that is not zero; compares words, because a zero tail may be megabytes.
fn last_nonzero(data: &[u8]) -> Option<usize> {
    let words = data.rchunks_exact(8);
    let rest = words.remainder().len();
    let zeros = words.take_while(|word| u64_at(word, 0) == 0).count() * 8;
    let end = if zeros + rest == data.len() { rest } else { data.len() - zeros };
    data[..end].iter().rposition(|&byte| byte != 0)
}

/// Whether all bytes are zero.
#[must_use]
pub fn is_zero(data: &[u8]) -> bool {
    last_nonzero(data).is_none()
}

/// Whether a 512-byte sector, as far as it lies between `start` and `end`, is zero: the trace of a missing write.
///
/// # Errors
/// `Io`.
pub fn has_zero_sector(source: &Source, mut start: u64, end: u64) -> Result<bool> {
    let mut data = Vec::new();
    while start < end {
        let stop = end.min((start / CHUNK_BYTES as u64 + 1) * CHUNK_BYTES as u64);
        source.read_filled(start, to_usize(stop - start), &mut data)?;
        let mut rest = data.as_slice();
        let mut at = start;
        while !rest.is_empty() {
            let (sector, after) = rest.split_at(rest.len().min(to_usize(SECTOR_BYTES - at % SECTOR_BYTES)));
            if is_zero(sector) {
                return Ok(true);
            }
            at += sector.len() as u64;
            rest = after;
        }
        start = stop;
    }
    Ok(false)
}

/// Frame length that an unauthentic header claims; none if it is no header at all.
#[must_use]
pub fn claimed_length(data: &[u8]) -> Option<u64> {
    if data.len() < FRAME_FIXED_BYTES || !data.starts_with(&FRAME_MAGIC) {
        return None;
    }
    let (header_length, payload_length) = (usize::from(data[4]) * 8, u32_at(data, 8) as usize);
    let plausible = (FRAME_HEADER_MIN_BYTES..=FRAME_HEADER_MAX_BYTES).contains(&header_length)
        && payload_length <= PAYLOAD_MAX_BYTES;
    plausible.then(|| (header_length + pad8(payload_length) + FRAME_TRAILER_BYTES) as u64)
}
