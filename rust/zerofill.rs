//! Zero-filling ahead of the end of a segment, off the path of acknowledgements: a sync into existing blocks needs no
//! journal commit.
//!
//! Owns: which range is zeroed next. Invariants: a range is claimed under the segment's lock and no append is written
//! into it before the claim is released; zeros go through a descriptor of their own, so that a failed sync is reported
//! to both and one cannot hide it from the other; without space the segment simply grows as it is written. Must not
//! know: rounds, writers.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;

use crate::active::ActiveSegment;
use crate::format::{ZERO_STEP_MAX_BYTES, ZERO_STEP_MIN_BYTES};
use crate::frontier::{Frontier, Mode};
use crate::medium::{errno_of, is_no_space, sync_file, write_all};

const CLAIM_BYTES: usize = 64 * 1024;
static ZEROS: [u8; CLAIM_BYTES] = [0; CLAIM_BYTES];

/// Whether the background thread should be told to fill this segment; at most once for each step.
pub(crate) fn ask(state: &mut Frontier) -> bool {
    if !state.waited || state.zero_asked || state.mode != Mode::Open || state.zeroed >= state.roll_bytes {
        return false;
    }
    state.zero_asked = state.zeroed.saturating_sub(state.end.offset) < step_bytes(state) / 2;
    state.waited = !state.zero_asked;
    state.zero_asked
}

/// Half of what the segment holds: a small segment does not pay for zeros that it will never use, a large one asks
/// seldom.
fn step_bytes(state: &Frontier) -> u64 {
    let unit = CLAIM_BYTES as u64;
    (state.end.offset / 2 / unit * unit).clamp(ZERO_STEP_MIN_BYTES, ZERO_STEP_MAX_BYTES)
}

/// Write and sync one step of zeros; return (bytes, syncs). A failure other than no-space poisons the segment.
///
/// Where the step cannot be done, `zero_asked` stays set: no further zeros in this segment.
pub(crate) fn fill(segment: &ActiveSegment) -> (u64, u64) {
    let Some((own, goal)) = prepare(segment) else { return (0, 0) };
    let mut zeroed_bytes = 0;
    while let Some((start, end)) = claim(segment, goal) {
        let length = usize::try_from(end - start).unwrap_or(CLAIM_BYTES);
        let outcome = write_all(&own, &ZEROS[..length], start);
        let mut state = segment.lock();
        state.zero_claim = None;
        if let Err(cause) = outcome {
            let errno = errno_of(&cause);
            if !is_no_space(errno) {
                state.fail("cannot write zeros ahead", errno);
            }
            segment.zero_done.notify_all();
            return (zeroed_bytes, 0);
        }
        if state.zeroed <= start {
            state.zeroed = end;
        }
        segment.zero_done.notify_all();
        drop(state);
        zeroed_bytes += end - start;
    }
    let outcome = sync_file(&own);
    let mut state = segment.lock();
    if let Err(cause) = outcome {
        state.fail("cannot sync the segment", errno_of(&cause));
        return (zeroed_bytes, 0);
    }
    state.zero_asked = false;
    (zeroed_bytes, 1)
}

/// Open the file a second time; None if no descriptor is left or the name is gone: appending works without zeros.
fn prepare(segment: &ActiveSegment) -> Option<(File, u64)> {
    let own = OpenOptions::new().write(true).open(&segment.path).ok()?;
    let found = own.metadata().ok()?;
    let state = segment.lock();
    let expected = state.file.as_ref()?.metadata().ok()?;
    if (found.dev(), found.ino()) != (expected.dev(), expected.ino()) {
        return None;
    }
    let goal = state.zeroed.max(state.end.offset) + step_bytes(&state);
    Some((own, goal.min(state.roll_bytes)))
}

fn claim(segment: &ActiveSegment, goal: u64) -> Option<(u64, u64)> {
    let mut state = segment.lock();
    let start = state.zeroed.max(state.end.offset);
    if state.mode != Mode::Open || state.poison.is_some() || start >= goal {
        return None;
    }
    state.zero_claim = Some((start, goal.min(start + CLAIM_BYTES as u64)));
    state.zero_claim
}
