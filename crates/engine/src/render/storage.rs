//! Where files lie: the folder in which nodes leave them, and the NAS on which they are published.

use super::Asking;
use std::fmt;
use std::time::Duration;
use tidemill_domain::render::output::Output;
use tidemill_domain::render::{LocalPath, Uid};

/// What a file holds, in short.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    pub bytes: u64,
    /// The SHA-256 of it, in hexadecimal digits.
    pub sha256: String,
}

/// What a file looks like without being read: the same for as long as nobody writes to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    pub bytes: u64,
    /// When it was last written to, in seconds and nanoseconds of whoever keeps it. Only compared.
    pub touched: (i64, i64),
}

/// The file systems that a render touches. Each call may hang for as long as a NAS does, so each has its own end.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Whether the NAS is really mounted and can be written.
    fn check(&self) -> Asking<'_, ()>;

    /// The file that a node has left, once it has been the same for `quiet`; none when there is no file, or one that still
    /// grows.
    fn settled<'a>(&'a self, staged: &'a LocalPath, quiet: Duration) -> Asking<'a, Option<Sight>>;

    /// Copies a file beside its final place, durably, under the name of a part; a part that is there already is written
    /// anew. On the same file system this may be another name for the same file.
    fn copy<'a>(&'a self, staged: &'a LocalPath, output: &'a Output) -> Asking<'a, Content>;

    /// Gives the part its final name, durably. A file with that name and the same content is success; one with another
    /// content is `Failure::OutputConflict` and stays as it is.
    fn publish<'a>(&'a self, output: &'a Output, content: &'a Content) -> Asking<'a, LocalPath>;

    /// What the file with the final name holds; none when there is none.
    fn published<'a>(&'a self, output: &'a Output) -> Asking<'a, Option<Content>>;

    /// Removes a file that a node has left; that there is none is no trouble.
    fn discard<'a>(&'a self, staged: &'a LocalPath) -> Asking<'a, ()>;

    /// Removes the part of a render that is given up; that there is none is no trouble.
    fn discard_part<'a>(&'a self, output: &'a Output) -> Asking<'a, ()>;

    /// Files that nodes have left and nobody has touched for `age`, and whose they are.
    fn left(&self, age: Duration) -> Asking<'_, Vec<(Uid, LocalPath)>>;

    /// Removes parts that nobody has touched for `age`; how many.
    fn sweep(&self, age: Duration) -> Asking<'_, u64>;
}
