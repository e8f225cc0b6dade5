//! The record core of turnlog. FORMAT.md is the home of every layout fact.
//!
//! Read in this order: `format` (numbers), `canon` (canonical bytes), `chain`, `frame` and `header` (bytes of a
//! segment), `writer` (appending), `active` (one growing segment), `commit` (rounds of syncs), `background` (what
//! nobody waits for); beside them `fold`, which alone knows event types. Imports only point that way; `py` alone
//! names Python, so `cargo test --no-default-features` proves that the rest does without it.

mod active;
mod background;
pub mod blocks;
pub mod canon;
pub mod chain;
pub mod commit;
mod ending;
pub mod error;
pub mod facts;
pub mod fold;
pub mod format;
pub mod frame;
mod frontier;
pub mod header;
mod identity;
pub mod idindex;
mod medium;
pub mod reader;
pub mod receipt;
pub mod replay;
pub mod scan;
mod scan_chain;
mod scan_damage;
mod seal;
pub mod source;
mod synccost;
pub mod walk;
pub mod writer;
mod zerofill;

#[cfg(feature = "python")]
mod py;
