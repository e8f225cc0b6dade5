//! Frames: FORMAT.md section 3.
//!
//! Owns: the bytes of one frame and the conditions under which it is valid. Invariants: `encode_frame` only makes
//! frames that `decode_frame_header` and `check_body` accept at that place; decoding checks every length before it is
//! used and allocates nothing. Must not know: files, the order of frames, groups.

use std::fmt;

pub use crate::chain::{chain_next, chain_start, checksum, digest};
use crate::error::{Error, Result};
use crate::format::{
    FLAGS_REQUIRED_UNKNOWN, FRAME_FIXED_BYTES, FRAME_HEADER_MAX_BYTES, FRAME_HEADER_MIN_BYTES, FRAME_MAGIC,
    FRAME_TRAILER_BYTES, HEADER_BYTES, KIND_CLOSE, KIND_EVENT, KIND_IGNORABLE, KIND_OPEN, KIND_REPAIR_NOTE,
    KIND_SEAL, KIND_SYNC_MARK, PAYLOAD_MAX_BYTES, TYPE_MAX_BYTES,
};

/// Segment id (16) and offset (8) that go before the header bytes under the header checksum.
const SALT_BYTES: usize = 24;
const CHECKSUM_AT: usize = 96;
const TYPE_LENGTH_AT: usize = 104;
/// Where the bytes of the event type begin in a frame.
pub const TYPE_AT: usize = 105;

/// All that goes into a frame, lengths and checksums excepted. `digest` is that of `payload`.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "most names are rows of FORMAT.md")]
pub struct FrameFields<'a> {
    pub kind: u8,
    pub flags: u16,
    pub epoch: u32,
    pub ordinal: u64,
    pub durable_off: u64,
    pub event_id: [u8; 16],
    pub time_us: u64,
    /// SHA-256 of `payload`; not checked.
    pub digest: [u8; 32],
    /// Event type; empty in control frames.
    pub type_name: &'a [u8],
    pub payload: &'a [u8],
}

/// A decoded, authentic frame header. The bytes of the type are at `TYPE_AT..TYPE_AT + type_length` of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "most names are rows of FORMAT.md")]
pub struct FrameHeader {
    pub kind: u8,
    pub flags: u16,
    pub payload_length: u32,
    pub epoch: u32,
    pub ordinal: u64,
    pub durable_off: u64,
    pub event_id: [u8; 16],
    pub digest: [u8; 32],
    pub payload_checksum: u64,
    pub time_us: u64,
    /// Bytes before the payload: 112..=176.
    pub header_length: usize,
    /// Bytes of the event type.
    pub type_length: usize,
}

impl FrameHeader {
    /// Length of the whole frame in bytes, trailer included.
    #[must_use]
    pub fn frame_length(&self) -> u64 {
        (self.header_length + pad8(self.payload_length as usize) + FRAME_TRAILER_BYTES) as u64
    }

    /// Whether this version knows what to do with the frame; ignorable kinds count as known.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let known = matches!(
            self.kind,
            KIND_EVENT | KIND_SYNC_MARK | KIND_CLOSE | KIND_SEAL | KIND_OPEN | KIND_REPAIR_NOTE
        );
        (known || self.kind & KIND_IGNORABLE != 0) && self.flags & FLAGS_REQUIRED_UNKNOWN == 0
    }
}

/// The first validity condition of FORMAT.md section 3 that a frame breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// (1) The offset is below 4,096 or not a multiple of 8.
    Place,
    /// (2) No magic.
    Magic,
    /// (3) The header length is out of range.
    HeaderLength,
    /// (3), (6) The bytes end inside the frame.
    Short,
    /// (4) The header checksum does not match at this place.
    HeaderChecksum,
    /// (5) The type does not fit its field or has bytes out of range.
    Type,
    /// (6) The payload is longer than the limit.
    PayloadLength,
    /// (7) The payload checksum does not match.
    PayloadChecksum,
    /// (8) The padding is not zero.
    Padding,
    /// (8) The trailer does not hold the length and its complement.
    Trailer,
}

impl fmt::Display for FrameFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Place => "no frame can begin at this offset",
            Self::Magic => "frame magic is missing",
            Self::HeaderLength => "header length is out of range",
            Self::Short => "frame passes the end of the bytes",
            Self::HeaderChecksum => "header checksum does not match",
            Self::Type => "event type is malformed",
            Self::PayloadLength => "payload length is over the limit",
            Self::PayloadChecksum => "payload checksum does not match",
            Self::Padding => "payload padding is not zero",
            Self::Trailer => "trailer does not match the frame length",
        })
    }
}

/// The seed of a segment's payload checksums: the first 8 bytes of its id as an integer.
#[must_use]
pub fn payload_seed(segment_id: &[u8; 16]) -> u64 {
    u64_at(segment_id, 0)
}

/// Length in bytes of the frame that `encode_frame` makes of these lengths.
#[must_use]
pub fn frame_length(type_length: usize, payload_length: usize) -> usize {
    FRAME_FIXED_BYTES + pad8(1 + type_length) + pad8(payload_length) + FRAME_TRAILER_BYTES
}

/// Append the frame for `offset` of the segment to `out`.
///
/// # Panics
/// If type or payload is beyond its limit; the callers check both and answer with their own errors.
pub fn encode_frame(out: &mut Vec<u8>, segment_id: &[u8; 16], offset: u64, fields: &FrameFields) {
    assert!(fields.type_name.len() <= TYPE_MAX_BYTES, "type is over the limit");
    assert!(fields.payload.len() <= PAYLOAD_MAX_BYTES, "payload is over the limit");
    let header_length = FRAME_FIXED_BYTES + pad8(1 + fields.type_name.len());
    let length = frame_length(fields.type_name.len(), fields.payload.len());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the limits above keep both far below their type's range"
    )]
    let (header_words, payload_length, length_field) =
        ((header_length / 8) as u8, fields.payload.len() as u32, length as u32);
    let mut header = [0u8; FRAME_HEADER_MAX_BYTES];
    header[0..4].copy_from_slice(&FRAME_MAGIC);
    header[4] = header_words;
    header[5] = fields.kind;
    header[6..8].copy_from_slice(&fields.flags.to_le_bytes());
    header[8..12].copy_from_slice(&payload_length.to_le_bytes());
    header[12..16].copy_from_slice(&fields.epoch.to_le_bytes());
    header[16..24].copy_from_slice(&fields.ordinal.to_le_bytes());
    header[24..32].copy_from_slice(&fields.durable_off.to_le_bytes());
    header[32..48].copy_from_slice(&fields.event_id);
    header[48..80].copy_from_slice(&fields.digest);
    let payload_checksum = checksum(fields.payload, payload_seed(segment_id));
    header[80..88].copy_from_slice(&payload_checksum.to_le_bytes());
    header[88..96].copy_from_slice(&fields.time_us.to_le_bytes());
    header[TYPE_LENGTH_AT] = header_type_length(fields.type_name);
    header[TYPE_AT..TYPE_AT + fields.type_name.len()].copy_from_slice(fields.type_name);
    let header = &mut header[..header_length];
    let header_checksum = header_checksum(header, segment_id, offset);
    header[CHECKSUM_AT..TYPE_LENGTH_AT].copy_from_slice(&header_checksum.to_le_bytes());
    let start = out.len();
    out.reserve(length);
    out.extend_from_slice(header);
    out.extend_from_slice(fields.payload);
    out.resize(start + length - FRAME_TRAILER_BYTES, 0);
    out.extend_from_slice(&length_field.to_le_bytes());
    out.extend_from_slice(&(!length_field).to_le_bytes());
}

/// Decode the header of the frame that begins `bytes` and lies at `offset` of the segment: conditions (1) to (6),
/// except that the payload and trailer may pass the end of `bytes`. `bytes` should hold 176 bytes or all that the
/// file has.
///
/// # Errors
/// The first condition that does not hold; `Short` if the bytes end inside the header.
pub fn decode_frame_header(
    bytes: &[u8],
    segment_id: &[u8; 16],
    offset: u64,
) -> std::result::Result<FrameHeader, FrameFault> {
    if !is_place(offset) {
        return Err(FrameFault::Place);
    }
    let magic_seen = bytes.len().min(FRAME_MAGIC.len());
    if bytes[..magic_seen] != FRAME_MAGIC[..magic_seen] {
        return Err(FrameFault::Magic);
    }
    let Some(&header_words) = bytes.get(4) else {
        return Err(FrameFault::Short);
    };
    let header_length = usize::from(header_words) * 8;
    if !(FRAME_HEADER_MIN_BYTES..=FRAME_HEADER_MAX_BYTES).contains(&header_length) {
        return Err(FrameFault::HeaderLength);
    }
    let header = bytes.get(..header_length).ok_or(FrameFault::Short)?;
    if u64_at(header, CHECKSUM_AT) != header_checksum(header, segment_id, offset) {
        return Err(FrameFault::HeaderChecksum);
    }
    let kind = header[5];
    let type_length = usize::from(header[TYPE_LENGTH_AT]);
    let type_fits = type_length <= TYPE_MAX_BYTES
        && header_length == FRAME_FIXED_BYTES + pad8(1 + type_length)
        && (kind == KIND_EVENT) == (type_length > 0);
    if !type_fits
        || !is_type(&header[TYPE_AT..TYPE_AT + type_length])
        || header[TYPE_AT + type_length..].iter().any(|&byte| byte != 0)
    {
        return Err(FrameFault::Type);
    }
    let payload_length = u32_at(header, 8);
    if payload_length as usize > PAYLOAD_MAX_BYTES {
        return Err(FrameFault::PayloadLength);
    }
    Ok(FrameHeader {
        kind,
        flags: u16::from_le_bytes(bytes_at(header, 6)),
        payload_length,
        epoch: u32_at(header, 12),
        ordinal: u64_at(header, 16),
        durable_off: u64_at(header, 24),
        event_id: bytes_at(header, 32),
        digest: bytes_at(header, 48),
        payload_checksum: u64_at(header, 80),
        time_us: u64_at(header, 88),
        header_length,
        type_length,
    })
}

/// Check conditions (6) to (8) of the frame that begins `bytes`, given its decoded header.
///
/// # Errors
/// The first condition that does not hold; `Short` if the bytes end inside the frame.
pub fn check_body(
    bytes: &[u8],
    header: &FrameHeader,
    segment_id: &[u8; 16],
) -> std::result::Result<(), FrameFault> {
    let payload_end = header.header_length + header.payload_length as usize;
    let trailer_at = header.header_length + pad8(header.payload_length as usize);
    let Some(frame) = bytes.get(..trailer_at + FRAME_TRAILER_BYTES) else {
        return Err(FrameFault::Short);
    };
    let payload = &frame[header.header_length..payload_end];
    if checksum(payload, payload_seed(segment_id)) != header.payload_checksum {
        return Err(FrameFault::PayloadChecksum);
    }
    if frame[payload_end..trailer_at].iter().any(|&byte| byte != 0) {
        return Err(FrameFault::Padding);
    }
    let length = u32_at(frame, trailer_at);
    if u64::from(length) != header.frame_length() || u32_at(frame, trailer_at + 4) != !length {
        return Err(FrameFault::Trailer);
    }
    Ok(())
}

/// Whether a frame may begin at this offset of a segment.
#[must_use]
pub const fn is_place(offset: u64) -> bool {
    offset >= HEADER_BYTES as u64 && offset % 8 == 0
}

/// Check that `encode_frame` can take these fields.
///
/// # Errors
/// `InvalidType`, `PayloadTooLarge`.
pub fn check_fields(fields: &FrameFields) -> Result<()> {
    if fields.kind == KIND_EVENT {
        check_type(fields.type_name)?;
    } else if !fields.type_name.is_empty() {
        return Err(Error::InvalidType("a control frame has no event type".to_owned()));
    }
    check_payload_length(fields.payload.len())
}

/// Check a caller's event type before it is stored.
///
/// # Errors
/// `InvalidType`.
pub fn check_type(type_name: &[u8]) -> Result<()> {
    if (1..=TYPE_MAX_BYTES).contains(&type_name.len()) && is_type(type_name) {
        return Ok(());
    }
    Err(Error::InvalidType(format!(
        "an event type is 1 to {TYPE_MAX_BYTES} printable ASCII characters without spaces"
    )))
}

/// Check the length of a caller's payload before it is stored.
///
/// # Errors
/// `PayloadTooLarge`.
pub fn check_payload_length(length: usize) -> Result<()> {
    if length <= PAYLOAD_MAX_BYTES {
        return Ok(());
    }
    Err(Error::PayloadTooLarge(format!(
        "the payload has {length} bytes, the limit is {PAYLOAD_MAX_BYTES}; store it as an artifact"
    )))
}

/// Whether these bytes may stand in the type field: each is 33..=126. Length is not checked.
fn is_type(type_name: &[u8]) -> bool {
    type_name.iter().all(|byte| (33..=126).contains(byte))
}

/// Round up to a multiple of 8.
#[must_use]
pub const fn pad8(length: usize) -> usize {
    length.div_ceil(8) * 8
}

#[expect(clippy::cast_possible_truncation, reason = "encode_frame has checked the limit of 64")]
fn header_type_length(type_name: &[u8]) -> u8 {
    type_name.len() as u8
}

fn header_checksum(header: &[u8], segment_id: &[u8; 16], offset: u64) -> u64 {
    let mut salted = [0u8; SALT_BYTES + FRAME_HEADER_MAX_BYTES - 8];
    let rest_at = SALT_BYTES + CHECKSUM_AT;
    let end = SALT_BYTES + header.len() - 8;
    salted[..16].copy_from_slice(segment_id);
    salted[16..SALT_BYTES].copy_from_slice(&offset.to_le_bytes());
    salted[SALT_BYTES..rest_at].copy_from_slice(&header[..CHECKSUM_AT]);
    salted[rest_at..end].copy_from_slice(&header[TYPE_LENGTH_AT..]);
    checksum(&salted[..end], 0)
}

pub(crate) fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}
