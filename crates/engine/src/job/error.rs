//! Errors of jobs, for authors and operators.

use crate::EngineError;
use tidemill_domain::code::Code;
use tidemill_domain::job::ExecutionId;
use tidemill_domain::job::instance::NoNext;
use tidemill_domain::job::launch::LaunchRefusal;
use tidemill_domain::job::lifecycle::ExecutionRefusal;
use tidemill_domain::nearest::did_you_mean;
use tidemill_domain::schedule::BadSchedule;
use tidemill_store::StoreError;

/// An error of a job.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// A background loop or the database failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The job is not registered in this program.
    #[error("there is no job {name:?} in this program")]
    UnknownJob {
        /// The name.
        name: String,
        /// The registered jobs.
        known: Vec<String>,
    },
    /// The file that declares the job has mistakes, so it was not loaded.
    #[error("the file of job {job:?} was not loaded: {problem}")]
    InvalidFile {
        /// The name.
        job: String,
        /// Path of the file.
        path: String,
        /// The first mistake, with its place.
        problem: String,
    },
    /// There is no such execution.
    #[error("there is no execution {0}")]
    UnknownExecution(ExecutionId),
    /// The job may not be launched.
    #[error("job {job:?} was not launched: {refusal}")]
    Refused {
        /// The name.
        job: String,
        /// The reason.
        refusal: LaunchRefusal,
    },
    /// The job has no next instance.
    #[error("job {job:?} has no next instance: {why}")]
    NoNext {
        /// The name.
        job: String,
        /// The reason.
        why: NoNext,
    },
    /// This process runs its maximum of executions.
    #[error("this process runs {limit} executions, and may not run more at once")]
    TooManyRunning {
        /// The maximum.
        limit: usize,
    },
    /// The state of the execution does not allow this.
    #[error("execution {id}: {refusal}")]
    NotAllowed {
        /// The execution.
        id: ExecutionId,
        /// The reason.
        refusal: ExecutionRefusal,
    },
    /// The definition of the job is invalid.
    #[error("the job {job:?} is not well defined: {why}")]
    BadDefinition {
        /// The name.
        job: String,
        /// The reason.
        why: String,
    },
    /// The definition of the schedule is invalid.
    #[error("the schedule {schedule:?} is not accepted: {bad}")]
    BadSchedule {
        /// The name.
        schedule: String,
        /// The reason.
        bad: BadSchedule,
    },
    /// There is no such schedule.
    #[error("there is no schedule {name:?}")]
    UnknownSchedule {
        /// The name.
        name: String,
        /// Existing schedules.
        known: Vec<String>,
    },
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

impl JobError {
    /// The stable error code.
    pub fn code(&self) -> Code {
        match self {
            Self::Engine(error) => error.code(),
            Self::UnknownJob { .. } => Code::UnknownJob,
            Self::InvalidFile { .. } => Code::BadJobFile,
            Self::UnknownExecution(_) => Code::UnknownExecution,
            Self::Refused { refusal, .. } => refusal.code(),
            Self::NoNext { .. } => Code::BadJobParameters,
            Self::TooManyRunning { .. } => Code::TooManyExecutions,
            Self::NotAllowed { refusal, .. } => refusal.code(),
            Self::BadDefinition { .. } => Code::BadJobDefinition,
            Self::BadSchedule { .. } => Code::BadSchedule,
            Self::UnknownSchedule { .. } => Code::UnknownSchedule,
        }
    }

    /// What helps.
    pub fn fix(&self) -> String {
        match self {
            Self::Engine(error) => error.fix(),
            Self::UnknownJob { known, .. } if known.is_empty() => {
                "register it with App::new().job(…), or name a job file or `--jobs DIR`; this program has no jobs of its own"
                    .into()
            }
            Self::UnknownJob { name, known } => {
                format!("{}there are: {}", did_you_mean(name, known), known.join(", "))
            }
            Self::InvalidFile { path, .. } => format!("correct the file; `tidemill job check {path}` lists all mistakes"),
            Self::UnknownExecution(_) => "see `tidemill executions`, or /api/v1/executions of the server".into(),
            Self::Refused { refusal, .. } => refusal.fix().into(),
            Self::NoNext { .. } => "give other parameters, or the number itself and not --next".into(),
            Self::TooManyRunning { .. } => {
                "try again when one of them has ended, launch it in another process, or raise jobs.max_running".into()
            }
            Self::NotAllowed { refusal, .. } => refusal.fix().into(),
            Self::BadDefinition { .. } => "correct the definition of the job".into(),
            Self::BadSchedule { .. } => "correct the part that is named".into(),
            Self::UnknownSchedule { name, known } => {
                format!("{}see `tidemill schedule list`", did_you_mean(name, known))
            }
        }
    }
}
