//! The segment header: FORMAT.md section 2.
//!
//! Owns: its 4,096 bytes, and the answer what they are when they are not a sound header. Invariants: decoding never
//! fails and never panics, it names the fault; a newer major or an unknown feature is believed only from a copy whose
//! checksum holds. Must not know: files, frames.

use crate::format::{
    CANON_VERSION, CHECKSUM_ALGORITHM, DIGEST_ALGORITHM, FEATURES_READONLY_KNOWN, FEATURES_REQUIRED_KNOWN,
    FORMAT_MAJOR, HEADER_BYTES, HEADER_COPY_OFFSET, HEADER_STRUCT_BYTES, SEGMENT_MAGIC, WRITER_LEVEL,
};
use crate::frame::{bytes_at, checksum, u32_at, u64_at};

const CHECKSUM_AT: usize = HEADER_STRUCT_BYTES - 8;
const NAME_AT: usize = 208;
/// Length in bytes of the field `writer_name`.
pub const WRITER_NAME_MAX_BYTES: usize = 64;

/// The fields of a segment header, named as in FORMAT.md section 2.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each name is a row of FORMAT.md")]
pub struct SegmentHeader {
    pub format_major: u16,
    pub format_minor: u16,
    pub features_required: u32,
    pub features_readonly: u32,
    pub session_id: [u8; 16],
    pub segment_id: [u8; 16],
    pub segment_number: u64,
    pub first_ordinal: u64,
    pub prev_segment_id: [u8; 16],
    pub prev_length: u64,
    pub prev_last_ordinal: u64,
    pub prev_chain: [u8; 32],
    pub writer_epoch: u32,
    pub canon_version: u8,
    pub digest_algorithm: u8,
    pub checksum_algorithm: u8,
    pub created_us: u64,
    pub parent_session_id: [u8; 16],
    pub fork_ordinal: u64,
    pub parent_chain: [u8; 32],
    pub writer_name: String,
    pub min_writer: u32,
}

/// Why a block is not a header that this version can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// Fewer than 4,096 bytes, or only zeros.
    Missing,
    /// Something else than a segment.
    NotASegment,
    /// The magic shows that a text-mode copy changed the line ends.
    TextMode,
    /// A segment, but neither copy of its header is sound.
    Damaged,
    /// Written by a higher major version.
    NewerMajor,
    /// A required feature or an algorithm is not known.
    UnknownFeature,
}

impl HeaderFault {
    /// The code of the fault in the contract of the two cores.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NotASegment => "not_a_segment",
            Self::TextMode => "text_mode",
            Self::Damaged => "damaged",
            Self::NewerMajor => "newer_major",
            Self::UnknownFeature => "unknown_feature",
        }
    }
}

/// What `decode_header` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedHeader {
    /// Of the first sound copy. With `NewerMajor` only the version numbers can be relied on.
    pub fields: Option<SegmentHeader>,
    /// Why the segment cannot be read.
    pub fault: Option<HeaderFault>,
    /// One copy is bad, the copies differ, or bytes between them are not zero.
    pub degraded: bool,
    /// A feature or a minimum writer level forbids writing.
    pub read_only: bool,
}

/// Encode the header block: the struct twice, zeros between.
///
/// # Panics
/// If `writer_name` is longer than its field; the callers cut it.
#[must_use]
pub fn encode_header(fields: &SegmentHeader) -> Vec<u8> {
    let name = fields.writer_name.as_bytes();
    assert!(name.len() <= WRITER_NAME_MAX_BYTES, "writer name is over the limit");
    #[expect(clippy::cast_possible_truncation, reason = "4,096")]
    let header_length = HEADER_BYTES as u32;
    let mut copy = Vec::with_capacity(HEADER_STRUCT_BYTES);
    copy.extend_from_slice(&SEGMENT_MAGIC);
    copy.extend_from_slice(&fields.format_major.to_le_bytes());
    copy.extend_from_slice(&fields.format_minor.to_le_bytes());
    copy.extend_from_slice(&fields.features_required.to_le_bytes());
    copy.extend_from_slice(&fields.features_readonly.to_le_bytes());
    copy.extend_from_slice(&header_length.to_le_bytes());
    copy.extend_from_slice(&fields.session_id);
    copy.extend_from_slice(&fields.segment_id);
    copy.extend_from_slice(&fields.segment_number.to_le_bytes());
    copy.extend_from_slice(&fields.first_ordinal.to_le_bytes());
    copy.extend_from_slice(&fields.prev_segment_id);
    copy.extend_from_slice(&fields.prev_length.to_le_bytes());
    copy.extend_from_slice(&fields.prev_last_ordinal.to_le_bytes());
    copy.extend_from_slice(&fields.prev_chain);
    copy.extend_from_slice(&fields.writer_epoch.to_le_bytes());
    copy.extend_from_slice(&[fields.canon_version, fields.digest_algorithm, fields.checksum_algorithm, 0]);
    copy.extend_from_slice(&fields.created_us.to_le_bytes());
    copy.extend_from_slice(&fields.parent_session_id);
    copy.extend_from_slice(&fields.fork_ordinal.to_le_bytes());
    copy.extend_from_slice(&fields.parent_chain);
    copy.extend_from_slice(name);
    copy.resize(NAME_AT + WRITER_NAME_MAX_BYTES, 0);
    copy.extend_from_slice(&fields.min_writer.to_le_bytes());
    copy.resize(CHECKSUM_AT, 0);
    copy.extend_from_slice(&checksum(&copy, 0).to_le_bytes());
    let mut block = vec![0; HEADER_BYTES];
    for at in [0, HEADER_COPY_OFFSET] {
        block[at..at + HEADER_STRUCT_BYTES].copy_from_slice(&copy);
    }
    block
}

/// Say what the first 4,096 bytes of a file are.
#[must_use]
pub fn decode_header(block: &[u8]) -> DecodedHeader {
    let refused =
        |fault| DecodedHeader { fields: None, fault: Some(fault), degraded: false, read_only: false };
    let Some(block) = block.get(..HEADER_BYTES) else {
        return refused(HeaderFault::Missing);
    };
    if block.iter().all(|&byte| byte == 0) {
        return refused(HeaderFault::Missing);
    }
    let copy_end = HEADER_COPY_OFFSET + HEADER_STRUCT_BYTES;
    let (first, second) = (&block[..HEADER_STRUCT_BYTES], &block[HEADER_COPY_OFFSET..copy_end]);
    let sound = if is_sound(first) {
        first
    } else if is_sound(second) {
        second
    } else {
        return refused(name_fault(first, second));
    };
    let gaps = block[HEADER_STRUCT_BYTES..HEADER_COPY_OFFSET].iter().chain(&block[copy_end..]);
    let degraded = first != second || gaps.into_iter().any(|&byte| byte != 0);
    let fields = decode_copy(sound);
    let fault = if fields.format_major > FORMAT_MAJOR {
        Some(HeaderFault::NewerMajor)
    } else if fields.format_major < FORMAT_MAJOR || u32_at(sound, 20) as usize != HEADER_BYTES {
        Some(HeaderFault::Damaged)
    } else if fields.features_required & !FEATURES_REQUIRED_KNOWN != 0
        || fields.canon_version != CANON_VERSION
        || fields.digest_algorithm != DIGEST_ALGORITHM
        || fields.checksum_algorithm != CHECKSUM_ALGORITHM
    {
        Some(HeaderFault::UnknownFeature)
    } else {
        None
    };
    let read_only =
        fields.features_readonly & !FEATURES_READONLY_KNOWN != 0 || fields.min_writer > WRITER_LEVEL;
    DecodedHeader { fields: Some(fields), fault, degraded, read_only }
}

fn is_sound(copy: &[u8]) -> bool {
    copy.starts_with(&SEGMENT_MAGIC) && u64_at(copy, CHECKSUM_AT) == checksum(&copy[..CHECKSUM_AT], 0)
}

fn name_fault(first: &[u8], second: &[u8]) -> HeaderFault {
    if first.starts_with(&SEGMENT_MAGIC) || second.starts_with(&SEGMENT_MAGIC) {
        return HeaderFault::Damaged;
    }
    let Some(rest) = first.strip_prefix(&SEGMENT_MAGIC[..4]) else {
        return HeaderFault::NotASegment;
    };
    let is_line_end = |&byte: &u8| byte == b'\r' || byte == b'\n';
    let line_ends = rest.iter().take_while(|byte| is_line_end(byte)).count();
    let translated =
        (1..=3).contains(&line_ends) && rest[line_ends] == 0x1a && is_line_end(&rest[line_ends + 1]);
    if translated { HeaderFault::TextMode } else { HeaderFault::Damaged }
}

fn decode_copy(copy: &[u8]) -> SegmentHeader {
    let name = &copy[NAME_AT..NAME_AT + WRITER_NAME_MAX_BYTES];
    let name_length = name.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    SegmentHeader {
        format_major: u16::from_le_bytes(bytes_at(copy, 8)),
        format_minor: u16::from_le_bytes(bytes_at(copy, 10)),
        features_required: u32_at(copy, 12),
        features_readonly: u32_at(copy, 16),
        session_id: bytes_at(copy, 24),
        segment_id: bytes_at(copy, 40),
        segment_number: u64_at(copy, 56),
        first_ordinal: u64_at(copy, 64),
        prev_segment_id: bytes_at(copy, 72),
        prev_length: u64_at(copy, 88),
        prev_last_ordinal: u64_at(copy, 96),
        prev_chain: bytes_at(copy, 104),
        writer_epoch: u32_at(copy, 136),
        canon_version: copy[140],
        digest_algorithm: copy[141],
        checksum_algorithm: copy[142],
        created_us: u64_at(copy, 144),
        parent_session_id: bytes_at(copy, 152),
        fork_ordinal: u64_at(copy, 168),
        parent_chain: bytes_at(copy, 176),
        writer_name: String::from_utf8_lossy(&name[..name_length]).into_owned(),
        min_writer: u32_at(copy, 272),
    }
}
