//! Alerts, and silences that stop their notifications.

use crate::shapes;
use tidemill_domain::alert::silence::Silence as SilenceRecord;
use tidemill_domain::time::Timestamp;
use tidemill_store::alert::AlertRecord;

shapes! {
    /// An alert: a rule and one subject that breached it.
    pub struct Alert from record: &AlertRecord {
        rule: String = record.rule.clone(),
        /// The pool, job or other object that breached the rule.
        subject: String = record.subject.as_str().to_owned(),
        /// `inactive`, `pending`, `firing` or `resolved`.
        state: &'static str = record.state.as_str(),
        /// `info`, `warning` or `critical`.
        severity: &'static str = record.severity.as_str(),
        /// The last value of the signal.
        value: Option<f64> = record.value,
        /// What is wrong, beyond the value, such as the execution that failed.
        detail: Option<String> = record.detail.clone(),
        /// When the alert entered its state.
        since: Option<Timestamp> = record.state.since(),
        /// End of the current silence.
        silenced_until: Option<Timestamp> = record.silence.as_ref().map(|silence| silence.until),
        updated_at: Timestamp = record.updated_at,
    }

    /// A silence: no notifications about a rule for a while.
    pub struct Silence from record: &SilenceRecord {
        rule: String = record.rule.clone(),
        /// Null when all subjects of the rule are silenced.
        subject: Option<String> = record.subject.as_ref().map(|subject| subject.as_str().to_owned()),
        until: Timestamp = record.until,
        reason: String = record.reason.clone(),
        /// The user who created the silence.
        by: String = record.by.clone(),
    }

    /// A request to silence a rule.
    #[schema(example = json!({ "rule": "database_slow", "minutes": 60, "reason": "the disk is being moved" }))]
    pub struct CreateSilence in body {
        rule: String,
        /// One subject of the rule; all of them by default.
        subject: Option<String>,
        /// How long the silence lasts.
        minutes: u32,
        /// Shown with the alert.
        reason: String,
    }

    /// A request to end a silence.
    #[schema(example = json!({ "rule": "database_slow" }))]
    pub struct EndSilence in body {
        rule: String,
        /// The subject of the silence; leave it out for a silence of all subjects.
        subject: Option<String>,
    }
}
