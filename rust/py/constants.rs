//! The numbers of `format.rs` as a dict, for the test that compares them with FORMAT.md.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::format;

/// Put each named constant under its own name: numbers as int, byte strings as bytes.
macro_rules! name_all {
    ($dict:expr, numbers: [
            $($number:ident), * $(, )?,
        ], bytes: [$($bytes:ident),* $(,)?]) => {
        $($dict.set_item(stringify!($number), format::$number)?;)*
        $($dict.set_item(stringify!($bytes), PyBytes::new($dict.py(), &format::$bytes))?;)*
    };
}

#[pyfunction]
#[pyo3(name = "_constants")]
pub(super) fn constants(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    name_all!(
        dict,
        numbers: [
            CONTRACT, FORMAT_MAJOR, FORMAT_MINOR, WRITER_LEVEL, FEATURES_REQUIRED_KNOWN, FEATURES_READONLY_KNOWN,
            HEADER_BYTES, HEADER_STRUCT_BYTES, HEADER_COPY_OFFSET, CANON_VERSION, DIGEST_ALGORITHM,
            CHECKSUM_ALGORITHM, FRAME_FIXED_BYTES, FRAME_HEADER_MIN_BYTES, FRAME_HEADER_MAX_BYTES,
            FRAME_TRAILER_BYTES, TYPE_MAX_BYTES, PAYLOAD_MAX_BYTES, DEPTH_MAX, INTEGER_MAX_DIGITS, KIND_EVENT,
            KIND_SYNC_MARK, KIND_CLOSE, KIND_SEAL, KIND_OPEN, KIND_REDACT, KIND_REPAIR_NOTE, KIND_IGNORABLE,
            KIND_CHAIN_MARK, FLAG_COMMIT, FLAG_RAW, FLAG_DURABLE, FLAG_REDACTED, FLAG_ENCRYPTED,
            FLAGS_REQUIRED_UNKNOWN, BLOCK_BYTES, ROLL_BYTES, ZERO_STEP_MIN_BYTES, ZERO_STEP_MAX_BYTES,
            SPARSE_STEP_BYTES, CHAIN_STEP_EVENTS,
        ],
        bytes: [SEGMENT_MAGIC, FRAME_MAGIC, CHAIN_TAG, CHAIN_VERSION, SKIPPABLE_MAGIC, TABLE_MAGIC]
    );
    Ok(dict)
}
