//! The filter for a list of executions.

use crate::dashboard::part::query;
use tidemill_domain::job::BatchStatus;

/// The choice for all statuses of a running execution.
pub(crate) const RUNNING: &str = "running";

/// The filter for a list of executions; the default shows all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExecutionsView {
    /// All jobs if empty.
    pub(crate) job: String,
    /// A status, [`RUNNING`], or empty for all.
    status: String,
    pub(crate) instance: Option<i64>,
    pub(crate) before: Option<i64>,
}

impl ExecutionsView {
    /// An unknown status counts as empty, so that equal filters are equal values.
    pub(crate) fn new(job: &str, status: &str, instance: Option<i64>, before: Option<i64>) -> Self {
        let is_known = status == RUNNING || status.parse::<BatchStatus>().is_ok();
        let status = if is_known { status } else { "" };
        Self { job: job.to_owned(), status: status.to_owned(), instance, before }
    }

    /// As one word, for the address of the live events.
    pub fn word(&self) -> String {
        let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
        format!("{}:{}:{}:{}", self.status, number(self.instance), number(self.before), self.job)
    }

    pub fn of_word(word: &str) -> Option<Self> {
        let mut parts = word.splitn(4, ':');
        let status = parts.next()?;
        let mut number = || match parts.next()? {
            "" => Some(None),
            text => text.parse().ok().map(Some),
        };
        let (instance, before) = (number()?, number()?);
        Some(Self::new(parts.next()?, status, instance, before))
    }

    /// Empty for all statuses.
    pub(super) fn statuses(&self) -> Vec<BatchStatus> {
        if self.status == RUNNING {
            return BatchStatus::ALL.into_iter().filter(|status| status.is_running()).collect();
        }
        self.status.parse().into_iter().collect()
    }

    pub(super) fn is_status(&self, word: &str) -> bool {
        self.status == word
    }

    /// Whether it filters nothing, apart from the page.
    pub(super) fn is_everything(&self) -> bool {
        self.status.is_empty() && self.instance.is_none()
    }

    /// The query string of this filter, with `more` at its end.
    pub(super) fn query(&self, more: &str) -> String {
        let instance = self.instance.map(|instance| instance.to_string()).unwrap_or_default();
        query([("status", self.status.as_str()), ("instance", &instance)], more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_back_from_its_word_and_nonsense_is_none() {
        for (job, status, instance, before) in [
            ("", "", None, None),
            ("", RUNNING, None, Some(7)),
            ("load", "FAILED", Some(3), None),
            ("a:b &c", "COMPLETED", None, None),
        ] {
            let view = ExecutionsView::new(job, status, instance, before);
            assert_eq!(ExecutionsView::of_word(&view.word()), Some(view));
        }
        for word in ["", "FAILED", ":x::", "::9"] {
            assert_eq!(ExecutionsView::of_word(word), None, "{word:?}");
        }
        assert!(ExecutionsView::new("", "lunar", None, None).is_everything());
    }

    #[test]
    fn running_is_every_status_of_a_running_execution() {
        let running = ExecutionsView::new("", RUNNING, None, None).statuses();

        assert_eq!(running, [BatchStatus::Starting, BatchStatus::Started, BatchStatus::Stopping]);
        assert_eq!(ExecutionsView::new("", "FAILED", None, None).statuses(), [BatchStatus::Failed]);
    }
}
