//! Retention: which instances of jobs may be deleted, with all their executions.
//!
//! An instance is deleted as a whole or not at all. It has to be beyond all limits, and some instances are always
//! kept ([`Kept`]).
//!
//! A completed instance that was deleted can be launched again.

use super::BatchStatus;
use crate::newtype::check_all;
use crate::time::Timestamp;
use crate::words::plural;
use std::fmt;
use std::time::Duration;

/// What happens to instances that failed or were stopped, and that a restart could finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unfinished {
    #[default]
    Keep,
    /// Treated like completed ones; a launch then starts from the beginning.
    Forget,
}

/// With two limits, an instance is deleted when it is beyond both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    older_than: Option<Duration>,
    /// How many of the newest instances of each job are kept.
    pub keep: Option<u32>,
    unfinished: Unfinished,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadRetention {
    #[error("neither an age nor a number of instances is given, so nothing would be kept")]
    Unlimited,
    #[error("0 instances of each job would be kept")]
    KeepsNone,
}

crate::code::coded!(BadRetention, BadRetention);
crate::code::fixes!(BadRetention {
    Unlimited => "give --older-than, such as 90d, or --keep, such as 100, or both";
    KeepsNone => "give --keep a number of 1 or more, or only --older-than";
});

impl Retention {
    /// Keeps what ended within `older_than`, and the newest `keep` instances of each job.
    pub fn new(
        older_than: Option<Duration>,
        keep: Option<u32>,
        unfinished: Unfinished,
    ) -> Result<Self, BadRetention> {
        match (older_than, keep) {
            (None, None) => Err(BadRetention::Unlimited),
            (_, Some(0)) => Err(BadRetention::KeepsNone),
            _ => Ok(Self { older_than, keep, unfinished }),
        }
    }

    /// Instances that ended after this instant are kept.
    pub fn cutoff(&self, now: Timestamp) -> Option<Timestamp> {
        self.older_than.map(|age| now.minus(age))
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keeps")?;
        if let Some(age) = self.older_than {
            let (days, seconds) = (age.as_secs() / DAY_SECONDS, age.as_secs() % DAY_SECONDS);
            match (days, seconds) {
                (days @ 1.., 0) => write!(f, " what ended in the last {days} d")?,
                _ => write!(f, " what ended in the last {} s", age.as_secs())?,
            }
        }
        if let Some(keep) = self.keep {
            let also = if self.older_than.is_some() { " and" } else { "" };
            write!(f, "{also} the newest {} of each job", plural(keep, "instance", "instances"))?;
        }
        match self.unfinished {
            Unfinished::Keep => Ok(()),
            Unfinished::Forget => f.write_str(", deletes what did not complete"),
        }
    }
}

const DAY_SECONDS: u64 = 86_400;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstanceFacts<'a> {
    /// Every status of its executions, each at least once.
    pub statuses: &'a [BatchStatus],
    /// The status of the last execution, and when it ended or last changed.
    pub last: Option<(BatchStatus, Timestamp)>,
    pub is_held: bool,
    pub is_restart_due: bool,
    /// The status of the last execution of each known job that ran it as a step.
    pub outer: &'a [BatchStatus],
    /// Whether it is among the newest of its job that are kept.
    pub is_among_newest: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Kept {
    NeverRan,
    Unresolved,
    Held,
    RestartDue,
    Unfinished,
    NeededByOuter,
    TooYoung,
    AmongNewest,
}

/// Whether an instance may be deleted. Total.
pub fn decide(retention: &Retention, facts: &InstanceFacts<'_>, now: Timestamp) -> Result<(), Kept> {
    let Some((last, over_at)) = facts.last else { return Err(Kept::NeverRan) };
    let is_unresolved = |status: BatchStatus| status.is_running() || status == BatchStatus::Unknown;
    let is_resolved = !is_unresolved(last) && !facts.statuses.iter().copied().any(is_unresolved);
    check_all([
        (is_resolved, Kept::Unresolved),
        (!facts.is_held, Kept::Held),
        (!facts.is_restart_due, Kept::RestartDue),
        (is_over(last) || retention.unfinished == Unfinished::Forget, Kept::Unfinished),
        (facts.outer.iter().all(|status| is_over(*status)), Kept::NeededByOuter),
        (retention.cutoff(now).is_none_or(|cutoff| over_at < cutoff), Kept::TooYoung),
        (retention.keep.is_none() || !facts.is_among_newest, Kept::AmongNewest),
    ])
}

/// Whether no restart is expected.
const fn is_over(status: BatchStatus) -> bool {
    matches!(status, BatchStatus::Completed | BatchStatus::Abandoned)
}

#[cfg(test)]
mod tests;
