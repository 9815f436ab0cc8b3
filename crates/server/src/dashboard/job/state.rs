//! How pages show the status of an execution (a word, a letter and a colour), and the filter for the list of jobs, which is
//! in the address, so that it survives "back" and can be shared.

use crate::dashboard::part::{Health, state};
use maud::{Markup, html};
use serde::Deserialize;
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
pub(crate) fn letter(status: BatchStatus) -> &'static str {
    if status.is_running() { "R" } else { &status.as_str()[..1] }
}

const TEXT_CHARS_MAX: usize = 100;

/// The filter for the list of jobs; the default shows all.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobsView {
    /// Part of the name.
    text: String,
    /// A [`JobState`], or empty for all.
    status: String,
}

impl JobsView {
    /// As one word, for the address of the live events.
    pub fn word(&self) -> String {
        format!("{}:{}", self.status, self.text())
    }

    pub fn of_word(word: &str) -> Self {
        let (status, text) = word.split_once(':').unwrap_or((word, ""));
        Self { text: text.to_owned(), status: status.to_owned() }.normalized()
    }

    /// Without invalid parts, so that equal filters are equal values.
    pub(crate) fn normalized(self) -> Self {
        let status = self.state().map_or("", JobState::as_str).to_owned();
        Self { text: self.text().to_owned(), status }
    }

    /// The text without surrounding spaces.
    pub(crate) fn text(&self) -> &str {
        let text = self.text.trim();
        text.char_indices().nth(TEXT_CHARS_MAX).map_or(text, |(end, _)| text.split_at(end).0)
    }

    pub(crate) fn state(&self) -> Option<JobState> {
        self.status.parse().ok()
    }

    /// Whether it filters nothing.
    pub(crate) fn is_everything(&self) -> bool {
        self.text().is_empty() && self.state().is_none()
    }

    pub(crate) fn includes(&self, name: &str, state: JobState) -> bool {
        self.state().is_none_or(|wanted| wanted == state)
            && name.to_lowercase().contains(&self.text().to_lowercase())
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

    #[test]
    fn a_view_reads_back_from_its_word_and_nonsense_is_everything() {
        for (status, text) in [("", ""), ("failed", ""), ("", "a:b&c"), ("never", "ö x")] {
            let view = JobsView { text: text.into(), status: status.into() };
            assert_eq!(JobsView::of_word(&view.word()), view);
        }
        assert!(JobsView::of_word("lunar:").is_everything());
        assert!(JobsView::of_word("").is_everything());
        let long = JobsView { text: "ä".repeat(200), status: String::new() };
        assert_eq!(long.normalized().text().chars().count(), 100);
    }

    #[test]
    fn a_job_is_found_by_part_of_its_name_in_any_case_and_by_its_state() {
        let view = JobsView { text: " night ".into(), status: "failed".into() };

        assert!(view.includes("NIGHTLY-orders", JobState::Failed));
        assert!(!view.includes("nightly-orders", JobState::Completed));
        assert!(!view.includes("daily", JobState::Failed));
    }
}
