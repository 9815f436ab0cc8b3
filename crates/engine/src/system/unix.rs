//! Linux and other systems of its kind.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Of a file that is no program.
pub(crate) const NO_PROGRAM: i32 = Errno::NOEXEC.raw_os_error();

/// The name of this host.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Free bytes at a folder; none if they are not known.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(folder).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Whether no process has this number, for sure.
pub(crate) fn is_free(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Creates a folder and those above it.
pub(crate) fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(mode).create(path)
}

/// What others may do with a file that is created.
pub(crate) fn with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    options.mode(mode)
}

/// Makes new names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Reads at a position; no other reader notices.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buffer, offset)
}

/// The file system of a file, and its number there, which stays the same when it is renamed.
pub(crate) fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// Standard output without a buffer.
pub(crate) fn stdout() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}
