//! The Python module `turnlog._native`.
//!
//! Owns: the boundary - arguments in, results and exceptions out. Invariants: every error of the core becomes its
//! class of `turnlog.errors` in `to_py` and nowhere else; nothing here decides anything about bytes. Only `py/` names
//! pyo3.

mod commit;
mod constants;
mod event;
mod events;
mod fold;
mod header;
mod reader;
mod receipt;
pub(crate) mod value;
mod writer;

use std::cell::Cell;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::blocks;
use crate::error::Error;
use crate::frame::{self, FrameFields};

mod raised {
    #![allow(missing_docs, reason = "documented in turnlog.errors")]
    use pyo3::import_exception;

    import_exception!(turnlog.errors, Closed);
    import_exception!(turnlog.errors, Conflict);
    import_exception!(turnlog.errors, Damaged);
    import_exception!(turnlog.errors, InvalidId);
    import_exception!(turnlog.errors, InvalidPayload);
    import_exception!(turnlog.errors, InvalidType);
    import_exception!(turnlog.errors, NoSpace);
    import_exception!(turnlog.errors, NotASegment);
    import_exception!(turnlog.errors, PayloadTooLarge);
    import_exception!(turnlog.errors, StorageError);
    import_exception!(turnlog.errors, SyncFailed);
    import_exception!(turnlog.errors, WrongProcess);
}

/// Make the exception of `turnlog.errors` for an error of the core.
pub(crate) fn to_py(py: Python<'_>, error: Error) -> PyErr {
    match error {
        Error::InvalidPayload(message) => raised::InvalidPayload::new_err((message,)),
        Error::PayloadTooLarge(message) => raised::PayloadTooLarge::new_err((message,)),
        Error::InvalidType(message) => raised::InvalidType::new_err((message,)),
        Error::InvalidId(message) => raised::InvalidId::new_err((message,)),
        Error::Conflict(message) => raised::Conflict::new_err((message,)),
        Error::Closed(message) => raised::Closed::new_err((message,)),
        Error::WrongProcess(message) => raised::WrongProcess::new_err((message,)),
        Error::NoSpace { errno, message, segment } => {
            placed(py, raised::NoSpace::new_err((message, errno)), segment, None)
        }
        Error::SyncFailed { errno, message, segment } => {
            placed(py, raised::SyncFailed::new_err((message, errno)), segment, None)
        }
        Error::Damaged { message, segment, offset } => {
            placed(py, raised::Damaged::new_err((message,)), segment, offset)
        }
        Error::Io { errno, message, segment, offset } => {
            let errno = (errno != 0).then_some(errno);
            placed(py, raised::StorageError::new_err((message, errno)), segment, offset)
        }
    }
}

fn placed(py: Python<'_>, error: PyErr, segment: Option<String>, offset: Option<u64>) -> PyErr {
    let value = error.value(py);
    let set = value.setattr("segment", segment).and_then(|()| value.setattr("offset", offset));
    set.map_or_else(|failure| failure, |()| error)
}

/// Make `Damaged` for an event whose place is known better than an error of the core can say.
fn damaged(
    py: Python<'_>,
    message: String,
    segment: Option<String>,
    offset: Option<u64>,
    ordinal: u64,
) -> PyErr {
    let error = placed(py, raised::Damaged::new_err((message,)), segment, offset);
    let set = error.value(py).setattr("ordinal", ordinal);
    set.map_or_else(|failure| failure, |()| error)
}

/// Make `NotASegment` for a reader whose header tells no id.
fn not_a_segment(py: Python<'_>, fault: &str, segment: &str) -> PyErr {
    let message = format!("the segment header cannot be used: {fault}");
    placed(py, raised::NotASegment::new_err((message,)), Some(segment.to_owned()), None)
}

/// Make `Closed` for a reader.
fn closed(py: Python<'_>, path: &str) -> PyErr {
    let name = path.rsplit('/').next().map(str::to_owned);
    placed(py, raised::Closed::new_err(("the segment reader was closed",)), name, None)
}

/// A larger buffer is given back after the call that needed it.
const BUFFER_KEPT_BYTES: usize = 1024 * 1024;
/// From this length on other threads may run during a digest; below, handing over costs more than it gives.
const DETACH_MIN_BYTES: usize = 64 * 1024;

/// Take a bytes argument of a fixed length.
pub(crate) fn fixed<const N: usize>(name: &str, bytes: &[u8]) -> PyResult<[u8; N]> {
    bytes
        .try_into()
        .map_err(|_| PyValueError::new_err(format!("{name} must be {N} bytes, not {}", bytes.len())))
}

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use super::{canonical, chain_next, chain_start, checksum, digest, encode_frame};
    #[pymodule_export]
    use super::{commit::Committer, commit::IdIndex, receipt::Receipt, writer::Writer};
    #[pymodule_export]
    use super::{constants::constants, header::decode_header, header::encode_header};
    #[pymodule_export]
    use super::{encode_table, event::Event, fold::Folder, reader::SegmentReader};
    #[pymodule_export]
    const CONTRACT: u32 = crate::format::CONTRACT;
    #[pymodule_export]
    const IMPLEMENTATION: &str = "native";
}

thread_local! {
    /// The buffer of the last call, so that most calls allocate nothing but their result.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

#[pyfunction]
fn canonical<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let mut out = BUFFER.take();
    out.clear();
    value::canonical_into(value, &mut out)?;
    let bytes = PyBytes::new(value.py(), &out);
    if out.capacity() <= BUFFER_KEPT_BYTES {
        BUFFER.set(out);
    }
    Ok(bytes)
}

#[pyfunction]
fn digest<'py>(py: Python<'py>, data: &[u8]) -> Bound<'py, PyBytes> {
    let digest =
        if data.len() < DETACH_MIN_BYTES { frame::digest(data) } else { py.detach(|| frame::digest(data)) };
    PyBytes::new(py, &digest)
}

#[pyfunction]
#[pyo3(signature = (data, seed = 0))]
fn checksum(data: &[u8], seed: u64) -> u64 {
    frame::checksum(data, seed)
}

#[pyfunction]
#[pyo3(signature = (session_id, parent_session_id = &[0; 16][..], fork_ordinal = 0, parent_chain = &[0; 32][..]))]
fn chain_start<'py>(
    py: Python<'py>,
    session_id: &[u8],
    parent_session_id: &[u8],
    fork_ordinal: u64,
    parent_chain: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let session_id = fixed("session_id", session_id)?;
    let parent_session_id = fixed("parent_session_id", parent_session_id)?;
    let parent_chain = fixed("parent_chain", parent_chain)?;
    let chain = frame::chain_start(&session_id, &parent_session_id, fork_ordinal, &parent_chain);
    Ok(PyBytes::new(py, &chain))
}

#[pyfunction]
fn chain_next<'py>(
    py: Python<'py>,
    chain: &[u8],
    ordinal: u64,
    event_id: &[u8],
    time_us: u64,
    digest: &[u8],
    r#type: &str,
) -> PyResult<Bound<'py, PyBytes>> {
    let chain = fixed("chain", chain)?;
    let event_id = fixed("event_id", event_id)?;
    let digest = fixed("digest", digest)?;
    let next = frame::chain_next(&chain, ordinal, &event_id, time_us, &digest, r#type.as_bytes());
    Ok(PyBytes::new(py, &next))
}

#[pyfunction]
#[pyo3(signature = (
    *, segment_id, offset, kind, flags, epoch, ordinal, durable_off, event_id, time_us, r#type, payload
))]
#[expect(clippy::too_many_arguments, reason = "one for each field of FORMAT.md section 3")]
fn encode_frame<'py>(
    py: Python<'py>,
    segment_id: &[u8],
    offset: u64,
    kind: u8,
    flags: u16,
    epoch: u32,
    ordinal: u64,
    durable_off: u64,
    event_id: &[u8],
    time_us: u64,
    r#type: &str,
    payload: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let fields = FrameFields {
        kind,
        flags,
        epoch,
        ordinal,
        durable_off,
        event_id: fixed("event_id", event_id)?,
        time_us,
        digest: frame::digest(payload),
        type_name: r#type.as_bytes(),
        payload,
    };
    let segment_id = fixed("segment_id", segment_id)?;
    if !frame::is_place(offset) {
        return Err(PyValueError::new_err(format!("no frame can begin at offset {offset}")));
    }
    frame::check_fields(&fields).map_err(|error| to_py(py, error))?;
    let mut out = Vec::new();
    frame::encode_frame(&mut out, &segment_id, offset, &fields);
    Ok(PyBytes::new(py, &out))
}

#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "pyo3 makes the vector")]
fn encode_table(py: Python<'_>, entries: Vec<(u32, u32, u64)>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &blocks::encode_table(&entries))
}
