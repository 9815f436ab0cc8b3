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
#[expect(missing_docs, reason = "the messages say it")]
pub enum JobError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("there is no job {name:?} in this program")]
    UnknownJob { name: String, known: Vec<String> },
    #[error("the file of job {job:?} was not loaded: {problem}")]
    InvalidFile { job: String, path: String, problem: String },
    #[error("there is no execution {0}")]
    UnknownExecution(ExecutionId),
    #[error("job {job:?} was not launched: {refusal}")]
    Refused { job: String, refusal: LaunchRefusal },
    #[error("job {job:?} has no next instance: {why}")]
    NoNext { job: String, why: NoNext },
    #[error("this process runs {limit} executions, and may not run more at once")]
    TooManyRunning { limit: usize },
    #[error("execution {id}: {refusal}")]
    NotAllowed { id: ExecutionId, refusal: ExecutionRefusal },
    #[error("the job {job:?} is not well defined: {why}")]
    BadDefinition { job: String, why: String },
    #[error("the schedule {schedule:?} is not accepted: {bad}")]
    BadSchedule { schedule: String, bad: BadSchedule },
    #[error("there is no schedule {name:?}")]
    UnknownSchedule { name: String, known: Vec<String> },
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
