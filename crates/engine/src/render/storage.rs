//! The file systems of renders: the folder in which nodes write files, and the NAS on which they are published.

use super::Asking;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidemill_domain::render::output::Output;
use tidemill_domain::render::{LocalPath, Uid};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Content {
    pub bytes: u64,
    /// Hexadecimal.
    pub sha256: String,
}

/// Identifies the state of a file without reading it: the same while it is not written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sight {
    pub bytes: u64,
    /// Modification time, in seconds and nanoseconds of the file server's clock. Only compared.
    pub touched: (i64, i64),
}

/// Whether this worker may still act on its render.
pub type MayGoOn = Arc<dyn Fn() -> bool + Send + Sync>;

/// Each call may hang as long as a NAS does, so each has its own timeout.
pub trait Storage: fmt::Debug + Send + Sync {
    /// Whether the NAS is really mounted and writable.
    fn check(&self) -> Asking<'_, ()>;

    /// The file of a node, once it has been stable for `quiet`; none if there is no file, or it still grows.
    fn settled<'a>(&'a self, staged: &'a LocalPath, quiet: Duration) -> Asking<'a, Option<Sight>>;

    /// The content of a node's file; none if there is no file.
    fn content<'a>(&'a self, staged: &'a LocalPath) -> Asking<'a, Option<Content>>;

    /// Copies a file durably next to its final place, as a part; an existing part is overwritten. On the same file
    /// system this may be a hard link.
    fn copy<'a>(&'a self, staged: &'a LocalPath, output: &'a Output) -> Asking<'a, Content>;

    /// Renames the part to its final name, durably. An existing file with the same content is a success; one with
    /// another content is `Failure::OutputConflict` and stays as it is.
    fn publish<'a>(&'a self, output: &'a Output, content: &'a Content) -> Asking<'a, LocalPath>;

    /// The content of the published file; none if there is none.
    fn published<'a>(&'a self, output: &'a Output) -> Asking<'a, Option<Content>>;

    /// Uploads the part to an object store, whole or not at all, and only if it has this content. An existing object with
    /// the same content is a success; one with another content is `Failure::OutputConflict` and stays as it is.
    fn upload<'a>(
        &'a self,
        output: &'a Output,
        url: &'a str,
        content: &'a Content,
        may_go_on: MayGoOn,
    ) -> Asking<'a, ()>;

    /// What an object was uploaded as; none if there is none.
    fn object<'a>(&'a self, url: &'a str) -> Asking<'a, Option<Content>>;

    /// Deletes an object, if it exists.
    fn discard_object<'a>(&'a self, url: &'a str) -> Asking<'a, ()>;

    /// Removes the file of a node, if it exists.
    fn discard<'a>(&'a self, staged: &'a LocalPath) -> Asking<'a, ()>;

    /// Removes the part of a render that was given up, if it exists.
    fn discard_part<'a>(&'a self, output: &'a Output) -> Asking<'a, ()>;

    /// Files of nodes that were not touched for `age`, with their jobs.
    fn left(&self, age: Duration) -> Asking<'_, Vec<(Uid, LocalPath)>>;

    /// Removes parts that were not touched for `age`. Returns how many.
    fn sweep(&self, age: Duration) -> Asking<'_, u64>;
}
