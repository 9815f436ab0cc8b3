//! Which jobs somebody wants to see. It is in the address, so that it survives "back" and can be sent to others.

use super::state::JobState;
use serde::Deserialize;

/// Longest text to look for.
const TEXT_CHARS_MAX: usize = 100;

/// Which jobs somebody wants to see; all when it says nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobsView {
    /// Only those with this in their name.
    text: String,
    /// Only those whose last execution is like this.
    status: String,
}

impl JobsView {
    /// As a word, for addresses within addresses.
    pub fn word(&self) -> String {
        format!("{}:{}", self.status, self.text())
    }

    pub fn of_word(word: &str) -> Self {
        let (status, text) = word.split_once(':').unwrap_or((word, ""));
        Self { text: text.to_owned(), status: status.to_owned() }.sane()
    }

    /// Without what makes no sense, so that two who want the same ask for the same.
    pub(crate) fn sane(self) -> Self {
        let status = self.standing().map_or("", JobState::as_str).to_owned();
        Self { text: self.text().to_owned(), status }
    }

    /// The text to look for, without what is around it.
    pub(crate) fn text(&self) -> &str {
        let text = self.text.trim();
        text.char_indices().nth(TEXT_CHARS_MAX).map_or(text, |(end, _)| text.split_at(end).0)
    }

    pub(crate) fn standing(&self) -> Option<JobState> {
        self.status.parse().ok()
    }

    /// Whether it leaves anything out.
    pub(crate) fn is_everything(&self) -> bool {
        self.text().is_empty() && self.standing().is_none()
    }

    /// Whether a job is wanted.
    pub(crate) fn wants(&self, name: &str, standing: JobState) -> bool {
        self.standing().is_none_or(|wanted| wanted == standing)
            && name.to_lowercase().contains(&self.text().to_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_reads_back_from_its_word_and_nonsense_is_everything() {
        for (status, text) in [("", ""), ("failed", ""), ("", "a:b&c"), ("never", "ö x")] {
            let view = JobsView { text: text.into(), status: status.into() };
            assert_eq!(JobsView::of_word(&view.word()), view);
        }
        assert!(JobsView::of_word("lunar:").is_everything());
        assert!(JobsView::of_word("").is_everything());
        let long = JobsView { text: "ä".repeat(200), status: String::new() };
        assert_eq!(long.sane().text().chars().count(), 100);
    }

    #[test]
    fn a_job_is_found_by_part_of_its_name_in_any_case_and_by_how_it_stands() {
        let view = JobsView { text: " night ".into(), status: "failed".into() };

        assert!(view.wants("NIGHTLY-orders", JobState::Failed));
        assert!(!view.wants("nightly-orders", JobState::Completed));
        assert!(!view.wants("daily", JobState::Failed));
    }
}
