//! Compacted segments: zstd blocks and the seek table, FORMAT.md section 7.
//!
//! Owns: the bytes of the seek table, finding it in a file, and serving logical bytes by decompressing only the
//! blocks they lie in. Invariants: no number of the file is believed before it is checked against the file's size
//! and the block size; what a block decompresses to is served only if its length and checksum hold; a damaged block
//! hides no other block. Must not know: headers and frames.

use std::sync::{Arc, Mutex, PoisonError};

use zstd::bulk::Decompressor;

use crate::chain::checksum;
use crate::error::{Error, Result};
use crate::format::{BLOCK_BYTES, SKIPPABLE_MAGIC, TABLE_MAGIC};
use crate::frame::{u32_at, u64_at};
use crate::source::{FILL, Hole, SegmentFile, to_usize};

/// What a zstd frame begins with.
pub const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Above what zstd makes of an incompressible block.
const COMPRESSED_MAX_BYTES: usize = BLOCK_BYTES + BLOCK_BYTES / 128 + 1024;
const SEARCH_BYTES: u64 = 1 << 20;
const HEAD_BYTES: usize = 8;
const ENTRY_BYTES: usize = 16;
const FOOT_BYTES: usize = 24; // block_count, reserved, table_magic, table_checksum
const ENVELOPE_BYTES: usize = HEAD_BYTES + FOOT_BYTES;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// One block: where it ends in the file, what it decompresses to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    compressed: u32,
    raw: u32,
    check: Option<u64>,
}

/// The seek table of an open compacted segment.
#[derive(Debug)]
pub struct Blocks {
    entries: Vec<Entry>,
    starts: Vec<u64>,
    /// Logical bytes.
    pub logical: u64,
    /// One copy of the table is damaged.
    pub degraded: bool,
    /// Both copies are: blocks were found one after the other, and bytes at the end may be missing.
    pub tail_damaged: bool,
    cached: Mutex<Option<(usize, Arc<Vec<u8>>)>>,
}

impl Blocks {
    /// Find the seek table of a compacted file, or failing that its blocks.
    ///
    /// # Errors
    /// `Damaged` if there is neither; `Io`.
    pub fn open(file: &SegmentFile) -> Result<Self> {
        let (found, degraded) = find_table(file)?;
        let tail_damaged = found.is_none();
        let entries = match found {
            Some(entries) => entries,
            None => walk_blocks(file)?,
        };
        let mut starts = vec![0];
        let mut end = 0;
        for entry in &entries {
            end += u64::from(entry.compressed);
            starts.push(end);
        }
        let logical =
            entries.last().map_or(0, |last| (entries.len() as u64 - 1) * BLOCK + u64::from(last.raw));
        Ok(Self { entries, starts, logical, degraded, tail_damaged, cached: Mutex::new(None) })
    }

    /// Read logical bytes into `out`, with holes where blocks are damaged.
    ///
    /// # Errors
    /// `Io`.
    pub fn read_filled(
        &self,
        file: &SegmentFile,
        offset: u64,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<Vec<Hole>> {
        out.clear();
        let end = offset.saturating_add(length as u64).min(self.logical);
        if end <= offset {
            return Ok(Vec::new());
        }
        let (first, last) = (to_usize(offset / BLOCK), to_usize((end - 1) / BLOCK));
        let mut take = |index: usize, raw: &[u8]| {
            let at = index as u64 * BLOCK;
            let from = to_usize(offset.saturating_sub(at));
            out.extend_from_slice(&raw[from..raw.len().min(to_usize(end - at))]);
        };
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let start = match &cached {
            Some((index, raw)) if *index == first => {
                take(first, raw);
                first + 1
            }
            _ => first,
        };
        let mut holes = Vec::new();
        if start > last {
            return Ok(holes);
        }
        let base = self.starts[start];
        let mut packed = Vec::new();
        let file_holes = file.read_filled(base, to_usize(self.starts[last + 1] - base), &mut packed)?;
        let mut raw = Vec::with_capacity(BLOCK_BYTES);
        let mut decompressor = decompressor(file)?;
        for index in start..=last {
            let (low, high) = (self.starts[index], self.starts[index + 1]);
            let part = packed.get(to_usize(low - base)..to_usize(high - base)).unwrap_or_default();
            if self.decompress(index, part, &mut decompressor, &mut raw) {
                take(index, &raw);
                continue;
            }
            let failed = file_holes.iter().find(|hole| hole.start < high && hole.end > low);
            let (code, detail) = failed.map_or_else(
                || ("block", format!("compressed block {index} is damaged")),
                |hole| (hole.code, hole.detail.clone()),
            );
            let at = index as u64 * BLOCK;
            raw.clear();
            raw.resize(self.entries[index].raw as usize, FILL);
            holes.push(Hole { start: at, end: at + raw.len() as u64, code, detail });
            take(index, &raw);
        }
        if holes.is_empty() {
            *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some((last, Arc::new(raw)));
        }
        Ok(holes)
    }

    /// Decompress and check one block; `raw` is only meaningful if the answer is yes.
    fn decompress(
        &self,
        index: usize,
        packed: &[u8],
        decompressor: &mut Decompressor<'_>,
        raw: &mut Vec<u8>,
    ) -> bool {
        let entry = self.entries[index];
        decompress(packed, decompressor, raw)
            && raw.len() == entry.raw as usize
            && entry.check.is_none_or(|check| checksum(raw, 0) == check)
    }
}

/// Make a decompressor; one serves all blocks of a read.
fn decompressor(file: &SegmentFile) -> Result<Decompressor<'static>> {
    Decompressor::new()
        .map_err(|cause| Error::io("cannot make a decompressor", &cause, Some(&file.name), None))
}

/// Decompress one block; never makes more than `BLOCK_BYTES`, whatever the data claim.
fn decompress(packed: &[u8], decompressor: &mut Decompressor<'_>, raw: &mut Vec<u8>) -> bool {
    raw.clear();
    raw.reserve_exact(BLOCK_BYTES);
    decompressor.decompress_to_buffer(packed, raw).is_ok_and(|length| length <= BLOCK_BYTES)
}

/// One copy of the seek table; an entry is (compressed bytes, raw bytes, XXH3-64 of the raw block).
///
/// # Panics
/// If there are more blocks than a `u32` can count in bytes; a segment is far below.
#[must_use]
pub fn encode_table(entries: &[(u32, u32, u64)]) -> Vec<u8> {
    let number = |count: usize| u32::try_from(count).expect("a segment has far fewer blocks").to_le_bytes();
    let body_bytes = ENTRY_BYTES * entries.len() + FOOT_BYTES;
    let mut table = Vec::with_capacity(HEAD_BYTES + body_bytes);
    table.extend_from_slice(&SKIPPABLE_MAGIC);
    table.extend_from_slice(&number(body_bytes));
    for (compressed, raw, check) in entries {
        table.extend_from_slice(&compressed.to_le_bytes());
        table.extend_from_slice(&raw.to_le_bytes());
        table.extend_from_slice(&check.to_le_bytes());
    }
    table.extend_from_slice(&number(entries.len()));
    table.extend_from_slice(&[0; 4]);
    table.extend_from_slice(&TABLE_MAGIC);
    table.extend_from_slice(&checksum(&table[HEAD_BYTES..], 0).to_le_bytes());
    table
}

/// Decode the copy of the table that begins at file offset `start`; none if anything about it is wrong.
fn decode_table(table: &[u8], start: u64) -> Option<Vec<Entry>> {
    let rows_end = table.len().checked_sub(FOOT_BYTES)?;
    let count = u32_at(table, rows_end) as usize;
    let sound = table.starts_with(&SKIPPABLE_MAGIC)
        && table[rows_end + 8..rows_end + 16] == TABLE_MAGIC
        && u32_at(table, rows_end + 4) == 0
        && table.len() == ENVELOPE_BYTES + ENTRY_BYTES * count
        && u32_at(table, 4) as usize == table.len() - HEAD_BYTES
        && u64_at(table, rows_end + 16) == checksum(&table[HEAD_BYTES..table.len() - 8], 0);
    if !sound {
        return None;
    }
    let entries: Vec<Entry> = table[HEAD_BYTES..rows_end]
        .chunks_exact(ENTRY_BYTES)
        .map(|row| Entry { compressed: u32_at(row, 0), raw: u32_at(row, 4), check: Some(u64_at(row, 8)) })
        .collect();
    let (last, full) = entries.split_last()?;
    let well_cut = full.iter().all(|entry| entry.raw as usize == BLOCK_BYTES)
        && (1..=BLOCK_BYTES).contains(&(last.raw as usize))
        && entries.iter().all(|entry| entry.compressed as usize <= COMPRESSED_MAX_BYTES)
        && file_bytes(&entries) <= start;
    well_cut.then_some(entries)
}

fn file_bytes(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.compressed)).sum()
}

/// Where a copy of the table starts, its bytes, its entries.
type TableCopy = (u64, Vec<u8>, Vec<Entry>);

/// Decode the copy that ends at file offset `end`.
fn copy_before(file: &SegmentFile, end: u64) -> Result<Option<TableCopy>> {
    if end < ENVELOPE_BYTES as u64 {
        return Ok(None);
    }
    let foot = file.read(end - FOOT_BYTES as u64, FOOT_BYTES)?;
    if foot.len() < FOOT_BYTES || foot[8..16] != TABLE_MAGIC {
        return Ok(None);
    }
    let length = ENVELOPE_BYTES as u64 + ENTRY_BYTES as u64 * u64::from(u32_at(&foot, 0));
    let Some(start) = end.checked_sub(length) else {
        return Ok(None);
    };
    let table = file.read(start, to_usize(length))?;
    Ok(decode_table(&table, start).map(|entries| (start, table, entries)))
}

/// Find a sound copy of the table from the end of the file; also whether the other copy is damaged.
fn find_table(file: &SegmentFile) -> Result<(Option<Vec<Entry>>, bool)> {
    let size = file.size()?;
    if let Some((start, table, entries)) = copy_before(file, size)? {
        let first = start.checked_sub(table.len() as u64);
        let degraded = first != Some(file_bytes(&entries))
            || file.read(first.unwrap_or_default(), table.len())? != table;
        return Ok((Some(entries), degraded));
    }
    let mut stop = size;
    while stop > 0 {
        // the last copy is damaged: look for the magic of another one
        let base = stop.saturating_sub(SEARCH_BYTES);
        let data = file.read(base, to_usize(stop - base) + TABLE_MAGIC.len() - 1)?;
        for (at, _) in
            data.windows(TABLE_MAGIC.len()).enumerate().rev().filter(|(_, bytes)| *bytes == TABLE_MAGIC)
        {
            let end = base + (at + TABLE_MAGIC.len() + 8) as u64;
            if let Some((_, _, entries)) = copy_before(file, end)? {
                return Ok((Some(entries), true));
            }
        }
        stop = base;
    }
    Ok((None, true))
}

/// Find the blocks without a table: frame after frame from the start.
fn walk_blocks(file: &SegmentFile) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut at, mut raw, mut decompressor) = (0, Vec::new(), decompressor(file)?);
    while entries.last().is_none_or(|entry| entry.raw as usize == BLOCK_BYTES) {
        let data = file.read(at, COMPRESSED_MAX_BYTES)?;
        let Some(length) = zstd_frame_length(&data) else {
            break;
        };
        if !decompress(&data[..length], &mut decompressor, &mut raw) || raw.is_empty() {
            break;
        }
        #[expect(clippy::cast_possible_truncation, reason = "both are below COMPRESSED_MAX_BYTES")]
        entries.push(Entry { compressed: length as u32, raw: raw.len() as u32, check: None });
        at += length as u64;
    }
    if entries.is_empty() {
        return Err(Error::Damaged {
            message: "neither a seek table nor a block can be read".to_owned(),
            segment: Some(file.name.clone()),
            offset: Some(0),
        });
    }
    Ok(entries)
}

/// Length of the zstd frame that begins `data`; none if it is no frame or passes the end (RFC 8878, section 3.1.1).
fn zstd_frame_length(data: &[u8]) -> Option<usize> {
    if !data.starts_with(&ZSTD_MAGIC) {
        return None;
    }
    let descriptor = *data.get(4)?;
    let is_single = descriptor >> 5 & 1 == 1;
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [usize::from(is_single), 2, 4, 8][usize::from(descriptor >> 6)];
    let mut at = 5 + usize::from(!is_single) + dictionary_bytes + size_bytes;
    loop {
        let head = data.get(at..at + 3)?;
        let block = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
        at += 3 + if block >> 1 & 3 == 1 { 1 } else { block >> 3 };
        if block & 1 == 1 {
            break;
        }
    }
    at += if descriptor & 4 == 0 { 0 } else { 4 };
    (at <= data.len()).then_some(at)
}
