//! Event ids of one log and their ordinals.
//!
//! Owns: the map. Invariant: one lock around each step; it is a leaf, no other lock is taken under it. Must not know:
//! files, writers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::format::{HEADER_BYTES, KIND_EVENT};
use crate::reader::Segment;
use crate::walk::headers;

/// Event id -> ordinal, shared by the successive writers of a log.
#[derive(Debug, Default)]
pub struct IdIndex {
    ordinals: Mutex<HashMap<[u8; 16], u64>>,
}

impl IdIndex {
    /// The ordinal of the event with this id.
    #[must_use]
    pub fn get(&self, event_id: &[u8; 16]) -> Option<u64> {
        self.lock().get(event_id).copied()
    }

    /// Add all ids of a segment by a walk over its headers.
    ///
    /// # Errors
    /// `Io`.
    pub fn load(&self, segment: &Segment) -> Result<()> {
        let Some(segment_id) = &segment.segment_id else { return Ok(()) };
        headers(&segment.source, segment_id, HEADER_BYTES as u64, |_, header| {
            if header.kind == KIND_EVENT {
                self.add(header.event_id, header.ordinal);
            }
        })
    }

    /// Add one event.
    pub fn add(&self, event_id: [u8; 16], ordinal: u64) {
        self.lock().insert(event_id, ordinal);
    }

    /// Forget events that were rolled back.
    pub fn remove(&self, event_ids: &[[u8; 16]]) {
        let mut ordinals = self.lock();
        for event_id in event_ids {
            ordinals.remove(event_id);
        }
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 16], u64>> {
        self.ordinals.lock().unwrap_or_else(PoisonError::into_inner) // each step is one call: never half done
    }
}
