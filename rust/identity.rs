//! Time and new event ids.
//!
//! Owns: UUID version 7 (RFC 9562, method 3 of section 6.2: the fraction of the millisecond follows the milliseconds)
//! and its stock of random bytes. Invariant: a stock belongs to one writer, and a writer to one process, so no two
//! make the same id. Must not know: events.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

const STOCK_BYTES: usize = 512;
const USED_BYTES: usize = 8;

/// Makes event ids.
pub(crate) struct NewIds {
    stock: [u8; STOCK_BYTES],
    at: usize,
}

impl NewIds {
    pub(crate) fn new() -> Self {
        Self { stock: [0; STOCK_BYTES], at: STOCK_BYTES }
    }

    /// Make an id for an event of this time in microseconds.
    pub(crate) fn make(&mut self, time_us: u64) -> Result<[u8; 16]> {
        if self.at == STOCK_BYTES {
            getrandom::fill(&mut self.stock).map_err(|cause| Error::Io {
                errno: cause.raw_os_error().unwrap_or(0),
                message: format!("cannot get random bytes for an event id: {cause}"),
                segment: None,
                offset: None,
            })?;
            self.at = 0;
        }
        let fraction = time_us % 1000 * 4096 / 1000;
        let high = (time_us / 1000) << 16 | 0x7000 | fraction;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&high.to_be_bytes());
        id[8..].copy_from_slice(&self.stock[self.at..self.at + USED_BYTES]);
        id[8] = id[8] & 0x3F | 0x80;
        self.at += USED_BYTES;
        Ok(id)
    }
}

/// Microseconds since 1970, UTC; 0 before.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_version_and_variant_and_are_ordered_by_microsecond() {
        let mut ids = NewIds::new();
        let made: Vec<_> =
            (0..5000).map(|step| ids.make(1_700_000_000_000_000 + step).expect("random bytes")).collect();
        assert!(made.iter().all(|id| id[6] >> 4 == 7 && id[8] >> 6 == 2));
        assert!(made.is_sorted_by(|left, right| left < right));
    }
}
