//! The handle of one stored event, decoded only as far as it is asked.
//!
//! Owns: the class `Event`, reading its bytes again when the chunk they were verified in is gone, and the table of
//! type names that the handles of a reader share. Invariants: a handle is below 100 bytes and holds no payload,
//! only a weak link to its chunk; bytes read again are verified again; it keeps the file open, so it outlives its
//! reader. Must not know: order, groups.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pyo3::exceptions::{PyRecursionError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyType};

use super::{damaged, to_py};
use crate::error::Result;
use crate::fold::Stored;
use crate::format::{FLAG_DURABLE, FLAG_ENCRYPTED, FLAG_RAW, FLAG_REDACTED, FRAME_TRAILER_BYTES};
use crate::frame::{FrameHeader, TYPE_AT, check_body, decode_frame_header, pad8};
use crate::reader::Segment;
use crate::replay::Found;
use crate::source::{Chunk, to_usize};

/// What a reader and its handles have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) segment: Segment,
    pub(super) segment_id: [u8; 16],
    types: Mutex<Types>,
}

#[derive(Debug, Default)]
struct Types {
    names: Vec<Py<PyString>>,
    indexes: HashMap<Box<[u8]>, u32>,
}

impl Shared {
    pub(super) fn new(segment: Segment) -> Self {
        let segment_id = segment.segment_id.unwrap_or_default();
        Self { segment, segment_id, types: Mutex::default() }
    }

    /// Index of a type name; the name becomes a Python string only once.
    fn type_index(&self, py: Python<'_>, name: &[u8]) -> u32 {
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&index) = types.indexes.get(name) {
            return index;
        }
        let index = u32::try_from(types.names.len()).unwrap_or(u32::MAX);
        types.names.push(PyString::intern(py, &String::from_utf8_lossy(name)).unbind());
        types.indexes.insert(name.into(), index);
        index
    }
}

/// An event that was verified when it was read.
#[pyclass(frozen, module = "turnlog._native")]
#[derive(Debug)]
pub(super) struct Event {
    shared: Arc<Shared>,
    chunk: Weak<Chunk>,
    #[pyo3(get)]
    offset: u64,
    #[pyo3(get)]
    ordinal: u64,
    #[pyo3(get)]
    time_us: u64,
    id: [u8; 16],
    #[pyo3(get)]
    size: u32,
    #[pyo3(get)]
    epoch: u32,
    type_index: u32,
    #[pyo3(get)]
    flags: u16,
    header_words: u8,
}

impl Event {
    pub(super) fn new(py: Python<'_>, shared: &Arc<Shared>, found: &Found, chunk: &Arc<Chunk>) -> Self {
        let header = &found.header;
        let type_at = to_usize(found.offset - chunk.base) + TYPE_AT;
        Self {
            shared: Arc::clone(shared),
            chunk: Arc::downgrade(chunk),
            offset: found.offset,
            ordinal: header.ordinal,
            time_us: header.time_us,
            id: header.event_id,
            size: header.payload_length,
            epoch: header.epoch,
            type_index: shared.type_index(py, &chunk.data[type_at..type_at + header.type_length]),
            flags: header.flags,
            #[expect(clippy::cast_possible_truncation, reason = "a header has at most 176 bytes")]
            header_words: (header.header_length / 8) as u8,
        }
    }

    fn header_length(&self) -> usize {
        usize::from(self.header_words) * 8
    }

    fn frame_length(&self) -> usize {
        self.header_length() + pad8(self.size as usize) + FRAME_TRAILER_BYTES
    }

    /// Call `take` with the verified frame, from the chunk or read again.
    fn with_frame<T>(&self, py: Python<'_>, take: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
        if let Some(chunk) = self.chunk.upgrade() {
            let at = to_usize(self.offset - chunk.base);
            return Ok(take(&chunk.data[at..at + self.frame_length()]));
        }
        match py.detach(|| self.read_again()) {
            Ok(Some(frame)) => Ok(take(&frame)),
            Ok(None) => {
                let name = &self.shared.segment.source.file.name;
                let message = "the stored event changed after it was verified".to_owned();
                Err(damaged(py, message, Some(name.clone()), Some(self.offset), self.ordinal))
            }
            Err(error) => Err(to_py(py, error)),
        }
    }

    /// Call `take` with what a fold reads of the event.
    pub(super) fn with_stored<T>(&self, py: Python<'_>, take: impl FnOnce(&Stored<'_>) -> T) -> PyResult<T> {
        let name = self.r#type(py);
        let type_name = name.to_str()?;
        let is_json = self.flags & (FLAG_RAW | FLAG_ENCRYPTED | FLAG_REDACTED) == 0;
        let start = self.header_length();
        self.with_frame(py, |frame| {
            let payload = is_json.then(|| &frame[start..start + self.size as usize]);
            take(&Stored { type_name, ordinal: self.ordinal, time_us: self.time_us, payload })
        })
    }

    /// Read the frame from the file; none if it is no longer the one that was verified.
    fn read_again(&self) -> Result<Option<Vec<u8>>> {
        let frame = self.shared.segment.source.read(self.offset, self.frame_length())?;
        let is_same = decode_frame_header(&frame, &self.shared.segment_id, self.offset).is_ok_and(|header| {
            self.is_header(&header) && check_body(&frame, &header, &self.shared.segment_id).is_ok()
        });
        Ok(is_same.then_some(frame))
    }

    fn is_header(&self, header: &FrameHeader) -> bool {
        header.ordinal == self.ordinal
            && header.event_id == self.id
            && header.payload_length == self.size
            && header.header_length == self.header_length()
    }
}

#[pymethods]
impl Event {
    #[getter]
    fn r#type<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        let types = self.shared.types.lock().unwrap_or_else(PoisonError::into_inner);
        types.names[self.type_index as usize].bind(py).clone()
    }

    #[getter]
    fn event_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.id)
    }

    #[getter]
    fn id(&self) -> String {
        let mut text = String::with_capacity(36);
        for (index, byte) in self.id.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            let _ = write!(text, "{byte:02x}"); // writing to a String cannot fail
        }
        text
    }

    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.with_frame(py, |frame| PyBytes::new(py, &frame[48..80]))
    }

    #[getter]
    fn is_raw(&self) -> bool {
        self.flags & FLAG_RAW != 0
    }

    #[getter]
    fn durable(&self) -> bool {
        self.flags & FLAG_DURABLE != 0
    }

    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let start = self.header_length();
        self.with_frame(py, |frame| PyBytes::new(py, &frame[start..start + self.size as usize]))
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.flags & FLAG_REDACTED != 0 {
            return Ok(py.None().into_bound(py));
        }
        let raw = self.raw(py)?;
        if self.flags & (FLAG_RAW | FLAG_ENCRYPTED) != 0 {
            return Ok(raw.into_any());
        }
        decode(py, &raw, self.ordinal)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<Event {} {} {} B>", self.ordinal, self.r#type(py), self.size)
    }
}

/// Decode canonical JSON; what msgspec refuses (lone surrogates) goes to json.
fn decode<'py>(py: Python<'py>, raw: &Bound<'py, PyBytes>, ordinal: u64) -> PyResult<Bound<'py, PyAny>> {
    static FAST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static REFUSED: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let fast = FAST.get_or_try_init(py, || {
        PyResult::Ok(py.import("msgspec")?.getattr("json")?.getattr("decode")?.unbind())
    })?;
    let error = match fast.bind(py).call1((raw,)) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let refused = REFUSED.import(py, "msgspec", "MsgspecError")?;
    if !error.is_instance(py, refused) && !error.is_instance_of::<PyRecursionError>(py) {
        return Err(error);
    }
    let slow = py.import("json")?.getattr("loads")?.call1((raw,));
    slow.map_err(|error| {
        if !error.is_instance_of::<PyValueError>(py) && !error.is_instance_of::<PyRecursionError>(py) {
            return error;
        }
        let wrapped =
            damaged(py, format!("the payload is not JSON: {}", error.value(py)), None, None, ordinal);
        wrapped.set_cause(py, Some(error));
        wrapped
    })
}
