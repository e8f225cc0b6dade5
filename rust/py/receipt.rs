//! `Receipt` as a Python class.
//!
//! Owns: its attributes, equality and text. Must not know: how it was earned.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::fixed;
use crate::frame::u64_at;
use crate::receipt;

/// Proof of one append.
#[pyclass(frozen, eq, module = "turnlog._native")]
pub(super) struct Receipt(receipt::Receipt);

impl PartialEq for Receipt {
    fn eq(&self, other: &Self) -> bool {
        (self.0.ordinal, self.0.event_id, self.0.digest)
            == (other.0.ordinal, other.0.event_id, other.0.digest)
    }
}

#[pymethods]
impl Receipt {
    #[new]
    fn new(ordinal: u64, event_id: &[u8], digest: &[u8], time_us: u64, durable: bool) -> PyResult<Self> {
        let (event_id, digest) = (fixed("event_id", event_id)?, fixed("digest", digest)?);
        Ok(Self(receipt::Receipt { ordinal, event_id, digest, time_us, durable }))
    }

    #[getter]
    fn ordinal(&self) -> u64 {
        self.0.ordinal
    }

    #[getter]
    fn event_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.event_id)
    }

    #[getter]
    fn id(&self) -> String {
        let id = u128::from_be_bytes(self.0.event_id);
        let (a, b, c, d) = (id >> 96, id >> 80 & 0xFFFF, id >> 64 & 0xFFFF, id >> 48 & 0xFFFF);
        format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{:012x}", id & 0xFFFF_FFFF_FFFF)
    }

    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.digest)
    }

    #[getter]
    fn time_us(&self) -> u64 {
        self.0.time_us
    }

    #[getter]
    fn durable(&self) -> bool {
        self.0.durable
    }

    fn __hash__(&self) -> u64 {
        u64_at(&self.0.digest, 0) ^ u64_at(&self.0.event_id, 8)
    }

    fn __repr__(&self) -> String {
        format!("<Receipt {} {}{}>", self.0.ordinal, self.id(), if self.0.durable { " durable" } else { "" })
    }
}

/// The result of one append.
pub(super) fn answer(py: Python<'_>, answer: receipt::Answer) -> PyResult<Bound<'_, PyAny>> {
    match answer {
        receipt::Answer::New(receipt) => Ok(Bound::new(py, Receipt(receipt))?.into_any()),
        receipt::Answer::Known(ordinal) => Ok(ordinal.into_pyobject(py)?.into_any()),
    }
}
