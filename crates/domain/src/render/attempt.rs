//! How claims end.

use super::lifecycle::{Event, Work};
use super::status::Status;
use std::str::FromStr;

/// How a claim ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttemptOutcome {
    /// The file is published.
    Completed,
    /// The render was given up.
    Failed,
    /// Nobody wanted it any more.
    Cancelled,
    /// It is tried again.
    Retried,
    /// The worker was to stop.
    GivenBack,
    /// The worker has vanished.
    Lost,
}

impl AttemptOutcome {
    /// All.
    pub const ALL: [Self; 6] =
        [Self::Completed, Self::Failed, Self::Cancelled, Self::Retried, Self::GivenBack, Self::Lost];

    /// The word that is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Retried => "retried",
            Self::GivenBack => "given_back",
            Self::Lost => "lost",
        }
    }

    /// How a claim ends with a render that waits again after this has happened to it.
    pub const fn of_waiting(event: &Event) -> Self {
        match event {
            Event::Lapse => Self::Lost,
            Event::Work { work: Work::Stop, .. } => Self::GivenBack,
            Event::Claim { .. } | Event::Cancel | Event::Work { .. } => Self::Retried,
        }
    }

    /// How a claim has ended that leaves a render like this; `waiting` if it waits again.
    pub const fn of(after: Status, waiting: Self) -> Self {
        match after {
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Cancelled => Self::Cancelled,
            Status::Pending
            | Status::Preparing
            | Status::Rendering
            | Status::Encoding
            | Status::Uploading => waiting,
        }
    }
}

/// The text names no outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not an outcome of an attempt")]
pub struct NotAnOutcome;

impl FromStr for AttemptOutcome {
    type Err = NotAnOutcome;

    fn from_str(text: &str) -> Result<Self, NotAnOutcome> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == text).ok_or(NotAnOutcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::{Epoch, Fence};
    use crate::process::ProcessId;

    fn work(work: Work) -> Event {
        Event::Work { fence: Fence { owner: ProcessId::new(uuid::Uuid::nil()), epoch: Epoch::new(1) }, work }
    }

    #[test]
    fn an_end_is_told_as_it_is_and_everything_else_by_what_has_happened() {
        for status in Status::ALL {
            for waiting in AttemptOutcome::ALL {
                let expected = if status.is_terminal() { status.as_str() } else { waiting.as_str() };
                assert_eq!(AttemptOutcome::of(status, waiting).as_str(), expected);
            }
        }
        assert_eq!(AttemptOutcome::of_waiting(&work(Work::Stop)), AttemptOutcome::GivenBack);
        assert_eq!(AttemptOutcome::of_waiting(&work(Work::FinalMissing)), AttemptOutcome::Retried);
        assert_eq!(AttemptOutcome::of_waiting(&Event::Lapse), AttemptOutcome::Lost);
    }

    #[test]
    fn words_are_read_back() {
        for outcome in AttemptOutcome::ALL {
            assert_eq!(outcome.as_str().parse(), Ok(outcome));
        }
        assert_eq!("gone".parse::<AttemptOutcome>(), Err(NotAnOutcome));
    }
}
