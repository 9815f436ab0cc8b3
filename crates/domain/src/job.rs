//! Jobs: the rules of Spring Batch 5.2, as pure functions.
//!
//! Reading order: [`status`] and [`exit`] (how something ended), [`parameter`] and [`key`] (which instance it
//! is), [`launch`] (may it run?), [`next`] and [`backfill`] (which instances come one after the other), [`flow`],
//! [`step`] and [`partition`] (what runs, and from where), [`chunk`] and [`fault`] (what
//! becomes of each item), [`counters`] and [`context`] (what is written down), [`lifecycle`] (what an operator
//! or a crash may do to it), [`track`] (how it has been doing), [`retention`] (when it may be forgotten), [`command`]
//! and [`spark`] (what other programs are told, and what they say), [`pool`] (what a step asks of a pool).

pub mod status;

pub mod exit;

pub mod key;
pub mod parameter;

pub mod backfill;
pub mod earlier;
pub mod flow;
pub mod launch;
pub mod next;
pub mod partition;
pub mod step;

pub mod chunk;
pub mod fault;

pub mod context;
pub mod counters;

pub mod lifecycle;
pub mod track;

pub mod command;
pub mod pool;
pub mod retention;
pub mod spark;

pub use context::ExecutionContext;
pub use counters::Counters;
pub use exit::ExitStatus;
pub use parameter::{JobParameter, JobParameters, ParameterValue};
pub use status::BatchStatus;

use std::fmt;

macro_rules! ids {
    ($($name:ident, $doc:literal;)+) => {
        $(#[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(i64);

        impl $name {
            /// Wraps the number that the database gave.
            pub const fn new(id: i64) -> Self {
                Self(id)
            }

            /// The number.
            pub const fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        })+
    };
}

ids! {
    InstanceId, "One job with one set of identifying parameters.";
    ExecutionId, "One run of a job.";
    StepExecutionId, "One run of a step.";
}

/// Longest name of a job or step, in characters; the column is no longer.
pub const NAME_CHARS_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadName {
    #[error("the name is empty")]
    Empty,
    #[error("the name is longer than {NAME_CHARS_MAX} characters")]
    TooLong,
    /// A character that would make trouble in paths, patterns or terminals.
    #[error("the name has the character {0:?}; letters, digits and . _ - are allowed")]
    BadCharacter(char),
}

/// Checks the name of a job or step: letters and digits of any script, and `. _ -`.
pub fn check_name(name: &str) -> Result<(), BadName> {
    if name.is_empty() {
        return Err(BadName::Empty);
    }
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(BadName::TooLong);
    }
    match name.chars().find(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-')) {
        Some(bad) => Err(BadName::BadCharacter(bad)),
        None => Ok(()),
    }
}
