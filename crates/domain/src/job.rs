//! Jobs: the rules of Spring Batch 5.2, as pure functions.

pub mod backfill;
pub mod chunk;
pub mod command;
pub mod context;
pub mod exit;
pub mod fault;
pub mod flow;
pub mod instance;
pub mod launch;
pub mod lifecycle;
pub mod notify;
pub mod parameter;
pub mod partition;
pub mod pool;
pub mod previous_run;
pub mod retention;
pub mod spark;
pub mod status;
pub mod step;
pub mod track;
pub mod usual;

pub use chunk::Counters;
pub use context::ExecutionContext;
pub use exit::ExitStatus;
pub use parameter::{JobParameter, JobParameters, ParameterValue};
pub use status::BatchStatus;

crate::newtype::ids! {
    /// One job with one set of identifying parameters.
    pub struct InstanceId(i64);

    /// One run of a job.
    pub struct ExecutionId(i64);

    pub struct StepExecutionId(i64);
}

/// In characters; the column is no longer.
pub const NAME_CHARS_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadName {
    #[error("the name is empty")]
    Empty,
    #[error("the name is longer than {NAME_CHARS_MAX} characters")]
    TooLong,
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
