//! The end of an execution, as alert channels hear of it.

pub use crate::alert::notify::{Notify, NotifyOn};

use super::{BatchStatus, ExecutionId};
use crate::alert::notify::{self, End};
use crate::alert::{NotASubject, Notice, Subject};
use crate::time::Timestamp;
use serde_json::json;

/// The name under which alert channels get these notices, in place of a rule.
pub const JOB_END: &str = "job_end";

/// None while it runs.
fn end(status: BatchStatus) -> Option<End> {
    match status {
        BatchStatus::Failed | BatchStatus::Unknown | BatchStatus::Abandoned => Some(End::Failed),
        BatchStatus::Completed => Some(End::Completed),
        BatchStatus::Stopped => Some(End::Stopped),
        _ => None,
    }
}

/// The channels to notify of an end with this status, each once.
pub fn channels(all: &[Notify], status: BatchStatus) -> Vec<&str> {
    notify::channels(all, end(status))
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

    fn end(&self) -> End {
        end(self.status).unwrap_or(End::Failed)
    }

    pub fn notice(&self) -> Notice {
        self.end().notice()
    }

    /// The schema of alerts, with the fields of the execution. Without its message, which may contain data of items.
    pub fn to_json(&self) -> String {
        let Self { job, execution, status, exit_code, at } = *self;
        let ended = status.as_str().to_lowercase();
        let exit = if exit_code == status.as_str() { String::new() } else { format!(" ({exit_code})") };
        let fields = json!({
            "job": job,
            "execution": execution.get(),
            "status": status.as_str(),
            "exit_code": exit_code,
        });
        let summary = format!("job {job} {ended}{exit}: execution {execution}");
        self.end().to_json(JOB_END, &format!("job/{job}"), at, &summary, fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_is_told_to_those_who_hear_of_it_always_and_once() {
        let all = NotifyOn::ALL.map(|on| Notify { on, to: on.as_str().to_owned() });
        let twice = [&all[..], &all[..]].concat();
        for status in BatchStatus::ALL {
            let told = channels(&twice, status);

            let word = match status {
                BatchStatus::Unknown | BatchStatus::Abandoned => "failed".to_owned(),
                status => status.as_str().to_lowercase(),
            };
            let expected: Vec<&str> = ["always", "completed", "failed", "stopped"]
                .into_iter()
                .filter(|to| *to == word || *to == "always")
                .collect();
            assert_eq!(told, expected, "{status:?}");
        }
    }
}
