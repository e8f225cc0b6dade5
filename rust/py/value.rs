//! From Python objects to canonical JSON v1 (FORMAT.md section 5).
//!
//! Owns: the walk over the objects and the path named in a refusal. Invariants: no Python code runs during the walk,
//! so the objects cannot change under it; a refused value leaves the output as it was; errors and their order equal
//! `_pure/canon.py`. Must not know: frames, files. Paths are built only when a refusal travels up, so the good case
//! pays nothing for them.

use std::cmp::Ordering;
use std::ops::Range;

use pyo3::exceptions::PyUnicodeEncodeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::canon::{
    compare_keys, write_float, write_integer, write_small_integer, write_string, write_units,
};
use crate::error::Error;
use crate::format::{DEPTH_MAX, INTEGER_MAX_DIGITS};

/// No integer of more bits has at most 4,300 digits.
const INTEGER_MAX_BITS: usize = 14_285;
const PATH_MAX_STEPS: usize = 8;
const PATH_KEY_MAX_CHARACTERS: usize = 32;

/// Append the canonical bytes of `value` to `out`.
///
/// # Errors
/// `InvalidPayload` with the path to the offending value; `out` is then as before.
pub(crate) fn canonical_into(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let start = out.len();
    let mut walk = Walk { out, entries: Vec::with_capacity(16), key_bytes: Vec::with_capacity(256) };
    walk.value(value, 0).map_err(|refusal| {
        out.truncate(start);
        match *refusal {
            Refusal::Value { reason, steps } => {
                super::to_py(value.py(), Error::InvalidPayload(format!("{reason} at {}", path_text(&steps))))
            }
            Refusal::Python(error) => error,
        }
    })
}

/// One step of a path, such as `.name` or `[3]`.
struct Step(String);

enum Refusal {
    Value { reason: String, steps: Vec<Step> },
    Python(PyErr),
}

type Walked = Result<(), Box<Refusal>>;

impl From<PyErr> for Box<Refusal> {
    fn from(error: PyErr) -> Self {
        Box::new(Refusal::Python(error))
    }
}

fn refuse(reason: impl Into<String>) -> Walked {
    Err(Box::new(Refusal::Value { reason: reason.into(), steps: Vec::new() }))
}

/// Note the step that led to the value, if it was refused.
fn below(mut walked: Walked, step: impl FnOnce() -> Step) -> Walked {
    if let Err(Refusal::Value { steps, .. }) = walked.as_mut().map_err(|refusal| &mut **refusal) {
        steps.push(step());
    }
    walked
}

/// A key, as a range of `Walk::key_bytes` in UTF-8, or as UTF-16 if it holds a lone surrogate.
enum Key {
    Text(Range<usize>),
    Units(Vec<u16>),
}

struct Entry<'py> {
    key: Key,
    value: Bound<'py, PyAny>,
}

/// The walk's state. Members of all open objects share two stacks, so that no object allocates for itself.
struct Walk<'out, 'py> {
    out: &'out mut Vec<u8>,
    entries: Vec<Entry<'py>>,
    key_bytes: Vec<u8>,
}

impl<'py> Walk<'_, 'py> {
    fn value(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> Walked {
        if let Ok(text) = value.cast_exact::<PyString>() {
            self.string(text)
        } else if let Ok(integer) = value.cast_exact::<PyInt>() {
            self.integer(integer)
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.object(dict, depth)
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.array(list.iter(), depth)
        } else if value.is_none() {
            self.out.extend_from_slice(b"null");
            Ok(())
        } else if let Ok(boolean) = value.cast_exact::<PyBool>() {
            self.out.extend_from_slice(if boolean.is_true() { b"true" } else { b"false" });
            Ok(())
        } else if let Ok(float) = value.cast::<PyFloat>() {
            self.float(float)
        } else {
            self.rare(value, depth)
        }
    }

    /// Tuples and subclasses, which are stored as their base type.
    fn rare(&mut self, value: &Bound<'py, PyAny>, depth: usize) -> Walked {
        if let Ok(text) = value.cast::<PyString>() {
            self.string(text)
        } else if let Ok(integer) = value.cast::<PyInt>() {
            self.integer(integer)
        } else if let Ok(dict) = value.cast::<PyDict>() {
            self.object(dict, depth)
        } else if let Ok(list) = value.cast::<PyList>() {
            self.array(list.iter(), depth)
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            self.array(tuple.iter(), depth)
        } else {
            refuse(format!("cannot store a value of type {}", value.get_type().name()?))
        }
    }

    fn string(&mut self, text: &Bound<'py, PyString>) -> Walked {
        match text.to_str() {
            Ok(text) => write_string(self.out, text.as_bytes()),
            Err(error) => write_units(self.out, &surrogate_units(text, error)?),
        }
        Ok(())
    }

    fn integer(&mut self, integer: &Bound<'py, PyInt>) -> Walked {
        if let Ok(small) = integer.extract::<i64>() {
            write_small_integer(self.out, small);
            return Ok(());
        }
        // Through the type, because a subclass may have methods of its own.
        let int = integer.py().get_type::<PyInt>();
        let bits: usize = int.call_method1("bit_length", (integer,))?.extract()?;
        let start = self.out.len();
        if bits <= INTEGER_MAX_BITS {
            let signed = PyDict::new(integer.py());
            signed.set_item("signed", true)?;
            let bytes = int.call_method("to_bytes", (integer, bits / 8 + 1, "little"), Some(&signed))?;
            let bytes = bytes.cast_into::<PyBytes>().map_err(PyErr::from)?;
            if write_integer(self.out, bytes.as_bytes()) <= INTEGER_MAX_DIGITS {
                return Ok(());
            }
            self.out.truncate(start);
        }
        refuse(format!("integer of more than {INTEGER_MAX_DIGITS} digits"))
    }

    fn float(&mut self, float: &Bound<'py, PyFloat>) -> Walked {
        if write_float(self.out, float.value()) {
            return Ok(());
        }
        refuse("NaN and Infinity have no JSON form")
    }

    fn array(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> Walked {
        check_depth(depth)?;
        self.out.push(b'[');
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            below(self.value(&item, depth + 1), || Step(format!("[{index}]")))?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, dict: &Bound<'py, PyDict>, depth: usize) -> Walked {
        check_depth(depth)?;
        let (first, first_byte) = (self.entries.len(), self.key_bytes.len());
        self.collect(dict)?;
        self.sort(first)?;
        let mut separator = b'{';
        while let Some(Entry { key, value }) = self.next_member(first) {
            self.out.push(separator);
            match &key {
                Key::Text(range) => write_string(self.out, &self.key_bytes[range.clone()]),
                Key::Units(units) => write_units(self.out, units),
            }
            self.out.push(b':');
            let walked = self.value(&value, depth + 1);
            below(walked, || key_step(&self.key_bytes, &key))?;
            separator = b',';
        }
        self.out.extend_from_slice(if separator == b'{' { b"{}" } else { b"}" });
        self.key_bytes.truncate(first_byte);
        Ok(())
    }

    fn next_member(&mut self, first: usize) -> Option<Entry<'py>> {
        if self.entries.len() > first { self.entries.pop() } else { None }
    }

    fn collect(&mut self, dict: &Bound<'py, PyDict>) -> Walked {
        for (key, value) in dict {
            let Ok(text) = key.cast::<PyString>() else {
                return refuse(format!("keys must be strings, not {},", key.get_type().name()?));
            };
            let key = match text.to_str() {
                Ok(text) => {
                    let start = self.key_bytes.len();
                    self.key_bytes.extend_from_slice(text.as_bytes());
                    Key::Text(start..self.key_bytes.len())
                }
                Err(error) => Key::Units(surrogate_units(text, error)?),
            };
            self.entries.push(Entry { key, value });
        }
        Ok(())
    }

    /// Order the members from `first` on, the last one first, so that they come off the stack in order.
    fn sort(&mut self, first: usize) -> Walked {
        let key_bytes = &self.key_bytes;
        let order = |left: &Entry<'_>, right: &Entry<'_>| compare(key_bytes, &right.key, &left.key);
        let entries = &mut self.entries[first..];
        entries.reverse();
        if entries.is_sorted_by(|left, right| order(left, right) == Ordering::Less) {
            return Ok(());
        }
        entries.sort_unstable_by(order);
        match entries.windows(2).find(|pair| order(&pair[0], &pair[1]) == Ordering::Equal) {
            None => Ok(()),
            Some(_) => refuse("duplicate key"),
        }
    }
}

/// A key in a path: an identifier as it is, another in its canonical form, a long one cut.
fn key_step(key_bytes: &[u8], key: &Key) -> Step {
    let mut units = to_units(key_bytes, key);
    let cut: usize = char::decode_utf16(units.iter().copied())
        .take(PATH_KEY_MAX_CHARACTERS)
        .map(|decoded| decoded.map_or(1, char::len_utf16))
        .sum();
    let is_cut = cut < units.len();
    units.truncate(cut);
    let text = String::from_utf16_lossy(&units);
    let starts_well = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !is_cut && starts_well && text.chars().all(|other| other.is_ascii_alphanumeric() || other == '_') {
        return Step(format!(".{text}"));
    }
    if is_cut {
        units.push(0x2026);
    }
    let mut quoted = Vec::new();
    write_units(&mut quoted, &units);
    Step(format!("[{}]", String::from_utf8_lossy(&quoted)))
}

fn path_text(steps: &[Step]) -> String {
    let mut path = String::from("$");
    for Step(step) in steps.iter().rev().take(PATH_MAX_STEPS) {
        path.push_str(step);
    }
    if steps.len() > PATH_MAX_STEPS {
        path.push('\u{2026}');
    }
    path
}

fn check_depth(depth: usize) -> Walked {
    if depth < DEPTH_MAX {
        return Ok(());
    }
    refuse(format!("nested deeper than {DEPTH_MAX} levels"))
}

fn compare(key_bytes: &[u8], left: &Key, right: &Key) -> Ordering {
    match (left, right) {
        (Key::Text(left), Key::Text(right)) => {
            compare_keys(&key_bytes[left.clone()], &key_bytes[right.clone()])
        }
        _ => to_units(key_bytes, left).cmp(&to_units(key_bytes, right)),
    }
}

fn to_units(key_bytes: &[u8], key: &Key) -> Vec<u16> {
    match key {
        Key::Text(range) => String::from_utf8_lossy(&key_bytes[range.clone()]).encode_utf16().collect(),
        Key::Units(units) => units.clone(),
    }
}

/// The UTF-16 code units of a string that UTF-8 cannot hold, as `error` says.
fn surrogate_units(text: &Bound<'_, PyString>, error: PyErr) -> PyResult<Vec<u16>> {
    if !error.is_instance_of::<PyUnicodeEncodeError>(text.py()) {
        return Err(error);
    }
    let str_type = text.py().get_type::<PyString>();
    let encoded = str_type.call_method1("encode", (text, "utf-16-le", "surrogatepass"))?;
    let bytes = encoded.cast::<PyBytes>()?.as_bytes();
    Ok(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
}
