//! `Writer` as a Python class.
//!
//! Owns: arguments, results, and where the interpreter is let go: once for each append, around digest, lock, frame and
//! file. Invariants: no lock of the core is waited for while the interpreter is held; type, id and payload are checked
//! in this order, as in `_pure/writer.py`. Must not know: bytes of frames, rounds.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use super::commit::{Committer, IdIndex};
use super::receipt::answer;
use super::{fixed, to_py, value::canonical_into};
use crate::error::Error;
use crate::format::{HEADER_BYTES, KIND_OPEN, KIND_REPAIR_NOTE};
use crate::frame::{check_payload_length, check_type};
use crate::{receipt, writer};

/// Appends to one segment file; thread-safe.
#[pyclass(frozen, module = "turnlog._native")]
pub(super) struct Writer(writer::Writer);

/// What a caller handed in, checked and encoded; borrows the type and a raw payload.
struct Item<'a> {
    type_name: &'a str,
    payload: Payload<'a>,
    event_id: Option<[u8; 16]>,
}

enum Payload<'a> {
    Canonical(Vec<u8>),
    Raw(&'a [u8]),
}

impl Item<'_> {
    fn event(&self) -> receipt::NewEvent<'_> {
        let (payload, raw) = match &self.payload {
            Payload::Canonical(bytes) => (bytes.as_slice(), false),
            Payload::Raw(bytes) => (*bytes, true),
        };
        receipt::NewEvent { type_name: self.type_name, payload, event_id: self.event_id, raw }
    }
}

fn item<'a>(
    type_name: &'a Bound<'_, PyAny>,
    payload: &'a Bound<'_, PyAny>,
    event_id: Option<&Bound<'_, PyAny>>,
    raw: bool,
) -> PyResult<Item<'a>> {
    let py = payload.py();
    let type_name = type_name.cast::<PyString>().ok().and_then(|text| text.to_str().ok()).unwrap_or_default();
    check_type(type_name.as_bytes()).map_err(|error| to_py(py, error))?;
    let event_id = event_id.map(|given| {
        let bytes = given.cast::<PyBytes>().ok().and_then(|bytes| bytes.as_bytes().try_into().ok());
        bytes.ok_or_else(|| to_py(py, Error::InvalidId("an event id is a UUID of 16 bytes".to_owned())))
    });
    let event_id = event_id.transpose()?;
    let payload = if raw {
        let Ok(bytes) = payload.cast::<PyBytes>() else {
            let message = format!("a raw payload is bytes, not {}", payload.get_type().name()?);
            return Err(to_py(py, Error::InvalidPayload(message)));
        };
        Payload::Raw(bytes.as_bytes())
    } else {
        let mut bytes = Vec::with_capacity(2048);
        canonical_into(payload, &mut bytes)?;
        Payload::Canonical(bytes)
    };
    let item = Item { type_name, payload, event_id };
    check_payload_length(item.event().payload.len()).map_err(|error| to_py(py, error))?;
    Ok(item)
}

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (committer, path, *, segment_id, end, ordinal, chain, epoch, roll_bytes, ids = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of the contract")]
    fn new(
        py: Python<'_>,
        committer: &Committer,
        path: PathBuf,
        segment_id: &[u8],
        end: u64,
        ordinal: u64,
        chain: &[u8],
        epoch: u32,
        roll_bytes: u64,
        ids: Option<&IdIndex>,
    ) -> PyResult<Self> {
        if segment_id.len() != 16 || chain.len() != 32 || end < HEADER_BYTES as u64 || end % 8 != 0 {
            let message = "segment_id has 16 bytes, chain 32, and end is the end of a frame";
            return Err(PyValueError::new_err(message));
        }
        let start = receipt::Start {
            segment_id: fixed("segment_id", segment_id)?,
            end,
            ordinal,
            chain: fixed("chain", chain)?,
            epoch,
            roll_bytes,
            ids: ids.map(|ids| Arc::clone(&ids.0)),
        };
        let opened = py.detach(move || writer::Writer::open(&committer.0, &path, &start));
        opened.map(Self).map_err(|error| to_py(py, error))
    }

    fn track(&self, py: Python<'_>, ids: &IdIndex) -> PyResult<()> {
        py.detach(|| self.0.track(Arc::clone(&ids.0))).map_err(|error| to_py(py, error))
    }

    #[pyo3(signature = (r#type, payload, event_id, durable, raw = false))]
    fn append<'py>(
        &self,
        r#type: &Bound<'py, PyAny>,
        payload: &Bound<'py, PyAny>,
        event_id: Option<&Bound<'py, PyAny>>,
        durable: bool,
        raw: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = payload.py();
        let item = item(r#type, payload, event_id, raw)?;
        let event = item.event();
        let answers =
            py.detach(|| self.0.append(&[event], durable, false)).map_err(|error| to_py(py, error))?;
        let first = answers.and_then(|answers| answers.first().copied());
        first.map(|first| answer(py, first)).transpose()
    }

    fn append_many<'py>(
        &self,
        py: Python<'py>,
        items: &Bound<'py, PyList>,
        durable: bool,
        atomic: bool,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let fields = items.iter().map(|item| item.extract()).collect::<PyResult<Vec<Fields<'_>>>>()?;
        let items = fields
            .iter()
            .map(|(type_name, payload, event_id, raw)| item(type_name, payload, event_id.as_ref(), *raw))
            .collect::<PyResult<Vec<_>>>()?;
        let events = items.iter().map(Item::event).collect::<Vec<_>>();
        let answers =
            py.detach(|| self.0.append(&events, durable, atomic)).map_err(|error| to_py(py, error))?;
        let Some(answers) = answers else { return Ok(None) };
        let list = PyList::empty(py);
        for each in answers {
            list.append(answer(py, each)?)?;
        }
        Ok(Some(list))
    }

    fn note(&self, py: Python<'_>, kind: u8, payload: &[u8]) -> PyResult<u64> {
        if !matches!(kind, KIND_OPEN | KIND_REPAIR_NOTE) {
            return Err(PyValueError::new_err("only OPEN and REPAIR_NOTE are notes"));
        }
        py.detach(|| self.0.note(kind, payload)).map_err(|error| to_py(py, error))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.flush()).map_err(|error| to_py(py, error))
    }

    fn freeze<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        head(py, &py.detach(|| self.0.freeze()).map_err(|error| to_py(py, error))?)
    }

    fn seal(&self, py: Python<'_>, successor: &[u8]) -> PyResult<()> {
        let successor = successor
            .try_into()
            .map_err(|_| to_py(py, Error::InvalidId("the successor's segment id has 16 bytes".to_owned())))?;
        py.detach(|| self.0.seal(successor)).map_err(|error| to_py(py, error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.close()).map_err(|error| to_py(py, error))
    }

    fn abandon(&self, py: Python<'_>) {
        py.detach(|| self.0.abandon());
    }

    fn head<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        head(py, &py.detach(|| self.0.head()).map_err(|error| to_py(py, error))?)
    }
}

type Fields<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, bool);

fn head<'py>(py: Python<'py>, head: &receipt::Head) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("ordinal", head.ordinal)?;
    dict.set_item("chain", PyBytes::new(py, &head.chain))?;
    dict.set_item("end", head.end)?;
    dict.set_item("written", head.written)?;
    dict.set_item("durable", head.durable)?;
    dict.set_item("visible", head.visible)?;
    dict.set_item("durable_ordinal", head.durable_ordinal)?;
    dict.set_item("durable_chain", PyBytes::new(py, &head.durable_chain))?;
    dict.set_item("poisoned", head.poisoned)?;
    dict.set_item("path", head.path.as_os_str())?;
    Ok(dict)
}
