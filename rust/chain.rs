//! Digest, checksum and chain: FORMAT.md section 4.
//!
//! Owns: what is put under each, and in which order. Must not know: how frames lie in a file; a chain needs the fields
//! only.

use sha2::{Digest as _, Sha256};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::format::{CHAIN_TAG, CHAIN_VERSION, TYPE_MAX_BYTES};

const CHAIN_FIXED_BYTES: usize = 97;

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
    // one contiguous message costs a third less than seven updates, and a scan does this for every event
    let mut message = [0; CHAIN_FIXED_BYTES + TYPE_MAX_BYTES];
    message[0..1].copy_from_slice(&CHAIN_VERSION);
    message[1..33].copy_from_slice(chain);
    message[33..41].copy_from_slice(&ordinal.to_le_bytes());
    message[41..57].copy_from_slice(event_id);
    message[57..65].copy_from_slice(&time_us.to_le_bytes());
    message[65..97].copy_from_slice(digest);
    let Some(type_field) = message[CHAIN_FIXED_BYTES..].get_mut(..type_name.len()) else {
        return Sha256::new()
            .chain_update(&message[..CHAIN_FIXED_BYTES])
            .chain_update(type_name)
            .finalize()
            .into();
    };
    type_field.copy_from_slice(type_name);
    Sha256::digest(&message[..CHAIN_FIXED_BYTES + type_name.len()]).into()
}
