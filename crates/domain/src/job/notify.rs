//! Who is notified when an execution ends, and the text that the alert channels get.

use super::{BatchStatus, ExecutionId};
use crate::alert::{NotASubject, Notice, Severity, Subject};
use crate::time::Timestamp;
use serde_json::{Value, json};

/// The name under which alert channels get these notices, in place of a rule.
pub const JOB_END: &str = "job_end";

crate::words! {
    /// The ends that a channel is notified of.
    pub enum NotifyOn {
        Failed = "failed",
        Completed = "completed",
        Stopped = "stopped",
        Always = "always",
    }
}

/// One alert channel, and the ends that it is notified of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notify {
    pub on: NotifyOn,
    pub to: String,
}

impl Notify {
    fn covers(&self, status: BatchStatus) -> bool {
        match self.on {
            // Somebody has to look at each of these.
            NotifyOn::Failed => {
                matches!(status, BatchStatus::Failed | BatchStatus::Unknown | BatchStatus::Abandoned)
            }
            NotifyOn::Completed => status == BatchStatus::Completed,
            NotifyOn::Stopped => status == BatchStatus::Stopped,
            NotifyOn::Always => true,
        }
    }

    /// The stored form; none if nobody is notified.
    pub fn to_text(all: &[Self]) -> Option<String> {
        let entry = |one: &Self| json!({ "on": one.on.as_str(), "to": one.to });
        (!all.is_empty()).then(|| Value::from_iter(all.iter().map(entry)).to_string())
    }

    /// Leaves out entries that a later version may have written.
    pub fn from_text(text: &str) -> Vec<Self> {
        let stored: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
        let entry = |entry: &Value| {
            Some(Self { on: entry["on"].as_str()?.parse().ok()?, to: entry["to"].as_str()?.to_owned() })
        };
        stored.iter().filter_map(entry).collect()
    }
}

/// The channels to notify of an end with this status, each once.
pub fn channels(all: &[Notify], status: BatchStatus) -> Vec<&str> {
    let mut found: Vec<&str> =
        all.iter().filter(|one| one.covers(status)).map(|one| one.to.as_str()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The end of an execution.
#[derive(Clone, Copy, Debug)]
pub struct JobEnd<'a> {
    pub job: &'a str,
    pub execution: ExecutionId,
    pub status: BatchStatus,
    pub exit_code: &'a str,
    pub at: Timestamp,
}

impl JobEnd<'_> {
    pub fn subject(&self) -> Result<Subject, NotASubject> {
        Subject::new(&format!("job/{}", self.job))
    }

    /// A completed job resolves what a failed one began, for receivers that keep incidents.
    pub fn notice(&self) -> Notice {
        if self.status == BatchStatus::Completed { Notice::Resolved } else { Notice::Fired }
    }

    fn severity(&self) -> Severity {
        match self.status {
            BatchStatus::Completed => Severity::Info,
            BatchStatus::Stopped => Severity::Warning,
            _ => Severity::Critical,
        }
    }

    /// The schema of alerts, with the fields of the execution. Without its message, which may contain data of items.
    pub fn to_json(&self) -> String {
        let Self { job, execution, status, exit_code, at } = *self;
        let ended = status.as_str().to_lowercase();
        let exit = if exit_code == status.as_str() { String::new() } else { format!(" ({exit_code})") };
        json!({
            "schema": "tidemill.alert/v1",
            "rule": JOB_END,
            "subject": format!("job/{job}"),
            "severity": self.severity().as_str(),
            "notice": self.notice().as_str(),
            "value": null,
            "threshold": 0.0,
            "since": at.to_string(),
            "at": at.to_string(),
            "summary": format!("job {job} {ended}{exit}: execution {execution}"),
            "job": job,
            "execution": execution.get(),
            "status": status.as_str(),
            "exit_code": exit_code,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn notify(on: NotifyOn, to: &str) -> Notify {
        Notify { on, to: to.to_owned() }
    }

    proptest! {
        #[test]
        fn the_stored_form_reads_back(all in proptest::collection::vec((0..4_usize, ".{0,20}"), 0..5)) {
            let all: Vec<Notify> = all.iter().map(|(on, to)| notify(NotifyOn::ALL[*on], to)).collect();

            let text = Notify::to_text(&all);

            prop_assert_eq!(text.map_or(Vec::new(), |text| Notify::from_text(&text)), all);
        }

        #[test]
        fn every_end_is_told_to_those_who_hear_of_it_always_and_once(status in 0..8_usize) {
            let status = BatchStatus::ALL[status];
            let all = NotifyOn::ALL.map(|on| notify(on, on.as_str()));
            let twice = [&all[..], &all[..]].concat();

            let told = channels(&twice, status);

            let word = match status {
                BatchStatus::Unknown | BatchStatus::Abandoned => "failed".to_owned(),
                status => status.as_str().to_lowercase(),
            };
            let expected: Vec<&str> = told.iter().copied().filter(|to| **to == word || *to == "always").collect();
            prop_assert_eq!(&told, &expected);
            prop_assert!(told.contains(&"always") && told.len() <= 2);
        }
    }

    #[test]
    fn entries_of_a_later_version_are_left_out() {
        let text = r#"[{"on":"paused","to":"a"},{"on":"failed","to":"b"},{"on":"failed"},7]"#;

        assert_eq!(Notify::from_text(text), [notify(NotifyOn::Failed, "b")]);
        assert_eq!(Notify::from_text("{"), []);
    }
}
