//! The logical bytes of one segment file, raw or compacted, read with `pread`.
//!
//! Owns: the read descriptor, shared by reader and event handles and closed with the last of them; the rule for
//! unreadable places. Invariants: no mapping, so a file that another process cuts short never kills this one; a
//! length is limited by the bytes left before anything is allocated; a failed read is an error or a hole, never an
//! end. Must not know: headers, frames.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::blocks::{self, Blocks};
use crate::error::{Error, Result};
use crate::format::{SEGMENT_MAGIC, TABLE_MAGIC};

const PAGE_BYTES: u64 = 4096;
/// Stands for bytes that cannot be read: no frame, padding or trailer that holds it is valid.
pub const FILL: u8 = 0xff;

/// A range that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// First offset.
    pub start: u64,
    /// Offset after the last.
    pub end: u64,
    /// Fault code: "io" or "block".
    pub code: &'static str,
    /// The sentence for people.
    pub detail: String,
}

/// Bytes read at one logical offset.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Logical offset of the first byte.
    pub base: u64,
    /// The bytes.
    pub data: Vec<u8>,
}

/// A segment file opened for reading.
#[derive(Debug)]
pub struct Source {
    /// The file itself.
    pub file: SegmentFile,
    /// The seek table, if the file is compacted.
    pub blocks: Option<Blocks>,
}

/// The descriptor and the name that errors mention.
#[derive(Debug)]
pub struct SegmentFile {
    file: File,
    /// File name without its directory.
    pub name: String,
}

impl SegmentFile {
    /// Bytes of the file now.
    ///
    /// # Errors
    /// `Io`.
    pub fn size(&self) -> Result<u64> {
        match self.file.metadata() {
            Ok(metadata) => Ok(metadata.len()),
            Err(cause) => Err(Error::io("cannot read the size", &cause, Some(&self.name), None)),
        }
    }

    /// Read bytes of the file into `out`, replacing what it held; fewer only at the end of the file.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn pread(&self, offset: u64, length: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let left = self.file.metadata()?.len().saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(length);
        if out.try_reserve_exact(length.saturating_sub(out.len())).is_err() {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        out.resize(length, 0);
        let mut filled = 0;
        while filled < length {
            match self.file.read_at(&mut out[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        out.truncate(filled);
        Ok(())
    }

    /// Read bytes of the file; fewer only at its end.
    ///
    /// # Errors
    /// `Io`.
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match self.pread(offset, length, &mut out) {
            Ok(()) => Ok(out),
            Err(cause) => Err(self.cannot_read(&cause, offset)),
        }
    }

    /// Read bytes of the file, with holes where the medium fails.
    ///
    /// # Errors
    /// `Io` for other errors than a failing medium.
    pub fn read_filled(&self, offset: u64, length: usize, out: &mut Vec<u8>) -> Result<Vec<Hole>> {
        match self.pread(offset, length, out) {
            Ok(()) => Ok(Vec::new()),
            Err(cause) if cause.raw_os_error() == Some(libc::EIO) => self.read_pages(offset, length, out),
            Err(cause) => Err(self.cannot_read(&cause, offset)),
        }
    }

    fn read_pages(&self, mut offset: u64, length: usize, out: &mut Vec<u8>) -> Result<Vec<Hole>> {
        let end = self.size()?.min(offset.saturating_add(length as u64));
        let (mut page, mut holes) = (Vec::new(), Vec::new());
        out.clear();
        while offset < end {
            let stop = end.min((offset / PAGE_BYTES + 1) * PAGE_BYTES);
            let wanted = to_usize(stop - offset);
            match self.pread(offset, wanted, &mut page) {
                Ok(()) => {}
                Err(cause) if cause.raw_os_error() == Some(libc::EIO) => {
                    page.clear();
                    page.resize(wanted, FILL);
                    let detail = format!("cannot read: {}", strerror(&cause));
                    holes.push(Hole { start: offset, end: stop, code: "io", detail });
                }
                Err(cause) => return Err(self.cannot_read(&cause, offset)),
            }
            out.extend_from_slice(&page);
            if page.len() < wanted {
                break;
            }
            offset = stop;
        }
        Ok(holes)
    }

    fn cannot_read(&self, cause: &io::Error, offset: u64) -> Error {
        Error::io("cannot read", cause, Some(&self.name), Some(offset))
    }
}

impl Source {
    /// Open a segment, raw or compacted, which its content tells.
    ///
    /// # Errors
    /// `Io`; `Damaged` if nothing of a compacted file is readable.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_CLOEXEC).open(path);
        let file = opened.map_err(|cause| Error::io("cannot open", &cause, Some(&name), None))?;
        let file = SegmentFile { file, name };
        let begin = file.read(0, SEGMENT_MAGIC.len())?;
        let is_packed = begin.starts_with(&blocks::ZSTD_MAGIC);
        let may_be_packed =
            begin != SEGMENT_MAGIC && file.read(file.size()?.saturating_sub(16), 8)? == TABLE_MAGIC;
        let blocks = if is_packed || may_be_packed { Some(Blocks::open(&file)?) } else { None };
        let blocks = blocks.filter(|blocks| is_packed || !blocks.tail_damaged);
        Ok(Self { file, blocks })
    }

    /// Logical bytes available now; a compacted segment does not grow.
    ///
    /// # Errors
    /// `Io`.
    pub fn size(&self) -> Result<u64> {
        self.blocks.as_ref().map_or_else(|| self.file.size(), |blocks| Ok(blocks.logical))
    }

    /// Read logical bytes; fewer only at the end.
    ///
    /// # Errors
    /// `Damaged` at a damaged block; `Io`.
    pub fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let Some(blocks) = &self.blocks else {
            return self.file.read(offset, length);
        };
        let mut out = Vec::new();
        let holes = blocks.read_filled(&self.file, offset, length, &mut out)?;
        match holes.into_iter().next() {
            None => Ok(out),
            Some(hole) => Err(Error::Damaged {
                message: hole.detail,
                segment: Some(self.file.name.clone()),
                offset: Some(hole.start),
            }),
        }
    }

    /// Read logical bytes into `out`, replacing what it held, with holes where the medium fails or a block is damaged.
    ///
    /// # Errors
    /// `Io` for other errors than a failing medium.
    pub fn read_filled(&self, offset: u64, length: usize, out: &mut Vec<u8>) -> Result<Vec<Hole>> {
        match &self.blocks {
            None => self.file.read_filled(offset, length, out),
            Some(blocks) => blocks.read_filled(&self.file, offset, length, out),
        }
    }

    /// Make what other processes wrote durable.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync(&self) -> Result<()> {
        self.file
            .file
            .sync_data()
            .map_err(|cause| Error::io("cannot sync", &cause, Some(&self.file.name), None))
    }

    /// Let the kernel forget its pages of the file, so that the next read comes from the medium.
    ///
    /// # Errors
    /// `Io`.
    #[expect(unsafe_code, reason = "the standard library has no posix_fadvise")]
    pub fn drop_cache(&self) -> Result<()> {
        use std::os::fd::AsRawFd as _;
        // SAFETY: the descriptor is open for as long as `self` lives, and the call takes no pointer.
        let code =
            unsafe { libc::posix_fadvise(self.file.file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        if code == 0 {
            return Ok(());
        }
        let cause = io::Error::from_raw_os_error(code);
        Err(Error::io("cannot drop cached pages", &cause, Some(&self.file.name), None))
    }
}

/// The system's sentence for an error, without the number that the standard library adds.
fn strerror(cause: &io::Error) -> String {
    let text = cause.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Narrow a length that is already limited by memory or by a constant.
pub(crate) fn to_usize(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
