//! What publishing needs of the operating system: operations in an open folder that follow no links and replace nothing.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{OpenFolder, class, forget_cache, is_missing, mounted, reserve, see};
#[cfg(windows)]
pub(super) use windows::{OpenFolder, class, forget_cache, is_missing, mounted, reserve, see};

/// A file or another thing of a folder; links are not followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    pub(super) is_file: bool,
    pub(super) bytes: u64,
    /// Seconds, and nanoseconds of a second.
    pub(super) touched: (i64, i64),
    /// Another file of the same name has another number; valid on this host only.
    pub(super) number: u64,
}
