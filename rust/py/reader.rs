//! `SegmentReader` and its results as Python objects.
//!
//! Owns: the class and the names in its dicts. Invariants: one crossing of the boundary for each batch; the
//! interpreter lock is released around reading and checking. Must not know: anything about bytes.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::event::{Event, Shared};
use super::events::Events;
use super::{closed, fixed, header, not_a_segment, to_py};
use crate::error::Result;
use crate::facts::{Facts, Fault};
use crate::reader::Segment;
use crate::replay::{Batch, Place, Stop, Wanted, replay};
use crate::scan::scan;
use crate::source::Chunk;
use crate::walk::{resync, sparse};

/// A segment opened for reading.
#[pyclass(frozen, module = "turnlog._native")]
#[derive(Debug)]
pub(super) struct SegmentReader {
    #[pyo3(get)]
    path: OsString,
    #[pyo3(get)]
    compacted: bool,
    #[pyo3(get)]
    header: Py<PyDict>,
    open: Mutex<Option<Open>>,
}

/// The open file, and the chunks of the last batch, so that its handles need no second read.
#[derive(Debug)]
struct Open {
    shared: Arc<Shared>,
    chunks: Vec<Arc<Chunk>>,
}

type Replayed<'py, T> =
    (Bound<'py, T>, u64, u64, Option<Bound<'py, PyBytes>>, u64, Option<Bound<'py, PyDict>>);

impl SegmentReader {
    fn shared(&self, py: Python<'_>) -> PyResult<Arc<Shared>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.as_ref()
            .map(|open| Arc::clone(&open.shared))
            .ok_or_else(|| closed(py, &self.path.to_string_lossy()))
    }

    /// As `shared`, for calls that need to believe frames.
    pub(super) fn with_id(&self, py: Python<'_>) -> PyResult<Arc<Shared>> {
        let shared = self.shared(py)?;
        if shared.segment.segment_id.is_some() {
            return Ok(shared);
        }
        let fault = shared.segment.header.fault.map_or("None", crate::header::HeaderFault::code);
        Err(not_a_segment(py, fault, &shared.segment.source.file.name))
    }

    /// Read a batch; `made` makes of it what is handed out.
    fn replayed<'py, T>(
        &self,
        py: Python<'py>,
        start: Place,
        end: Option<u64>,
        limit: usize,
        types: Option<&Bound<'py, PyAny>>,
        made: impl FnOnce(Arc<Shared>, Batch) -> PyResult<Bound<'py, T>>,
    ) -> PyResult<Replayed<'py, T>> {
        let shared = self.with_id(py)?;
        let wanted = Wanted { end, limit, types: types.map(type_names).transpose()? };
        let batch = py
            .detach(|| replay(&shared.segment.source, shared.segment_id, start, &wanted))
            .map_err(|error| to_py(py, error))?;
        let (next, fault, chunks) = (batch.next, batch.fault.clone(), batch.chunks.clone());
        let events = made(shared, batch)?;
        if let Some(open) = self.open.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            open.chunks = chunks;
        }
        Ok((
            events,
            next.offset,
            next.ordinal,
            next.chain.map(|chain| PyBytes::new(py, &chain)),
            next.time_us,
            fault.map(|stop| stop_dict(py, &stop)).transpose()?,
        ))
    }

    fn call<T: Send>(&self, py: Python<'_>, work: impl Send + FnOnce(&Shared) -> Result<T>) -> PyResult<T> {
        let shared = self.shared(py)?;
        py.detach(|| work(&shared)).map_err(|error| to_py(py, error))
    }
}

#[pymethods]
impl SegmentReader {
    #[new]
    #[pyo3(signature = (path, segment_id = None))]
    fn new(py: Python<'_>, path: OsString, segment_id: Option<&[u8]>) -> PyResult<Self> {
        let known_id = segment_id.map(|id| fixed("segment_id", id)).transpose()?;
        let file = PathBuf::from(&path);
        let segment = py.detach(|| Segment::open(&file, known_id)).map_err(|error| to_py(py, error))?;
        Ok(Self {
            path,
            compacted: segment.source.blocks.is_some(),
            header: header::to_dict(py, &segment.header)?.unbind(),
            open: Mutex::new(Some(Open { shared: Arc::new(Shared::new(segment)), chunks: Vec::new() })),
        })
    }

    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, |shared| shared.segment.source.size())
    }

    fn read<'py>(&self, py: Python<'py>, offset: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let data = self.call(py, |shared| shared.segment.source.read(offset, length))?;
        Ok(PyBytes::new(py, &data))
    }

    #[pyo3(signature = (offset, ordinal, *, end = None, limit = 1024, types = None, chain = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of the contract")]
    fn replay<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        ordinal: u64,
        end: Option<u64>,
        limit: usize,
        types: Option<&Bound<'py, PyAny>>,
        chain: Option<&[u8]>,
    ) -> PyResult<Replayed<'py, PyList>> {
        let chain = chain.map(|chain| fixed("chain", chain)).transpose()?;
        let start = Place { offset, ordinal, chain, time_us: 0 };
        self.replayed(py, start, end, limit, types, |shared, batch| {
            let events = PyList::empty(py);
            for found in &batch.events {
                events.append(Bound::new(py, Event::new(py, &shared, found, &batch.chunks[found.chunk]))?)?;
            }
            Ok(events)
        })
    }

    #[pyo3(signature = (offset, ordinal, *, end = None, limit = 1024, types = None))]
    fn replay_lazily<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        ordinal: u64,
        end: Option<u64>,
        limit: usize,
        types: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Replayed<'py, Events>> {
        let start = Place { offset, ordinal, chain: None, time_us: 0 };
        self.replayed(py, start, end, limit, types, |shared, batch| {
            Bound::new(py, Events::new(shared, batch))
        })
    }

    fn resync(&self, py: Python<'_>, offset: u64) -> PyResult<Option<(u64, u64)>> {
        self.with_id(py)?;
        self.call(py, |shared| resync(&shared.segment.source, &shared.segment_id, offset))
    }

    fn sparse(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        self.with_id(py)?;
        self.call(py, |shared| sparse(&shared.segment.source, &shared.segment_id))
    }

    #[pyo3(signature = (*, end = None, digests = false, helper = true))]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        end: Option<u64>,
        digests: bool,
        helper: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let facts = self.call(py, |shared| {
            let segment = &shared.segment;
            scan(&segment.source, &segment.header, segment.segment_id, end, digests, helper)
        })?;
        let dict = facts_dict(py, &facts)?;
        dict.set_item("header", &self.header)?;
        dict.set_item("compacted", self.compacted)?;
        Ok(dict)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |shared| shared.segment.source.sync())
    }

    fn drop_cache(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |shared| shared.segment.source.drop_cache())
    }

    fn close(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (kind, error, trace))]
    fn __exit__(
        &self,
        kind: Option<&Bound<'_, PyAny>>,
        error: Option<&Bound<'_, PyAny>>,
        trace: Option<&Bound<'_, PyAny>>,
    ) {
        let _ = (kind, error, trace);
        self.close();
    }
}

pub(super) fn type_names(types: &Bound<'_, PyAny>) -> PyResult<HashSet<Vec<u8>>> {
    types.try_iter()?.map(|name| Ok(name?.cast::<PyString>()?.to_str()?.as_bytes().to_vec())).collect()
}

fn stop_dict<'py>(py: Python<'py>, stop: &Stop) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("code", stop.code)?;
    dict.set_item("offset", stop.offset)?;
    dict.set_item("detail", &stop.detail)?;
    Ok(dict)
}

fn fault_dict<'py>(py: Python<'py>, fault: &Fault) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("code", fault.code)?;
    dict.set_item("offset", fault.offset)?;
    dict.set_item("end", fault.end)?;
    dict.set_item("ordinal", fault.ordinal)?;
    dict.set_item("before", fault.before)?;
    dict.set_item("after", fault.after)?;
    dict.set_item("detail", &fault.detail)?;
    dict.set_item("signature", fault.signature)?;
    Ok(dict)
}

fn facts_dict<'py>(py: Python<'py>, facts: &Facts) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("size", facts.size)?;
    dict.set_item("valid_end", facts.valid_end)?;
    dict.set_item("commit_end", facts.committed.commit_end)?;
    dict.set_item("events", facts.events)?;
    dict.set_item("first_ordinal", facts.committed.first_ordinal)?;
    dict.set_item("last_ordinal", facts.committed.last_ordinal)?;
    dict.set_item("chain", PyBytes::new(py, &facts.chain))?;
    dict.set_item("epoch", facts.committed.epoch)?;
    dict.set_item("last_time_us", facts.committed.last_time_us)?;
    dict.set_item("durable_mark", facts.durable_mark)?;
    let seal = PyDict::new(py);
    if let Some(found) = &facts.seal {
        seal.set_item("offset", found.offset)?;
        seal.set_item("end", found.end)?;
        seal.set_item("count", found.count)?;
        seal.set_item("chain", PyBytes::new(py, &found.chain))?;
        seal.set_item("successor", PyBytes::new(py, &found.successor))?;
    }
    dict.set_item("seal", facts.seal.is_some().then_some(seal))?;
    dict.set_item("closed", facts.closed)?;
    dict.set_item("zero_from", facts.zero_from)?;
    dict.set_item("frame_bytes", facts.frame_bytes)?;
    dict.set_item("payload_bytes", facts.payload_bytes)?;
    let types = PyDict::new(py);
    for (name, count) in &facts.types {
        types.set_item(name, count)?;
    }
    dict.set_item("types", types)?;
    let notes = PyList::empty(py);
    for found in &facts.notes {
        let note = PyDict::new(py);
        note.set_item("offset", found.offset)?;
        note.set_item("ordinal", found.ordinal)?;
        note.set_item("payload", PyBytes::new(py, &found.payload))?;
        notes.append(note)?;
    }
    dict.set_item("notes", notes)?;
    let faults = facts.faults.iter().map(|fault| fault_dict(py, fault)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("faults", faults)?;
    Ok(dict)
}
