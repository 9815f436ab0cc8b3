//! What the files of SQLite need of the operating system.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// Only the owner may use a file that is created.
#[cfg(unix)]
pub(crate) fn create_private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

/// Who may read a file follows from the rights of its folder.
#[cfg(windows)]
pub(crate) fn create_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Whether this process may read and write a file, without opening it.
#[cfg(unix)]
pub(crate) fn access(path: &Path) -> io::Result<()> {
    use rustix::fs::Access;
    Ok(rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK)?)
}

/// SQLite finds out.
#[cfg(windows)]
pub(crate) fn access(_path: &Path) -> io::Result<()> {
    Ok(())
}
