//! Where an execution is, as people are told: by a word, a letter, a shape and a colour.

use crate::dashboard::part::{Health, state};
use maud::Markup;
use tidemill_domain::job::BatchStatus;

tidemill_domain::words! {
    /// How a job stands, by its last execution. The order is that of the list: what needs somebody comes first.
    #[derive(PartialOrd, Ord)]
    pub(crate) enum JobState {
        Failed = "failed",
        Running = "running",
        Stopped = "stopped",
        Abandoned = "abandoned",
        Completed = "completed",
        Never = "never",
    }
}

impl JobState {
    pub(crate) const fn of(last: Option<BatchStatus>) -> Self {
        match last {
            None => Self::Never,
            Some(BatchStatus::Completed) => Self::Completed,
            Some(BatchStatus::Starting | BatchStatus::Started | BatchStatus::Stopping) => Self::Running,
            Some(BatchStatus::Stopped) => Self::Stopped,
            // Nobody knows how it ended: that is as bad.
            Some(BatchStatus::Failed | BatchStatus::Unknown) => Self::Failed,
            Some(BatchStatus::Abandoned) => Self::Abandoned,
        }
    }

    /// As a choice of the filter.
    pub(crate) const fn choice(self) -> &'static str {
        match self {
            Self::Never => "never ran",
            other => other.as_str(),
        }
    }
}

/// How an execution is doing.
pub(crate) const fn health(status: BatchStatus) -> Health {
    match status {
        BatchStatus::Completed => Health::Ok,
        BatchStatus::Starting | BatchStatus::Started => Health::Busy,
        BatchStatus::Stopping | BatchStatus::Stopped => Health::Warn,
        BatchStatus::Failed | BatchStatus::Unknown => Health::Bad,
        BatchStatus::Abandoned => Health::Idle,
    }
}

/// The status, in its own word.
pub(crate) fn word(status: BatchStatus) -> Markup {
    state(health(status), status.as_str())
}

/// The letter that stands for it where there is no room for the word.
pub(crate) const fn letter(status: BatchStatus) -> &'static str {
    match status {
        BatchStatus::Completed => "C",
        BatchStatus::Starting | BatchStatus::Started | BatchStatus::Stopping => "R",
        BatchStatus::Stopped => "S",
        BatchStatus::Failed => "F",
        BatchStatus::Abandoned => "A",
        BatchStatus::Unknown => "U",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_standing() {
        let found: Vec<JobState> =
            BatchStatus::ALL.into_iter().map(|status| JobState::of(Some(status))).collect();
        for standing in JobState::ALL.into_iter().filter(|standing| *standing != JobState::Never) {
            assert!(found.contains(&standing), "{standing:?}");
        }
    }
}
