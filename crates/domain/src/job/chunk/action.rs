//! The words between a chunk and who drives it: what to do, how it went, what became of it, what was counted.

use crate::item::{ErrorKind, Phase};
use std::ops::AddAssign;

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

/// The counters of a step, or what one chunk contributes to them. A skip is an item whose read, processing or write
/// failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    pub read: u64,
    pub write: u64,
    /// Items that a processor dropped on purpose.
    pub filter: u64,
    pub read_skip: u64,
    pub process_skip: u64,
    pub write_skip: u64,
    pub commit: u64,
    pub rollback: u64,
}

impl Counters {
    /// All skips together, which is what a skip limit counts.
    pub const fn skips(&self) -> u64 {
        self.read_skip + self.process_skip + self.write_skip
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.write += other.write;
        self.filter += other.filter;
        self.read_skip += other.read_skip;
        self.process_skip += other.process_skip;
        self.write_skip += other.write_skip;
        self.commit += other.commit;
        self.rollback += other.rollback;
    }
}
