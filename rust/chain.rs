//! Digest, checksum and chain: FORMAT.md section 4.
//!
//! Owns: what is put under each, and in which order. Must not know: how frames lie in a file; a chain needs the
//! fields only.

use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::format::{CHAIN_TAG, CHAIN_VERSION};

/// SHA-256.
#[must_use]
pub fn digest(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

/// XXH3-64.
#[must_use]
pub fn checksum(data: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(data, seed)
}

/// Chain 0 of a session; the last three are zero unless it is a fork.
#[must_use]
pub fn chain_start(
    session_id: &[u8; 16],
    parent_session_id: &[u8; 16],
    fork_ordinal: u64,
    parent_chain: &[u8; 32],
) -> [u8; 32] {
    Sha256::new()
        .chain_update(CHAIN_TAG)
        .chain_update(session_id)
        .chain_update(parent_session_id)
        .chain_update(fork_ordinal.to_le_bytes())
        .chain_update(parent_chain)
        .finalize()
        .into()
}

/// The chain after the event with this ordinal, given the chain before it.
#[must_use]
pub fn chain_next(
    chain: &[u8; 32],
    ordinal: u64,
    event_id: &[u8; 16],
    time_us: u64,
    digest: &[u8; 32],
    type_name: &[u8],
) -> [u8; 32] {
    Sha256::new()
        .chain_update(CHAIN_VERSION)
        .chain_update(chain)
        .chain_update(ordinal.to_le_bytes())
        .chain_update(event_id)
        .chain_update(time_us.to_le_bytes())
        .chain_update(digest)
        .chain_update(type_name)
        .finalize()
        .into()
}
