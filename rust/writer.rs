//! Appending to one segment file.
//!
//! Owns: what an append means at each level, and batches. Invariants: a durable append returns only after a sync that
//! began after its bytes were written returned success; a buffered one only after its write returned; an id that is
//! already known is reported only once its own event is as safe as the caller asks for; in a forked child no lock is
//! waited for. Must not know: sessions, directories, who holds the session's lock.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::active::ActiveSegment;
use crate::chain::digest;
use crate::commit::Committer;
use crate::error::{Error, Result};
use crate::format::{
    FLAG_COMMIT, FLAG_DURABLE, FLAG_RAW, FRAME_HEADER_MAX_BYTES, KIND_OPEN, KIND_REPAIR_NOTE,
};
use crate::frame::{check_payload_length, check_type};
use crate::frontier::{Encoded, Frontier, Ticket};
use crate::identity::{NewIds, now_us};
use crate::idindex::IdIndex;
use crate::receipt::{Answer, Head, NewEvent, Receipt, Start};

/// Appends to one segment file; thread-safe.
pub struct Writer {
    pub(crate) committer: Arc<Committer>,
    segment: [Arc<ActiveSegment>; 1],
    pub(crate) opened_at: u64,
    new_ids: Mutex<NewIds>,
    /// One freeze, seal or close at a time; taken before the segment's lock.
    pub(crate) ending: Mutex<()>,
}

impl Writer {
    /// Open the file for appending.
    ///
    /// # Errors
    /// `Io`, `Damaged` if the file is shorter than `end`, `WrongProcess`.
    pub fn open(committer: &Arc<Committer>, path: &Path, start: &Start) -> Result<Self> {
        committer.check_process()?;
        let segment = Arc::new(ActiveSegment::open(path, start)?);
        committer.register(&segment)?;
        Ok(Self {
            committer: Arc::clone(committer),
            segment: [segment],
            opened_at: start.end,
            new_ids: Mutex::new(NewIds::new()),
            ending: Mutex::new(()),
        })
    }

    /// From now on add every id to `ids` and look given ids up in it.
    ///
    /// # Errors
    /// `WrongProcess`.
    pub fn track(&self, ids: Arc<IdIndex>) -> Result<()> {
        self.committer.check_process()?;
        self.segment().lock().ids = Some(ids);
        Ok(())
    }

    /// Append events by one write; `atomic` makes them visible together. None: the segment is full or frozen.
    ///
    /// # Errors
    /// `InvalidType`, `PayloadTooLarge`, `NoSpace` (rolled back), `SyncFailed`, `Closed`, `WrongProcess`; `Conflict`
    /// if some but not all ids of an atomic group are known.
    pub fn append(
        &self,
        events: &[NewEvent<'_>],
        durable: bool,
        atomic: bool,
    ) -> Result<Option<Vec<Answer>>> {
        self.committer.check_process()?;
        let events = events.iter().map(|event| self.encode(event)).collect::<Result<Vec<_>>>()?;
        if events.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let bytes_at_most =
            events.iter().map(|event| event.payload.len() + 2 * FRAME_HEADER_MAX_BYTES).sum::<usize>();
        loop {
            // From here on the lock is kept until the frames are written or ticketed: nobody else can roll them back
            // unseen.
            let mut state = self.segment().lock_clear_of_zeros(bytes_at_most as u64);
            if !state.check_open()? {
                return Ok(None);
            }
            let known = known(&state, &events, atomic)?;
            let fresh = known.iter().any(Option::is_none) || known.is_empty();
            if fresh && state.is_full() {
                return Ok(None);
            }
            let answers = push(&mut state, &events, &known, durable, atomic);
            let needed = answers.iter().map(Answer::ordinal).max().unwrap_or(0);
            let safe = if durable { state.durable.ordinal } else { state.written.ordinal };
            if durable && needed > safe {
                let ticket = state.ticket();
                drop(state);
                match self.commit(ticket) {
                    Ok(()) => return Ok(Some(answers)),
                    // The known event was rolled back before it became durable, so it is not known any more.
                    Err(Error::NoSpace { .. }) if !fresh => continue,
                    Err(error) => return Err(error),
                }
            }
            if needed > safe {
                self.committer.counters.wrote(state.write_pending()?);
                if state.dirty_since.is_none() {
                    state.dirty_since = Some(Instant::now());
                    self.committer.look_after(&mut state);
                }
            }
            return Ok(Some(answers));
        }
    }

    /// Write a control frame and sync it; return its end.
    ///
    /// # Errors
    /// `PayloadTooLarge`, `NoSpace`, `SyncFailed`, `Closed`, `WrongProcess`.
    ///
    /// # Panics
    /// If `kind` is neither OPEN nor `REPAIR_NOTE`.
    pub fn note(&self, kind: u8, payload: &[u8]) -> Result<u64> {
        assert!(matches!(kind, KIND_OPEN | KIND_REPAIR_NOTE), "only OPEN and REPAIR_NOTE are notes");
        self.committer.check_process()?;
        check_payload_length(payload.len())?;
        let mut state = self.segment().lock();
        if !state.check_open()? {
            return Err(Error::Closed("the segment is frozen".to_owned()));
        }
        state.push_control(kind, payload);
        let ticket = state.ticket();
        drop(state);
        self.commit(ticket)?;
        Ok(ticket.end)
    }

    /// Sync everything appended so far.
    ///
    /// # Errors
    /// `SyncFailed`, `Closed`, `WrongProcess`.
    pub fn flush(&self) -> Result<()> {
        self.committer.check_process()?;
        self.segment().lock().check_open()?;
        self.drain(|state| state.dirty_end)
    }

    /// The state of the segment.
    ///
    /// # Errors
    /// `WrongProcess`.
    pub fn head(&self) -> Result<Head> {
        self.committer.check_process()?;
        let state = self.segment().lock();
        Ok(Head {
            ordinal: state.end.ordinal,
            chain: state.end.chain,
            end: state.end.offset,
            written: state.written.offset,
            durable: state.durable.offset,
            visible: state.visible(),
            durable_ordinal: state.durable.ordinal,
            durable_chain: state.durable.chain,
            poisoned: state.poison.is_some(),
            path: self.segment().path.clone(),
        })
    }

    pub(crate) fn segment(&self) -> &ActiveSegment {
        &self.segment[0]
    }

    /// Check and complete all that does not depend on the event's place.
    fn encode<'a>(&self, event: &NewEvent<'a>) -> Result<Encoded<'a>> {
        check_type(event.type_name.as_bytes())?;
        check_payload_length(event.payload.len())?;
        let time_us = now_us();
        let event_id = match event.event_id {
            Some(given) => given,
            None => self.new_ids.lock().unwrap_or_else(PoisonError::into_inner).make(time_us)?,
        };
        Ok(Encoded {
            type_name: event.type_name,
            payload: event.payload,
            digest: digest(event.payload),
            event_id,
            given: event.event_id.is_some(),
            flags: if event.raw { FLAG_RAW } else { 0 },
            time_us,
        })
    }

    /// Wait until the ticket's bytes are durable.
    pub(crate) fn commit(&self, ticket: Ticket) -> Result<()> {
        loop {
            self.committer.commit(&self.segment);
            if let Some(verdict) = self.segment().redeem(ticket) {
                return verdict;
            }
        }
    }
}

/// For each event the ordinal under which its id is known; empty when ids are not tracked.
fn known(state: &Frontier, events: &[Encoded<'_>], atomic: bool) -> Result<Vec<Option<u64>>> {
    let Some(ids) = state.ids.as_ref().filter(|_| events.iter().any(|event| event.given)) else {
        return Ok(Vec::new());
    };
    let mut coming = HashMap::new();
    let mut ordinal = state.end.ordinal;
    let mut answers = Vec::with_capacity(events.len());
    for event in events {
        let here = || coming.get(&event.event_id).copied();
        let answer = if event.given { ids.get(&event.event_id).or_else(here) } else { None };
        if answer.is_none() {
            ordinal += 1;
            coming.insert(event.event_id, ordinal);
        }
        answers.push(answer);
    }
    if atomic && answers.iter().any(Option::is_none) && answers.iter().any(Option::is_some) {
        let message = "an atomic group mixes event ids that are already in the session with new ones";
        return Err(Error::Conflict(message.to_owned()));
    }
    Ok(answers)
}

fn push(
    state: &mut Frontier,
    events: &[Encoded<'_>],
    known: &[Option<u64>],
    durable: bool,
    atomic: bool,
) -> Vec<Answer> {
    let level = if durable { FLAG_DURABLE } else { 0 };
    let is_known = |index: usize| known.get(index).copied().flatten();
    let last_new = (0..events.len()).rev().find(|index| is_known(*index).is_none());
    let place = |(index, event): (usize, &Encoded<'_>)| {
        if let Some(ordinal) = is_known(index) {
            return Answer::Known(ordinal);
        }
        let commit = if atomic && Some(index) != last_new { 0 } else { FLAG_COMMIT };
        let ordinal = state.push_event(event, level | commit);
        let Encoded { event_id, digest, time_us, .. } = *event;
        Answer::New(Receipt { ordinal, event_id, digest, time_us, durable })
    };
    events.iter().enumerate().map(place).collect()
}
