//! What nexrender reports about a job: all words of its three dialects, as phases of ours. Unknown words change nothing.

use super::failure::{Failure, classify};
use super::phase::Phase;

#[derive(Clone, PartialEq, Debug)]
pub enum Report {
    /// `percent` is as reported.
    At { phase: Phase, percent: Option<f64> },
    /// Done, but the file may be bad.
    Finished,
    /// With nexrender's message.
    Failed { failure: Failure, message: String },
    /// Cancelled in nexrender.
    Cancelled,
    /// nexrender has no such job.
    Lost,
    /// The caller warns once; the timeouts continue.
    Unknown { word: String },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobReport<'a> {
    pub uid: &'a str,
    pub state: &'a str,
    pub percent: Option<f64>,
    pub error: Option<&'a str>,
}

/// An error text counts only in the state `error`: nodes also send one shortly before they continue or fail.
pub fn understand(job: JobReport<'_>) -> Report {
    match job.state {
        "created" | "queued" | "picked" | "pending" => at(Phase::WaitingForNode, job),
        "started"
        | "render:setup"
        | "render:predownload"
        | "render:download"
        | "render:postdownload"
        | "render:prerender"
        | "render:script" => at(Phase::NodePreparing, job),
        "render:dorender" | "rendering" => at(Phase::Rendering, job),
        "render:postrender" | "render:cleanup" | "encoding" => at(Phase::Encoding, job),
        "finished" => Report::Finished,
        "error" => {
            let message = job.error.unwrap_or("nexrender gave no reason").to_owned();
            Report::Failed { failure: classify(&message, job.uid), message }
        }
        "cancelled" | "manually_cancelled" => Report::Cancelled,
        other => Report::Unknown { word: other.chars().take(64).collect() },
    }
}

fn at(phase: Phase, job: JobReport<'_>) -> Report {
    Report::At { phase, percent: job.percent }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(state: &str) -> JobReport<'_> {
        JobReport { uid: "rq-1-1", state, percent: Some(45.0), error: None }
    }

    #[test]
    fn every_word_of_the_three_dialects_is_known() {
        let check = |phase, words: &[&str]| {
            for word in words {
                assert_eq!(understand(said(word)), Report::At { phase, percent: Some(45.0) }, "{word}");
            }
        };

        check(Phase::WaitingForNode, &["created", "queued", "picked", "pending"]);
        check(
            Phase::NodePreparing,
            &[
                "started",
                "render:setup",
                "render:predownload",
                "render:download",
                "render:postdownload",
                "render:prerender",
                "render:script",
            ],
        );
        check(Phase::Rendering, &["render:dorender", "rendering"]);
        check(Phase::Encoding, &["render:postrender", "render:cleanup", "encoding"]);
        assert_eq!(understand(said("finished")), Report::Finished);
        assert_eq!(understand(said("manually_cancelled")), Report::Cancelled);
    }

    #[test]
    fn an_error_without_a_text_is_one_that_may_pass() {
        let Report::Failed { failure, message } = understand(said("error")) else { panic!("it has failed") };

        assert_eq!((failure, message.as_str()), (Failure::RenderFailed, "nexrender gave no reason"));
    }

    #[test]
    fn a_finished_job_with_an_error_text_is_finished() {
        let said = JobReport { error: Some("a warning"), ..said("finished") };

        assert_eq!(understand(said), Report::Finished);
    }

    proptest! {
        #[test]
        fn any_word_is_understood_or_named(state in "\\PC{0,100}", percent: f64, error: Option<String>) {
            let said = JobReport { uid: "rq-1-1", state: &state, percent: Some(percent), error: error.as_deref() };
            match understand(said) {
                Report::At { phase, .. } => prop_assert!(phase.is_remote()),
                Report::Unknown { word } => prop_assert!(state.starts_with(&word)),
                Report::Failed { .. } => prop_assert_eq!(state, "error"),
                Report::Finished | Report::Cancelled | Report::Lost => {}
            }
        }
    }

    #[test]
    fn an_error_text_counts_only_in_the_state_error() {
        use crate::render::Phase;
        use crate::render::remote::{JobReport, Report, understand};
        let report =
            JobReport { uid: "rq-1-1", state: "started", percent: None, error: Some("half a second before") };
        assert_eq!(understand(report), Report::At { phase: Phase::NodePreparing, percent: None });
    }
}
