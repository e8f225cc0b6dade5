//! Segment headers as dicts.
//!
//! Owns: the names and types of the dict, and the defaults of `encode_header`. Must not know: the layout.

use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use super::fixed;
use crate::format::{
    CANON_VERSION, CHECKSUM_ALGORITHM, DIGEST_ALGORITHM, FEATURES_READONLY_KNOWN, FEATURES_REQUIRED_KNOWN,
    FORMAT_MAJOR, FORMAT_MINOR, WRITER_LEVEL,
};
use crate::header::{self, DecodedHeader, SegmentHeader, WRITER_NAME_MAX_BYTES};

const NAMES: [&str; 22] = [
    "format_major",
    "format_minor",
    "features_required",
    "features_readonly",
    "session_id",
    "segment_id",
    "segment_number",
    "first_ordinal",
    "prev_segment_id",
    "prev_length",
    "prev_last_ordinal",
    "prev_chain",
    "writer_epoch",
    "canon_version",
    "digest_algorithm",
    "checksum_algorithm",
    "created_us",
    "parent_session_id",
    "fork_ordinal",
    "parent_chain",
    "writer_name",
    "min_writer",
];

#[pyfunction]
pub(super) fn encode_header<'py>(
    py: Python<'py>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyBytes>> {
    for name in fields.keys() {
        let name = name.extract::<String>()?;
        if !NAMES.contains(&name.as_str()) {
            return Err(PyValueError::new_err(format!("unknown header field {name}")));
        }
    }
    Ok(PyBytes::new(py, &header::encode_header(&from_dict(fields)?)))
}

#[pyfunction]
pub(super) fn decode_header<'py>(py: Python<'py>, block: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    to_dict(py, &header::decode_header(block))
}

/// The dict of the contract's `decode_header`.
pub(crate) fn to_dict<'py>(py: Python<'py>, decoded: &DecodedHeader) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let fields = decoded.fields.as_ref().map(|fields| fields_dict(py, fields)).transpose()?;
    dict.set_item("fields", fields)?;
    dict.set_item("fault", decoded.fault.map(header::HeaderFault::code))?;
    dict.set_item("degraded", decoded.degraded)?;
    dict.set_item("read_only", decoded.read_only)?;
    Ok(dict)
}

fn fields_dict<'py>(py: Python<'py>, fields: &SegmentHeader) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("format_major", fields.format_major)?;
    dict.set_item("format_minor", fields.format_minor)?;
    dict.set_item("features_required", fields.features_required)?;
    dict.set_item("features_readonly", fields.features_readonly)?;
    dict.set_item("session_id", PyBytes::new(py, &fields.session_id))?;
    dict.set_item("segment_id", PyBytes::new(py, &fields.segment_id))?;
    dict.set_item("segment_number", fields.segment_number)?;
    dict.set_item("first_ordinal", fields.first_ordinal)?;
    dict.set_item("prev_segment_id", PyBytes::new(py, &fields.prev_segment_id))?;
    dict.set_item("prev_length", fields.prev_length)?;
    dict.set_item("prev_last_ordinal", fields.prev_last_ordinal)?;
    dict.set_item("prev_chain", PyBytes::new(py, &fields.prev_chain))?;
    dict.set_item("writer_epoch", fields.writer_epoch)?;
    dict.set_item("canon_version", fields.canon_version)?;
    dict.set_item("digest_algorithm", fields.digest_algorithm)?;
    dict.set_item("checksum_algorithm", fields.checksum_algorithm)?;
    dict.set_item("created_us", fields.created_us)?;
    dict.set_item("parent_session_id", PyBytes::new(py, &fields.parent_session_id))?;
    dict.set_item("fork_ordinal", fields.fork_ordinal)?;
    dict.set_item("parent_chain", PyBytes::new(py, &fields.parent_chain))?;
    dict.set_item("writer_name", &fields.writer_name)?;
    dict.set_item("min_writer", fields.min_writer)?;
    Ok(dict)
}

fn from_dict(dict: &Bound<'_, PyDict>) -> PyResult<SegmentHeader> {
    Ok(SegmentHeader {
        format_major: number(dict, "format_major")?.unwrap_or(FORMAT_MAJOR),
        format_minor: number(dict, "format_minor")?.unwrap_or(FORMAT_MINOR),
        features_required: number(dict, "features_required")?.unwrap_or(FEATURES_REQUIRED_KNOWN),
        features_readonly: number(dict, "features_readonly")?.unwrap_or(FEATURES_READONLY_KNOWN),
        session_id: required(bytes(dict, "session_id")?, "session_id")?,
        segment_id: required(bytes(dict, "segment_id")?, "segment_id")?,
        segment_number: required(number(dict, "segment_number")?, "segment_number")?,
        first_ordinal: required(number(dict, "first_ordinal")?, "first_ordinal")?,
        prev_segment_id: bytes(dict, "prev_segment_id")?.unwrap_or_default(),
        prev_length: number(dict, "prev_length")?.unwrap_or_default(),
        prev_last_ordinal: number(dict, "prev_last_ordinal")?.unwrap_or_default(),
        prev_chain: required(bytes(dict, "prev_chain")?, "prev_chain")?,
        writer_epoch: required(number(dict, "writer_epoch")?, "writer_epoch")?,
        canon_version: number(dict, "canon_version")?.unwrap_or(CANON_VERSION),
        digest_algorithm: number(dict, "digest_algorithm")?.unwrap_or(DIGEST_ALGORITHM),
        checksum_algorithm: number(dict, "checksum_algorithm")?.unwrap_or(CHECKSUM_ALGORITHM),
        created_us: required(number(dict, "created_us")?, "created_us")?,
        parent_session_id: bytes(dict, "parent_session_id")?.unwrap_or_default(),
        fork_ordinal: number(dict, "fork_ordinal")?.unwrap_or_default(),
        parent_chain: bytes(dict, "parent_chain")?.unwrap_or_default(),
        writer_name: required(name(dict)?, "writer_name")?,
        min_writer: number(dict, "min_writer")?.unwrap_or(WRITER_LEVEL),
    })
}

fn required<T>(value: Option<T>, field: &str) -> PyResult<T> {
    value.ok_or_else(|| PyKeyError::new_err(field.to_owned()))
}

fn number<'py, T>(dict: &Bound<'py, PyDict>, field: &str) -> PyResult<Option<T>>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    dict.get_item(field)?.map(|value| value.extract()).transpose()
}

fn bytes<const N: usize>(dict: &Bound<'_, PyDict>, field: &str) -> PyResult<Option<[u8; N]>> {
    dict.get_item(field)?.map(|value| fixed(field, value.cast::<PyBytes>()?.as_bytes())).transpose()
}

/// The writer's name, cut at a character where its field ends.
fn name(dict: &Bound<'_, PyDict>) -> PyResult<Option<String>> {
    let Some(value) = dict.get_item("writer_name")? else {
        return Ok(None);
    };
    let mut name = value.cast::<PyString>()?.to_str()?.to_owned();
    let end = (0..=WRITER_NAME_MAX_BYTES.min(name.len())).rev().find(|&end| name.is_char_boundary(end));
    name.truncate(end.unwrap_or_default());
    Ok(Some(name))
}
