//! A silence holds back notifications for a while, for a stated reason. Alerts change their state as usual.

use super::Subject;
use super::rule::is_name;
use crate::audit::Actor;
use crate::newtype::check_all;
use crate::time::Timestamp;
use std::time::Duration;

/// Longest silence. To be quiet for longer, remove the rule.
pub const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

pub const REASON_CHARS_MAX: usize = 500;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Silence {
    pub id: i64,
    pub rule: String,
    /// Also silences the subjects below it: `job/load` also `job/load/instance/7`. None silences all subjects of the
    /// rule.
    pub subject: Option<Subject>,
    pub until: Timestamp,
    pub reason: String,
    pub by: String,
    pub created_at: Timestamp,
    /// Set when the silence was ended early.
    pub ended_at: Option<Timestamp>,
}

impl Silence {
    /// At `until` itself it no longer is.
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.ended_at.is_none() && now < self.until
    }

    pub fn covers(&self, rule: &str, subject: &Subject) -> bool {
        self.rule == rule && self.subject.as_ref().is_none_or(|own| own.covers(subject))
    }
}

/// The matching silence that ends last.
pub fn quietest<'a>(
    silences: &'a [Silence],
    rule: &str,
    subject: &Subject,
    now: Timestamp,
) -> Option<&'a Silence> {
    let in_force =
        silences.iter().filter(|silence| silence.is_in_force(now) && silence.covers(rule, subject));
    in_force.max_by_key(|silence| silence.until)
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SilenceRequest {
    pub rule: String,
    pub subject: Option<Subject>,
    pub length: Duration,
    pub reason: String,
    pub actor: Actor,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadSilence {
    #[error("a silence names a rule")]
    Rule,
    #[error("a silence lasts from 1 second to 366 days")]
    Length,
    #[error("a silence has a reason of 1 to {REASON_CHARS_MAX} characters")]
    Reason,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no alert rule {rule:?}; the rules are {known}")]
pub struct UnknownRule {
    rule: String,
    known: String,
}

crate::code::coded!(UnknownRule, UnknownAlertRule);

impl UnknownRule {
    pub const fn fix(&self) -> &'static str {
        "use one of these rules; `tidemill alert rules` lists them"
    }
}

pub fn check_rule<'a>(rule: &str, known: impl Iterator<Item = &'a str> + Clone) -> Result<(), UnknownRule> {
    if known.clone().any(|name| name == rule) {
        return Ok(());
    }
    // Rules have at most 63 characters.
    let rule = rule.chars().take(63).collect();
    Err(UnknownRule { rule, known: known.collect::<Vec<_>>().join(", ") })
}

impl SilenceRequest {
    pub fn check(&self) -> Result<(), BadSilence> {
        check_all([
            (is_name(&self.rule), BadSilence::Rule),
            ((Duration::from_secs(1)..=LONGEST).contains(&self.length), BadSilence::Length),
        ])?;
        reason(&self.reason).map(drop)
    }
}

pub fn reason(text: &str) -> Result<&str, BadSilence> {
    let text = text.trim();
    let is_fine = !text.is_empty() && text.chars().count() <= REASON_CHARS_MAX && !text.contains('\0');
    if is_fine { Ok(text) } else { Err(BadSilence::Reason) }
}
