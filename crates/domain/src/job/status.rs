//! The status of an execution, in the order of Spring Batch: later is worse.

crate::words! {
    #[derive(PartialOrd, Ord, Hash)]
    pub enum BatchStatus any_case:
        "not a status; use COMPLETED, STARTING, STARTED, STOPPING, STOPPED, FAILED, ABANDONED or UNKNOWN"
    {
        Completed = "COMPLETED",
        Starting = "STARTING",
        Started = "STARTED",
        Stopping = "STOPPING",
        /// Stopped on request; can be restarted.
        Stopped = "STOPPED",
        /// Can be restarted.
        Failed = "FAILED",
        /// Given up by an operator; never restarted.
        Abandoned = "ABANDONED",
        Unknown = "UNKNOWN",
    }
}

impl BatchStatus {
    /// Runs, or is about to.
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Starting | Self::Started | Self::Stopping)
    }

    pub const fn is_unsuccessful(self) -> bool {
        matches!(self, Self::Failed | Self::Abandoned | Self::Unknown)
    }

    /// The status of a whole with parts in these two: the worse one, but COMPLETED beats STARTING and STARTED.
    #[must_use]
    pub fn upgrade_to(self, other: Self) -> Self {
        match (self.min(other), self.max(other)) {
            (Self::Completed, worse) if worse <= Self::Started => Self::Completed,
            (_, worse) => worse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrading_keeps_the_worse_and_a_completed_part_is_further_than_one_that_runs() {
        use BatchStatus::{Completed, Failed, Started, Starting, Stopped, Unknown};
        for (one, other, both) in [
            (Starting, Started, Started),
            (Starting, Completed, Completed),
            (Started, Completed, Completed),
            (Completed, Stopped, Stopped),
            (Failed, Stopped, Failed),
            (Completed, Completed, Completed),
            (Started, Unknown, Unknown),
        ] {
            assert_eq!(one.upgrade_to(other), both);
            assert_eq!(other.upgrade_to(one), both);
        }
    }

    #[test]
    fn upgrading_is_the_same_in_any_order() {
        for a in BatchStatus::ALL {
            for b in BatchStatus::ALL {
                assert_eq!(a.upgrade_to(b), b.upgrade_to(a));
                assert_eq!(a.upgrade_to(a), a);
            }
        }
    }
}
