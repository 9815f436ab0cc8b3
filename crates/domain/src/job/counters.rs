//! What a step counts.

use std::ops::AddAssign;

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
