//! What can go wrong with jobs, as their authors and operators see it.

use crate::error::EngineError;
use tidemill_domain::code::Code;
use tidemill_domain::job::instance::NoNext;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::lifecycle::ExecutionRefusal;
use tidemill_domain::job::{BadName, ExecutionId};
use tidemill_domain::schedule::BadSchedule;
use tidemill_store::StoreError;

/// What can go wrong with jobs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The loops or the database.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Nobody registered it here.
    #[error("there is no job {name:?} in this program")]
    UnknownJob {
        /// Its name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// No such execution.
    #[error("there is no execution {0}")]
    UnknownExecution(ExecutionId),
    /// It may not be launched.
    #[error("job {job:?} was not launched: {refusal}")]
    Refused {
        /// Name of the job.
        job: String,
        /// Why.
        refusal: LaunchRefusal,
    },
    /// There is no next instance of it.
    #[error("job {job:?} has no next instance: {why}")]
    NoNext {
        /// Name of the job.
        job: String,
        /// Why.
        why: NoNext,
    },
    /// There is no room for another execution in this process now.
    #[error("this process runs {limit} executions, and may not run more at once")]
    TooManyRunning {
        /// How many it may run.
        limit: usize,
    },
    /// The execution is not in a state that allows this.
    #[error("execution {id}: {refusal}")]
    NotAllowed {
        /// Which.
        id: ExecutionId,
        /// Why.
        refusal: ExecutionRefusal,
    },
    /// The definition makes no sense.
    #[error("the job {job:?} is not well defined: {why}")]
    BadDefinition {
        /// Name of the job.
        job: String,
        /// What is wrong.
        why: String,
    },
    /// The definition of a schedule makes no sense.
    #[error("the schedule {schedule:?} is not accepted: {bad}")]
    BadSchedule {
        /// Its name.
        schedule: String,
        /// What is wrong.
        bad: BadSchedule,
    },
    /// No such schedule.
    #[error("there is no schedule {0:?}")]
    UnknownSchedule(String),
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

impl JobError {
    pub(crate) fn bad_name(job: &str, what: &str, error: BadName) -> Self {
        Self::BadDefinition { job: job.to_owned(), why: format!("{what}: {error}") }
    }

    /// Its stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::Engine(error) => error.code(),
            Self::UnknownJob { .. } => Code::UnknownJob,
            Self::UnknownExecution(_) => Code::UnknownExecution,
            Self::Refused { refusal, .. } => refusal.code(),
            Self::NoNext { .. } => Code::BadJobParameters,
            Self::TooManyRunning { .. } => Code::TooManyExecutions,
            Self::NotAllowed { refusal, .. } => refusal.code(),
            Self::BadDefinition { .. } => Code::BadJobDefinition,
            Self::BadSchedule { .. } => Code::BadSchedule,
            Self::UnknownSchedule(_) => Code::UnknownSchedule,
        }
    }

    /// What the reader can do about it.
    pub fn fix(&self) -> String {
        match self {
            Self::Engine(error) => error.fix(),
            Self::UnknownJob { known, .. } if known.is_empty() => {
                "register it with App::new().job(…), or name a job file or `--jobs DIR`; this program has no jobs of its own"
                    .into()
            }
            Self::UnknownJob { known, .. } => format!("there are: {}", known.join(", ")),
            Self::UnknownExecution(_) => "see `tidemill executions`, or /api/v1/executions of the server".into(),
            Self::Refused { refusal, .. } => refusal.fix().into(),
            Self::NoNext { .. } => "give other parameters, or the number itself and not --next".into(),
            Self::TooManyRunning { .. } => {
                "try again when one of them has ended, launch it in another process, or raise jobs.max_running".into()
            }
            Self::NotAllowed { refusal, .. } => refusal.fix().into(),
            Self::BadDefinition { .. } => "correct the definition of the job".into(),
            Self::BadSchedule { .. } => "correct the part that is named".into(),
            Self::UnknownSchedule(_) => "see `tidemill schedule list`".into(),
        }
    }
}
