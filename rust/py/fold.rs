//! `Folder`: the fold of common events as a Python object.
//!
//! Owns: the class. Invariants: an event that cannot be read is given back, and who reads it next meets the error
//! itself; other threads run while events without handles are folded. Must not know: rules.

use std::collections::HashSet;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use super::event::Event;
use super::events::Events;
use crate::fold::{self, Given, Place, Stored};

/// What `Folder.fold` hands in and back: ordinal, time, number of events, number of violations.
type Standing = (u64, u64, u64, u64);

/// Folds common events onto the hot part of a state.
#[pyclass(module = "turnlog._native")]
#[derive(Debug)]
pub(super) struct Folder {
    passed_by: HashSet<Vec<u8>>,
    folder: Option<fold::Folder>,
}

#[pymethods]
impl Folder {
    #[new]
    fn new(passed_by: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { passed_by: super::reader::type_names(passed_by)?, folder: None })
    }

    fn load(&mut self, hot: &[u8]) -> bool {
        self.folder = fold::Folder::new(hot);
        self.folder.is_some()
    }

    fn fold(
        &mut self,
        py: Python<'_>,
        events: &Bound<'_, PyAny>,
        start: usize,
        place: Standing,
        given: (bool, u64, Bound<'_, PyString>, bool),
    ) -> PyResult<(usize, Standing)> {
        let folder = self.folder.as_mut().ok_or_else(unloaded)?;
        let (ordinal, time_us, events_folded, violations) = place;
        let place = Place { ordinal, time_us, events: events_folded, violations };
        let (is_open, configured_ordinal, model, only_counts) = given;
        let given = Given { is_open, configured_ordinal, model: model.to_str().ok(), only_counts };
        let mut work = Work { folder, passed_by: &self.passed_by, place, given };
        let at = match events.cast::<Events>() {
            Ok(events) => {
                let events = events.get();
                py.detach(|| work.take_lazy(events, start))
            }
            Err(_) => work.take_handles(py, events.cast::<PyList>()?, start)?,
        };
        let place = work.place;
        Ok((at, (place.ordinal, place.time_us, place.events, place.violations)))
    }

    fn hot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let folder = self.folder.as_ref().ok_or_else(unloaded)?;
        Ok(PyBytes::new(py, &folder.hot()))
    }
}

/// One call of `Folder.fold`.
struct Work<'a> {
    folder: &'a mut fold::Folder,
    passed_by: &'a HashSet<Vec<u8>>,
    place: Place,
    given: Given<'a>,
}

impl Work<'_> {
    /// Apply an event. False gives it back.
    fn take(&mut self, event: &Stored<'_>) -> bool {
        self.folder.fold(&mut self.place, event, &self.given)
            || (self.passed_by.contains(event.type_name.as_bytes())
                && self.folder.pass_by(&mut self.place, event))
    }

    /// Apply events from an index on; return the index of the one that is given back.
    fn take_lazy(&mut self, events: &Events, start: usize) -> usize {
        start + events.stored(start).take_while(|event| event.is_some_and(|event| self.take(&event))).count()
    }

    /// Do the same with handles.
    fn take_handles(&mut self, py: Python<'_>, events: &Bound<'_, PyList>, start: usize) -> PyResult<usize> {
        let mut at = start;
        while at < events.len() {
            let handle = events.get_item(at)?;
            let Ok(event) = handle.cast::<Event>() else { break };
            if !event.get().with_stored(py, |event| self.take(event)).unwrap_or(false) {
                break;
            }
            at += 1;
        }
        Ok(at)
    }
}

fn unloaded() -> PyErr {
    PyValueError::new_err("the folder holds no state; load one")
}
