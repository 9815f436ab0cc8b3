//! Where a render is, in the words that a dashboard writes and reads by SQL.

use std::fmt;
use std::str::FromStr;

/// Where a render is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// It waits for a worker.
    Pending,
    /// A worker has it, and nexrender not yet.
    Preparing,
    /// nexrender has it.
    Rendering,
    /// The node encodes or copies what it has rendered.
    Encoding,
    /// The file is there, and is checked and published.
    Uploading,
    /// The file is published. Final.
    Completed,
    /// It was given up. Final.
    Failed,
    /// Somebody did not want it any more. Final.
    Cancelled,
}

impl Status {
    /// All, in order.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Preparing,
        Self::Rendering,
        Self::Encoding,
        Self::Uploading,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Preparing => "preparing",
            Self::Rendering => "rendering",
            Self::Encoding => "encoding",
            Self::Uploading => "uploading",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether a worker has it: only then it has a worker and a lease.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Preparing | Self::Rendering | Self::Encoding | Self::Uploading)
    }

    /// Whether it has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text names no status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "not a status; there are pending, preparing, rendering, encoding, uploading, completed, failed and cancelled"
)]
pub struct NotAStatus;

impl FromStr for Status {
    type Err = NotAStatus;

    fn from_str(text: &str) -> Result<Self, NotAStatus> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(NotAStatus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_render_waits_is_at_work_or_has_ended() {
        for status in Status::ALL {
            let is_waiting = status == Status::Pending;
            let is_one_of = [is_waiting, status.is_active(), status.is_terminal()];

            assert_eq!(is_one_of.into_iter().filter(|is| *is).count(), 1, "{status}");
        }
    }

    #[test]
    fn words_read_back_and_those_of_nexrender_are_none_of_ours() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        for foreign in ["finished", "error", "queued", "Pending", " pending", ""] {
            assert_eq!(foreign.parse::<Status>(), Err(NotAStatus), "{foreign:?}");
        }
    }
}
