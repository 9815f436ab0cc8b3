//! A notice, as a value and as the JSON text that is stored and sent.
//!
//! The schema is `tidemill.alert/v1`; fields are only ever added. Receivers may get the same notice twice: rule,
//! subject, notice and `at` together identify it.

use serde_json::{Value, json};
use std::time::Duration;
use tidemill_domain::alert::{Aggregate, AlertState, Condition, Notice, Rule, Severity, Subject};
use tidemill_domain::time::Timestamp;
use tidemill_store::alert::Judgement;

pub const SCHEMA: &str = "tidemill.alert/v1";

#[derive(Clone, PartialEq, Debug)]
pub struct Announcement {
    pub rule: String,
    pub subject: Subject,
    pub severity: Severity,
    pub notice: Notice,
    /// The last value; none when the subject is gone.
    pub value: Option<f64>,
    pub threshold: f64,
    /// None in texts stored by versions that did not write it.
    pub watched: Option<Watched>,
    pub since: Timestamp,
    pub at: Timestamp,
    pub summary: String,
    /// What is wrong, beyond the value.
    pub detail: Option<String>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Watched {
    pub signal: String,
    pub condition: Condition,
    pub aggregate: Aggregate,
    pub window: Duration,
    pub hold: Duration,
}

impl Watched {
    fn from_json(fields: &Value, threshold: f64) -> Option<Self> {
        let condition = match fields["condition"].as_str()? {
            "above" => Condition::Above(threshold),
            "below" => Condition::Below(threshold),
            _ => return None,
        };
        Some(Self {
            signal: fields["signal"].as_str()?.to_owned(),
            condition,
            aggregate: fields["aggregate"].as_str()?.parse().ok()?,
            window: Duration::try_from_secs_f64(fields["window_seconds"].as_f64()?).ok()?,
            hold: Duration::try_from_secs_f64(fields["for_seconds"].as_f64()?).ok()?,
        })
    }
}

/// A notice for one channel.
#[derive(Clone, PartialEq, Debug)]
pub struct Message {
    /// Id of the delivery; the same in every attempt.
    pub id: i64,
    pub announcement: Announcement,
    pub body: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the text is no announcement of the schema {SCHEMA}")]
pub struct NotAnAnnouncement;

impl Announcement {
    pub fn new(rule: &Rule, subject: &Subject, judgement: &Judgement, notice: Notice) -> Self {
        let since = match (judgement.before, judgement.after) {
            (_, AlertState::Pending { since } | AlertState::Firing { since, .. })
            | (AlertState::Firing { since, .. }, _) => since,
            (_, AlertState::Resolved { fired_at, .. }) => fired_at,
            (_, AlertState::Inactive) => judgement.at,
        };
        let value = match judgement.value {
            Some(value) => format!("{} is {value}", rule.signal()),
            None => format!("{} is not known", rule.signal()),
        };
        let summary = match notice {
            Notice::Fired => format!("{} fires for {subject}: {value}, {}", rule.name(), rule.condition()),
            Notice::Resolved => format!("{} is over for {subject}: {value}", rule.name()),
        };
        Self {
            rule: rule.name().to_owned(),
            subject: subject.clone(),
            severity: rule.severity(),
            notice,
            value: judgement.value,
            threshold: rule.condition().threshold(),
            watched: Some(Watched {
                signal: rule.signal().to_owned(),
                condition: rule.condition(),
                aggregate: rule.aggregate(),
                window: rule.window(),
                hold: rule.hold(),
            }),
            since,
            at: judgement.at,
            summary,
            detail: None,
        }
    }

    /// The detail of the last sample; the summary ends with it.
    #[must_use]
    pub fn with_detail(mut self, detail: Option<&str>) -> Self {
        if let Some(detail) = detail {
            self.summary.push_str("; ");
            self.summary.push_str(detail);
            self.detail = Some(detail.to_owned());
        }
        self
    }

    pub fn to_json(&self) -> String {
        let mut text = json!({
            "schema": SCHEMA,
            "rule": self.rule,
            "subject": self.subject.as_str(),
            "severity": self.severity.as_str(),
            "notice": self.notice.as_str(),
            "value": self.value,
            "threshold": self.threshold,
            "since": self.since.to_string(),
            "at": self.at.to_string(),
            "summary": self.summary,
        });
        if let Some(watched) = &self.watched {
            text["signal"] = json!(watched.signal);
            text["condition"] = json!(watched.condition.as_str());
            text["aggregate"] = json!(watched.aggregate.as_str());
            text["window_seconds"] = json!(watched.window.as_secs_f64());
            text["for_seconds"] = json!(watched.hold.as_secs_f64());
        }
        if let Some(detail) = &self.detail {
            text["detail"] = json!(detail);
        }
        text.to_string()
    }

    /// Ignores unknown fields.
    pub fn from_json(text: &str) -> Result<Self, NotAnAnnouncement> {
        let fields: Value = serde_json::from_str(text).map_err(|_| NotAnAnnouncement)?;
        let text = |name: &str| fields[name].as_str().ok_or(NotAnAnnouncement);
        if text("schema")? != SCHEMA {
            return Err(NotAnAnnouncement);
        }
        let threshold = fields["threshold"].as_f64().ok_or(NotAnAnnouncement)?;
        let instant = |name: &str| text(name)?.parse().map_err(|_| NotAnAnnouncement);
        Ok(Self {
            rule: text("rule")?.to_owned(),
            subject: Subject::new(text("subject")?).map_err(|_| NotAnAnnouncement)?,
            severity: text("severity")?.parse().map_err(|_| NotAnAnnouncement)?,
            notice: text("notice")?.parse().map_err(|_| NotAnAnnouncement)?,
            value: fields["value"].as_f64(),
            threshold,
            watched: Watched::from_json(&fields, threshold),
            since: instant("since")?,
            at: instant("at")?,
            summary: text("summary")?.to_owned(),
            detail: fields["detail"].as_str().map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement() -> Announcement {
        Announcement {
            rule: "slow".into(),
            subject: Subject::new("pool/\"정산\"").unwrap(),
            severity: Severity::Critical,
            notice: Notice::Fired,
            value: Some(1.5),
            threshold: 1.0,
            watched: Some(Watched {
                signal: "database_seconds".into(),
                condition: Condition::Above(1.0),
                aggregate: Aggregate::Average,
                window: Duration::from_secs(60),
                hold: Duration::from_millis(1_500),
            }),
            since: "2026-11-15T02:00:00Z".parse().unwrap(),
            at: "2026-11-15T02:01:00.000001Z".parse().unwrap(),
            summary: "slow fires".into(),
            detail: None,
        }
    }

    #[test]
    fn the_text_is_what_receivers_rely_on() {
        assert_eq!(
            announcement().to_json(),
            "{\"schema\":\"tidemill.alert/v1\",\"rule\":\"slow\",\"subject\":\"pool/\\\"정산\\\"\",\
             \"severity\":\"critical\",\"notice\":\"fired\",\"value\":1.5,\"threshold\":1.0,\
             \"since\":\"2026-11-15T02:00:00.000000Z\",\"at\":\"2026-11-15T02:01:00.000001Z\",\
             \"summary\":\"slow fires\",\"signal\":\"database_seconds\",\"condition\":\"above\",\
             \"aggregate\":\"average\",\"window_seconds\":60.0,\"for_seconds\":1.5}"
        );
    }

    #[test]
    fn the_text_reads_back_also_when_the_value_is_not_known() {
        for value in [Some(1.5), Some(0.0), None] {
            let written = Announcement { value, ..announcement() };
            assert_eq!(Announcement::from_json(&written.to_json()), Ok(written));
        }
        let detailed = announcement().with_detail(Some("execution 7 failed"));
        assert_eq!(detailed.summary, "slow fires; execution 7 failed");
        assert_eq!(Announcement::from_json(&detailed.to_json()), Ok(detailed));
        let of_before = Announcement { watched: None, ..announcement() };
        assert_eq!(Announcement::from_json(&of_before.to_json()), Ok(of_before));
    }

    #[test]
    fn other_texts_are_refused() {
        let good = announcement().to_json();

        for text in ["", "{}", "[1]", &good.replace("/v1", "/v2"), &good.replace("critical", "grave")] {
            assert_eq!(Announcement::from_json(text), Err(NotAnAnnouncement), "{text}");
        }
        assert!(Announcement::from_json(&good.replacen('{', "{\"new\":1,", 1)).is_ok());
    }
}
