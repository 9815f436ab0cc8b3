//! What a chunk and its caller exchange: actions, results and counters.

use crate::item::{ErrorKind, Phase};
use std::ops::AddAssign;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Process this item, then call [`Chunk::processed`](super::Chunk::processed).
    Process(usize),
    /// Call the skip listeners for this item now.
    Announce(Skip),
    /// Write the outputs of these items, then call [`Chunk::written`](super::Chunk::written).
    Write(Vec<usize>),
    /// Announce [`Chunk::take_skips`](super::Chunk::take_skips), commit, call [`Chunk::committed`](super::Chunk::committed).
    Commit,
    RollBack,
    Done,
    /// The step has failed. What was not committed is rolled back.
    Fail(Failure),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Processed {
    Output,
    /// The processor dropped the item on purpose.
    Filtered,
    Failed(ErrorKind),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skip {
    pub phase: Phase,
    /// The item; for a read, the number of the failed read in this chunk.
    pub index: usize,
    /// Announced before: as in Spring Batch, each commit of a scan announces the skipped reads of the chunk.
    pub is_repeated: bool,
}

impl Skip {
    pub(super) const fn new(phase: Phase, index: usize) -> Self {
        Self { phase, index, is_repeated: false }
    }
}

/// A failed attempt that is followed by another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    pub phase: Phase,
    pub index: Option<usize>,
    pub attempts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    pub phase: Phase,
    /// The item, if known; for a read, the number of the failed read in this chunk.
    pub index: Option<usize>,
    pub reason: FailureReason,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureReason {
    /// The error is neither skipped nor retried.
    NotTolerated,
    /// All attempts failed, and the error is not skipped.
    RetryExhausted,
    /// The error is skippable, but the limit is reached.
    SkipLimitExceeded,
}

/// The counters of a step or a chunk. A skip is an item whose read, processing or write failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    pub read: u64,
    pub write: u64,
    /// Items that a processor dropped on purpose. As in Spring Batch, each attempt to write a chunk counts its own again.
    pub filter: u64,
    pub read_skip: u64,
    pub process_skip: u64,
    pub write_skip: u64,
    pub commit: u64,
    pub rollback: u64,
}

impl Counters {
    /// Skips of all phases, which a skip limit counts.
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
