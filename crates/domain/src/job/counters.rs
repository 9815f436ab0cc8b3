//! What a step counts.

use std::ops::AddAssign;

/// The counters of a step, or what one chunk contributes to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Items read.
    pub read: u64,
    /// Items written.
    pub write: u64,
    /// Items that a processor dropped on purpose.
    pub filter: u64,
    /// Reads that failed and were skipped.
    pub read_skip: u64,
    /// Items skipped because processing them failed.
    pub process_skip: u64,
    /// Items skipped because writing them failed.
    pub write_skip: u64,
    /// Chunks committed.
    pub commit: u64,
    /// Chunks rolled back.
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
