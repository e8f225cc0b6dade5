//! `IdIndex` and `Committer` as Python classes.
//!
//! Owns: arguments and results. Invariant: no lock of a committer is waited for while the interpreter is held. Must
//! not know: rounds.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::reader::SegmentReader;
use super::{fixed, to_py};
use crate::{commit, idindex};

/// Event id -> ordinal, shared by the successive writers of a log.
#[pyclass(frozen, module = "turnlog._native")]
pub(super) struct IdIndex(pub(super) Arc<idindex::IdIndex>);

#[pymethods]
impl IdIndex {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn get(&self, event_id: &[u8]) -> Option<u64> {
        event_id.try_into().ok().and_then(|event_id| self.0.get(event_id))
    }

    fn load(&self, py: Python<'_>, reader: &SegmentReader) -> PyResult<()> {
        let shared = reader.with_id(py)?;
        let loaded = py.detach(|| self.0.load(&shared.segment));
        loaded.map_err(|error| to_py(py, error))
    }

    fn add(&self, event_id: &[u8], ordinal: u64) -> PyResult<()> {
        self.0.add(fixed("event_id", event_id)?, ordinal);
        Ok(())
    }
}

/// One per store and process: syncs for all its writers.
#[pyclass(frozen, module = "turnlog._native")]
pub(super) struct Committer(pub(super) Arc<commit::Committer>);

#[pymethods]
impl Committer {
    #[new]
    #[pyo3(signature = (directory, *, interval_ms = 100, syncfs = true))]
    fn new(py: Python<'_>, directory: PathBuf, interval_ms: u64, syncfs: bool) -> PyResult<Self> {
        let interval = Duration::from_millis(interval_ms);
        let made = py.detach(move || commit::Committer::new(&directory, interval, syncfs));
        made.map(Self).map_err(|error| to_py(py, error))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.flush()).map_err(|error| to_py(py, error))
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in self.0.counters.named() {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.close()).map_err(|error| to_py(py, error))
    }
}
