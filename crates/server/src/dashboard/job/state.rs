//! How pages show the status of an execution: a word, a letter and a colour.

use crate::dashboard::part::{Health, state};
use maud::{Markup, html};
use tidemill_domain::job::{BatchStatus, ExitStatus};
use tidemill_store::job::ExecutionRecord;

tidemill_domain::words! {
    /// The state of a job, by its last execution. The list has this order: failures come first.
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
            // An unknown outcome is as bad as a failure.
            Some(BatchStatus::Failed | BatchStatus::Unknown) => Self::Failed,
            Some(BatchStatus::Abandoned) => Self::Abandoned,
        }
    }

    /// The label in the filter.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Never => "never ran",
            other => other.as_str(),
        }
    }
}

pub(crate) const fn health(status: BatchStatus) -> Health {
    match status {
        BatchStatus::Completed => Health::Ok,
        BatchStatus::Starting | BatchStatus::Started => Health::Busy,
        BatchStatus::Stopping | BatchStatus::Stopped => Health::Warn,
        BatchStatus::Failed | BatchStatus::Unknown => Health::Bad,
        BatchStatus::Abandoned => Health::Idle,
    }
}

pub(crate) fn status_word(status: BatchStatus) -> Markup {
    state(health(status), status.as_str())
}

/// The status of an execution; says so if there was nothing to do.
pub(crate) fn result_word(execution: &ExecutionRecord) -> Markup {
    html! {
        (status_word(execution.status))
        @if execution.exit.code == ExitStatus::NOOP { " " span.soft { "nothing to do" } }
    }
}

/// For strips of cells, where the word does not fit.
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
    fn every_status_has_a_state() {
        let found: Vec<JobState> =
            BatchStatus::ALL.into_iter().map(|status| JobState::of(Some(status))).collect();
        for state in JobState::ALL.into_iter().filter(|state| *state != JobState::Never) {
            assert!(found.contains(&state), "{state:?}");
        }
    }
}
