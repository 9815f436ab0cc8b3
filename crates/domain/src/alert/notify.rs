//! Which alert channels hear of the end of an execution or a render, and the text that they get. These are no alerts: no rule
//! fires, but they have the same queue and the same schema.

use super::{Notice, Severity};
use crate::time::Timestamp;
use serde_json::{Value, json};

crate::words! {
    /// What a channel is notified of.
    pub enum NotifyOn {
        Failed = "failed",
        Completed = "completed",
        Stopped = "stopped",
        /// It waits for a person's approval.
        Waiting = "waiting",
        Always = "always",
    }
}

impl NotifyOn {
    /// Executions do not wait for approval.
    pub const OF_JOBS: [Self; 4] = [Self::Failed, Self::Completed, Self::Stopped, Self::Always];
}

/// How something has ended, or that it waits for a person.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Completed,
    /// Somebody has to look at it.
    Failed,
    Stopped,
    Waiting,
}

impl End {
    /// What completes resolves what failed before, for receivers that keep incidents.
    pub const fn notice(self) -> Notice {
        if matches!(self, Self::Completed) { Notice::Resolved } else { Notice::Fired }
    }

    const fn severity(self) -> Severity {
        match self {
            Self::Completed => Severity::Info,
            Self::Stopped | Self::Waiting => Severity::Warning,
            Self::Failed => Severity::Critical,
        }
    }

    /// The schema of alerts; `fields` are added. `rule` is in place of a rule.
    pub fn to_json(self, rule: &str, subject: &str, at: Timestamp, summary: &str, fields: Value) -> String {
        let mut body = json!({
            "schema": "tidemill.alert/v1",
            "rule": rule,
            "subject": subject,
            "severity": self.severity().as_str(),
            "notice": self.notice().as_str(),
            "value": null,
            "threshold": 0.0,
            "since": at.to_string(),
            "at": at.to_string(),
            "summary": summary,
        });
        if let (Value::Object(body), Value::Object(fields)) = (&mut body, fields) {
            body.extend(fields);
        }
        body.to_string()
    }
}

/// One alert channel, and the ends that it is notified of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notify {
    pub on: NotifyOn,
    pub to: String,
}

impl Notify {
    fn covers(&self, end: Option<End>) -> bool {
        match self.on {
            NotifyOn::Failed => end == Some(End::Failed),
            NotifyOn::Completed => end == Some(End::Completed),
            NotifyOn::Stopped => end == Some(End::Stopped),
            NotifyOn::Waiting => end == Some(End::Waiting),
            NotifyOn::Always => true,
        }
    }

    /// `ops` for every end, or `failed:ops`.
    fn read(text: &str) -> Option<Self> {
        let (on, to) = text.split_once(':').unwrap_or((NotifyOn::Always.as_str(), text));
        let is_name = !to.is_empty() && to.chars().all(|letter| letter.is_ascii_graphic() && letter != ':');
        Some(Self { on: on.parse().ok()?, to: to.to_owned() }).filter(|_| is_name)
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

crate::newtype::parsed!(
    Notify, Notify::read, BadNotify(text): "{0:?} is no alert channel such as ops, or failed:ops for failures only"
);

/// The channels to notify of an end, each once.
pub fn channels(all: &[Notify], end: Option<End>) -> Vec<&str> {
    let mut found: Vec<&str> = all.iter().filter(|one| one.covers(end)).map(|one| one.to.as_str()).collect();
    found.sort_unstable();
    found.dedup();
    found
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
    }

    #[test]
    fn entries_of_a_later_version_are_left_out() {
        let text = r#"[{"on":"paused","to":"a"},{"on":"failed","to":"b"},{"on":"failed"},7]"#;

        assert_eq!(Notify::from_text(text), [notify(NotifyOn::Failed, "b")]);
        assert_eq!(Notify::from_text("{"), []);
    }

    #[test]
    fn a_channel_may_hear_of_some_ends_only() {
        assert_eq!("ops".parse(), Ok(notify(NotifyOn::Always, "ops")));
        assert_eq!("failed:ops".parse(), Ok(notify(NotifyOn::Failed, "ops")));
        for bad in ["", "failed:", ":ops", "broken:ops", "failed:ops:x", "ops team"] {
            assert!(bad.parse::<Notify>().is_err(), "{bad}");
        }
        let all = ["ops", "failed:pager", "completed:playout", "stopped:a", "failed:ops"]
            .map(|one| one.parse().unwrap());
        assert_eq!(channels(&all, Some(End::Failed)), ["ops", "pager"]);
        assert_eq!(channels(&all, Some(End::Completed)), ["ops", "playout"]);
        assert_eq!(channels(&all, Some(End::Stopped)), ["a", "ops"]);
        assert_eq!(channels(&all, None), ["ops"]);
    }
}
