//! The record core of turnlog. FORMAT.md is the home of every layout fact.
//!
//! Read in this order: `format` (numbers), `canon` (canonical bytes), `chain`, `frame` and `header` (bytes of a segment). Imports only
//! point that way; `py` alone names Python, so `cargo test --no-default-features` proves that the rest does without it.

pub mod blocks;
pub mod canon;
pub mod chain;
pub mod error;
pub mod facts;
pub mod format;
pub mod frame;
pub mod header;
pub mod reader;
pub mod replay;
pub mod scan;
mod scan_chain;
mod scan_damage;
pub mod source;
pub mod walk;

#[cfg(feature = "python")]
mod py;
