//! What the operating system offers a writer: syncs, and the meaning of its error numbers.
//!
//! Owns: the platform choices (the standard library issues `F_FULLFSYNC` on macOS; `syncfs` is Linux only). Invariant:
//! no call here retries a sync. Must not know: frames, writers, rounds.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Put data and length of the file on stable storage.
pub(crate) fn sync_file(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Write all of `data` at `offset`; return the number of write calls.
///
/// After a short write the rest is tried, so that the operating system names the reason.
pub(crate) fn write_all(file: &File, data: &[u8], offset: u64) -> io::Result<u64> {
    let (mut done, mut calls) = (0, 0);
    while done < data.len() {
        match file.write_at(&data[done..], offset + done as u64) {
            Ok(0) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
            Ok(count) => {
                done += count;
                calls += 1;
            }
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(calls)
}

/// Whether the error says that space, quota or file size ran out.
pub(crate) fn is_no_space(errno: i32) -> bool {
    matches!(errno, libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
}

/// The number of an error of the operating system; EIO if it has none.
pub(crate) fn errno_of(cause: &io::Error) -> i32 {
    cause.raw_os_error().unwrap_or(libc::EIO)
}

/// The operating system's words for an error number.
pub(crate) fn error_text(errno: i32) -> String {
    let text = io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Sync the whole file system that `directory` lies on.
#[cfg(target_os = "linux")]
pub(crate) fn sync_file_system(directory: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: syncfs takes any descriptor number and touches no memory of ours; `directory` keeps it open.
    #[allow(unsafe_code, reason = "the standard library has no syncfs")]
    let answer = unsafe { libc::syncfs(directory.as_raw_fd()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sync the whole file system that `directory` lies on.
#[cfg(not(target_os = "linux"))]
pub(crate) fn sync_file_system(_directory: &File) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Whether a failed write-back on this file system is reported by `sync_file_system`: ext4, xfs or btrfs, Linux 5.8 or
/// later.
#[cfg(target_os = "linux")]
pub(crate) fn syncfs_is_trusted(directory: &File) -> bool {
    use std::os::fd::AsRawFd;
    const MAGICS: [u64; 3] = [0xEF53, 0x5846_5342, 0x9123_683E];
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let kernel = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let mut status = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the pointer is to memory of the right size, which is read only after the call said that it filled it.
    #[allow(unsafe_code, reason = "the standard library has no statfs")]
    let kind = unsafe {
        if libc::fstatfs(directory.as_raw_fd(), status.as_mut_ptr()) != 0 {
            return false;
        }
        status.assume_init().f_type
    };
    kernel >= (5, 8) && u64::try_from(kind).is_ok_and(|kind| MAGICS.contains(&kind))
}

/// Whether a failed write-back on this file system is reported by `sync_file_system`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn syncfs_is_trusted(_directory: &File) -> bool {
    false
}
