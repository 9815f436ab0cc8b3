//! The words between a chunk and who drives it: what to do, how it went, what became of it.

use crate::item::{ErrorKind, Phase};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Process this item, and tell [`Chunk::processed`](super::Chunk::processed).
    Process(usize),
    /// Tell the skip listeners of this item now.
    Announce(Skip),
    /// Write what came out of these items, and tell [`Chunk::written`](super::Chunk::written).
    Write(Vec<usize>),
    /// Announce [`Chunk::take_skips`](super::Chunk::take_skips), commit, and tell
    /// [`Chunk::committed`](super::Chunk::committed).
    Commit,
    RollBack,
    Done,
    /// The step has failed. What was not committed is rolled back.
    Fail(Failure),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Processed {
    /// Something came out.
    Output,
    /// Nothing came out, on purpose.
    Filtered,
    Failed(ErrorKind),
}

/// An item that was left out, and what was being done with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skip {
    pub phase: Phase,
    /// Which item; for a read, which failed read of this chunk.
    pub index: usize,
}

/// An attempt that failed and is followed by another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    pub phase: Phase,
    pub index: Option<usize>,
    pub attempts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    pub phase: Phase,
    /// Which item, where it was one; for a read, which failed read of this chunk.
    pub index: Option<usize>,
    pub reason: FailureReason,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureReason {
    /// Such an error is neither skipped nor tried again.
    NotTolerated,
    /// All attempts failed, and such an error is not skipped.
    RetryExhausted,
    /// Such errors are skipped, but there were too many.
    SkipLimitExceeded,
}
