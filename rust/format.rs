//! Numbers of the on-disk format: sizes, magics, flags, limits.
//!
//! FORMAT.md is the home of these facts; `tests/core/test_format.py` compares it with this file and with
//! `_pure/format.py`. Owns: constants only. Must not know: how anything is read or written.
#![allow(missing_docs, reason = "each name is a row of FORMAT.md")]

/// Number of the interface between Python and a core; both cores must carry the same.
pub const CONTRACT: u32 = 1;

pub const SEGMENT_MAGIC: [u8; 8] = *b"\x89TLG\r\n\x1a\n";
pub const FORMAT_MAJOR: u16 = 1;
pub const FORMAT_MINOR: u16 = 0;
pub const WRITER_LEVEL: u32 = 1;
pub const FEATURES_REQUIRED_KNOWN: u32 = 0;
pub const FEATURES_READONLY_KNOWN: u32 = 0;
pub const HEADER_BYTES: usize = 4096;
pub const HEADER_STRUCT_BYTES: usize = 1024;
pub const HEADER_COPY_OFFSET: usize = 2048;
pub const CANON_VERSION: u8 = 1;
pub const DIGEST_ALGORITHM: u8 = 1;
pub const CHECKSUM_ALGORITHM: u8 = 1;

pub const FRAME_MAGIC: [u8; 4] = *b"\xffTL1";
pub const FRAME_FIXED_BYTES: usize = 104;
pub const FRAME_HEADER_MIN_BYTES: usize = 112;
pub const FRAME_HEADER_MAX_BYTES: usize = 176;
pub const FRAME_TRAILER_BYTES: usize = 8;
pub const TYPE_MAX_BYTES: usize = 64;
pub const PAYLOAD_MAX_BYTES: usize = 16 * 1024 * 1024;
pub const DEPTH_MAX: usize = 128;
pub const INTEGER_MAX_DIGITS: usize = 4300;

pub const KIND_EVENT: u8 = 1;
pub const KIND_SYNC_MARK: u8 = 2;
pub const KIND_CLOSE: u8 = 3;
pub const KIND_SEAL: u8 = 4;
pub const KIND_OPEN: u8 = 5;
pub const KIND_REDACT: u8 = 6;
pub const KIND_REPAIR_NOTE: u8 = 7;
pub const KIND_IGNORABLE: u8 = 0x80;
pub const KIND_CHAIN_MARK: u8 = 0x88;

pub const FLAG_COMMIT: u16 = 1;
pub const FLAG_RAW: u16 = 2;
pub const FLAG_DURABLE: u16 = 4;
pub const FLAG_REDACTED: u16 = 8;
pub const FLAG_ENCRYPTED: u16 = 16;
pub const FLAGS_REQUIRED_UNKNOWN: u16 = 0x00E0;

pub const CHAIN_TAG: [u8; 16] = *b"turnlog chain v1";
pub const CHAIN_VERSION: [u8; 1] = [1];

pub const BLOCK_BYTES: usize = 1_048_576;
pub const SKIPPABLE_MAGIC: [u8; 4] = *b"\x5e\x2a\x4d\x18";
pub const TABLE_MAGIC: [u8; 8] = *b"TLGSEEK1";

pub const ROLL_BYTES: u64 = 64 * 1024 * 1024;
pub const ZERO_STEP_MIN_BYTES: u64 = 64 * 1024;
pub const ZERO_STEP_MAX_BYTES: u64 = 4 * 1024 * 1024;
pub const SPARSE_STEP_BYTES: u64 = 64 * 1024;
pub const CHAIN_STEP_EVENTS: u64 = 128;
