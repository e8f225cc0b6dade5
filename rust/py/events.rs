//! `Events`: the verified events of one reading, whose handles are made when they are asked for.
//!
//! Owns: the sequence. Invariants: it keeps what its events lie in, so reading one needs no file; a handle outlives it.
//! Must not know: what is done with the events.

use std::sync::Arc;

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use super::event::{Event, Shared};
use crate::fold::Stored;
use crate::format::{FLAG_ENCRYPTED, FLAG_RAW, FLAG_REDACTED};
use crate::frame::TYPE_AT;
use crate::replay::{Batch, Found};
use crate::source::{Chunk, to_usize};

/// Verified events in order.
#[pyclass(frozen, module = "turnlog._native")]
#[derive(Debug)]
pub(super) struct Events {
    shared: Arc<Shared>,
    found: Vec<Found>,
    chunks: Vec<Arc<Chunk>>,
}

impl Events {
    pub(super) fn new(shared: Arc<Shared>, batch: Batch) -> Self {
        Self { shared, found: batch.events, chunks: batch.chunks }
    }

    /// What a fold reads of the events from an index on; nothing of an event whose type is no text.
    pub(super) fn stored(&self, start: usize) -> impl Iterator<Item = Option<Stored<'_>>> {
        self.found.iter().skip(start).map(|found| {
            let (header, chunk) = (&found.header, &self.chunks[found.chunk]);
            let frame = &chunk.data[to_usize(found.offset - chunk.base)..];
            let is_json = header.flags & (FLAG_RAW | FLAG_ENCRYPTED | FLAG_REDACTED) == 0;
            let payload = &frame[header.header_length..][..header.payload_length as usize];
            Some(Stored {
                type_name: std::str::from_utf8(&frame[TYPE_AT..][..header.type_length]).ok()?,
                ordinal: header.ordinal,
                time_us: header.time_us,
                payload: is_json.then_some(payload),
            })
        })
    }
}

#[pymethods]
impl Events {
    fn __len__(&self) -> usize {
        self.found.len()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Event> {
        let place = if index < 0 { index.checked_add_unsigned(self.found.len()) } else { Some(index) };
        let found = place.and_then(|place| self.found.get(usize::try_from(place).ok()?));
        let found = found.ok_or_else(|| PyIndexError::new_err("there are not so many events"))?;
        Ok(Event::new(py, &self.shared, found, &self.chunks[found.chunk]))
    }
}
