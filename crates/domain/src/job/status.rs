//! Where an execution is, in the order of Spring Batch: the later a status stands, the worse it is.

use std::fmt;
use std::str::FromStr;

/// Where an execution of a job or step is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BatchStatus {
    /// Ended, and all is done.
    Completed,
    /// About to run.
    Starting,
    /// Running.
    Started,
    /// Somebody asked it to stop.
    Stopping,
    /// Ended because somebody asked; can be restarted.
    Stopped,
    /// Ended with a failure; can be restarted.
    Failed,
    /// Given up by an operator; never restarted.
    Abandoned,
    /// Nobody can say how it ended.
    Unknown,
}

impl BatchStatus {
    /// All statuses, in order.
    pub const ALL: [Self; 8] = [
        Self::Completed,
        Self::Starting,
        Self::Started,
        Self::Stopping,
        Self::Stopped,
        Self::Failed,
        Self::Abandoned,
        Self::Unknown,
    ];

    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "COMPLETED",
            Self::Starting => "STARTING",
            Self::Started => "STARTED",
            Self::Stopping => "STOPPING",
            Self::Stopped => "STOPPED",
            Self::Failed => "FAILED",
            Self::Abandoned => "ABANDONED",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Whether something runs, or is about to.
    pub const fn is_running(self) -> bool {
        matches!(self, Self::Starting | Self::Started | Self::Stopping)
    }

    /// Whether it ended without success.
    pub const fn is_unsuccessful(self) -> bool {
        matches!(self, Self::Failed | Self::Abandoned | Self::Unknown)
    }

    /// The status of a whole that has parts in these two: the worse one, except that a completed part is
    /// further than one that has not ended.
    #[must_use]
    pub fn upgrade_to(self, other: Self) -> Self {
        if self > Self::Started || other > Self::Started {
            return self.max(other);
        }
        if self == Self::Completed || other == Self::Completed {
            return Self::Completed;
        }
        self.max(other)
    }
}

impl fmt::Display for BatchStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "not a status; there are COMPLETED, STARTING, STARTED, STOPPING, STOPPED, FAILED, ABANDONED and UNKNOWN"
)]
pub struct NotAStatus;

impl FromStr for BatchStatus {
    type Err = NotAStatus;

    fn from_str(text: &str) -> Result<Self, NotAStatus> {
        Self::ALL.into_iter().find(|status| status.as_str().eq_ignore_ascii_case(text)).ok_or(NotAStatus)
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
                assert_eq!(a.as_str().parse(), Ok(a));
            }
        }
    }
}
