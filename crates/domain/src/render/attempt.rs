//! How claims end.

use super::{Event, Status, Work};

crate::words! {
    pub enum AttemptOutcome {
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Retried = "retried",
        GivenBack = "given_back",
        Lost = "lost",
    }
}

impl AttemptOutcome {
    /// How a claim ends if the render waits again after this event.
    pub const fn of_waiting(event: &Event) -> Self {
        match event {
            Event::Lapse => Self::Lost,
            Event::Work { work: Work::Stop | Work::NeedsApproval, .. } => Self::GivenBack,
            Event::Claim { .. }
            | Event::Cancel
            | Event::Approve
            | Event::Reject { .. }
            | Event::Work { .. } => Self::Retried,
        }
    }

    /// How a claim ends that leaves a render in this status; `waiting` if it waits again.
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
}
