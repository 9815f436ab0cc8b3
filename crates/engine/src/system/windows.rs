//! Windows. Who may read a file follows from the rights of its folder.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, MetadataExt};
use std::os::windows::io::AsHandle;
use std::path::Path;

/// Of a file that is no program: `ERROR_BAD_EXE_FORMAT`.
pub(crate) const NO_PROGRAM: i32 = 193;

/// The name of this host.
pub fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "windows".to_owned())
}

/// The standard library does not tell it.
pub fn free_bytes(_folder: &Path) -> Option<u64> {
    None
}

/// Nobody can tell.
pub(crate) fn is_free(_pid: u32) -> bool {
    false
}

/// Creates a folder and those above it.
pub(crate) fn make_folder(path: &Path, _mode: u32) -> io::Result<()> {
    std::fs::create_dir_all(path)
}

/// Windows has no such modes.
pub(crate) fn with_mode(options: &mut OpenOptions, _mode: u32) -> &mut OpenOptions {
    options
}

/// Windows has no such operation for folders.
pub(crate) fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Reads at a position. Moves that of the file, which readers at positions do not use.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buffer, offset)
}

/// When a file was created, which stays the same when it is renamed.
pub(crate) fn identity(found: &Metadata) -> (u64, u64) {
    (0, found.creation_time())
}

/// Standard output without a buffer.
pub(crate) fn stdout() -> io::Result<File> {
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}
