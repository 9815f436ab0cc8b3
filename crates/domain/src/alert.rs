//! When an alert fires, when it resolves, and which notifications are sent.
//!
//! ```text
//!   Inactive ──breached──► Pending ──breached, `for` has passed──► Firing ──fine──► Resolved
//!      ▲                    │                                                          │
//!      └───────fine─────────┘             Pending, or Firing when `for` is zero ◄──breached
//! ```
//!
//! An unknown reading changes nothing: it is neither zero nor fine. A silence changes no state either; it holds back
//! notifications, and [`owed`] says which are still due when it ends.

pub mod delivery;
pub mod notify;
pub mod rule;
pub mod silence;
pub mod window;

pub use rule::{Aggregate, BadRule, Condition, Rule, RuleFields, Severity};
pub use silence::{BadSilence, Silence};

use crate::time::Timestamp;
use std::time::Duration;

/// What a rule watches: one pool, one job, or [`Subject::whole`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subject(String);

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the subject of an alert is 1 to 200 characters without control characters")]
pub struct NotASubject;

impl Subject {
    pub fn new(text: &str) -> Result<Self, NotASubject> {
        let is_good = (1..=200).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        if is_good { Ok(Self(text.to_owned())) } else { Err(NotASubject) }
    }

    /// The subject of a signal about the whole installation.
    pub fn whole() -> Self {
        Self("all".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the other is this subject, or a part of it: its text goes on after a `/`.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

crate::newtype::display!(Subject, subject => "{}", subject.0);

/// The state of one rule and subject. `since` is when the breach began, `at` when the alert resolved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlertState {
    Inactive,
    Pending { since: Timestamp },
    Firing { since: Timestamp, fired_at: Timestamp },
    Resolved { fired_at: Timestamp, at: Timestamp },
}

crate::newtype::named!(AlertState, as_str {
    Inactive = "inactive", Pending = "pending", Firing = "firing", Resolved = "resolved",
});

impl AlertState {
    /// The start of the breach, or the end of the alert.
    pub const fn since(self) -> Option<Timestamp> {
        match self {
            Self::Inactive => None,
            Self::Pending { since } | Self::Firing { since, .. } => Some(since),
            Self::Resolved { at, .. } => Some(at),
        }
    }

    pub const fn is_active(self) -> bool {
        matches!(self, Self::Pending { .. } | Self::Firing { .. })
    }
}

/// One sample of a signal, judged by a rule.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reading {
    Breached(f64),
    Fine(f64),
    /// The signal no longer reports the subject, or the rule was removed.
    Gone,
    /// The signal could not be read, or reported nothing.
    Unknown,
}

impl Reading {
    pub const fn value(self) -> Option<f64> {
        match self {
            Self::Breached(value) | Self::Fine(value) => Some(value),
            Self::Gone | Self::Unknown => None,
        }
    }
}

crate::words! {
    #[derive(Hash)]
    pub enum Notice {
        Fired = "fired",
        Resolved = "resolved",
    }
}

/// The state after `reading`, and a notice if the alert starts or ends. `hold` is the rule's "for". Total.
pub fn next(
    state: AlertState,
    reading: Reading,
    hold: Duration,
    now: Timestamp,
) -> (AlertState, Option<Notice>) {
    use AlertState::{Firing, Inactive, Pending, Resolved};
    match (state, reading) {
        (state, Reading::Unknown) => (state, None),
        (Inactive | Resolved { .. }, Reading::Breached(_)) => pend_or_fire(now, hold, now),
        // A clock that was set back must not make the alert wait for it to catch up.
        (Pending { since }, Reading::Breached(_)) => pend_or_fire(since.min(now), hold, now),
        (Firing { .. }, Reading::Breached(_)) => (state, None),
        (Inactive | Resolved { .. }, Reading::Fine(_) | Reading::Gone) => (state, None),
        (Pending { .. }, Reading::Fine(_) | Reading::Gone) => (Inactive, None),
        (Firing { fired_at, .. }, Reading::Fine(_) | Reading::Gone) => {
            (Resolved { fired_at, at: now.max(fired_at) }, Some(Notice::Resolved))
        }
    }
}

fn pend_or_fire(since: Timestamp, hold: Duration, now: Timestamp) -> (AlertState, Option<Notice>) {
    if now.since(since) >= hold {
        (AlertState::Firing { since, fired_at: now }, Some(Notice::Fired))
    } else {
        (AlertState::Pending { since }, None)
    }
}

/// The notice that is still due. `announced` is the last firing that was announced, by its instant; none if its end was
/// announced too. A firing that began in a silence is announced when the silence ends. Total.
pub fn owed(state: AlertState, announced: Option<Timestamp>, silence: Option<&Silence>) -> Option<Notice> {
    match state {
        _ if silence.is_some() => None,
        AlertState::Firing { fired_at, .. } => (announced != Some(fired_at)).then_some(Notice::Fired),
        AlertState::Inactive | AlertState::Pending { .. } | AlertState::Resolved { .. } => {
            announced.is_some().then_some(Notice::Resolved)
        }
    }
}

/// The firing that counts as announced after `notice`.
pub fn announced(state: AlertState, notice: Notice) -> Option<Timestamp> {
    match (state, notice) {
        (AlertState::Firing { fired_at, .. }, Notice::Fired) => Some(fired_at),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
