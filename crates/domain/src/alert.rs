//! When an alert fires, when it is over, and what people are told about it.
//!
//! ```text
//!   Inactive ──breached──► Pending ──breached, `for` has passed──► Firing ──fine──► Resolved
//!      ▲                    │                                                          │
//!      └───────fine─────────┘             Pending, or Firing when `for` is zero ◄──breached
//! ```
//!
//! A reading that is unknown changes nothing: it is neither zero nor fine. A silence changes no state either; it
//! only holds back what people are told, and [`owed`] says what they still have to hear once it is over.
//!
//! Reading order: here, then [`rule`] (what is watched), [`window`] (how samples become a reading), [`silence`],
//! [`delivery`] (how often a notice is tried).

pub mod delivery;
pub mod rule;
pub mod silence;
pub mod window;

pub use rule::{Aggregate, BadRule, Condition, Rule, RuleFields, Severity};
pub use silence::{BadSilence, Silence};

use crate::time::Timestamp;
use std::fmt;
use std::time::Duration;

/// What a rule is about in one case: one pool, one job, or [`Subject::whole`] when there is only one case.
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

    /// The subject of a signal that tells of the whole installation.
    pub fn whole() -> Self {
        Self("all".to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where the alert of one rule and subject stands. `since` is when the breach began, `at` when it was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlertState {
    Inactive,
    Pending { since: Timestamp },
    Firing { since: Timestamp, fired_at: Timestamp },
    Resolved { fired_at: Timestamp, at: Timestamp },
}

impl AlertState {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending { .. } => "pending",
            Self::Firing { .. } => "firing",
            Self::Resolved { .. } => "resolved",
        }
    }

    /// Since when it is in this state, as people ask for it: the start of the breach, or the end of the alert.
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

/// What a look at the signal says about one rule and subject.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Reading {
    Breached(f64),
    Fine(f64),
    /// The signal answered and knows the subject no more, or the rule was taken away: nothing can be breached.
    Gone,
    /// Nobody knows: the look failed, or there was nothing to see.
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

/// The state after `reading`, and the notice if one begins or ends. `hold` is the rule's "for". Total.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Voice {
    Free,
    Silenced,
}

/// The notice that people are owed, given which firing they were told of last (by its instant; none when they
/// also heard that it was over). After a silence this is where a firing that began in it is made up for. Total.
pub fn owed(state: AlertState, announced: Option<Timestamp>, voice: Voice) -> Option<Notice> {
    match (voice, state) {
        (Voice::Silenced, _) => None,
        (Voice::Free, AlertState::Firing { fired_at, .. }) => {
            (announced != Some(fired_at)).then_some(Notice::Fired)
        }
        (Voice::Free, AlertState::Inactive | AlertState::Pending { .. } | AlertState::Resolved { .. }) => {
            announced.is_some().then_some(Notice::Resolved)
        }
    }
}

/// Which firing people know of after `notice` about an alert in `state` was written down for them.
pub fn announced(state: AlertState, notice: Notice) -> Option<Timestamp> {
    match (state, notice) {
        (AlertState::Firing { fired_at, .. }, Notice::Fired) => Some(fired_at),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
