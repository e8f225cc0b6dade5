//! What can go wrong inside the core, one variant for each class of `turnlog.errors` that a core raises.
//!
//! Owns: the enum and the sentence of each variant. Invariant: a variant carries all that its Python class needs, so
//! that `py` maps it in one place and loses nothing; it is `Clone`, because one failed sync is reported to every
//! waiter. Must not know: Python.

use std::fmt;

/// The result of every fallible function of the core.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the record core; `segment` is a file name without its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The payload has no canonical form; the sentence ends in the path to the offending value.
    InvalidPayload(String),
    /// The payload is larger than the limit.
    PayloadTooLarge(String),
    /// The event type is empty, too long or not plain ASCII.
    InvalidType(String),
    /// The id is not 16 bytes.
    InvalidId(String),
    /// The event id is already known with other content.
    Conflict(String),
    /// The writer or reader was closed before the call.
    Closed(String),
    /// The object belongs to the parent process.
    WrongProcess(String),
    /// No space, quota or file size left; what was not acknowledged was rolled back.
    NoSpace {
        /// Error number of the operating system.
        errno: i32,
        /// The sentence for people.
        message: String,
        /// Name of the segment file.
        segment: Option<String>,
    },
    /// A write or sync failed; the writer is closed for good.
    SyncFailed {
        /// Error number of the operating system.
        errno: i32,
        /// The sentence for people.
        message: String,
        /// Name of the segment file.
        segment: Option<String>,
    },
    /// Stored bytes are missing or changed.
    Damaged {
        /// The sentence for people.
        message: String,
        /// Name of the segment file.
        segment: Option<String>,
        /// Logical offset in the segment.
        offset: Option<u64>,
    },
    /// The operating system refused another operation.
    Io {
        /// Error number of the operating system; 0 when there is none.
        errno: i32,
        /// The sentence for people.
        message: String,
        /// Name of the segment file.
        segment: Option<String>,
        /// Logical offset in the segment.
        offset: Option<u64>,
    },
}

impl Error {
    /// Turn an error of the operating system into `Io`; `action` says what was tried, such as "cannot read".
    #[must_use]
    pub fn io(action: &str, cause: &std::io::Error, segment: Option<&str>, offset: Option<u64>) -> Self {
        Self::Io {
            errno: cause.raw_os_error().unwrap_or(0),
            message: format!("{action}: {cause}"),
            segment: segment.map(str::to_owned),
            offset,
        }
    }

    /// The sentence for people, without the place.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidPayload(message)
            | Self::PayloadTooLarge(message)
            | Self::InvalidType(message)
            | Self::InvalidId(message)
            | Self::Conflict(message)
            | Self::Closed(message)
            | Self::WrongProcess(message)
            | Self::NoSpace { message, .. }
            | Self::SyncFailed { message, .. }
            | Self::Damaged { message, .. }
            | Self::Io { message, .. } => message,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.message())
    }
}

impl std::error::Error for Error {}
